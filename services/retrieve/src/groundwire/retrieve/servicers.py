"""The RetrieveService: each call is checked, run in one worker thread, and answered."""
# ruff: noqa: ARG002, N802 - names and signatures of the methods are the contract's

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeGuard

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2_grpc as pb_grpc
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.errors import (
    CallCancelledError,
    DeadlineError,
    GroundwireError,
    InvalidRequestError,
    ResponseTooLargeError,
)
from groundwire.kernel.vectors import unit_vector
from groundwire.retrieve.context import retrieve_context
from groundwire.retrieve.expansion import ExpandChunks, Passage
from groundwire.retrieve.query_log import (
    ReceivedCall,
    RecordSearch,
    ServedSearch,
    memories_among,
)
from groundwire.retrieve.search import Search
from groundwire.retrieve.search_types import PreparedVector, SearchRequest
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.retrieve.wire.requests import (
    check_embedded_texts,
    filter_names_entity,
    names_entity,
    parse_context_request,
    parse_expand_request,
    parse_question_time,
    parse_retrieve_request,
    query_time_violations,
    searched_scopes,
    to_expansion,
)
from groundwire.retrieve.wire.responses import (
    ready_response,
    to_context_response,
    to_parse_response,
    to_passage_message,
    to_retrieve_response,
)
from groundwire.retrieve.wire.result_cache import CacheKey, RememberedResponse, ResultCache, cache_key
from groundwire.rpc import request_context
from groundwire.rpc.calls import ReadyResponse, as_groundwire_error
from groundwire.rpc.error_status import to_status
from groundwire.rpc.messages import to_identity_message
from groundwire.rpc.pagination import MAX_PAGE_BYTES, as_many_as_fit
from groundwire.rpc.workers import Workers, in_worker

MAX_REQUESTS = 100
"""Searches of one batch."""
_EXPANDED_RESULTS = 5
_FLOAT_BYTES = 4
# What frames a vector in a response.
_VECTOR_BYTES = 16


@dataclass(frozen=True)
class RetrieveServicer(pb_grpc.RetrieveServiceServicer):
    """Searches. The event loop only hands messages over, and answers what is remembered.

    Tenant, budget and peer are those of the current call. `started` is the reading of `time.perf_counter` at the
    receipt of a call.
    """

    search: Search
    record: RecordSearch
    embedder: Embedder
    settings: RetrieveSettings
    results: ResultCache
    expand_chunks: ExpandChunks
    workers: Workers
    lookups: Workers

    async def Retrieve(self, request: pb.RetrieveRequest, context: Any) -> Any:
        started = time.perf_counter()
        # On the event loop: a hop to a worker would cost more than the look into memory that it is.
        repeated = self.repeat(request, started)
        if repeated is not None:
            return repeated
        return await self.workers.run(request_context.current().budget, self.retrieve, request, started)

    async def BatchRetrieve(self, request: pb.BatchRetrieveRequest, context: Any) -> pb.BatchRetrieveResponse:
        budget, started = request_context.current().budget, time.perf_counter()
        return await self.workers.run(budget, self.batch_retrieve, request, started)

    def repeat(self, request: pb.RetrieveRequest, started: float) -> ReadyResponse | None:
        """Return the cached response to an earlier search, if it is certainly still valid; never waits."""
        cached = self.results.current(cache_key(request))
        if cached is None or query_time_violations(request, self.search.clock.now()):
            return None
        return self._answer(cached, request, started)

    def retrieve(self, request: pb.RetrieveRequest, started: float) -> ReadyResponse:
        call, key = self._received(request, started), cache_key(request)
        # Something has changed since, perhaps in another collection: then the response is still good.
        with suppress(GroundwireError):  # the search itself reports what is wrong
            cached = self.results.renewed(key, request.collection)
            # The time is not part of the cache key, so it is the only thing that may be wrong here.
            if cached is not None and not query_time_violations(request, self.search.clock.now()):
                return self._answer(cached, request, started)
        return self._serve(call, request, key)

    def _answer(self, cached: RememberedResponse, request: pb.RetrieveRequest, started: float) -> ReadyResponse:
        call, total_s = self._received(request, started), time.perf_counter() - started
        log_id = self.record.served(call, cached.search, cached.search.sample.again(total_s))
        return cached.again(request, call.received, total_s, log_id)

    def batch_retrieve(self, request: pb.BatchRetrieveRequest, started: float) -> pb.BatchRetrieveResponse:
        """Run several searches; each succeeds or fails for itself.

        Raises:
            InvalidRequestError: not 1 to 100 searches.
            DeadlineError: the time of the whole call is used up.
            CallCancelledError: the caller left.
        """
        if not 1 <= len(request.requests) <= MAX_REQUESTS:
            raise InvalidRequestError.of("requests", f"must be 1 to {MAX_REQUESTS} searches")
        pairs = [(self._received(item, started), item) for item in request.requests]
        interpreted: list[SearchRequest | GroundwireError] = []
        for call, item in pairs:
            try:
                interpreted.append(self._interpret(call, item))
            except (CallCancelledError, DeadlineError):
                raise
            except GroundwireError as error:
                interpreted.append(error)
        # All queries go through the model in one batch; everything after that belongs to each search alone.
        outcomes = []
        for (call, item), search in zip(pairs, self._embedded(interpreted), strict=True):
            # All share one deadline: a search that would begin after it only delays the error.
            request_context.current().budget.check()
            own = replace(call, started=time.perf_counter())
            if isinstance(search, GroundwireError):
                self._record_failure(own, item, search.reason)
                outcomes.append(pb.BatchRetrieveOutcome(error=to_status(search)))
                continue
            if search.prepared is not None:
                # The time of a search includes its share of embedding them all.
                own = replace(own, started=own.started - search.prepared.elapsed_s)
            try:
                # All responses leave in one message, of which each gets an equal part.
                ready = self._serve(own, item, cache_key(item), search, max_bytes=MAX_PAGE_BYTES // len(pairs))
                outcomes.append(pb.BatchRetrieveOutcome(response=ready.message()))
            except (CallCancelledError, DeadlineError):
                raise
            except Exception as error:  # noqa: BLE001 - as_groundwire_error logs what is not ours
                status = to_status(as_groundwire_error(error, "BatchRetrieve"))
                outcomes.append(pb.BatchRetrieveOutcome(error=status))
        return pb.BatchRetrieveResponse(outcomes=outcomes)

    def _embedded(
        self, searches: Sequence[SearchRequest | GroundwireError]
    ) -> Sequence[SearchRequest | GroundwireError]:
        """Embed all queries together; when that fails, each search embeds and fails for itself."""
        queries = {each.query: None for each in searches if _is_embedded_here(each)}
        vectors: dict[str, PreparedVector] = {}
        started = time.perf_counter()
        with suppress(GroundwireError):
            rows = self.embedder.embed_queries(list(queries), request_context.current().budget) if queries else ()
            share_s = (time.perf_counter() - started) / max(1, len(queries))
            vectors = {query: PreparedVector(row, share_s) for query, row in zip(queries, rows, strict=True)}
        return [
            replace(each, prepared=vectors.get(each.query)) if _is_embedded_here(each) else each for each in searches
        ]

    def _serve(
        self,
        call: ReceivedCall,
        request: pb.RetrieveRequest,
        key: CacheKey,
        search: SearchRequest | None = None,
        *,
        max_bytes: int = MAX_PAGE_BYTES,
    ) -> ReadyResponse:
        """Search and record the outcome; `search` is the interpreted request, if it has been interpreted already."""
        try:
            search = search or self._interpret(call, request)
            call = replace(call, names_entity=names_entity(search.scopes or ()))
            budget = request_context.current().budget
            result = self.search.search(search, budget, received=call.received, started=call.started)
            passages: list[Passage] = []
            if request.HasField("expansion"):
                caller, wanted = request_context.current().identity, request.expansion
                count = wanted.result_count if wanted.HasField("result_count") else _EXPANDED_RESULTS
                numbers = [hit.stored.chunk_number for hit in result.hits[:count]]
                passages = self.expand_chunks.expand_found(
                    caller, request.collection, numbers, to_expansion(wanted), budget
                )
            raw = to_retrieve_response(request, result, search.order, passages).SerializeToString()
        except Exception as error:
            # Also of a defect: the log and the figures have every search.
            self._record_failure(call, request, error.reason if isinstance(error, GroundwireError) else "INTERNAL")
            raise
        served = ServedSearch.of(result, names_entity=call.names_entity)
        log_id = self.record.served(call, served, served.sample)
        self.results.put(key, request, raw, result, served)
        return ready_response(
            raw, request, result.position, result.consistency_token, log_id, result.times, max_bytes=max_bytes
        )

    def _record_failure(self, call: ReceivedCall, request: pb.RetrieveRequest, reason: str) -> None:
        is_about_entity = call.names_entity or filter_names_entity(request)
        self.record.failed(replace(call, names_entity=is_about_entity), reason)

    def _interpret(self, call: ReceivedCall, request: pb.RetrieveRequest) -> SearchRequest:
        current = request_context.current()
        search = parse_retrieve_request(request, current.identity, self.settings, self.search.clock.now())
        return self.search.interpret(search, call.received, current.budget) if search.self_query else search

    def _received(self, request: pb.RetrieveRequest, started: float) -> ReceivedCall:
        current = request_context.current()
        return ReceivedCall(
            tenant=current.tenant,
            collection=request.collection,
            query=request.query,
            user_agent=current.user_agent,
            received=self.search.clock.now() - timedelta(seconds=time.perf_counter() - started),
            started=started,
            # The filter may name an entity as well: it is read when the search is interpreted, or when it has failed.
            names_entity=bool(request.options.entity) or names_entity(request.options.scopes),
        )

    async def EmbedTexts(self, request: pb.EmbedTextsRequest, context: Any) -> pb.EmbedTextsResponse:
        # Answers compare texts after they have searched: they should not have to queue behind more searches.
        return await self.lookups.run(request_context.current().budget, self.embed_texts, request)

    def embed_texts(self, request: pb.EmbedTextsRequest) -> pb.EmbedTextsResponse:
        """Return the vectors of queries and texts, of as many as fit into a response.

        Raises:
            InvalidRequestError: there are not 1 to 1,000 of them, or one is blank.
        """
        queries, texts = list(request.queries), list(request.texts)
        check_embedded_texts(queries, texts)
        # What would not fit into the response is not embedded either.
        room = max(1, MAX_PAGE_BYTES // (self.embedder.identity.dimensions * _FLOAT_BYTES + _VECTOR_BYTES))
        queries, texts = queries[:room], texts[: max(0, room - len(queries))]
        budget = request_context.current().budget
        # A query has usually just been searched for, so its vector is remembered.
        rows = [self.search.query_vectors.of(query, budget).vector for query in queries]
        # Urgent: somebody waits for the answer, and the queue of an ingest may be minutes long.
        rows += list(self.embedder.embed_documents(texts, budget, urgent=True)) if texts else ()
        return pb.EmbedTextsResponse(
            vectors=[pb.TextVector(values=unit_vector(row)) for row in rows],
            embedding=to_identity_message(self.embedder.identity),
        )

    @in_worker
    def RetrieveContext(self, request: pb.RetrieveContextRequest) -> pb.RetrieveContextResponse:
        current = request_context.current()
        parsed = parse_context_request(request, current.identity, self.settings, self.search.clock.now())
        found = retrieve_context(self.search, parsed, current.budget)
        response = to_context_response(request, found)
        # Not cut to size: which section may lose entries is for the caller to say, by `max_tokens`.
        if response.ByteSize() > MAX_PAGE_BYTES:
            raise ResponseTooLargeError.of("max_tokens", "the context is too large for a message: set max_tokens")
        entries = (entry.stored for section in found.sections.values() for entry in section.entries)
        self.record.accesses.note(current.tenant, memories_among(entries))
        return response

    @in_worker
    def Expand(self, request: pb.ExpandRequest) -> pb.ExpandResponse:
        current = request_context.current()
        references, rule = parse_expand_request(request)
        passages = self.expand_chunks.expand(current.identity, request.collection, references, rule, current.budget)
        fitting = as_many_as_fit(map(to_passage_message, passages))
        omitted = [chunk.chunk_id for passage in passages[len(fitting) :] for chunk in passage.requested]
        return pb.ExpandResponse(passages=fitting, omitted_chunk_ids=omitted)

    @in_worker
    def ParseQuery(self, request: pb.ParseQueryRequest) -> pb.ParseQueryResponse:
        current = request_context.current()
        asked = parse_question_time(request, self.settings.max_query_chars, self.search.clock.now())
        parsed = self.search.parse_question.parse(
            current.tenant,
            request.collection,
            request.question,
            asked,
            current.budget,
            scopes=searched_scopes(current.identity, None),
        )
        return to_parse_response(parsed)


def _is_embedded_here(search: SearchRequest | GroundwireError) -> TypeGuard[SearchRequest]:
    """Tell whether a search needs a vector of this server's model."""
    return isinstance(search, SearchRequest) and search.vector is None and not search.context
