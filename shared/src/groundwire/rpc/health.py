"""What the standard health service says about this process."""

from collections.abc import Iterable

from grpc_health.v1 import health, health_pb2

LIVENESS = "liveness"
"""Service name to ask whether the process itself works; SERVING from start to end, also while draining."""
ACCEPTING = "accepting"
"""Service name that clients watch to know which replicas to call; SERVING until the process drains.

Unlike readiness it does not follow dependencies: a client of the only server wants the true error of a call.
"""


class HealthBoard:
    """Readiness of each service, of all together (the empty name), and the two names above.

    A service is ready when it can serve now: its stores answer, its model is loaded, it is not draining.
    """

    def __init__(self, services: Iterable[str]) -> None:
        self._ready = dict.fromkeys(services, False)
        self._draining = False
        self.servicer = health.aio.HealthServicer()

    @property
    def is_ready(self) -> bool:
        """Return whether every service is ready."""
        return not self._draining and all(self._ready.values())

    async def set_ready(self, service: str, ready: bool) -> None:
        """Say whether a service can serve now.

        Raises:
            KeyError: this server has no such service.
        """
        if service not in self._ready:
            raise KeyError(service)
        self._ready[service] = ready
        await self._show()

    async def open(self) -> None:
        """Declare all services ready."""
        self._ready = dict.fromkeys(self._ready, True)
        await self._show()

    async def drain(self) -> None:
        """Declare all services not ready, for good."""
        self._draining = True
        await self._show()

    async def _show(self) -> None:
        readiness = {name: ready and not self._draining for name, ready in self._ready.items()}
        processwide = {"": self.is_ready, LIVENESS: True, ACCEPTING: not self._draining}
        for name, serving in (readiness | processwide).items():
            status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
            await self.servicer.set(name, status)
