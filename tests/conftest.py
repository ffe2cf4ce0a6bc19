"""What holds for all tests."""

import fcntl
import gc
import os
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.conformance.processes import give_way_to_nobody
from tests.spare_processes import fork_to_order

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder of its own in it
_SPACE = 4 << 30
_SPECIFICATIONS = (
    "tests.conformance.durable_vector_store",
    "tests.conformance.embedder",
    "tests.conformance.server_vector_store",
    "tests.conformance.vector_store",
    "tests.integration.answer.session_store_contract",
)
"""Modules of tests that several files run; pytest makes only the assertions of `test_*.py` say what differed."""
_LONGEST_FIRST = ("limits", "unit/vectorstores", "unit/embedders", "e2e", "conformance", "integration")
"""Folders of tests; the others are short."""
_WITH_TORCH = frozenset(
    {
        "conformance/test_torch_embedder.py",
        "e2e/test_models.py",
        "integration/ingest/test_reembedding_models.py",
        "unit/embedders/test_bert.py",
        "unit/embedders/test_conversion.py",
        "unit/embedders/test_engines_agree.py",
        "unit/embedders/test_other_models.py",
        "unit/embedders/test_probe.py",
        "unit/retrieve/test_cross_encoder_reranker.py",
    }
)
"""Files that load torch, which takes ten seconds of a processor: one worker does it for all of them, first of all."""


# The same examples in every run, however slow the machine is: a failure is one of the change that is tested.
# GROUNDWIRE_TEST_EXAMPLES=N tries N random ones instead.
_EXAMPLES = int(os.environ.get("GROUNDWIRE_TEST_EXAMPLES", "0"))
settings.register_profile(
    "groundwire",
    max_examples=_EXAMPLES or 100,
    derandomize=not _EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture],
    print_blob=True,
)
settings.load_profile("groundwire")

_lost_workers: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C reach what the tests start, keep what is compiled, put folders into memory, and notice lost workers.

    Assertions of specifications explain themselves as those of tests do. Failures are logged in one colour: `rich`,
    which structlog uses where it is installed, takes a second for each.

    A job in the background of a shell ignores Ctrl-C, and hands that down. Each catalog is synced when it is opened,
    written and closed, and a test waits for the disk as long as it computes. pytest-xdist replaces a worker that died,
    and waits for ever for the new one where the others had been told that no tests are left.
    """
    pytest.register_assert_rewrite(*_SPECIFICATIONS)
    if getattr(config.option, "maxworkerrestart", "0") is None:
        config.option.maxworkerrestart = "0"
    signal.signal(signal.SIGINT, signal.default_int_handler)
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])
    # Where it is set, each run rewrites the assertions of all tests, and each process that a test starts compiles all
    # sources again: a fifth of the work of a run.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if _IN_MEMORY.is_dir() and shutil.disk_usage(_IN_MEMORY).free > _SPACE:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))


def pytest_sessionstart() -> None:
    give_way_to_nobody()
    fork_to_order()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from the thousands of tests and modules, which stay until the end.

    Nor does it look through what a test makes as often as by default, which takes a twelfth of the time of a worker.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that the workers of pytest-xdist end at the same time."""
    if os.environ.get("GROUNDWIRE_TEST_CATALOG", "sqlite") != "sqlite":
        about_sqlite = [item for item in items if item.get_closest_marker("sqlite")]
        config.hook.pytest_deselected(items=about_sqlite)
        items[:] = [item for item in items if item not in set(about_sqlite)]
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _rank(item.path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Let one worker run the files that load torch; a file of others stays with one worker, as its option says."""
    # May be missing where nothing runs side by side; ships no types.
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # noqa: PLC0415

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # ships no types
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "torch" if file.removeprefix("tests/") in _WITH_TORCH else file

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around the time limit as well: the wait for others does not count
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run tests that measure time while the other workers of pytest-xdist stand still."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    shared_by_workers = Path(item.config.getoption("basetemp")).parent
    with _turn(shared_by_workers / "turns.lock", is_alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Remember a worker of pytest-xdist that died: with the signal that killed it, or its exit code."""
    if not error:
        return
    code = None  # one that was interrupted lives on, and waits to be let go
    with suppress(subprocess.TimeoutExpired):
        code = node.gateway._io.popen.wait(0.0 if error == "keyboard-interrupt" else 5.0)
    cause = "" if code is None else signal.Signals(-code).name if code < 0 else f"exit code {code}"
    _lost_workers.append(f"worker {node.gateway.id} ended with {cause or error}: tests are missing")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for line in _lost_workers:
        terminalreporter.write_line(line, red=True)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a run fail whose worker died, also where it died between two tests or after the last."""
    if _lost_workers and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


@pytest.fixture
def certificates_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each time that the certificates of the system are read from now on."""
    reads: list[str] = []
    original = ssl.create_default_context

    def create(*arguments: Any, **options: Any) -> ssl.SSLContext:
        reads.append(str(options))
        return original(*arguments, **options)

    monkeypatch.setattr(ssl, "create_default_context", create)
    return reads


def _rank(path: Path) -> int:
    below = path.relative_to(Path(__file__).parent).as_posix()
    if below in _WITH_TORCH:
        return -1
    return next((rank for rank, folder in enumerate(_LONGEST_FIRST) if below.startswith(folder)), len(_LONGEST_FIRST))


@contextmanager
def _turn(path: Path, *, is_alone: bool) -> Iterator[None]:
    # Locks of lockf, not of flock: they end with the worker, even when a child that it forked lives on.
    with path.open("a+b") as lock:
        # Byte 0 is the queue: who waits to be alone holds it, so that no other test begins meanwhile.
        fcntl.lockf(lock, fcntl.LOCK_EX, 1, 0)
        fcntl.lockf(lock, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH, 1, 1)
        fcntl.lockf(lock, fcntl.LOCK_UN, 1, 0)
        yield  # closing the file ends the lock
