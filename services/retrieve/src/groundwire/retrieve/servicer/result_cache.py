"""Responses that were given before and would be given again: as long as nothing in their collection has changed."""

import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.catalog.database import Database
from groundwire.catalog.search_view import SearchViews
from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.retrieve.consistency import WaitForPosition
from groundwire.retrieve.search_types import SearchResult, SearchState, SearchTimes
from groundwire.retrieve.wire.responses import set_times

_OVERHEAD_BYTES = 2000
"""What an entry weighs beside its messages and the texts of its hits, which may share them with nobody."""


@dataclass(frozen=True, slots=True)
class CachedResult:
    """A response without times, and the result it says; valid at `position`.

    `changed_position` is the position at which the collection had last changed.
    """

    response: pb.RetrieveResponse
    result: SearchResult
    position: int
    changed_position: int


class ResultCache:
    """Keeps responses of one process by tenant and whole request, up to a number of bytes.

    Args:
        max_bytes: of requests, responses and results; 0 switches the cache off.
        catalog: tells its position without being read.
        views: to see whether a collection has changed.
        tokens: issues the token of a position.
    """

    def __init__(self, max_bytes: int, catalog: Database, views: SearchViews, tokens: WaitForPosition) -> None:
        self._catalog = catalog
        self._views = views
        self._tokens = tokens
        self._held: BoundedCache[tuple[str, bytes], CachedResult] = BoundedCache(max_bytes)

    def current(self, tenant: str, request: pb.RetrieveRequest) -> CachedResult | None:
        """Return what is certainly valid; never waits."""
        held = self._held.get(_key(tenant, request))
        return held if held is not None and held.position == self._catalog.latest_position else None

    def renewed(self, tenant: str, request: pb.RetrieveRequest) -> CachedResult | None:
        """Return what is valid after a look at the collection.

        Raises:
            CollectionNotFoundError: the tenant has no such collection any more.
        """
        key = _key(tenant, request)
        held = self._held.get(key)
        if held is None:
            return None
        view = self._views.open(tenant, request.collection)
        is_same = view.collection.uid == held.result.plan.collection.uid
        if not is_same or view.changed_position != held.changed_position:
            return None
        position, uid = view.position, view.collection.uid
        response = pb.RetrieveResponse()
        response.CopyFrom(held.response)
        response.snapshot = position
        response.consistency_token = self._tokens.token_of(position, tenant, uid)
        renewed = replace(held, response=response, position=position)
        self._keep(key, renewed)
        return renewed

    def keep(
        self, tenant: str, request: pb.RetrieveRequest, response: pb.RetrieveResponse, result: SearchResult
    ) -> None:
        """Keep a response, unless another time would give another one."""
        if not _is_repeatable(request) or response.degraded_stages:
            return
        kept = pb.RetrieveResponse()
        kept.CopyFrom(response)
        kept.log_id = ""
        self._keep(_key(tenant, request), CachedResult(kept, result, result.position, result.changed_position))

    def _keep(self, key: tuple[str, bytes], held: CachedResult) -> None:
        # The hits count too: a response may have little more than their ids.
        of_hits = sum(hit.stored.held_bytes for hit in held.result.hits)
        self._held.put(key, held, held.response.ByteSize() + of_hits + len(key[1]) + _OVERHEAD_BYTES)


def answer_from(
    cached: CachedResult, request: pb.RetrieveRequest, received: datetime, started: float
) -> tuple[pb.RetrieveResponse, SearchResult]:
    """Return response and result with the times of this call; `started` is a reading of `time.perf_counter`.

    Such a call goes through two states only: nothing is embedded, searched or ranked.
    """
    total_s = time.perf_counter() - started
    completed = received + timedelta(seconds=total_s)
    times = SearchTimes(0.0, 0.0, total_s, ((SearchState.RECEIVED, received), (SearchState.COMPLETED, completed)))
    response = pb.RetrieveResponse()
    response.CopyFrom(cached.response)
    set_times(response, request, times)
    if response.HasField("report"):
        response.report.from_cache = True
    return response, replace(cached.result, times=times)


def _key(tenant: str, request: pb.RetrieveRequest) -> tuple[str, bytes]:
    if not request.HasField("query_time"):
        return tenant, request.SerializeToString(deterministic=True)
    timeless = pb.RetrieveRequest()
    timeless.CopyFrom(request)
    timeless.ClearField("query_time")
    return tenant, timeless.SerializeToString(deterministic=True)


def _is_repeatable(request: pb.RetrieveRequest) -> bool:
    """Tell whether only changes of the collection can change the response.

    Derived filters mean days of the calendar, snapshots expire, explanations tell times, and tokens are waited for.
    """
    options = request.options
    return not (options.self_query or options.HasField("snapshot") or options.explain or options.consistency_token)
