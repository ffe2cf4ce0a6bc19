"""Both retrievers of one search, side by side, and the join of what they find with the catalog."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import DeadlineError, UnavailableError
from groundwire.kernel.filters import Filter
from groundwire.kernel.hit import StoredChunk
from groundwire.retrieve.companion import Companion
from groundwire.retrieve.domain.searching import SearchPlan, StageKind, StageTrace
from groundwire.retrieve.ports import SearchView
from groundwire.retrieve.search_vectors import DenseFound, SearchVectors
from groundwire.retrieve.search_words import SearchWords, Words, WordsFound


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the retrievers found, each in the order of its retriever.

    `similarities` has all candidates, those of the dense retriever first; `dense` is how many these are. `lexical` has
    the raw scores of those that matched a word. `exhausted`: a deeper search would find no more.
    """

    similarities: Mapping[int, float]
    dense: int
    lexical: Mapping[int, float]
    exhausted: bool


class ChangedMeanwhileError(Exception):
    """Candidates were replaced or deleted for good while the search ran: what took their place may be missing."""


class Retrievers:
    """The retrievers of one search; belongs to one call.

    Args:
        view: what is read of the catalog.
        where: the filter that candidates match.
        dense: the dense retriever.
        lexical: the lexical retriever, None when it does not run.
        budget: of the search, of which the dense retriever has a part.
        runs_dense: whether the vectors may find chunks; they score those that words find anyhow.
        is_last: no further attempt follows, so that a result which may miss something is better than none.
    """

    def __init__(
        self,
        view: SearchView,
        where: Filter | None,
        dense: SearchVectors,
        lexical: SearchWords | None,
        budget: Budget,
        *,
        runs_dense: bool,
        is_last: bool,
    ) -> None:
        self._view = view
        self._where = where
        self._is_last = is_last
        self._dense = dense
        self._lexical = lexical
        self._budget = budget
        self._runs_dense = runs_dense
        self.lacks_dense = False
        """Whether the words alone had to find the results, because the engine does not answer."""
        self._matched: tuple[int, WordsFound] | None = None
        self._near: tuple[int, DenseFound] | None = None
        self.trace: dict[StageKind, StageTrace] = {}
        self.words: Words | None = None

    @contextmanager
    def looking_up(self, query: str, depth: int, companion: Companion, budget: Budget) -> Iterator[None]:
        """Look up the words of a query beside what the caller does meanwhile."""
        if self._lexical is None:
            yield
            return
        wait = companion.start(lambda: self._look_up(query, depth), budget)
        yield
        wait()

    def prefetch(self, vector: Vectors, depth: int) -> None:
        """Find the nearest chunks while the words may still be looked up.

        Raises:
            StoreUnavailableError: the engine failed, and there are no words to look for.
        """
        if self._runs_dense:
            with self._words_instead():
                self._near = (depth, self._timed_vectors(vector, depth))

    def candidates(self, plan: SearchPlan, depth: int) -> Candidates:
        """Return the best `depth` candidates of each retriever; some may not be live any more.

        Raises:
            StoreUnavailableError: the engine failed.
        """
        points, dense_is_all = self._nearest(plan, depth)
        matches, lexical_is_all = self._matches(depth)
        return self._complete(plan, points, matches, exhausted=dense_is_all and lexical_is_all)

    def live(self, plan: SearchPlan, depth: int, budget: Budget) -> tuple[Candidates, Mapping[int, StoredChunk], int]:
        """Return the best `depth` live candidates of each retriever, their chunks, and how many others were not live.

        Points that are not live are made up for by asking the engine for more, so that what is found, and how it is
        scored, does not depend on how far the engine has been cleaned up.

        Raises:
            StoreUnavailableError: the engine failed.
        """
        matches, lexical_is_all = self._matches(depth)
        asked = depth
        while True:
            budget.check()
            points, dense_is_all = self._nearest(plan, asked)
            found = self._complete(plan, points, matches, exhausted=dense_is_all and lexical_is_all)
            chunks = self.join(list(found.similarities))
            stale = sum(number not in chunks for number in points)
            if dense_is_all or asked - stale >= depth:
                break
            asked += 2 * stale
        nearest = [number for number in points if number in chunks][:depth]
        matched = {number: score for number, score in matches.items() if number in chunks}
        pool = {number: found.similarities[number] for number in dict.fromkeys((*nearest, *matched))}
        stale = len(found.similarities) - len(chunks)
        return Candidates(pool, len(nearest), matched, found.exhausted), chunks, stale

    def join(self, numbers: Sequence[int]) -> Mapping[int, StoredChunk]:
        """Return those of the chunks that are visible, with their documents, in one catalog query.

        Raises:
            ChangedMeanwhileError: some are not visible any more, and another attempt may find what replaced them.
        """
        if not numbers:
            return {}
        started = time.perf_counter()
        found = self._view.chunks(numbers, self._where)
        if self._view.has_lost_history and len(found) < len(numbers) and not self._is_last:
            raise ChangedMeanwhileError
        self.trace[StageKind.JOIN] = StageTrace(StageKind.JOIN, len(found), time.perf_counter() - started)
        return found

    def _look_up(self, query: str, depth: int) -> None:
        if self._lexical is not None:
            self.words = self._lexical.choose(query)
            self._matched = (depth, self._timed_words(depth))

    def _timed_words(self, depth: int) -> WordsFound:
        started = time.perf_counter()
        if self._lexical is None or self.words is None:
            return WordsFound({}, is_all=True)
        found = self._lexical(self.words, depth)
        elapsed = time.perf_counter() - started
        self.trace[StageKind.LEXICAL] = StageTrace(StageKind.LEXICAL, len(found.scores), elapsed)
        return found

    def _matches(self, depth: int) -> tuple[dict[int, float], bool]:
        if self._matched is None or self._matched[0] < depth:
            self._matched = (depth, self._timed_words(depth))
        found = self._matched[1]
        return dict(found.scores), found.is_all

    def _timed_vectors(self, vector: Vectors, limit: int) -> DenseFound:
        started = time.perf_counter()
        found, path = self._dense(vector, limit)
        elapsed = time.perf_counter() - started
        clause = self._dense.resolved_clause
        self.trace[StageKind.DENSE] = StageTrace(StageKind.DENSE, len(found.points), elapsed, path, clause)
        return found

    def _nearest(self, plan: SearchPlan, limit: int) -> tuple[dict[int, float], bool]:
        if not self._runs_dense:
            return {}, True
        if self._near is None or self._near[0] != limit:
            self._near = None
            with self._words_instead():
                self._near = (limit, self._timed_vectors(_known(plan.vector), limit))
        if self._near is None:
            return {}, True
        found = self._near[1]
        return {point.number: point.similarity for point in found.points}, found.is_all

    @contextmanager
    def _words_instead(self) -> Iterator[None]:
        """Go on with the words alone when the engine fails, or takes so long that no time would be left for them."""
        try:
            yield
        except (UnavailableError, DeadlineError):
            self._budget.check()
            if self._lexical is None or not self._runs_dense:
                raise
            self._runs_dense, self.lacks_dense = False, True

    def _complete(
        self, plan: SearchPlan, points: dict[int, float], matches: dict[int, float], *, exhausted: bool
    ) -> Candidates:
        """Add the similarities of chunks that only the words found.

        A chunk that has no vector takes the lowest similarity: the catalog is the truth.
        """
        if plan.vector is None:
            return Candidates(dict.fromkeys(matches, 0.0), 0, matches, exhausted)
        missing = [number for number in matches if number not in points]
        known: dict[int, float] = {}
        with self._words_instead():
            # Words alone are looked for without the engine, so that such a search does not need it.
            known = self._dense.similarities(plan.vector, missing, asks_engine=self._runs_dense)
        if self.lacks_dense:
            missing = list(matches)
            known, points = self._dense.similarities(plan.vector, missing, asks_engine=False), {}
        lowest = min((*points.values(), *known.values()), default=0.0)
        return Candidates(points | dict.fromkeys(missing, lowest) | known, len(points), matches, exhausted)


def _known(vector: Vectors | None) -> Vectors:
    if vector is None:
        raise RuntimeError("a search by vectors needs the vector of its query")
    return vector
