"""Run the legs of a search and join what they find."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import SearchMode
from groundwire.kernel.errors import UnsupportedFilterError
from groundwire.kernel.hit import StoredChunk
from groundwire.kernel.vector_store import ScoredPoint, VectorStore
from groundwire.retrieve.domain.searching import SearchPlan
from groundwire.retrieve.ports import ChunkReader, LexicalIndex


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the legs found: similarities of all candidates, and lexical scores of those that matched a word.

    `exhausted`: a deeper search would find no more.
    """

    similarities: Mapping[int, float]
    lexical: Mapping[int, float]
    exhausted: bool


@dataclass(frozen=True, slots=True)
class FindCandidates:
    """Runs both legs and completes each one's scores from the other."""

    chunks: ChunkReader
    full_text: LexicalIndex
    vectors: VectorStore

    def __call__(self, plan: SearchPlan, depth: int) -> Candidates:
        """Return the best `depth` candidates of each leg; some may not be live any more.

        Raises:
            StoreUnavailableError: the engine failed.
        """
        lexical = self._lexical(plan, depth)
        dense = self._dense(plan, depth)
        similarities = {point.number: point.similarity for point in dense}
        similarities |= self._missing(plan, similarities, lexical)
        return Candidates(similarities, lexical, len(dense) < depth and len(lexical) < depth)

    def live(self, plan: SearchPlan, depth: int, budget: Budget) -> tuple[Candidates, Mapping[int, StoredChunk], int]:
        """Return the best `depth` live candidates of each leg, their chunks, and how many others were not live.

        Points that are not live are made up for by asking the engine for more, so that what is found, and how it is
        scored, does not depend on how far the engine has been cleaned up.

        Raises:
            StoreUnavailableError: the engine failed.
        """
        lexical = self._lexical(plan, depth)
        asked = depth
        while True:
            budget.check()
            dense = self._dense(plan, asked)
            similarities = {point.number: point.similarity for point in dense}
            similarities |= self._missing(plan, similarities, lexical)
            chunks = self.join(plan, list(similarities))
            stale = sum(point.number not in chunks for point in dense)
            if len(dense) < asked or asked - stale >= depth:
                break
            asked += 2 * stale
        nearest = [point.number for point in dense if point.number in chunks][:depth]
        matched = {number: score for number, score in lexical.items() if number in chunks}
        pool = {number: similarities[number] for number in dict.fromkeys((*nearest, *matched))}
        exhausted = len(dense) < asked and len(lexical) < depth
        return Candidates(pool, matched, exhausted), chunks, len(similarities) - len(chunks)

    def join(self, plan: SearchPlan, numbers: Sequence[int]) -> Mapping[int, StoredChunk]:
        """Return those of the chunks that are live, with their documents, in one catalog query."""
        return self.chunks.live(plan.collection.tenant, plan.collection.name, numbers) if numbers else {}

    def _lexical(self, plan: SearchPlan, depth: int) -> dict[int, float]:
        if not plan.terms and not plan.phrases:
            return {}
        tenant, name = plan.collection.tenant, plan.collection.name
        found = self.full_text.search(tenant, name, plan.terms, plan.phrases, depth, plan.where)
        return {match.number: match.score for match in found}

    def _dense(self, plan: SearchPlan, depth: int) -> list[ScoredPoint]:
        if plan.mode is SearchMode.LEXICAL:
            return []
        engine_name = plan.collection.engine_name
        try:
            return self.vectors.search(engine_name, plan.vector, depth, plan.where)
        except UnsupportedFilterError:
            if plan.where is None:
                raise
            tenant, name = plan.collection.tenant, plan.collection.name
            within = self.chunks.matching(tenant, name, plan.where, None)
            return self.vectors.search(engine_name, plan.vector, depth, within=within)

    def _missing(
        self, plan: SearchPlan, similarities: Mapping[int, float], lexical: Mapping[int, float]
    ) -> dict[int, float]:
        """Return the similarities of chunks that only the lexical leg found.

        A chunk whose vector the engine has not got takes the lowest similarity: the catalog is the truth.
        """
        numbers = [number for number in lexical if number not in similarities]
        if not numbers:
            return {}
        points = self.vectors.search(plan.collection.engine_name, plan.vector, len(numbers), within=numbers)
        known = {point.number: point.similarity for point in points}
        lowest = min((*similarities.values(), *known.values()), default=0.0)
        return dict.fromkeys(numbers, lowest) | known
