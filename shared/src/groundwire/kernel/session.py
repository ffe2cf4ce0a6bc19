"""Sessions: their data, states, transitions and roles."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

from groundwire.kernel.errors import SessionExpiredError, SessionHeadMovedError
from groundwire.kernel.identity import NO_OWNER, Owner

MessageT = TypeVar("MessageT")


class SessionState(StrEnum):
    """States of a session; PRUNING is passed through and never the current one."""

    CREATED = "CREATED"
    ACTIVE = "ACTIVE"
    PRUNING = "PRUNING"
    EXPIRED = "EXPIRED"
    ENDED = "ENDED"


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


@dataclass(
    frozen=True
)  # no slots: Python 3.11 cannot call an alias such as `Session[Any]` of a frozen class with slots
class Session(Generic[MessageT]):
    """A session with the messages of its window, oldest first, and its transitions; `user_id` may be empty.

    With a `conversation_id` its exchanges are recorded in `scope`; `unrecorded` counts those still to come. It is
    visible to whoever may see what its `owner` asked.
    """

    session_id: str
    collection: str
    idle_timeout: timedelta
    create_time: datetime
    last_activity: datetime
    state: SessionState = SessionState.CREATED
    head: str = ""
    message_count: int = 0
    messages: tuple[MessageT, ...] = ()
    transitions: tuple[Transition, ...] = ()
    user_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    conversation_id: str = ""
    scope: str = ""
    unrecorded: int = 0
    owner: Owner = NO_OWNER

    @property
    def expire_time(self) -> datetime:
        """Return when it expires unless something happens."""
        return self.last_activity + self.idle_timeout

    @property
    def recency(self) -> tuple[datetime, str]:
        """Return the sort key of listings, from which the next page continues."""
        return (self.last_activity, self.session_id)

    @property
    def is_closed(self) -> bool:
        """Return whether it takes no more questions."""
        return self.state in {SessionState.EXPIRED, SessionState.ENDED}

    def refuse_closed(self) -> None:
        """Return if it takes questions.

        Raises:
            SessionExpiredError: it was idle for too long or was ended.
        """
        if self.is_closed:
            message = f"the session is {self.state.value.lower()}; ask in a new one"
            raise SessionExpiredError(message, session_id=self.session_id)

    def head_moved(self, expected: str) -> SessionHeadMovedError:
        """Return the error of whoever expected another newest message, by its id."""
        return SessionHeadMovedError("the session has newer messages", expected_head=expected, head=self.head)


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions to list; empty and None mean any, and a session must have all `labels`."""

    collection: str = ""
    user_id: str = ""
    state: SessionState | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def admits(self, session: Session[Any]) -> bool:
        return (
            self.collection in {"", session.collection}
            and self.user_id in {"", session.user_id}
            and self.state in {None, session.state}
            and self.labels.items() <= session.labels.items()
        )


@dataclass(frozen=True, slots=True)
class AnswerFilter:
    """Which answers to list; empty means any."""

    collection: str = ""
    user_id: str = ""
    session_id: str = ""

    def admits(self, session: Session[Any]) -> bool:
        return (
            self.collection in {"", session.collection}
            and self.user_id in {"", session.user_id}
            and self.session_id in {"", session.session_id}
        )


def moved(session: Session[MessageT], state: SessionState, now: datetime) -> Session[MessageT]:
    """Return the session in another state, with the transition noted; itself when it is there already."""
    if session.state is state:
        return session
    transitions = (*session.transitions, Transition(session.state, state, now))
    return replace(session, state=state, transitions=transitions[-MAX_TRANSITIONS:])
