"""What Retrieve and BatchRetrieve do in a worker thread: check, search, answer, record."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.clock import Clock
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.errors import CallCancelledError, DeadlineError, GroundwireError, InvalidRequestError
from groundwire.retrieve.query_log import ReceivedCall, RecordSearch, ServedSearch
from groundwire.retrieve.result_cache import RememberedResponse, ResultCache
from groundwire.retrieve.search import Search
from groundwire.retrieve.search_types import PreparedVector, SearchRequest
from groundwire.retrieve.wire.requests import RequestLimits, parse_retrieve_request, query_time_violations
from groundwire.retrieve.wire.responses import add_log_id, cut_to_size, to_retrieve_response
from groundwire.rpc import request_context
from groundwire.rpc.error_status import to_status
from groundwire.rpc.interceptors.errors import as_groundwire_error
from groundwire.rpc.pagination import MAX_PAGE_BYTES

MAX_REQUESTS = 100


@dataclass(frozen=True, slots=True)
class SearchCalls:
    """Checks, runs, answers and records; tenant, budget and peer are those of the current call.

    `started` is the reading of `time.perf_counter` at the receipt of the call.
    """

    search: Search
    record: RecordSearch
    embedder: Embedder
    limits: RequestLimits
    clock: Clock
    results: ResultCache

    def repeat(self, request: pb.RetrieveRequest, started: float) -> pb.RetrieveResponse | None:
        """Return what a search that was made before would return again, if that is certain; never waits."""
        cached = self.results.current(request_context.current().tenant, request)
        if cached is None or query_time_violations(request, self.clock.now()):
            return None
        return self._answer(cached, request, started)

    def retrieve(self, request: pb.RetrieveRequest, started: float) -> pb.RetrieveResponse:
        """Return the most relevant chunks."""
        call = self._received(request, started)
        with suppress(GroundwireError):  # the search itself tells what is wrong
            cached = self.results.renewed(call.tenant, request)
            # The time is no part of what is remembered, so it is the one thing that may be wrong here.
            if cached is not None and not query_time_violations(request, self.clock.now()):
                return self._answer(cached, request, started)
        return cut_to_size(self._serve(call, request, lambda: self._interpret(call, request)), MAX_PAGE_BYTES)

    def _answer(self, cached: RememberedResponse, request: pb.RetrieveRequest, started: float) -> pb.RetrieveResponse:
        call = self._received(request, started)
        response, search = cached.again(request, call.received, started)
        add_log_id(response, self.record.served(call, search))
        return cut_to_size(response, MAX_PAGE_BYTES)

    def batch_retrieve(self, request: pb.BatchRetrieveRequest, started: float) -> pb.BatchRetrieveResponse:
        """Run several searches; each succeeds or fails for itself.

        Raises:
            InvalidRequestError: not 1 to 100 searches.
            DeadlineError: the time of the whole call is used up.
            CallCancelledError: the caller left.
        """
        if not 1 <= len(request.requests) <= MAX_REQUESTS:
            raise InvalidRequestError.of("requests", f"must be 1 to {MAX_REQUESTS} searches")
        calls = [self._received(item, started) for item in request.requests]
        pairs = list(zip(calls, request.requests, strict=True))
        searches = self._embedded([self._interpreted(call, item) for call, item in pairs])
        outcomes = []
        for (call, item), search in zip(pairs, searches, strict=True):
            outcome = self._outcome(call, item, search)
            if outcome.HasField("response"):
                cut_to_size(outcome.response, MAX_PAGE_BYTES // len(pairs))
            outcomes.append(outcome)
        return pb.BatchRetrieveResponse(outcomes=outcomes)

    def _outcome(
        self, call: ReceivedCall, item: pb.RetrieveRequest, search: SearchRequest | GroundwireError
    ) -> pb.BatchRetrieveOutcome:
        request_context.current().budget.check()
        embedding_s = search.prepared.elapsed_s if isinstance(search, SearchRequest) and search.prepared else 0.0
        own = replace(call, started=time.perf_counter() - embedding_s)
        try:
            return pb.BatchRetrieveOutcome(response=self._serve(own, item, lambda: _accepted(search)))
        except (CallCancelledError, DeadlineError):
            raise
        except Exception as error:  # noqa: BLE001 - as_groundwire_error logs what is not ours
            return pb.BatchRetrieveOutcome(error=to_status(as_groundwire_error(error, "BatchRetrieve")))

    def _embedded(
        self, searches: Sequence[SearchRequest | GroundwireError]
    ) -> Sequence[SearchRequest | GroundwireError]:
        """Embed all queries together; when that fails, each search embeds and fails for itself."""
        queries = {each.query: None for each in searches if isinstance(each, SearchRequest) and each.vector is None}
        vectors: dict[str, PreparedVector] = {}
        started = time.perf_counter()
        with suppress(GroundwireError):
            rows = self.embedder.embed_queries(list(queries), request_context.current().budget) if queries else ()
            share_s = (time.perf_counter() - started) / max(1, len(queries))
            vectors = {query: PreparedVector(row, share_s) for query, row in zip(queries, rows, strict=True)}
        return [
            replace(each, prepared=vectors.get(each.query))
            if isinstance(each, SearchRequest) and each.vector is None
            else each
            for each in searches
        ]

    def _serve(
        self, call: ReceivedCall, request: pb.RetrieveRequest, interpret: Callable[[], SearchRequest]
    ) -> pb.RetrieveResponse:
        try:
            search = interpret()
            budget = request_context.current().budget
            result = self.search.search(search, budget, received=call.received, started=call.started)
            response = to_retrieve_response(request, result, search.order)
        except Exception as error:
            self.record.failed(call, error.reason if isinstance(error, GroundwireError) else "INTERNAL")
            raise
        served = ServedSearch.of(result)
        add_log_id(response, self.record.served(call, served))
        self.results.put(call.tenant, request, response, result, served)
        return response

    def _interpret(self, call: ReceivedCall, request: pb.RetrieveRequest) -> SearchRequest:
        current = request_context.current()
        search = parse_retrieve_request(request, current.tenant, self.limits, self.clock.now())
        return self.search.interpret(search, call.received, current.budget)

    def _interpreted(self, call: ReceivedCall, request: pb.RetrieveRequest) -> SearchRequest | GroundwireError:
        try:
            return self._interpret(call, request)
        except (CallCancelledError, DeadlineError):
            raise
        except GroundwireError as error:
            return error

    def _received(self, request: pb.RetrieveRequest, started: float) -> ReceivedCall:
        current = request_context.current()
        return ReceivedCall(
            tenant=current.tenant,
            collection=request.collection,
            query=request.query,
            user_agent=current.user_agent,
            received=self.clock.now() - timedelta(seconds=time.perf_counter() - started),
            started=started,
        )


def _accepted(search: SearchRequest | GroundwireError) -> SearchRequest:
    if isinstance(search, GroundwireError):
        raise search
    return search
