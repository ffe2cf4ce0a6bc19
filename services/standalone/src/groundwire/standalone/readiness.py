"""Readiness: follows the catalog, the vector engine and the model, which services depend on."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from groundwire.kernel.errors import GroundwireError
from groundwire.rpc.health import HealthBoard

_CHECK_EVERY_S = 0.5
_LOOK_EVERY_S = 0.25
_OVERDUE_S = 3.0
"""A check that takes longer than this has failed: it may hang with what it checks."""
_STOP_S = 1.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Dependency:
    """Something that services need.

    `check` raises a GroundwireError when it does not work; it takes no resource that calls wait for. `services` are the
    full names of those that cannot serve without it.
    """

    name: str
    check: Callable[[], None]
    services: frozenset[str]


class _Watched:
    """Checks one dependency repeatedly in its own thread, so that one that hangs does not delay the others."""

    def __init__(self, dependency: Dependency) -> None:
        self.dependency = dependency
        self.failed_at: float | None = None
        self._began_at: float | None = None
        self._failure = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._check_forever, name=f"check-{dependency.name}", daemon=True)
        self._thread.start()

    def failure(self) -> str:
        """Return why the dependency does not work, empty if it does."""
        began_at = self._began_at
        if began_at is not None and time.monotonic() - began_at > _OVERDUE_S:
            return "it does not answer"
        return self._failure

    def stop(self) -> None:
        """End the thread, unless it hangs."""
        self._stopping.set()
        self._thread.join(_STOP_S)

    def _check_forever(self) -> None:
        while not self._stopping.is_set():
            self._began_at = time.monotonic()
            try:
                self.dependency.check()
                self._failure = ""
            except GroundwireError as error:
                self._failure = error.message
            except Exception as error:  # noqa: BLE001 - the thread must outlive any failure of a check
                self._failure = f"{type(error).__name__}: {error}"
            self._began_at = None
            self._stopping.wait(_CHECK_EVERY_S)


class ReadinessMonitor:
    """Sets the readiness of services, and logs which dependencies are lost and when they are back.

    A service is taken out at most 5 s after what it needs stops working, and is back within 5 s of its recovery:
    3 to 4 s pass until a silent dependency counts as lost, less than 1 s until that is seen here.
    """

    def __init__(self, dependencies: Sequence[Dependency], board: HealthBoard) -> None:
        self._board = board
        self._services = frozenset[str]().union(*(dependency.services for dependency in dependencies))
        self._watched = [_Watched(dependency) for dependency in dependencies]
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start updating the readiness on the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._tell(), name="readiness")

    async def stop(self) -> None:
        """End the checks; the readiness stays as it is."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await asyncio.gather(*(asyncio.to_thread(watched.stop) for watched in self._watched))

    async def _tell(self) -> None:
        while True:
            lost: set[str] = set()
            for watched in self._watched:
                failure, dependency, now = watched.failure(), watched.dependency, time.monotonic()
                if failure:
                    lost |= dependency.services
                # Said once when it is lost, and once when it is back.
                if failure and watched.failed_at is None:
                    watched.failed_at = now
                    services = sorted(service.rpartition(".")[2] for service in dependency.services)
                    _log.error("a dependency is lost", dependency=dependency.name, error=failure, not_serving=services)
                elif not failure and watched.failed_at is not None:
                    lost_s, watched.failed_at = now - watched.failed_at, None
                    _log.info("a dependency is back", dependency=dependency.name, lost_s=round(lost_s, 1))
            # All of them each time: the board ignores what stays the same, and a service may need several dependencies.
            for service in self._services:
                await self._board.set_ready(service, service not in lost)
            await asyncio.sleep(_LOOK_EVERY_S)
