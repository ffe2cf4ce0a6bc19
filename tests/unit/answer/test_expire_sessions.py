"""Old sessions are removed on a timer, also after a failure."""

import threading

import pytest

from groundwire.answer.sessions import SessionSweeper
from groundwire.kernel.errors import StoreUnavailableError


def test_it_goes_on_after_failures_and_tells_of_them_once(capsys: pytest.CaptureFixture[str]) -> None:
    calls = iter(range(100))
    is_enough = threading.Event()

    def expire() -> int:
        number = next(calls)
        if number in {1, 2, 3}:
            raise StoreUnavailableError("the catalog did not answer")
        if number == 5:
            is_enough.set()
        return 0

    sweeper = SessionSweeper(expire, every_s=0.01)
    sweeper.start()
    assert is_enough.wait(10)
    sweeper.close()
    assert next(calls) < 90
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("could not be removed") == 1


def test_closing_what_was_never_started_is_harmless() -> None:
    SessionSweeper(lambda: 0).close()
