"""What the standard health service says about this process."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from grpc_health.v1 import health_pb2, health_pb2_grpc

from groundwire.kernel.errors import NotFoundError

LIVENESS = "liveness"
"""Service name to ask whether the process itself works; SERVING from start to end, also while draining."""
ACCEPTING = "accepting"
"""Service name that clients watch to know which replicas to call; SERVING until the process drains.

Unlike readiness it does not follow dependencies: a client of the only server wants the true error of a call.
"""

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class HealthBoard:
    """Readiness of each service, of all together (the empty name), and the two names above.

    A service is ready when it can serve now: its stores answer, its model is loaded, it is not draining.
    """

    def __init__(self, services: Iterable[str]) -> None:
        self._ready = dict.fromkeys(services, False)
        self._draining = False
        self.next_change = asyncio.Event()
        """Set at the next change; get it before you read the statuses."""
        self.servicer = _HealthServicer(self)

    @property
    def is_ready(self) -> bool:
        return not self._draining and all(self._ready.values())

    @property
    def statuses(self) -> dict[str, int]:
        serving = {name: ready and not self._draining for name, ready in self._ready.items()}
        serving |= {"": self.is_ready, LIVENESS: True, ACCEPTING: not self._draining}
        return {name: _SERVING if flag else _NOT_SERVING for name, flag in serving.items()}

    async def set_ready(self, service: str, ready: bool) -> None:
        """Say whether a service can serve now.

        Raises:
            KeyError: this server has no such service.
        """
        if service not in self._ready:
            raise KeyError(service)
        # Every announcement wakes all watchers.
        if self._ready[service] == ready:
            return
        self._ready[service] = ready
        self._announce()

    async def open(self) -> None:
        """Declare all services ready."""
        self._ready = dict.fromkeys(self._ready, True)
        self._announce()

    async def drain(self) -> None:
        """Declare all services not ready, for good."""
        self._draining = True
        self._announce()

    def _announce(self) -> None:
        # Wakes everyone who waits now; later waiters wait for the next change.
        announced, self.next_change = self.next_change, asyncio.Event()
        announced.set()


class _HealthServicer(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # has no types
    """Replaces the library's servicer, in which a watcher that does not read holds up every status change."""

    def __init__(self, board: HealthBoard) -> None:
        self._board = board

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the contract's
        status = self._board.statuses.get(request.service)
        if status is None:
            raise NotFoundError(request.service)
        return health_pb2.HealthCheckResponse(status=status)

    async def List(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the same
        statuses = self._board.statuses.items()
        return health_pb2.HealthListResponse(
            statuses={name: health_pb2.HealthCheckResponse(status=status) for name, status in statuses}
        )

    async def Watch(self, request: Any, context: Any) -> AsyncGenerator[Any, None]:  # noqa: ARG002, N802 - the same
        last = None
        while True:
            change = self._board.next_change
            status = self._board.statuses.get(request.service, _UNKNOWN)
            if status != last:
                yield health_pb2.HealthCheckResponse(status=status)
                last = status
            await change.wait()
