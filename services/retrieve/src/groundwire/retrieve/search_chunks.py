"""Search a collection: the best chunks for a query, under a filter, joined with their documents."""

import time
from dataclasses import dataclass, replace

from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import Clock
from groundwire.kernel.collection import Collection, SearchMode
from groundwire.kernel.embedder import Embedder, Vectors
from groundwire.kernel.errors import DimensionMismatchError, EmbeddingMismatchError, GroundwireError
from groundwire.kernel.filters import Filter
from groundwire.retrieve.domain.chapter_rules import rules_for, select_spread
from groundwire.retrieve.domain.filter_resolving import custom_fields, resolve_filter
from groundwire.retrieve.domain.query_terms import parse_query, select_terms
from groundwire.retrieve.domain.query_types import applied_type, classify, strategy_of
from groundwire.retrieve.domain.ranking import coverage, to_hits
from groundwire.retrieve.domain.screening import Screen
from groundwire.retrieve.domain.searching import (
    SearchPlan,
    SearchRequest,
    SearchResult,
    SearchState,
    SearchTimes,
)
from groundwire.retrieve.domain.weighting import dense_weight_for
from groundwire.retrieve.ports import ChunkReader, CollectionReader, LexicalIndex
from groundwire.retrieve.rank_candidates import RankCandidates
from groundwire.retrieve.state_trail import StateTrail


@dataclass(frozen=True, slots=True)
class SearchTuning:
    """Which words a search looks up, and how much they count.

    `max_terms` words of the query are looked up, and words of more than `max_term_share` of all chunks are
    left out. `dense_weight`, when set, replaces that of the collection.
    """

    max_terms: int = 12
    max_term_share: float = 0.25
    dense_weight: float | None = None


@dataclass(frozen=True, slots=True)
class SearchChunks:
    """Searches; safe to call from many threads at once."""

    collections: CollectionReader
    chunks: ChunkReader
    full_text: LexicalIndex
    rank_candidates: RankCandidates
    embedder: Embedder
    clock: Clock
    tuning: SearchTuning
    approved_prefixes: tuple[str, ...] = ()

    def __call__(self, request: SearchRequest, budget: Budget) -> SearchResult:
        """Return the best chunks.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: the collection was embedded by another model than this server's.
            InvalidFilterError: the filter does not fit the collection's fields.
            DimensionMismatchError: the caller's vector has another length.
            StoreUnavailableError: the engine failed.

            Each carries the metadata key `last_state`.
        """
        trail = StateTrail(self.clock)
        try:
            return self._search(request, budget, trail)
        except GroundwireError as error:
            error.metadata["last_state"] = trail.last.value
            raise

    def _search(self, request: SearchRequest, budget: Budget, trail: StateTrail) -> SearchResult:
        started = time.perf_counter()
        collection = self.collections.get(request.tenant, request.collection)
        where = self._resolve(request)
        trail.enter(SearchState.EMBEDDING)
        vector, embedding_s = self._embed(request, collection)
        budget.check()
        trail.enter(SearchState.SEARCHING)
        searching = time.perf_counter()
        plan = self._plan(request, collection, where, vector)
        ranking, counts = self.rank_candidates(plan, budget, collapse=request.collapse_duplicates)
        trail.enter(SearchState.RANKED)
        passed = [pair for pair in ranking.candidates if pair[0].relevance >= plan.min_relevance]
        hits = to_hits(select_spread(passed, plan.top_k, plan.rules.spread), request.order)
        trail.enter(SearchState.VALIDATED)
        search_s = time.perf_counter() - searching
        share = coverage(request.query, hits)
        trail.enter(SearchState.COMPLETED)
        times = SearchTimes(embedding_s, search_s, time.perf_counter() - started, trail.reached)
        return SearchResult(hits, plan, counts, share, times)

    def _resolve(self, request: SearchRequest) -> Filter | None:
        if request.where is None:
            return None
        own = self.chunks.fields(request.tenant, request.collection) if custom_fields(request.where) else {}
        return resolve_filter(request.where, own, "options.filter")

    def _embed(self, request: SearchRequest, collection: Collection) -> tuple[Vectors, float]:
        expected = collection.identity
        if request.vector is not None:
            _check_length(len(request.vector), expected.dimensions)
            return request.vector, 0.0
        got = self.embedder.identity
        if got != expected:
            raise EmbeddingMismatchError(
                f"collection {collection.name!r} was embedded by {expected.model_name!r}, "
                f"this server has {got.model_name!r}",
                expected=f"{expected.provider}/{expected.model_name}@{expected.revision} {expected.probe_digest[:12]}",
                got=f"{got.provider}/{got.model_name}@{got.revision} {got.probe_digest[:12]}",
            )
        if request.prepared is not None:
            return request.prepared.vector, request.prepared.elapsed_s
        started = time.perf_counter()
        vector = self.embedder.embed_query(request.query)
        return vector, time.perf_counter() - started

    def _plan(
        self, request: SearchRequest, collection: Collection, where: Filter | None, vector: Vectors
    ) -> SearchPlan:
        defaults = collection.settings.retrieval
        mode = request.mode or defaults.mode
        query_type = classify(request.query)
        applied = applied_type(query_type, request.query_types)
        plan = SearchPlan(
            query_type=query_type,
            applied_type=applied,
            strategy=strategy_of(applied, request.query),
            screen=Screen((self.approved_prefixes, collection.settings.approved_source_prefixes)),
            collection=collection,
            vector=vector,
            where=where,
            mode=mode,
            top_k=request.top_k or defaults.top_k,
            min_relevance=defaults.min_relevance if request.min_relevance is None else request.min_relevance,
            dense_weight=self._default_weight(request, collection, mode),
            rules=rules_for(collection.profile, mode),
        )
        return plan if mode is SearchMode.VECTOR else self._with_terms(plan, request)

    def _default_weight(self, request: SearchRequest, collection: Collection, mode: SearchMode) -> float:
        if mode is not SearchMode.HYBRID:
            return 1.0 if mode is SearchMode.VECTOR else 0.0
        choices = (request.dense_weight, self.tuning.dense_weight, collection.settings.retrieval.dense_weight)
        return next(weight for weight in choices if weight is not None)

    def _with_terms(self, plan: SearchPlan, request: SearchRequest) -> SearchPlan:
        parsed = parse_query(request.query)
        tenant, name = plan.collection.tenant, plan.collection.name
        frequencies = self.full_text.document_frequencies(tenant, name, parsed.terms)
        total = self.full_text.live_chunks(tenant, name)
        weight = plan.dense_weight
        if plan.mode is SearchMode.HYBRID and request.dense_weight is None:
            shifted = min(1.0, max(0.0, weight + plan.strategy.weight_shift))
            weight = dense_weight_for(shifted, parsed, frequencies, total)
        return replace(
            plan,
            dense_weight=weight,
            terms=select_terms(
                frequencies, total, max_share=self.tuning.max_term_share, max_terms=self.tuning.max_terms
            ),
            phrases=parsed.phrases[: self.tuning.max_terms],
        )


def _check_length(got: int, expected: int) -> None:
    if got != expected:
        raise DimensionMismatchError.of("query_vector", f"must have {expected} numbers", got=got, expected=expected)
