"""The states of a session and how it gets from one to the next, and who speaks in it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final


class SessionState(StrEnum):
    """States of a session; PRUNING is passed through and never the current one."""

    CREATED = "CREATED"
    ACTIVE = "ACTIVE"
    PRUNING = "PRUNING"
    EXPIRED = "EXPIRED"
    ENDED = "ENDED"


CLOSED_STATES: Final = frozenset({SessionState.EXPIRED, SessionState.ENDED})
"""States in which a session takes no more questions."""
WINDOW_MESSAGES: Final = 10
"""Most messages of a window (requirement S4-30)."""
MAX_TRANSITIONS: Final = 50
"""Most state changes that are remembered; older ones are forgotten."""


class Role(StrEnum):
    """Who says a message."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of state; `before` is None for the first."""

    before: SessionState | None
    after: SessionState
    time: datetime
