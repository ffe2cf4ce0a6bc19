"""What the vectors and the words of a query find, side by side, and what is still visible of it."""

import contextvars
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from groundwire.catalog.chunks import ChunkFacts, facts_of
from groundwire.catalog.search_view import SearchView
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import StoredChunk
from groundwire.kernel.collection import SearchMode
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import DeadlineError, UnavailableError
from groundwire.kernel.latencies import Step
from groundwire.retrieve.filters import FilterMatches, are_among
from groundwire.retrieve.queries import CONTEXT_SHARE, MAX_MATCHES, QueryTerms, parse_query, select_terms
from groundwire.retrieve.ranking import Floats, Numbers
from groundwire.retrieve.search_types import StageKind, StageTrace
from groundwire.retrieve.vector_search import Neighbours, VectorSearch

ResultT = TypeVar("ResultT")

_FURTHER = 8
"""How much further the words are followed when too few of the chunks that match them pass the filter."""


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The words of a query: terms, rarest first, phrases, and the number of chunks that contain each of them.

    `weights` says how often each term and phrase counts, at least once; those of the context are among them, too.
    """

    parsed: QueryTerms
    terms: tuple[str, ...]
    phrases: tuple[str, ...]
    weights: Counter[str]
    frequencies: Mapping[str, int]
    chunk_count: int


@dataclass(frozen=True, slots=True)
class WordMatches:
    """Chunks with their BM25 scores, best first. `is_all`: no other chunk matches."""

    numbers: Numbers
    scores: Floats
    is_all: bool


_NO_MATCHES = WordMatches(np.zeros(0, dtype=np.int64), np.zeros(0), is_all=True)
_NO_NEIGHBOURS = Neighbours(np.zeros(0, dtype=np.int64), np.zeros(0))


@dataclass(frozen=True, slots=True)
class Candidates:
    """What vectors and words brought, each chunk once.

    Those that the vectors brought come first; `nearest` is how many these are. `similarities` is None when there was
    no vector to compare with. `matches` are those that the words brought. `exhausted`: a deeper search would bring no
    more.
    """

    numbers: Numbers
    similarities: Floats | None
    nearest: int
    matches: WordMatches
    exhausted: bool

    def lexical(self) -> Floats:
        """Return the BM25 scores in the order of the candidates, 0 where no word matched."""
        scores = np.zeros(len(self.numbers))
        if len(self.matches.numbers):
            ascending = np.argsort(self.numbers)
            places = ascending[np.searchsorted(self.numbers, self.matches.numbers, sorter=ascending)]
            scores[places] = self.matches.scores
        return scores


@dataclass(frozen=True, slots=True)
class SharedCandidates:
    """What one search brought for several that differ in the type of record that they look for.

    `types` says of each candidate what type of record it is, empty for none, `types_of_matches` the same of what the
    words brought. `near_are_all`: no other chunk has a vector.
    """

    words: LookedUp | None
    candidates: Candidates
    types: NDArray[np.str_]
    types_of_matches: NDArray[np.str_]
    near_are_all: bool

    def of_type(self, record_type: str, *, at_least: int, uses_words: bool) -> Candidates | None:
        """Return those of a type, or that are no records (empty); None where a search of its own might find better."""
        all_types, matches = self.candidates, _NO_MATCHES
        is_of, exhausted = self.types == record_type, self.near_are_all
        nearest = int(is_of[: all_types.nearest].sum())
        if uses_words:
            is_match, of_all = self.types_of_matches == record_type, all_types.matches
            matches = WordMatches(of_all.numbers[is_match], of_all.scores[is_match], of_all.is_all)
            exhausted = all_types.exhausted
        else:
            # What only words brought is no candidate of a search by vectors.
            is_of[all_types.nearest :] = False
        numbers = all_types.numbers[is_of]
        if len(numbers) < at_least and not exhausted:
            return None
        similarities = None if all_types.similarities is None else all_types.similarities[is_of]
        return Candidates(numbers, similarities, nearest, matches, exhausted)


class ChangedMeanwhileError(Exception):
    """Candidates were replaced or deleted for good while the search ran: what took their place may be missing."""


class SpareThreads:
    """Runs a function beside its caller while a processor is likely to be free, else not before it is waited for.

    Under load every processor has a search of its own, and handing work over would only add to it.

    At most `threads` searches have a second thread at a time, half as many as there are processors by default.
    """

    def __init__(self, threads: int | None = None) -> None:
        size = max(1, (os.cpu_count() or 1) // 2) if threads is None else threads
        self._free = threading.Semaphore(size)
        self._pool = ThreadPoolExecutor(max(1, size), thread_name_prefix="search")

    def start(self, work: Callable[[], ResultT], budget: Budget) -> Callable[[], ResultT]:
        """Return a function that waits for the result of `work` while the budget lasts; to be called once."""
        # No wait here: without a free thread the caller does the work itself, which is as fast as waiting for one.
        if not self._free.acquire(blocking=False):
            return work
        # The thread works for the same call: its budget and its request id go along.
        future: Future[ResultT] = self._pool.submit(contextvars.copy_context().run, work)
        future.add_done_callback(lambda _: self._free.release())
        return lambda: budget.result_of(future)

    def close(self) -> None:
        """Finish what was started; idempotent."""
        self._pool.shutdown(wait=True)


@dataclass(slots=True)
class CandidateSearch:
    """Finds the candidates of one search; belongs to one call.

    Vectors also score what only the words find, unless the search is by vector. `max_terms` words of the query are
    looked up, and words of more than `max_term_share` of all chunks are left out. `is_last` says that no further
    attempt follows, so that a result which may miss something is better than none. `found` are candidates that a search
    for several types of record has found for this one, and `words` the words of that search. `lacks_dense`: the words
    alone had to find the results, because the engine does not answer. `lacks_rerank`: they are in the order before
    the reranker, because that does not answer.
    """

    view: SearchView
    matches: FilterMatches
    vectors: VectorSearch
    mode: SearchMode
    budget: Budget
    max_terms: int
    max_term_share: float
    is_last: bool
    found: Candidates | None = None
    words: LookedUp | None = None
    lacks_dense: bool = False
    lacks_rerank: bool = False
    stages: dict[StageKind, StageTrace] = field(default_factory=dict)
    _matched: tuple[int, WordMatches] | None = None
    _vectors_of_matches: tuple[WordMatches, Numbers, Vectors] | None = None
    _near: tuple[int, Neighbours] | None = None
    _whole: dict[int, StoredChunk] = field(default_factory=dict)

    @property
    def needs_words(self) -> bool:
        """Return whether there are words to be looked up; what several searches share has them."""
        is_empty = self.matches.is_rare and len(self.matches.numbers()) == 0
        return self.mode is not SearchMode.VECTOR and self.found is None and not is_empty

    def look_up(self, query: str, context: str, depth: int) -> None:
        """Choose the words of a query that tell chunks apart, and find the best `depth` chunks that have them.

        With a context its words count as well, each a third of what a word of the query does. To be called where
        `needs_words`.
        """
        # One connection for the statements: nothing else is waited for between them.
        with Step("search.words"), self.view.together():
            self.words = words = self._chosen(parse_query(query))
            if context and words.weights:
                added, weights = self._chosen(parse_query(context)), Counter[str]()
                for each, count in words.weights.items():
                    # Whole numbers: the catalog scores a word as if the query had it so often.
                    weights[each] += round(count / CONTEXT_SHARE)
                weights.update(added.weights)
                frequencies = {**added.frequencies, **words.frequencies}
                terms, phrases = dict.fromkeys(words.terms + added.terms), dict.fromkeys(words.phrases + added.phrases)
                self.words = replace(
                    words, terms=tuple(terms), phrases=tuple(phrases), weights=weights, frequencies=frequencies
                )
            matches = self._matching(depth)
            # Similarities are wanted of all that the vectors do not bring; the connection is at hand now.
            self._vectors_of_matches = (matches, *self.view.vectors(matches.numbers.tolist()))

    def _chosen(self, parsed: QueryTerms) -> LookedUp:
        total = self.view.chunk_count()
        frequencies = self.view.frequencies([*parsed.terms, *parsed.phrases])
        of_terms = {term: frequencies[term] for term in parsed.terms}
        terms = select_terms(of_terms, total, max_share=self.max_term_share, max_terms=self.max_terms)
        phrases = tuple(phrase for phrase in parsed.phrases if frequencies[phrase] > 0)[: self.max_terms]
        # A repeated word counts as in BM25 (docs/adr/0019); a phrase is no more said by being repeated.
        weights = Counter({**dict.fromkeys(phrases, 1), **{term: parsed.counts[term] for term in terms}})
        return LookedUp(parsed, terms, phrases, weights, frequencies, total)

    def found_for_several(self, vector: Vectors | None, depth: int) -> SharedCandidates | None:
        """Return what this search found, to be shared by others; None where vectors could bring nothing."""
        near, matches = self.nearest(vector, depth), self._matching(depth)
        candidates = self._together(vector, near, matches)
        if vector is None or self.mode is SearchMode.LEXICAL or self.lacks_dense:
            return None
        types, types_of_matches = (
            np.array(self.view.types_of_records(each.tolist()), dtype=np.str_)
            for each in (candidates.numbers, matches.numbers)
        )
        return SharedCandidates(self.words, candidates, types, types_of_matches, near.is_all)

    def best(self, vector: Vectors | None, depth: int) -> Candidates:
        """Return the best `depth` candidates of vectors and words each; some may not be visible any more.

        Raises:
            StoreUnavailableError: the engine failed.
        """
        if self.found is not None:
            return self.found
        return self._together(vector, self.nearest(vector, depth), self._matching(depth))

    def visible(self, vector: Vectors | None, depth: int) -> tuple[Candidates, Mapping[int, ChunkFacts], int]:
        """Return the best `depth` visible candidates of each, what is known of them, and how many others there were.

        Points that are not visible are made up for by asking the engine for more, so that what is found, and how it is
        scored, does not depend on how far the engine has been cleaned up.

        Raises:
            StoreUnavailableError: the engine failed.
        """
        matches, asked = self._matching(depth), depth
        while True:
            self.budget.check()
            near = self.nearest(vector, asked)
            everything = self._together(vector, near, matches)
            facts = self.facts(everything.numbers)
            seen = _among(everything.numbers, facts)
            nearest = everything.nearest
            stale = nearest - int(seen[:nearest].sum())
            if near.is_all or asked - stale >= depth:
                break
            # Twice what was missing, so that few rounds are needed when whole documents were replaced.
            asked += 2 * stale
        is_near = seen.copy()
        is_near[nearest:] = False
        is_near[np.flatnonzero(is_near)[depth:]] = False
        matched = _among(matches.numbers, facts)
        pool = is_near | (seen & np.isin(everything.numbers, matches.numbers))
        # What the vectors brought stays in front, in its own order.
        order = np.concatenate([np.flatnonzero(is_near), np.flatnonzero(pool & ~is_near)])
        visible = Candidates(
            everything.numbers[order],
            None if everything.similarities is None else everything.similarities[order],
            int(is_near.sum()),
            WordMatches(matches.numbers[matched], matches.scores[matched], matches.is_all),
            everything.exhausted,
        )
        return visible, facts, len(seen) - int(seen.sum())

    def facts(self, numbers: Numbers, *, whole: bool = False) -> Mapping[int, ChunkFacts]:
        """Return what ranking needs of those of the chunks that are visible.

        With `whole` the chunks are read with their contents: most of them become results and need no second read.

        Raises:
            ChangedMeanwhileError: some are not visible any more, and another attempt may find what replaced them.
        """
        if len(numbers) == 0:
            return {}
        started = time.perf_counter()
        facts: Mapping[int, ChunkFacts]
        if whole:
            facts = {number: facts_of(stored) for number, stored in self.chunks(numbers.tolist()).items()}
        else:
            facts = self.view.facts(numbers.tolist(), self.matches.where)
        if self.view.has_lost_history and len(facts) < len(numbers) and not self.is_last:
            raise ChangedMeanwhileError
        self.stages[StageKind.JOIN] = StageTrace(StageKind.JOIN, len(facts), time.perf_counter() - started)
        return facts

    def chunks(self, numbers: Sequence[int]) -> Mapping[int, StoredChunk]:
        """Return those of the chunks that are visible, with their documents.

        Raises:
            ChangedMeanwhileError: as of `facts`.
        """
        missing = [number for number in numbers if number not in self._whole]
        if missing:
            self._whole.update(self.view.chunks(missing, self.matches.where))
        stored = {number: self._whole[number] for number in numbers if number in self._whole}
        if self.view.has_lost_history and len(stored) < len(numbers) and not self.is_last:
            raise ChangedMeanwhileError
        return stored

    def _matching(self, depth: int) -> WordMatches:
        """Return the best `depth` chunks that have the words and may be returned, or all."""
        words = self.words
        if words is None:
            return _NO_MATCHES
        if self._matched is not None and self._matched[0] >= depth:
            return self._matched[1]
        started, weighted = time.perf_counter(), [*words.weights.elements()]
        matches, is_filtered = _NO_MATCHES, not self.matches.is_open
        # All that a query may match is scored in any case, so that reading so many at once costs little.
        asked = max(depth, MAX_MATCHES) if is_filtered else depth
        while weighted:
            matching = self.view.lexical(weighted, (), asked)
            numbers, scores = matching.numbers, matching.scores
            is_all = len(numbers) < asked
            if is_filtered:
                passing = self.matches.first_passing(numbers, depth)
                numbers, scores = numbers[passing], scores[passing]
            if is_all or len(numbers) >= depth:
                matches = WordMatches(numbers[:depth], scores[:depth], is_all and len(numbers) <= depth)
                break
            # The words are cheap to follow further, and a filter that leaves few is met at most a few times.
            asked *= _FURTHER
        elapsed = time.perf_counter() - started
        self.stages[StageKind.LEXICAL] = StageTrace(StageKind.LEXICAL, len(matches.numbers), elapsed)
        self._matched = (depth, matches)
        return matches

    def nearest(self, vector: Vectors | None, limit: int) -> Neighbours:
        """Return the nearest chunks; to be called first while the words may still be looked up.

        Raises:
            StoreUnavailableError: the engine failed, and there are no words to look for.
        """
        if vector is None or self.mode is SearchMode.LEXICAL or self.lacks_dense:
            return _NO_NEIGHBOURS
        # Of the same depth only: what a search finds must not depend on how far it looked before.
        if self._near is not None and self._near[0] == limit:
            return self._near[1]
        near, self._near = _NO_NEIGHBOURS, None
        with self._words_instead():
            started = time.perf_counter()
            near, plan = self.vectors.nearest(vector, limit)
            elapsed, clause = time.perf_counter() - started, self.vectors.resolved_clause
            self.stages[StageKind.DENSE] = StageTrace(StageKind.DENSE, len(near), elapsed, plan, clause)
            self._near = (limit, near)
        return near

    @contextmanager
    def _words_instead(self) -> Iterator[None]:
        """Go on with the words alone when the engine fails, or takes so long that no time would be left for them."""
        try:
            yield
        except (UnavailableError, DeadlineError):
            # If the whole call has run out of time, falling back on the words does not help.
            self.budget.check()
            if self.mode is not SearchMode.HYBRID or self.lacks_dense:
                raise
            self.lacks_dense = True

    def _similarities(
        self, vector: Vectors, numbers: Numbers, matches: WordMatches, *, asks_engine: bool
    ) -> Neighbours:
        """Return the similarities of some of the matches; a deeper look than that for the words reads vectors anew."""
        if self._vectors_of_matches is None or self._vectors_of_matches[0] is not matches:
            stored, rows = self.view.vectors(numbers.tolist())
        else:
            _, stored, rows = self._vectors_of_matches
            asked = are_among(stored, np.sort(numbers))
            stored, rows = stored[asked], rows[asked]
        return self.vectors.compare(vector, numbers, stored, rows, len(numbers), asks_engine=asks_engine)

    def _together(self, vector: Vectors | None, near: Neighbours, matches: WordMatches) -> Candidates:
        """Join both, with the similarities of chunks that only the words found.

        A chunk that has no vector takes the lowest similarity: the catalog is the truth.
        """
        exhausted = near.is_all and matches.is_all
        if vector is None:
            return Candidates(matches.numbers, None, 0, matches, exhausted)
        if len(matches.numbers) == 0:
            return Candidates(near.numbers, near.similarities, len(near), matches, exhausted)
        missing = matches.numbers[~are_among(matches.numbers, np.sort(near.numbers))]
        known = _NO_NEIGHBOURS
        with self._words_instead():
            # Words alone are looked for without the engine, so that such a search does not need it.
            asks_engine = self.mode is not SearchMode.LEXICAL and not self.lacks_dense
            known = self._similarities(vector, missing, matches, asks_engine=asks_engine)
        if self.lacks_dense:
            near, missing = _NO_NEIGHBOURS, matches.numbers
            known = self._similarities(vector, missing, matches, asks_engine=False)
        lowest = min(near.similarities.min(initial=1.0), known.similarities.min(initial=1.0))
        # Not 0: a chunk whose vector has not arrived yet would fall behind all others.
        of_missing = np.full(len(missing), lowest if len(near) or len(known) else 0.0)
        ascending = np.argsort(missing)
        of_missing[ascending[np.searchsorted(missing, known.numbers, sorter=ascending)]] = known.similarities
        numbers = np.concatenate([near.numbers, missing])
        similarities = np.concatenate([near.similarities, of_missing])
        return Candidates(numbers, similarities, len(near), matches, exhausted)


def _among(numbers: Numbers, facts: Mapping[int, ChunkFacts]) -> NDArray[np.bool_]:
    return np.fromiter((number in facts for number in numbers.tolist()), dtype=np.bool_, count=len(numbers))
