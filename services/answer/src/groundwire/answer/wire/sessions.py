"""Sessions and the requests about them."""

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime, timedelta

from groundwire.answer.domain.session import (
    Message,
    NewSession,
    Role,
    Session,
    SessionFilter,
    SessionState,
    Transition,
)
from groundwire.answer.wire.answers import to_refusal
from groundwire.answer.wire.citations import to_citation
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import session_pb2
from groundwire.api.common.v1 import role_pb2
from groundwire.kernel.clock import epoch_ms, from_epoch_ms
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.identifiers import parse_collection_name, parse_uuid
from groundwire.rpc.times import parse_duration, to_duration, to_timestamp

_SHORTEST_IDLE = timedelta(seconds=1)
_LONGEST_IDLE = timedelta(days=30)
_ROLES = {Role.USER: role_pb2.ROLE_USER, Role.ASSISTANT: role_pb2.ROLE_ASSISTANT}
_STATE_PREFIX = "SESSION_STATE_"
_MAX_USER_CHARS = 256
_MAX_LABELS = 16
_MAX_LABEL_CHARS = 256
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_.-]{0,62}")


def parse_create_request(request: pb.CreateSessionRequest) -> NewSession:
    """Return what the caller says about a new session.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    idle = None
    if request.HasField("idle_timeout"):
        idle = parse_duration(request.idle_timeout, "idle_timeout", _SHORTEST_IDLE, _LONGEST_IDLE)
    return NewSession(
        collection=parse_collection_name(request.collection),
        idle_timeout=idle,
        user_id=_parse_user_id(request.user_id),
        labels=_parse_labels(request.labels),
    )


def parse_user_id(request: pb.DeleteSessionsRequest) -> str:
    """Return whose sessions a request is about.

    Raises:
        InvalidRequestError: it names nobody, so that a field left out never means everybody.
    """
    if not request.user_id:
        raise InvalidRequestError.of("user_id", "must not be empty")
    return _parse_user_id(request.user_id)


def _parse_user_id(user_id: str) -> str:
    _refuse_text("user_id", user_id, _MAX_USER_CHARS)
    return user_id


def _parse_labels(labels: Mapping[str, str]) -> dict[str, str]:
    if len(labels) > _MAX_LABELS:
        raise InvalidRequestError.of("labels", f"must be at most {_MAX_LABELS}")
    for key, value in sorted(labels.items()):
        if _LABEL_KEY.fullmatch(key) is None:
            raise InvalidRequestError.of("labels", "keys have 1 to 63 of a-z, 0-9, _, . and -, the first a letter")
        _refuse_text(f"labels[{key}]", value, _MAX_LABEL_CHARS)
    return dict(sorted(labels.items()))


def _refuse_text(field: str, text: str, max_chars: int) -> None:
    if len(text) > max_chars:
        raise InvalidRequestError.of(field, f"must be at most {max_chars} characters, has {len(text)}")
    if any(unicodedata.category(char) == "Cc" for char in text):
        raise InvalidRequestError.of(field, "must not contain control characters")


def parse_session_id(
    request: pb.GetSessionRequest | pb.ListMessagesRequest | pb.EndSessionRequest | pb.DeleteSessionRequest,
) -> str:
    """Return the id of the session that a request names.

    Raises:
        InvalidRequestError: it is not a UUID.
    """
    return parse_uuid(request.session_id, "session_id")


def parse_list_request(request: pb.ListSessionsRequest) -> SessionFilter:
    """Return which sessions to list.

    Raises:
        InvalidRequestError: the state is not one of the contract.
    """
    if request.state not in session_pb2.SessionState.values():
        raise InvalidRequestError.of("state", "is not a state")
    name = session_pb2.SessionState.Name(request.state).removeprefix(_STATE_PREFIX)
    state = None if request.state == session_pb2.SESSION_STATE_UNSPECIFIED else SessionState(name)
    return SessionFilter(request.collection, _parse_user_id(request.user_id), state, _parse_labels(request.labels))


def to_position(session: Session) -> tuple[int, str]:
    """Return the place of a session in a listing, for a page token."""
    return (epoch_ms(session.last_activity), session.session_id)


def parse_position(position: tuple[str | int, ...] | None) -> tuple[datetime, str] | None:
    """Return the place that a page token holds, None for the first page."""
    return None if position is None else (from_epoch_ms(int(position[0])), str(position[1]))


def to_session(session: Session, *, brief: bool = False) -> session_pb2.Session:
    """Return the message of a session; `brief` leaves out its messages and transitions."""
    return session_pb2.Session(
        session_id=session.session_id,
        collection=session.collection,
        state=_to_state(session.state),
        create_time=to_timestamp(session.create_time),
        last_activity_time=to_timestamp(session.last_activity),
        messages=[] if brief else [to_message(message) for message in session.messages],
        head=session.head,
        expire_time=to_timestamp(session.expire_time),
        transitions=[] if brief else [_to_transition(transition) for transition in session.transitions],
        message_count=session.message_count,
        idle_timeout=to_duration(session.idle_timeout.total_seconds()),
        user_id=session.user_id,
        labels=session.labels,
    )


def _to_state(state: SessionState | None) -> "session_pb2.SessionState.ValueType":
    return session_pb2.SessionState.Value(f"{_STATE_PREFIX}{state.value if state else 'UNSPECIFIED'}")


def _to_transition(transition: Transition) -> session_pb2.SessionTransition:
    return session_pb2.SessionTransition(
        from_state=_to_state(transition.before),
        to_state=_to_state(transition.after),
        transition_time=to_timestamp(transition.time),
    )


def to_message(message: Message) -> session_pb2.Message:
    """Return the message of a message of a session."""
    answer = message.answer
    return session_pb2.Message(
        message_id=message.message_id,
        role=_ROLES[message.role],
        content=message.content,
        message_time=to_timestamp(message.time),
        citations=[to_citation(citation) for citation in answer.citations] if answer else [],
        related_message_id=message.related_message_id,
        grounded=answer.grounded if answer else False,
        confidence=answer.confidence if answer else None,
        refusal_reason=to_refusal(answer.refusal if answer else None),
        state=session_pb2.MESSAGE_STATE_REDACTED if message.redacted else session_pb2.MESSAGE_STATE_COMPLETE,
    )
