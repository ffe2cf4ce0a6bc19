"""Cache of responses, valid until their collection changes."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.catalog.consistency_tokens import ConsistencyTokens
from groundwire.catalog.database import Database
from groundwire.catalog.search_view import SearchViews
from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.retrieve.query_log import ServedSearch
from groundwire.retrieve.search_types import SearchResult, SearchState, SearchTimes
from groundwire.retrieve.wire.responses import ready_response
from groundwire.rpc import request_context
from groundwire.rpc.calls import ReadyResponse

# The caller of a request: two credentials of one tenant may see different scopes.
CacheKey: TypeAlias = tuple[str, tuple[str, ...] | None, bytes]
# Size of an entry without its messages.
_OVERHEAD_BYTES = 2000


@dataclass(frozen=True, slots=True)
class RememberedResponse:
    """A serialized response without what each call has of its own, and what is recorded of its search.

    It is valid at `position`, of which `token` is the consistency token; `changed_position` is the position at which
    the collection had last changed.
    """

    raw: bytes
    token: str
    search: ServedSearch
    position: int
    changed_position: int

    def again(
        self, request: pb.RetrieveRequest, received: datetime, total_s: float, log_id: str | None
    ) -> ReadyResponse:
        """Return the response with position, times and log id of this call.

        Such a call goes through two states only: nothing is embedded, searched or ranked.
        """
        states = ((SearchState.RECEIVED, received), (SearchState.COMPLETED, received + timedelta(seconds=total_s)))
        times = SearchTimes(0.0, 0.0, total_s, states)
        return ready_response(self.raw, request, self.position, self.token, log_id, times, from_cache=True)


class ResultCache:
    """Remembers responses of one process by tenant, allowed scopes and whole request, up to a number of bytes.

    `max_bytes` 0 switches it off. `database` tells its position without being read; `views` tell whether a collection
    has changed.
    """

    def __init__(self, max_bytes: int, database: Database, views: SearchViews, tokens: ConsistencyTokens) -> None:
        self._database = database
        self._views = views
        self._tokens = tokens
        self.lookups = 0
        self.hits = 0
        self._held: BoundedCache[CacheKey, RememberedResponse] = BoundedCache(max_bytes)

    def current(self, key: CacheKey) -> RememberedResponse | None:
        """Return the cached response if it is certainly valid; never waits."""
        self.lookups += 1  # on the event loop, as every search begins here
        held = self._held.get(key)
        if held is None or held.position != self._database.latest_position:
            return None
        self.hits += 1
        return held

    def renewed(self, key: CacheKey, collection: str) -> RememberedResponse | None:
        """Return what is valid after a look at the collection.

        Raises:
            CollectionNotFoundError: the tenant has no such collection any more.
        """
        held = self._held.get(key)
        if held is None:
            return None
        tenant = key[0]
        view = self._views.open(tenant, collection)
        # A collection that was deleted and created again has the same name but another uid.
        uid = view.collection.uid
        if uid != held.search.collection.uid or view.changed_position != held.changed_position:
            return None
        token = self._tokens.issue(view.position, tenant=tenant, collection_uid=uid)
        renewed = replace(held, token=token, position=view.position)
        self._held.put(key, renewed, len(held.raw) + len(key[2]) + _OVERHEAD_BYTES)
        return renewed

    def put(
        self,
        key: CacheKey,
        request: pb.RetrieveRequest,
        raw: bytes,
        result: SearchResult,
        search: ServedSearch,
    ) -> None:
        """Cache a serialized response without the part of the call, unless the result depends on the time."""
        options = request.options
        # Derived filters mean days of the calendar, memories grow old, snapshots expire, explanations tell times, and
        # tokens are waited for.
        depends_on_time = options.self_query or options.ranking == search_mode_pb2.RANKING_MEMORY or options.explain
        depends_on_position = options.HasField("snapshot") or options.consistency_token
        is_degraded = result.self_query_failed or result.lacks_dense or result.lacks_rerank
        if depends_on_time or depends_on_position or is_degraded:
            return
        held = RememberedResponse(raw, result.consistency_token, search, result.position, result.changed_position)
        self._held.put(key, held, len(raw) + len(key[2]) + _OVERHEAD_BYTES)


def cache_key(request: pb.RetrieveRequest) -> CacheKey:
    """Return what the response to a request of this call is remembered by; it takes a serialization of all of it."""
    identity = request_context.current().identity
    if not request.HasField("query_time"):
        return identity.tenant, identity.scopes, request.SerializeToString(deterministic=True)
    # The time of the query changes only the report, which is not cached.
    timeless = pb.RetrieveRequest()
    timeless.CopyFrom(request)
    timeless.ClearField("query_time")
    return identity.tenant, identity.scopes, timeless.SerializeToString(deterministic=True)
