"""A search with a consistency token waits for the write, but not beyond its deadline."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from groundwire.catalog.consistency_tokens import ConsistencyTokens
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CallCancelledError, InvalidRequestError, UnavailableError
from groundwire.retrieve.consistency import WaitForPosition

TOKENS = ConsistencyTokens(b"k" * 32)


@dataclass(frozen=True)
class Now:
    position: int
    uid: str = "u"


class Positions:
    """A catalog that advances by one each time it is looked at, up to a limit."""

    def __init__(self, last: int) -> None:
        self.looks = 0
        self._next: Iterator[int] = iter(range(last + 1))
        self._last = last

    def position(self, tenant: str, collection: str) -> Now:
        self.looks += 1
        return Now(next(self._next, self._last))


def token(position: int, uid: str = "u") -> str:
    return TOKENS.issue(position, tenant="t", collection_uid=uid)


def waiting(positions: Positions) -> WaitForPosition:
    return WaitForPosition(cast("Any", positions), TOKENS)


@pytest.mark.parametrize("limit_s", [30.0, None])
def test_it_waits_until_the_position_is_reached(limit_s: float | None) -> None:
    positions = Positions(5)
    waiting(positions).wait(token(4), "t", "docs", Budget(limit_s))
    assert positions.looks == 5


class Countdown(Budget):
    """A budget that only pauses use up."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def remaining_s(self) -> float:
        return self.seconds

    def pause(self, seconds: float) -> None:
        self.seconds -= seconds


@pytest.mark.parametrize("seconds", [0.4, 0.413, 0.449])
def test_a_position_that_does_not_come_is_told_with_time_left_for_the_answer(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    budget, positions = Countdown(seconds), Positions(3)
    monkeypatch.setattr(time, "sleep", budget.pause)
    with pytest.raises(UnavailableError) as late:
        waiting(positions).wait(token(4), "t", "docs", budget)
    assert budget.seconds == pytest.approx(0.05)
    assert 8 < positions.looks < 20
    assert late.value.metadata == {"position": "3", "wanted": "4"}


def test_waiting_ends_with_the_call() -> None:
    budget = Budget()
    budget.cancel()
    with pytest.raises(CallCancelledError):
        waiting(Positions(3)).wait(token(4), "t", "docs", budget)


def test_tokens_of_another_collection_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match=r"options\.consistency_token"):
        waiting(Positions(9)).wait(token(4, uid="other"), "t", "docs", Budget())
