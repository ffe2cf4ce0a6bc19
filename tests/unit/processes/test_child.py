"""Child processes: they are what their owner says, and end when it says so or ends itself."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groundwire.processes.channel import Channel
from groundwire.processes.child import ChildProcess
from tests.conformance.processes import descendants, freeze, is_running
from tests.spare_processes import fork_to_order, start_by_interpreter

STUB = "tests.unit.processes.stub_child"
ROOT = str(Path(__file__).parents[3])

Start = Callable[..., tuple[ChildProcess, Channel, list[str]]]


@pytest.fixture(autouse=True)
def real_starts() -> Iterator[None]:
    start_by_interpreter()
    yield
    fork_to_order()


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.syspath_prepend(ROOT)
    children: list[tuple[ChildProcess, Channel]] = []

    def started(
        *arguments: str, niceness: int = 0, most_bytes: int | None = None
    ) -> tuple[ChildProcess, Channel, list[str]]:
        child = ChildProcess(STUB, *arguments, niceness=niceness)
        channel = Channel(child.connections[0], most_bytes)
        children.append((child, channel))
        said = channel.receive(30.0)
        assert said is not None
        return child, channel, said.decode().split("|")

    yield started
    for child, channel in children:
        child.kill()
        channel.close()


def eventually(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def said(channel: Channel) -> bytes:
    message = channel.receive(30.0)
    assert message is not None
    return bytes(message)


def test_the_worker_gets_its_arguments_and_its_niceness_and_its_owner_learns_its_id(start: Start) -> None:
    child, _, (greeting, pid, niceness) = start("hello", niceness=3)
    assert greeting == "hello"
    assert child.pid == int(pid)
    assert int(niceness) == os.nice(0) + 3
    assert child.exit_code is None


@pytest.mark.parametrize(
    ("order", "exit_code"), [(b"exit 0", 0), (b"exit 3", 3), (b"signal 9", -9), (b"signal 24", -24), (b"nonsense", 1)]
)
def test_the_owner_learns_how_the_worker_ended(start: Start, order: bytes, exit_code: int) -> None:
    child, channel, _ = start()
    channel.send(order)
    with pytest.raises((EOFError, ConnectionError)):
        channel.receive(20.0)
    assert child.wait(20.0)
    assert child.exit_code == exit_code


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_kill_ends_the_worker_although_it_works_or_was_stopped(start: Start, *, is_stopped: bool) -> None:
    child, channel, _ = start()
    pid = child.pid
    if is_stopped:
        freeze(pid)
    else:
        channel.send(b"burn 60")
        assert channel.receive(0.3) is None
    assert child.kill()
    assert not is_running(pid)
    assert child.exit_code == -signal.SIGKILL
    assert child.kill(), "again is nothing new"


def test_an_interrupt_at_the_terminal_is_for_the_owner(start: Start) -> None:
    child, channel, _ = start()
    # A terminal interrupts the processes of a group, also those that are just starting and ignore nothing yet.
    assert os.getpgid(child.pid) != os.getpgid(0)
    channel.send(b"echo here")
    assert said(channel) == b"here"
    assert os.getpgid(child.pid) != os.getpgid(0)


def test_the_use_of_the_processor_is_that_of_the_worker(start: Start) -> None:
    child, channel, _ = start()
    before = child.cpu_s()
    assert before is not None
    channel.send(b"burn 0.5")
    assert said(channel) == b"burnt"
    assert (child.cpu_s() or 0.0) - before >= 0.4
    child.kill()
    assert child.cpu_s() is None


@pytest.mark.parametrize("is_stopped", [False, True])
def test_worker_and_watcher_end_with_an_owner_that_is_killed(*, is_stopped: bool) -> None:
    script = (
        f"import sys, time\nsys.path[:] = {[ROOT, *sys.path]!r}\n"
        "from groundwire.processes.channel import Channel\n"
        "from groundwire.processes.child import ChildProcess\n"
        f"child = ChildProcess({STUB!r})\n"
        "channel = Channel(child.connections[0])\n"
        "print(channel.receive(30.0).decode(), flush=True)\n"
        "time.sleep(60)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    worker = int(owner.stdout.readline().split("|")[1])
    below = descendants(owner.pid)
    assert worker in below
    assert len(below) == 2
    if is_stopped:
        freeze(worker)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    eventually(lambda: not any(is_running(pid) for pid in below))


def test_a_child_that_cannot_be_started_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - descriptors are no files of ours
    with pytest.raises(OSError, match="nowhere"):
        ChildProcess(STUB)
    assert set(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208 - the same


def test_large_messages_pass_each_other_and_waits_end_in_time(start: Start) -> None:
    _, channel, _ = start()
    content = os.urandom(9 << 20)
    channel.send(b"sleep 0.4")
    assert channel.receive(0.05) is None
    # More than what sockets hold goes out while nobody reads there, without a wait here.
    channel.send(b"echo ", content)
    channel.send(b"echo small")
    answers: list[bytes] = []
    ends_at = time.monotonic() + 30
    while len(answers) < 3 and time.monotonic() < ends_at:
        if (answer := channel.receive(0.05)) is not None:
            answers.append(bytes(answer))
    assert answers == [b"slept", content, b"small"]


def test_a_child_that_announces_too_much_is_not_listened_to(start: Start) -> None:
    _, channel, _ = start(most_bytes=1000)
    channel.send(b"echo ", b"x" * 1000)
    assert said(channel) == b"x" * 1000
    channel.send(b"announce 1001")
    with pytest.raises(EOFError, match="too long"):
        channel.receive(20.0)


def test_a_wait_ends_when_the_connection_is_closed_here(start: Start) -> None:
    _, channel, _ = start()
    channel.close()
    with pytest.raises((EOFError, OSError)):
        channel.receive(20.0)
