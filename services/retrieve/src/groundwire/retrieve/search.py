"""Search a collection, in one direction: resolve, plan, retrieve, fuse and rank, hydrate, respond."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Protocol, TypeVar

import numpy as np

from groundwire.catalog.chunks import ChunkFacts
from groundwire.catalog.search_view import SearchView, SearchViews
from groundwire.catalog.vocabularies import Outlines
from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import Clock
from groundwire.kernel.collection import Collection, SearchMode
from groundwire.kernel.embedder import Embedder, Vectors
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    DeadlineError,
    DimensionMismatchError,
    EmbeddingMismatchError,
    GroundwireError,
    MissingExtraError,
    PreconditionError,
    StoreUnavailableError,
    UnavailableError,
)
from groundwire.kernel.filter_parsing import custom_fields, resolve_filter
from groundwire.kernel.filters import Filter
from groundwire.kernel.identifiers import is_approved
from groundwire.kernel.latencies import Step
from groundwire.kernel.records import TurnPlace
from groundwire.kernel.vector_store import VectorStore
from groundwire.kernel.vectors import unit_vector
from groundwire.retrieve.candidates import (
    Candidates,
    CandidateSearch,
    ChangedMeanwhileError,
    SharedCandidates,
    SpareThreads,
)
from groundwire.retrieve.consistency import WaitForPosition
from groundwire.retrieve.filters import FilterCache, FilterMatches, both
from groundwire.retrieve.queries import (
    CONTEXT_SHARE,
    ChosenSection,
    check_query_length,
    choose_sections,
    classify,
    dense_weight_for,
    within,
)
from groundwire.retrieve.ranking import (
    Eligible,
    Fate,
    Floats,
    MemoryScore,
    Reranker,
    Scores,
    Selected,
    adjust,
    eligible,
    fuse,
    rank_memories,
    rerank,
    rules_for,
    select,
    withheld_because,
)
from groundwire.retrieve.search_types import (
    Evidence,
    PreparedVector,
    Ranking,
    ResultOrder,
    SearchCounts,
    SearchHit,
    SearchPlan,
    SearchRequest,
    SearchResult,
    SearchState,
    SearchTimes,
    StageKind,
    StageTrace,
)
from groundwire.retrieve.self_query.questions import ParseQuestion
from groundwire.retrieve.vector_search import OVERFETCHED_CHEAPLY, SCANNED_AT_FIRST, VectorSearch

ResultT = TypeVar("ResultT")

_ATTEMPTS = 3
"""How often a search starts over at most. Moving an index takes longer than a search; candidates that are replaced
during three searches in a row are left out of the last one."""
_SHARE_OF_VECTORS = 0.5
"""Of the time of a hybrid search; the words need some milliseconds, but they may have to wait for a connection."""
_SHARE_OF_RERANKER = 0.5
"""Of what is left of the time then; the order without it is there, and has to reach the caller."""
_LOST = "the engine has lost the index of this collection; `groundwire fsck --repair` builds it anew"
# Repetitions, withheld sources and neighbours that rise change who is among the best: so many are read for each result.
_LOOKED_AT_PER_RESULT = 3
_LOOKED_AT_AT_LEAST = 16
_LOOKED_AT_FOR_DIVERSITY = 50
_LOOKED_AT_AS_MEMORIES = 50
"""Importance can lift a memory only from among this many of the most relevant ones."""
_LOOKED_AT_AS_TURNS = 100
"""A turn that answers the one before it is found among so many, though it shares no words with the question."""
_SPARE = 2
"""Candidates looked at beyond the results, for those that repeat others."""
_EXPLAINED = 100
_FOR_SEVERAL = OVERFETCHED_CHEAPLY
"""Candidates that vectors and words each bring for several searches that differ only in the type of record."""


class SearchSettings(Protocol):
    """What searches read of the settings of the service, which describe it."""

    approved_source_prefixes: tuple[str, ...]
    exact_chunks: int
    pool_size: int
    dense_weight: float | None
    max_terms: int
    max_term_share: float
    rerank_depth: int
    rerank_weight: float
    rag_persona_min_relevance: float


class QueryVectors:
    """Makes vectors of queries and remembers the latest, since the same words are asked again and again.

    Safe to call from many threads.
    """

    def __init__(self, embedder: Embedder, entries: int) -> None:
        self.embedder = embedder
        self.remembered: BoundedCache[str, Vectors] = BoundedCache(entries)

    def of(self, query: str, budget: Budget, context: str = "") -> PreparedVector:
        """Return the vector, not to be changed: float32, shape (dimensions,), and the seconds it took to make.

        With a context it is a mean of two, that of the query and that of both texts together: the similarity to it is
        the mean of the similarities, so that two searches cost one.

        Raises:
            UnavailableError: the model does not answer.
        """
        if context:
            own, both = self.of(query, budget), self.of(f"{context} {query}", budget)
            mean = (1.0 - CONTEXT_SHARE) * unit_vector(own.vector) + CONTEXT_SHARE * unit_vector(both.vector)
            return PreparedVector(mean, own.elapsed_s + both.elapsed_s)
        started = time.perf_counter()
        vector = self.remembered.get(query)
        if vector is None:
            vector = self.embedder.embed_query(query, budget)
            # Shared by all searches for the same words from now on.
            vector.setflags(write=False)
            self.remembered.put(query, vector)
        return PreparedVector(vector, time.perf_counter() - started)


class Progress:
    """The states that one search went through and when; belongs to one thread."""

    def __init__(self, clock: Clock, received: datetime | None) -> None:
        self._clock = clock
        now = clock.now()
        self.reached = [(SearchState.RECEIVED, now if received is None else min(received, now))]

    def enter(self, state: SearchState) -> None:
        """Note that a state was reached; times never fall, even when the clock is set back."""
        self.reached.append((state, max(self._clock.now(), self.reached[-1][1])))


@dataclass(frozen=True, slots=True)
class _Ranked:
    """What was ranked: all scores best first, the candidates, and what was learned of those looked at."""

    scores: Scores
    candidates: Candidates
    facts: Mapping[int, ChunkFacts]
    eligible: Eligible
    stale: int
    memory: Mapping[int, MemoryScore]


@dataclass(frozen=True, slots=True)
class Search:
    """Searches; safe to call from many threads at once.

    `engine` is the name of `vectors`. `reranker` judges the best unless a request says otherwise.
    """

    views: SearchViews
    vectors: VectorStore
    engine: str
    query_vectors: QueryVectors
    outlines: Outlines
    parse_question: ParseQuestion
    filter_cache: FilterCache
    spare_threads: SpareThreads
    wait_for_position: WaitForPosition
    clock: Clock
    settings: SearchSettings
    reranker: Reranker | None = None

    def interpret(self, request: SearchRequest, received: datetime, budget: Budget) -> SearchRequest:
        """Return a request that wants a filter from its own words (`self_query`) with that filter.

        Raises:
            CollectionNotFoundError: no such collection.
            InvalidRequestError: the query is longer than its collection takes.

            Each carries the metadata key `last_state`.
        """
        asked = request.asked or received
        try:
            parsed = self.parse_question.parse(
                request.tenant,
                request.collection,
                request.query,
                asked,
                budget,
                scopes=request.scopes,
                field="query",
                searchable=True,
            )
        except GroundwireError as error:
            error.metadata["last_state"] = SearchState.RECEIVED.value
            raise
        # The caller's own vector stands for the whole question, and its words have to go with it.
        query = request.query if request.vector is not None else parsed.extraction.semantic_query
        return replace(request, query=query, added=parsed.extraction.where, self_query_failed=parsed.fell_back)

    def search(
        self,
        request: SearchRequest,
        budget: Budget,
        *,
        received: datetime | None = None,
        started: float | None = None,
    ) -> SearchResult:
        """Return the best chunks for an interpreted request.

        `received` is when the call came in, None for now, and `started` the reading of `time.perf_counter` then.

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
        begun, chosen = time.perf_counter(), tuple[ChosenSection, ...]()
        progress = Progress(self.clock, received)

        def work(view: SearchView, is_last: bool) -> SearchResult:
            # A restarted attempt reports its own states; the call was received once.
            del progress.reached[1:]
            return self.search_in(view, request, budget, progress, is_last=is_last, begun=begun, started=started)

        try:
            if request.top_down:
                request, chosen = self._from_the_top(request, budget)
            result = self.read(request, budget, work)
        except GroundwireError as error:
            error.metadata["last_state"] = progress.reached[-1][0].value
            raise
        return replace(result, chosen_sections=chosen) if chosen else result

    def _from_the_top(self, request: SearchRequest, budget: Budget) -> tuple[SearchRequest, tuple[ChosenSection, ...]]:
        """Return the request narrowed to the sections that answer it best, and these sections."""
        collection, outline = self.outlines.read(request.tenant, request.collection)
        vector, is_ours = request.vector, collection.identity == self.query_vectors.embedder.identity
        if vector is None and request.prepared is None and is_ours:
            request = replace(request, prepared=self.query_vectors.of(request.query, budget, request.context))
        if vector is None and request.prepared is not None:
            vector = request.prepared.vector
        if vector is None or vector.shape != (collection.identity.dimensions,):
            return request, ()  # the search itself reports that a vector is missing or does not fit
        approved = self._approved_prefixes(collection)
        # What no search returns is not named either.
        seen = [
            place
            for place, section in enumerate(outline.sections)
            if all(is_approved(section.source_uri, prefixes) for prefixes in approved)
        ]
        sections = [outline.sections[place] for place in seen]
        chosen = tuple(choose_sections(request.query, vector, sections, outline.vectors[seen]))
        return replace(request, added=both(request.added, within(chosen))), chosen

    def read(self, request: SearchRequest, budget: Budget, work: Callable[[SearchView, bool], ResultT]) -> ResultT:
        """Return what `work` makes of a view of the collection that the request names.

        It is called anew where the collection has changed so that its view cannot tell any more what there was; its
        second argument says that there is no further attempt.

        Raises:
            CollectionNotFoundError: no such collection.
            SnapshotExpiredError: what was visible at the snapshot is not all kept any more.
            StoreUnavailableError: the engine failed.
            UnavailableError: the write that the consistency token stands for is not visible within the deadline.
        """
        missed = ""
        if request.consistency_token:
            self.wait_for_position.wait(request.consistency_token, request.tenant, request.collection, budget)
        for attempt in range(1, _ATTEMPTS + 1):
            # A view that is remembered may be older than the write that is waited for, or than the change just met.
            anew = bool(request.consistency_token) or attempt > 1
            view = self.views.open(
                request.tenant, request.collection, request.snapshot, anew=anew, scopes=request.scopes
            )
            try:
                return work(view, attempt == _ATTEMPTS)
            except ChangedMeanwhileError:
                continue
            except CollectionNotFoundError as error:
                # The index was moved meanwhile, and the old one dropped: the next view names the new one.
                if error.name != view.collection.engine_name:
                    raise
                if error.name == missed:  # nobody has moved it: it is gone
                    raise StoreUnavailableError(_LOST, engine=self.engine) from error
                missed = error.name
        raise StoreUnavailableError("the index is being moved; repeat the search", engine=self.engine)

    def search_in(
        self,
        view: SearchView,
        request: SearchRequest,
        budget: Budget,
        progress: Progress,
        *,
        is_last: bool,
        begun: float | None = None,
        started: float | None = None,
        record_type: str | None = None,
        shared: SharedCandidates | None = None,
    ) -> SearchResult:
        """Return the best chunks of a view for an interpreted request; errors are those of `search`.

        `begun` and `started` are the readings of `time.perf_counter` when the search began and when its call came in.
        `record_type` is the only type of record that the filter of the request passes, empty for documents that are no
        records, None where it passes any. `shared` are candidates of any type for the same query.

        Raises:
            ChangedMeanwhileError: what the view shows cannot be told any more, and this is not the last attempt.
        """
        begun = time.perf_counter() if begun is None else begun
        # Resolve: names of fields, and what the request leaves open.
        check_query_length(request.query, view.collection, "query")
        check_query_length(request.context, view.collection, "context")
        where, found = resolved(request, view), None
        plan = self._plan(request, view.collection, where)
        # An explanation says what its own search did, and some rules compare all candidates of a type, not the best
        # alone.
        if record_type is not None and shared is not None and not request.explain and not plan.rules.compares_all:
            found = shared.of_type(record_type, at_least=plan.window, uses_words=plan.mode is not SearchMode.VECTOR)
        matches = FilterMatches(view, where, self.filter_cache)
        if record_type is not None and found is None:
            # Of a rare type few are among the best: they are compared one by one.
            matches.work_out_rare(record_type, SCANNED_AT_FIRST)
        # Retrieve: vectors and words side by side.
        pool = self._candidates(view, request, plan, matches, budget, is_last=is_last)
        if found is not None and shared is not None:
            pool.found, pool.words = found, shared.words
        embedded = self._retrieve(request, plan, pool, budget, progress)
        plan = self._weighted(plan, request, pool, embedded)
        # Fuse and rank, on numbers.
        with Step("search.rank"):
            ranked = self._rank(pool, plan, request, budget)
            # What `min_relevance` tests: the relevance before importance and recency count. Memories stand in front, in
            # this order; behind them come candidates that were not looked at as memories.
            tested = ranked.scores.relevance.copy()
            tested[: len(ranked.memory)] = [each.similarity for each in ranked.memory.values()]
        progress.enter(SearchState.RANKED)
        # Hydrate: only what leaves.
        with Step("search.hydrate"):
            selected = _selected(plan, ranked, tested, view)
            hits = _hydrated(ranked, selected, pool, request.order)
        progress.enter(SearchState.VALIDATED)
        # Respond.
        evidence = self._evidence(pool, plan, ranked, selected, hits, embedded, view) if request.explain else None
        progress.enter(SearchState.COMPLETED)
        now, embedding_s = time.perf_counter(), embedded.elapsed_s if embedded else 0.0
        dense, fates = pool.stages.get(StageKind.DENSE), [*ranked.eligible.withheld.values()]
        return SearchResult(
            query=request.query,
            hits=hits,
            plan=plan,
            counts=SearchCounts(
                candidates=len(ranked.scores) + ranked.stale,
                stale=ranked.stale,
                duplicates=len(ranked.eligible.repeated),
                below_threshold=int(np.count_nonzero(tested < plan.min_relevance)),
                rejected=fates.count(Fate.SOURCE_REJECTED),
                incomplete=fates.count(Fate.INCOMPLETE),
            ),
            times=SearchTimes(
                embedding_s=embedding_s,
                search_s=now - begun - embedding_s,
                total_s=now - (begun if started is None else started),
                states=tuple(progress.reached),
                engine_s=dense.elapsed_s if dense else None,
            ),
            position=view.position,
            changed_position=view.changed_position,
            consistency_token=self.wait_for_position.tokens.issue(
                view.position, tenant=request.tenant, collection_uid=view.collection.uid
            ),
            evidence=evidence,
            lacks_dense=embedded is None or pool.lacks_dense,
            lacks_rerank=pool.lacks_rerank,
            self_query_failed=request.self_query_failed,
        )

    def search_for_several(
        self, view: SearchView, request: SearchRequest, budget: Budget, *, is_last: bool
    ) -> tuple[PreparedVector | None, SharedCandidates | None]:
        """Return the vector of a request, and candidates for searches that narrow it to a type of record each.

        The candidates are None where the engine does not answer, and each search has to get over that for itself.

        Raises:
            GroundwireError: whatever `search` raises.
        """
        check_query_length(request.query, view.collection, "query")
        check_query_length(request.context, view.collection, "context")
        matches = FilterMatches(view, resolved(request, view), self.filter_cache)
        # Deeper than one search would look, so that each type of record has enough of its own among them.
        plan = replace(self._plan(request, view.collection, matches.where), depth=_FOR_SEVERAL)
        pool = self._candidates(view, request, plan, matches, budget, is_last=is_last)
        embedded = self._retrieve(request, plan, pool, budget, Progress(self.clock, None))
        return embedded, pool.found_for_several(None if embedded is None else embedded.vector, plan.depth)

    def _candidates(
        self,
        view: SearchView,
        request: SearchRequest,
        plan: SearchPlan,
        matches: FilterMatches,
        budget: Budget,
        *,
        is_last: bool,
    ) -> CandidateSearch:
        # What is left of the time is enough for the words, which need no engine.
        for_vectors = budget.part(_SHARE_OF_VECTORS) if plan.mode is SearchMode.HYBRID else budget
        vectors = VectorSearch(
            self.vectors, view, matches, for_vectors, exact=request.exact, exact_chunks=self.settings.exact_chunks
        )
        return CandidateSearch(
            view,
            matches,
            vectors,
            plan.mode,
            budget,
            max_terms=self.settings.max_terms,
            max_term_share=self.settings.max_term_share,
            is_last=is_last,
        )

    def _plan(self, request: SearchRequest, collection: Collection, where: Filter | None) -> SearchPlan:
        """Fill in what a request leaves open: the collection's defaults, the server's, what the query's type changes.

        Raises:
            MissingExtraError: the request asks for a reranker and there is none.
        """
        if request.rerank and self.reranker is None:
            raise MissingExtraError("this server has no reranker: set GROUNDWIRE_RETRIEVE_RERANKER", extra="reranker")
        defaults = collection.settings.retrieval
        mode, top_k = request.mode or defaults.mode, request.top_k or defaults.top_k
        # Classified also where the request applies another type: the log and the report say what the query is.
        kind = classify(request.query)
        applied = kind if not request.query_types or kind in request.query_types else request.query_types[0]
        rules = rules_for(collection.profile, mode, where, applied, request.query)
        reranks = self.reranker is not None and request.rerank is not False
        # Among how many of the best something else than their relevance chooses.
        reach = max(
            self.settings.rerank_depth if reranks else 0,
            _LOOKED_AT_FOR_DIVERSITY if request.diversity > 0.0 else 0,
            _LOOKED_AT_AS_MEMORIES if request.ranking is Ranking.MEMORY else 0,
            _LOOKED_AT_AS_TURNS if rules.turns > 0.0 else 0,
        )
        # Vectors or words alone need bring little more than the results, unless these come from further down.
        at_least = self.settings.pool_size if mode is SearchMode.HYBRID else max(_LOOKED_AT_AT_LEAST, reach)
        return SearchPlan(
            collection=collection,
            where=where,
            mode=mode,
            top_k=top_k,
            # Twice the results, because some are withheld, repeat others or are not visible any more.
            depth=max(at_least, 2 * top_k),
            window=max(_LOOKED_AT_AT_LEAST, _LOOKED_AT_PER_RESULT * top_k, reach),
            min_relevance=defaults.min_relevance if request.min_relevance is None else request.min_relevance,
            rules=rules,
            query_type=kind,
            applied_type=applied,
            approved_prefixes=self._approved_prefixes(collection),
            diversity=request.diversity,
            max_per_document=request.max_per_document,
            ranking=request.ranking,
            asked=request.asked or self.clock.now(),
            reranks=reranks,
        )

    def _approved_prefixes(self, collection: Collection) -> tuple[tuple[str, ...], ...]:
        """Return the prefixes of the server and of the collection; a source has to have one of each that has any."""
        prefixes = (each.approved_source_prefixes for each in (self.settings, collection.settings))
        return tuple(each for each in prefixes if each)

    def _retrieve(
        self, request: SearchRequest, plan: SearchPlan, pool: CandidateSearch, budget: Budget, progress: Progress
    ) -> PreparedVector | None:
        """Look up the words beside embedding the query and looking for what is near it; return its vector.

        A search by words uses the vector only to bring its scores onto the scale of similarities. So it goes without,
        None, when the model does not answer or refuses this server.
        """
        expected, model = plan.collection.identity, self.query_vectors.embedder.identity
        progress.enter(SearchState.EMBEDDING)
        if request.vector is not None and len(request.vector) != expected.dimensions:
            message = f"must have {expected.dimensions} numbers"
            raise DimensionMismatchError.of(
                "query_vector", message, got=len(request.vector), expected=expected.dimensions
            )
        if request.vector is None and model != expected:
            raise EmbeddingMismatchError(
                f"collection {plan.collection.name!r} was embedded by {expected.label}, this server has "
                f"{model.label}; `groundwire reembed` or Reembed moves it to this model",
                expected=f"{expected.provider}/{expected.model_name}@{expected.revision} {expected.probe_digest[:12]}",
                got=f"{model.provider}/{model.model_name}@{model.revision} {model.probe_digest[:12]}",
            )
        # The words need the catalog and the vector needs the model and the engine: neither waits for the other.
        wait_for_words = None
        if pool.needs_words:
            wait_for_words = self.spare_threads.start(
                lambda: pool.look_up(request.query, request.context, plan.depth), budget
            )
        embedded = request.prepared if request.vector is None else PreparedVector(request.vector, 0.0)
        try:
            with Step("search.embed"):
                embedded = embedded or self.query_vectors.of(request.query, budget, request.context)
        except (UnavailableError, PreconditionError):
            if plan.mode is not SearchMode.LEXICAL:
                raise
        # The model may have taken all the time there was; the engine is not asked in vain.
        budget.check()
        progress.enter(SearchState.SEARCHING)
        if embedded is not None and pool.found is None:
            with Step("search.vectors"):
                pool.nearest(embedded.vector, plan.depth)
        if wait_for_words is not None:
            wait_for_words()
        budget.check()
        return embedded

    def _weighted(
        self, plan: SearchPlan, request: SearchRequest, pool: CandidateSearch, embedded: PreparedVector | None
    ) -> SearchPlan:
        """Return the plan with the query's vector and words, and how much these count against each other."""
        words, weight = pool.words, request.dense_weight
        if plan.mode is not SearchMode.HYBRID or words is None:
            weight = 1.0 if plan.mode is SearchMode.VECTOR else 0.0
        elif weight is None:
            default = self.settings.dense_weight
            default = plan.collection.settings.retrieval.dense_weight if default is None else default
            shifted = min(1.0, max(0.0, default + plan.rules.weight_shift))
            weight = dense_weight_for(shifted, words.parsed, words.frequencies, words.chunk_count)
        return replace(
            plan,
            vector=None if embedded is None else embedded.vector,
            dense_weight=weight,
            terms=words.terms if words else (),
            phrases=words.phrases if words else (),
        )

    def _rank(self, pool: CandidateSearch, plan: SearchPlan, request: SearchRequest, budget: Budget) -> _Ranked:
        """Return at least `plan.top_k` eligible candidates, best first, or all there are.

        Looking at the best candidates only is nearly always enough, and several times cheaper than looking at all.

        Raises:
            StoreUnavailableError: the engine failed.
        """
        if not plan.rules.compares_all:
            candidates = pool.best(plan.vector, plan.depth)
            scores = fuse(candidates.numbers, candidates.similarities, candidates.lexical(), plan.dense_weight)
            # Where chunks do not change one another's rank, few more than the results are looked at first.
            is_plain = (
                plan.rules.neighbours == 0.0
                and plan.rules.turns == 0.0
                and plan.diversity == 0.0
                and not plan.reranks
                and plan.ranking is Ranking.RELEVANCE
            )
            for count in sorted({plan.top_k + _SPARE, plan.window} if is_plain else {plan.window}):
                best = scores.take(slice(count))
                facts = pool.facts(best.numbers, whole=count < plan.window)
                if len(facts) < len(best):
                    break  # one is not visible, so more may not be
                ordered, chosen, memory = self._ordered(best, facts, plan, pool, request, budget)
                if len(chosen.places) >= plan.top_k or (candidates.exhausted and len(best) == len(scores)):
                    every = scores if ordered is best else ordered.before(scores.take(slice(count, None)))
                    return _Ranked(every, candidates, facts, chosen, 0, memory)
        depth = plan.depth
        while True:
            candidates, facts, stale = pool.visible(plan.vector, depth)
            scores = fuse(candidates.numbers, candidates.similarities, candidates.lexical(), plan.dense_weight)
            scores, chosen, memory = self._ordered(scores, facts, plan, pool, request, budget)
            if candidates.exhausted or len(chosen.places) >= plan.top_k:
                return _Ranked(scores, candidates, facts, chosen, stale, memory)
            # Doubled, so that a few rounds are enough also where nearly all candidates are withheld.
            depth *= 2

    def _ordered(
        self,
        scores: Scores,
        facts: Mapping[int, ChunkFacts],
        plan: SearchPlan,
        pool: CandidateSearch,
        request: SearchRequest,
        budget: Budget,
    ) -> tuple[Scores, Eligible, Mapping[int, MemoryScore]]:
        """Return the scores in the order after all adjustments, the reranker and the ranking of memories.

        With them come those that may become results, and the scores of memories.
        """
        of_scores = [facts[number] for number in scores.numbers.tolist()]
        turns: Mapping[int, TurnPlace] = {}
        if plan.rules.turns > 0.0:
            records = pool.view.records(scores.numbers.tolist())
            turns = {number: record.turn for number, record in records.items() if record.turn is not None}
        approved = plan.approved_prefixes
        fates = (
            (each.number, withheld_because(each.source_uri, each.section_title, each.chapter, approved))
            for each in of_scores
        )
        withheld = {number: fate for number, fate in fates if fate is not None}
        ordered = adjust(scores, of_scores, plan.rules, plan.window, withheld, turns)
        if plan.reranks and self.reranker is not None and not pool.lacks_rerank:
            ordered = self._reranked(self.reranker, ordered, pool, request.query, budget)
        memory: Mapping[int, MemoryScore] = {}
        if plan.ranking is Ranking.MEMORY:
            weights, numbers = plan.collection.settings.retrieval.memory, ordered.numbers.tolist()
            against = pool.view.contradictions(numbers)
            ordered, memory = rank_memories(ordered, pool.view.records(numbers), weights, plan.asked, against)
        in_order = of_scores if ordered is scores else [facts[number] for number in ordered.numbers.tolist()]
        most = plan.max_per_document
        chosen = eligible(in_order, withheld, collapse=request.collapse_duplicates, max_per_document=most)
        return ordered, chosen, memory

    def _reranked(
        self, reranker: Reranker, ordered: Scores, pool: CandidateSearch, query: str, budget: Budget
    ) -> Scores:
        """Return the scores with the best in the order of the reranker, or unchanged where that does not answer."""
        started = time.perf_counter()
        best = ordered.numbers[: self.settings.rerank_depth].tolist()
        texts = pool.chunks(best)
        passages = [texts[number].chunk.content for number in best if number in texts]
        if len(passages) == len(best):  # else something changed just now, and the order of before is as good
            try:
                with Step("search.rerank"):
                    weight, part = self.settings.rerank_weight, budget.part(_SHARE_OF_RERANKER)
                    ordered = rerank(reranker, weight, query, ordered, passages, part)
            except (UnavailableError, DeadlineError):
                # If the whole call has run out of time, the order of before does not help.
                budget.check()
                pool.lacks_rerank = True
                return ordered
        elapsed = time.perf_counter() - started
        pool.stages[StageKind.RERANK] = StageTrace(StageKind.RERANK, len(best), elapsed)
        return ordered

    def _evidence(
        self,
        pool: CandidateSearch,
        plan: SearchPlan,
        ranked: _Ranked,
        selected: Sequence[Selected],
        hits: Sequence[SearchHit],
        embedded: PreparedVector | None,
        view: SearchView,
    ) -> Evidence:
        candidates = ranked.candidates
        stages = {
            **pool.stages,
            StageKind.EMBED: StageTrace(StageKind.EMBED, 1, embedded.elapsed_s if embedded else 0.0),
            StageKind.FUSION: StageTrace(StageKind.FUSION, len(ranked.scores), 0.0),
            StageKind.VALIDATE: StageTrace(StageKind.VALIDATE, len(hits), 0.0),
        }
        returned = [hit.stored.chunk_number for hit in hits]
        # Results first: a diverse selection may take them from far below the near misses.
        others = (number for number in ranked.scores.numbers.tolist() if number not in {*returned})
        listed = [*returned, *islice(others, max(0, _EXPLAINED - len(returned)))][:_EXPLAINED]
        similarities, matches = candidates.similarities, candidates.matches
        compared = similarities is not None and len(similarities) > 0
        chosen = {int(ranked.scores.numbers[each.place]): each for each in selected}
        return Evidence(
            scores=ranked.scores,
            listed=tuple(listed),
            stages=tuple(stages[kind] for kind in StageKind if kind in stages),
            dense_ranks=_ranks(candidates.numbers[: candidates.nearest].tolist()),
            lexical_ranks=_ranks(matches.numbers.tolist()),
            lexical_raw=dict(zip(matches.numbers.tolist(), matches.scores.tolist(), strict=True)),
            similarity_min=float(similarities.min()) if compared else 0.0,  # type: ignore[union-attr]  # compared
            similarity_max=float(similarities.max()) if compared else 0.0,  # type: ignore[union-attr]  # compared
            steps={number: each.step for number, each in chosen.items()},
            penalties={number: each.penalty for number, each in chosen.items()},
            repeated=ranked.eligible.repeated,
            withheld=ranked.eligible.withheld,
            ranks={hit.stored.chunk_number: hit.rank for hit in hits},
            stored=view.chunks(listed, plan.where),
            frequencies=pool.words.frequencies if pool.words else {},
            rerank_weight=self.settings.rerank_weight if plan.reranks else 0.0,
            engine=self.engine,
            memory=ranked.memory,
        )


def resolved(request: SearchRequest, view: SearchView) -> Filter | None:
    """Return the filter of a request, and what is added to it, with the names and values that the collection knows.

    Raises:
        InvalidFilterError: it does not fit the collection's fields.
    """
    given, added = (
        where and resolve_filter(where, view.fields() if custom_fields(where) else {}, "options.filter")
        for where in (request.where, request.added)
    )
    return both(given, added)


def _selected(plan: SearchPlan, ranked: _Ranked, tested: Floats, view: SearchView) -> list[Selected]:
    """Select among the eligible candidates that are relevant enough; places are those among all candidates."""
    places = [place for place in ranked.eligible.places if tested[place] >= plan.min_relevance]
    if plan.rules.spread == 0.0 and plan.diversity == 0.0:
        return [Selected(place, step, 0.0) for step, place in enumerate(places[: plan.top_k], start=1)]
    # Only what is relevant enough takes part, so that diversity never brings in what the threshold keeps out.
    passed = ranked.scores.relevance[np.array(places, dtype=np.intp)].tolist()
    numbers = ranked.scores.numbers[np.array(places, dtype=np.intp)].tolist()
    near: dict[int, Vectors] = {}
    if plan.diversity > 0.0 and len(passed) > plan.top_k:
        stored, rows = view.vectors(numbers)
        near = dict(zip(stored.tolist(), rows, strict=True))
    chapters = [(ranked.facts[number].document_id, ranked.facts[number].chapter) for number in numbers]
    vectors = [near.get(number) for number in numbers]
    selected = select(passed, chapters, plan.top_k, plan.rules.spread, plan.diversity, vectors)
    return [Selected(places[each.place], each.step, each.penalty) for each in selected]


def _hydrated(
    ranked: _Ranked, selected: Sequence[Selected], pool: CandidateSearch, order: ResultOrder
) -> tuple[SearchHit, ...]:
    """Read the selected candidates, given best first, and number them in the order asked for."""
    scores = ranked.scores.at([each.place for each in selected])
    stored = pool.chunks([score.number for score in scores])
    pairs = [(score, stored[score.number]) for score in scores if score.number in stored]
    if order is not ResultOrder.RELEVANCE:
        # The order changes what is shown first, never what is selected.
        newest_first = order is ResultOrder.TIMESTAMP_DESC
        pairs.sort(key=lambda pair: pair[1].ingest_time, reverse=newest_first)
    return tuple(
        SearchHit(rank, score, chunk, ranked.memory.get(score.number))
        for rank, (score, chunk) in enumerate(pairs, start=1)
    )


def _ranks(numbers: Sequence[int]) -> dict[int, int]:
    return {number: rank for rank, number in enumerate(numbers, start=1)}
