"""Search a collection: the best chunks for a query, under a filter, joined with their documents."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import Clock
from groundwire.kernel.collection import Collection, SearchMode
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    DimensionMismatchError,
    EmbeddingMismatchError,
    GroundwireError,
    StoreUnavailableError,
    UnavailableError,
)
from groundwire.kernel.filter_resolving import custom_fields, resolve_filter
from groundwire.kernel.filters import Filter
from groundwire.kernel.vector_store import VectorStore
from groundwire.retrieve.companion import Companion
from groundwire.retrieve.domain.explaining import Evidence, explain, listed
from groundwire.retrieve.domain.query_limits import check_query_length
from groundwire.retrieve.domain.ranking import coverage, to_hits
from groundwire.retrieve.domain.searching import (
    Explanation,
    SearchHit,
    SearchPlan,
    SearchRequest,
    SearchResult,
    SearchState,
    SearchTimes,
    StageKind,
    StageTrace,
)
from groundwire.retrieve.domain.selecting import Selected, select
from groundwire.retrieve.filter_gate import FilterGate, FilterSets
from groundwire.retrieve.plan_search import PlanSearch
from groundwire.retrieve.ports import SearchView, ViewOpener
from groundwire.retrieve.query_vectors import QueryVectors
from groundwire.retrieve.rank_candidates import RankCandidates, Ranked
from groundwire.retrieve.retrievers import ChangedMeanwhileError, Retrievers
from groundwire.retrieve.search_vectors import SearchVectors
from groundwire.retrieve.search_words import SearchWords
from groundwire.retrieve.state_trail import StateTrail
from groundwire.retrieve.wait_for_position import WaitForPosition

_ATTEMPTS = 3
"""So often a search begins anew at most. A move of an index takes longer than a search; candidates that are replaced
during three searches in a row are left out of the last one."""
_SHARE_OF_VECTORS = 0.5
"""Of the time of a hybrid search; the words need some milliseconds, but they may have to wait for a connection."""
_LOST = "the engine has lost the index of this collection; `groundwire fsck --repair` builds it anew"


@dataclass(frozen=True, slots=True)
class SearchChunks:
    """Searches; safe to call from many threads at once.

    `engine` is the name of `vectors`; collections of up to `exact_chunks` chunks are compared one by one.
    """

    views: ViewOpener
    vectors: VectorStore
    engine: str
    query_vectors: QueryVectors
    plan_search: PlanSearch
    rank_candidates: RankCandidates
    filter_sets: FilterSets
    companion: Companion
    wait_for_position: WaitForPosition
    clock: Clock
    exact_chunks: int

    def __call__(self, request: SearchRequest, budget: Budget) -> SearchResult:
        """Return the best chunks.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: the collection was embedded by another model than this server's.
            InvalidFilterError: the filter does not fit the collection's fields.
            DimensionMismatchError: the caller's vector has another length.
            SnapshotExpiredError: what was visible at the snapshot is not all kept any more.
            MissingExtraError: a reranker was asked for and there is none.
            StoreUnavailableError: the engine failed.
            UnavailableError: the write that the consistency token stands for is not visible within the deadline.

            Each carries the metadata key `last_state`.
        """
        trail = StateTrail(self.clock)
        started = time.perf_counter()
        try:
            self.wait_for_position(request.consistency_token, request.tenant, request.collection, budget)
            return self._search_serving(request, budget, trail, started)
        except GroundwireError as error:
            error.metadata["last_state"] = trail.last.value
            raise

    def _search_serving(
        self, request: SearchRequest, budget: Budget, trail: StateTrail, started: float
    ) -> SearchResult:
        """Search, and again when the index was moved meanwhile and the old one dropped, or candidates were replaced."""
        missed = ""
        for attempt in range(1, _ATTEMPTS + 1):
            trail.begin_again()
            view = self.views.open(request.tenant, request.collection, request.snapshot)
            try:
                return self._search(request, view, budget, trail, started, is_last=attempt == _ATTEMPTS)
            except ChangedMeanwhileError:
                continue
            except CollectionNotFoundError as error:
                if error.name != view.collection.engine_name:
                    raise
                if error.name == missed:  # nobody has moved it: it is gone
                    raise StoreUnavailableError(_LOST, engine=self.engine) from error
                missed = error.name
        raise StoreUnavailableError("the index is being moved; repeat the search", engine=self.engine)

    def _search(
        self,
        request: SearchRequest,
        view: SearchView,
        budget: Budget,
        trail: StateTrail,
        started: float,
        *,
        is_last: bool,
    ) -> SearchResult:
        check_query_length(request.query, view.collection, "query")
        gate = FilterGate(view, self._resolve(request, view), self.filter_sets)
        retrievers = self._retrievers(request, view, gate, budget, is_last=is_last)
        trail.enter(SearchState.EMBEDDING)
        vector, embedding_s = self._search_both(request, view.collection, retrievers, budget, trail)
        plan = self.plan_search(request, view.collection, gate.where, vector, retrievers.words)
        ranked = self.rank_candidates(retrievers, plan, request.query, budget, collapse=request.collapse_duplicates)
        trail.enter(SearchState.RANKED)
        selection = self._select(plan, ranked, view)
        hits = to_hits(selection, request.order)
        trail.enter(SearchState.VALIDATED)
        share = coverage(request.query, hits)
        explanation = self._explain(retrievers, plan, ranked, selection, hits, embedding_s) if request.explain else None
        counts = ranked.counts(plan.min_relevance)
        trail.enter(SearchState.COMPLETED)
        total_s = time.perf_counter() - started
        dense = retrievers.trace.get(StageKind.DENSE)
        times = SearchTimes(
            embedding_s, total_s - embedding_s, total_s, trail.reached, dense.elapsed_s if dense else None
        )
        token = self.wait_for_position.token_of(view.position, request.tenant, view.collection.uid)
        return SearchResult(
            hits,
            plan,
            counts,
            share,
            times,
            view.position,
            view.changed_position,
            explanation,
            token,
            lacks_dense=vector is None or retrievers.lacks_dense,
        )

    def _resolve(self, request: SearchRequest, view: SearchView) -> Filter | None:
        if request.where is None:
            return None
        return resolve_filter(request.where, view.fields() if custom_fields(request.where) else {}, "options.filter")

    def _retrievers(
        self, request: SearchRequest, view: SearchView, gate: FilterGate, budget: Budget, *, is_last: bool
    ) -> Retrievers:
        mode = self.plan_search.mode(request, view.collection)
        # What is left then is enough for the words, which need no engine.
        for_vectors = budget.part(_SHARE_OF_VECTORS) if mode is SearchMode.HYBRID else budget
        return Retrievers(
            view,
            gate.where,
            SearchVectors(self.vectors, view, gate, for_vectors, exact=request.exact, exact_chunks=self.exact_chunks),
            None if mode is SearchMode.VECTOR else SearchWords(view, gate, self.plan_search.tuning),
            budget,
            runs_dense=mode is not SearchMode.LEXICAL,
            is_last=is_last,
        )

    def _search_both(
        self, request: SearchRequest, collection: Collection, retrievers: Retrievers, budget: Budget, trail: StateTrail
    ) -> tuple[Vectors | None, float]:
        """Run both retrievers side by side; return the query's vector and the seconds it took to make.

        A search by words uses the vector only to bring its scores onto the scale of similarities. So it goes without,
        None, when the model does not answer.
        """
        mode = self.plan_search.mode(request, collection)
        is_hybrid = mode is SearchMode.HYBRID
        depth = self.rank_candidates.depth(self.plan_search.top_k(request, collection), is_hybrid=is_hybrid)
        with retrievers.looking_up(request.query, depth, self.companion, budget):
            vector: Vectors | None
            try:
                vector, embedding_s = self._embed(request, collection, budget)
            except UnavailableError:
                if mode is not SearchMode.LEXICAL:
                    raise
                vector, embedding_s = None, 0.0
            budget.check()
            trail.enter(SearchState.SEARCHING)
            if vector is not None:
                retrievers.prefetch(vector, depth)
        budget.check()
        return vector, embedding_s

    def _embed(self, request: SearchRequest, collection: Collection, budget: Budget) -> tuple[Vectors, float]:
        expected = collection.identity
        if request.vector is not None:
            _check_length(len(request.vector), expected.dimensions)
            return request.vector, 0.0
        got = self.query_vectors.identity
        if got != expected:
            raise EmbeddingMismatchError(
                f"collection {collection.name!r} was embedded by {expected.model_name!r}, "
                f"this server has {got.model_name!r}",
                expected=f"{expected.provider}/{expected.model_name}@{expected.revision} {expected.probe_digest[:12]}",
                got=f"{got.provider}/{got.model_name}@{got.revision} {got.probe_digest[:12]}",
            )
        if request.prepared is not None:
            return request.prepared.vector, request.prepared.elapsed_s
        return self.query_vectors(request.query, budget)

    def _select(self, plan: SearchPlan, ranked: Ranked, view: SearchView) -> list[Selected]:
        passed = [pair for pair in ranked.ranking.candidates if pair[0].relevance >= plan.min_relevance]
        near: dict[int, Vectors] = {}
        if plan.diversity > 0.0 and len(passed) > plan.top_k:
            numbers, rows = view.vectors([score.number for score, _ in passed])
            units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
            near = dict(zip(numbers.tolist(), units, strict=True))
        return select(passed, plan.top_k, plan.rules.spread, plan.diversity, near)

    def _explain(
        self,
        retrievers: Retrievers,
        plan: SearchPlan,
        ranked: Ranked,
        selection: Sequence[Selected],
        hits: Sequence[SearchHit],
        embedding_s: float,
    ) -> Explanation:
        trace = dict(retrievers.trace)
        beyond = retrievers.join([number for number in listed(ranked.scores, hits) if number not in ranked.live])
        fused = StageTrace(StageKind.FUSION, len(ranked.scores), 0.0)
        ended = StageTrace(StageKind.VALIDATE, len(hits), 0.0)
        embedded = StageTrace(StageKind.EMBED, 1, embedding_s)
        candidates, rerank = ranked.candidates, self.rank_candidates.rerank
        return explain(
            Evidence(
                scores=ranked.scores,
                similarities=candidates.similarities,
                dense=candidates.dense,
                lexical=candidates.lexical,
                live={**ranked.live, **beyond},
                ranking=ranked.ranking,
                selection=selection,
                hits=hits,
                min_relevance=plan.min_relevance,
                frequencies=retrievers.words.frequencies if retrievers.words else {},
                trace={**trace, embedded.kind: embedded, fused.kind: fused, ended.kind: ended},
                rerank_weight=rerank.weight if plan.reranks and rerank else 0.0,
                engine=self.engine,
            )
        )


def _check_length(got: int, expected: int) -> None:
    if got != expected:
        raise DimensionMismatchError.of("query_vector", f"must have {expected} numbers", got=got, expected=expected)
