"""Fill in what a request leaves open: the collection's defaults, the server's tuning, what the query's type changes."""

from dataclasses import dataclass

from groundwire.kernel.collection import Collection, SearchMode
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import MissingExtraError
from groundwire.kernel.filters import Filter
from groundwire.retrieve.domain.chapter_rules import rules_for
from groundwire.retrieve.domain.query_types import QueryStrategy, applied_type, classify, strategy_of
from groundwire.retrieve.domain.screening import Screen
from groundwire.retrieve.domain.searching import SearchPlan, SearchRequest
from groundwire.retrieve.domain.weighting import dense_weight_for
from groundwire.retrieve.search_words import SearchTuning, Words


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """Makes the plan of a search; `reranks` is None without a reranker, else whether it runs unless asked."""

    tuning: SearchTuning
    approved_prefixes: tuple[str, ...] = ()
    reranks: bool | None = None

    def mode(self, request: SearchRequest, collection: Collection) -> SearchMode:
        """Return which retrievers run."""
        return request.mode or collection.settings.retrieval.mode

    def top_k(self, request: SearchRequest, collection: Collection) -> int:
        """Return the most results to return."""
        return request.top_k or collection.settings.retrieval.top_k

    def __call__(
        self,
        request: SearchRequest,
        collection: Collection,
        where: Filter | None,
        vector: Vectors | None,
        words: Words | None,
    ) -> SearchPlan:
        """Return the plan.

        Raises:
            MissingExtraError: the request asks for a reranker and there is none.
        """
        defaults = collection.settings.retrieval
        mode = self.mode(request, collection)
        kind = classify(request.query)
        applied = applied_type(kind, request.query_types)
        strategy = strategy_of(applied, request.query)
        return SearchPlan(
            query_type=kind,
            applied_type=applied,
            strategy=strategy,
            screen=Screen((self.approved_prefixes, collection.settings.approved_source_prefixes)),
            collection=collection,
            vector=vector,
            where=where,
            mode=mode,
            top_k=self.top_k(request, collection),
            min_relevance=defaults.min_relevance if request.min_relevance is None else request.min_relevance,
            dense_weight=self._dense_weight(request, collection, mode, strategy, words),
            rules=rules_for(collection.profile, mode),
            terms=words.terms if words else (),
            phrases=words.phrases if words else (),
            diversity=request.diversity,
            reranks=self._reranks(request),
        )

    def _dense_weight(
        self,
        request: SearchRequest,
        collection: Collection,
        mode: SearchMode,
        strategy: QueryStrategy,
        words: Words | None,
    ) -> float:
        if mode is not SearchMode.HYBRID or words is None:
            return 1.0 if mode is SearchMode.VECTOR else 0.0
        if request.dense_weight is not None:
            return request.dense_weight
        default = collection.settings.retrieval.dense_weight
        default = default if self.tuning.dense_weight is None else self.tuning.dense_weight
        shifted = min(1.0, max(0.0, default + strategy.weight_shift))
        return dense_weight_for(shifted, words.parsed, words.frequencies, words.chunk_count)

    def _reranks(self, request: SearchRequest) -> bool:
        if request.rerank and self.reranks is None:
            raise MissingExtraError("this server has no reranker: set GROUNDWIRE_RETRIEVE_RERANKER", extra="reranker")
        return bool(self.reranks) if request.rerank is None else request.rerank
