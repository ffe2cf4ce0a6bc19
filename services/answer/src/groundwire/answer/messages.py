"""Converts messages of the contract to the service's types and back, and checks requests."""

import re
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from groundwire.answer.ask import AskedQuestion
from groundwire.answer.conversing import Cancel, ConversationRequest, Refused
from groundwire.answer.recording import Conversation, Remembered
from groundwire.answer.sessions import Message, NewSession, Session, without_found
from groundwire.answer.verification import ListedAnswer
from groundwire.api.answer.v1 import answer_pb2, session_pb2
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.common.v1 import role_pb2, span_pb2
from groundwire.kernel.clock import epoch_ms, from_epoch_ms
from groundwire.kernel.errors import FieldViolation, InvalidRequestError, fields_below, refuse, violations_of
from groundwire.kernel.identifiers import (
    ENTITY_SCOPE,
    GLOBAL_SCOPE,
    WITHOUT_CONTROLS,
    has_controls,
    parse_caller_id,
    parse_collection_name,
    parse_conversation_id,
    parse_scope,
    parse_uuid,
)
from groundwire.kernel.session import AnswerFilter, Role, SessionFilter, SessionState
from groundwire.kernel.spans import Span
from groundwire.rpc.value_messages import parse_duration, to_duration, to_timestamp


def parse_span(message: span_pb2.Span) -> Span:
    """Return the span of a message, unchecked."""
    return Span(message.start, message.end, message.start_byte, message.end_byte)


MAX_CITATIONS = 1000
"""Most citations of one VerifyCitations call."""


MAX_SELECTED_CHARS = 5000
MAX_CHUNKS = 20
MIN_ANSWER_CHARS = 100
MAX_ANSWER_CHARS = 2000
# The category Cc of Unicode.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def parse_ask_request(request: pb.AskRequest, max_question_chars: int) -> AskedQuestion:
    """Return the question; a missing message id of a single question is made here.

    Raises:
        InvalidRequestError: naming every field that breaks a rule.
    """
    refuse(_violations(request, max_question_chars))
    return AskedQuestion(
        question=request.question,
        collection=request.collection,
        message_id=request.message_id.lower() or str(uuid.uuid4()),
        selected_text=request.selected_text,
        options=request.options if request.HasField("options") else None,
        chunk_ids=tuple(dict.fromkeys(request.chunk_ids)),
        max_answer_chars=request.max_answer_chars if request.HasField("max_answer_chars") else MAX_ANSWER_CHARS,
        session_id=request.session_id.lower(),
        include_hits=request.include_hits,
        grounding=request.grounding,
        keep_for=request.keep_for.ToTimedelta() if request.HasField("keep_for") else None,
        user_id=request.user_id,
        splits_topics=request.new_session_on_topic_shift,
        expected_head=request.expected_head if request.HasField("expected_head") else None,
        strictness=request.strictness if request.HasField("strictness") else None,
    )


def parse_stream_request(request: pb.AskStreamRequest, max_question_chars: int) -> AskedQuestion:
    """Return the question of an AskStream call; errors as `parse_ask_request`, with fields below `ask`."""
    if request.after_sequence < 0 or (request.after_sequence and not request.ask.session_id):
        raise InvalidRequestError.of(
            "after_sequence", "must not be negative, and needs a session, because only sessions store answers"
        )
    with below_ask():
        return parse_ask_request(request.ask, max_question_chars)


def below_ask() -> AbstractContextManager[None]:
    """Name the fields of a question that a block refuses below `ask`."""
    return fields_below("ask", pb.AskRequest.DESCRIPTOR.fields_by_name)


async def parse_conversation(
    requests: AsyncIterator[pb.ConverseRequest], session_id: str, max_question_chars: int
) -> AsyncIterator[ConversationRequest]:
    """Yield the requests of a client in a conversation; invalid ones as Refused."""
    async for request in requests:
        match request.WhichOneof("request"):
            case "cancel":
                yield Cancel(request.cancel.message_id.lower())
            case "ask":
                ask = pb.AskStreamRequest(ask=request.ask)
                try:
                    if ask.ask.session_id.lower() not in {"", session_id}:
                        raise InvalidRequestError.of("ask.session_id", "differs from the session of the stream")
                    ask.ask.session_id = session_id
                    yield parse_stream_request(ask, max_question_chars)
                except InvalidRequestError as error:
                    yield Refused(request.ask.message_id.lower(), error)
            case "opening":
                yield Refused(
                    "", InvalidRequestError.of("opening", "must be the first message and must not be repeated")
                )
            case _:
                yield Refused("", InvalidRequestError.of("request", "is missing"))


def _violations(request: pb.AskRequest, max_question_chars: int) -> Iterator[FieldViolation]:
    yield from text_violations("question", request.question, max_question_chars)
    if not request.question.strip():
        yield FieldViolation("question", "must not be blank")
    yield from text_violations("selected_text", request.selected_text, MAX_SELECTED_CHARS)
    if request.session_id:
        yield from violations_of(parse_uuid, request.session_id, "session_id")
    elif request.HasField("expected_head"):
        yield FieldViolation("expected_head", "needs a session_id")
    if request.collection or not request.session_id:
        yield from violations_of(parse_collection_name, request.collection, "collection")
    if request.message_id or request.session_id or request.HasField("keep_for"):
        yield from violations_of(parse_uuid, request.message_id, "message_id")
    if request.HasField("keep_for"):
        yield from violations_of(parse_duration, request.keep_for, "keep_for", _SHORTEST_IDLE, _LONGEST_KEPT)
        if request.session_id:
            yield FieldViolation("keep_for", "is for single questions; a session stores its answers anyway")
    elif request.user_id:
        yield FieldViolation("user_id", "needs keep_for")
    yield from violations_of(_parse_user_id, request.user_id)
    if request.new_session_on_topic_shift and not request.session_id:
        yield FieldViolation("new_session_on_topic_shift", "needs a session_id")
    if request.HasField("max_answer_chars") and not MIN_ANSWER_CHARS <= request.max_answer_chars <= MAX_ANSWER_CHARS:
        yield FieldViolation("max_answer_chars", f"must be {MIN_ANSWER_CHARS} to {MAX_ANSWER_CHARS}")
    if request.grounding not in answer_pb2.GroundingPolicy.values():
        yield FieldViolation("grounding", f"{request.grounding} is not a grounding policy")
    # Written so that NaN, for which every comparison is false, is refused as well.
    if request.HasField("strictness") and not 0.0 <= request.strictness <= 1.0:
        yield FieldViolation("strictness", "must be 0 to 1")
    yield from _chunk_violations(request.chunk_ids, MAX_CHUNKS)


def _chunk_violations(chunk_ids: Sequence[str], limit: int) -> Iterator[FieldViolation]:
    if len(chunk_ids) > limit:
        yield FieldViolation("chunk_ids", f"must be at most {limit}")
    for index, chunk_id in enumerate(chunk_ids[:limit]):
        yield from violations_of(parse_caller_id, chunk_id, f"chunk_ids[{index}]")


def text_violations(field: str, text: str, max_chars: int) -> Iterator[FieldViolation]:
    """Yield the violations of a text of lines: its length in code points, control characters."""
    if len(text) > max_chars:
        yield FieldViolation(field, f"must be at most {max_chars} characters, has {len(text)}")
    if has_controls(text):
        yield FieldViolation(field, WITHOUT_CONTROLS)


_SHORTEST_IDLE = timedelta(seconds=1)
_LONGEST_IDLE = timedelta(days=30)
_LONGEST_KEPT = timedelta(days=366)
ROLES = {Role.USER: role_pb2.ROLE_USER, Role.ASSISTANT: role_pb2.ROLE_ASSISTANT}
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
    user_id = _parse_user_id(request.user_id)
    if request.new_conversation and request.conversation_id:
        raise InvalidRequestError.of("new_conversation", "cannot be combined with conversation_id")
    conversation_id = f"conv-{uuid.uuid4()}" if request.new_conversation else request.conversation_id
    scope = ""
    if conversation_id:
        parse_conversation_id(conversation_id)
        scope = parse_scope(request.scope or (f"{ENTITY_SCOPE}{user_id}" if user_id else GLOBAL_SCOPE))
    elif request.scope:
        raise InvalidRequestError.of("scope", "needs a conversation_id or new_conversation")
    return NewSession(
        collection=parse_collection_name(request.collection),
        idle_timeout=idle,
        user_id=user_id,
        labels=_parse_labels(request.labels),
        conversation_id=conversation_id,
        scope=scope,
    )


def parse_consolidate_request(request: pb.ConsolidateConversationRequest) -> tuple[Conversation, int, int | None]:
    """Return the conversation, its first exchange to derive from, and the last, None for all that follow.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    conversation = Conversation(
        parse_collection_name(request.collection),
        parse_conversation_id(request.conversation_id),
        parse_scope(request.scope or GLOBAL_SCOPE),
    )
    first, last = request.first_turn_index or 1, request.last_turn_index or None
    if first < 0:
        raise InvalidRequestError.of("first_turn_index", "must not be negative")
    if last is not None and last < first:
        raise InvalidRequestError.of("last_turn_index", "must not lie before first_turn_index")
    return conversation, first, last


def to_consolidate_response(remembered: Sequence[Remembered]) -> pb.ConsolidateConversationResponse:
    return pb.ConsolidateConversationResponse(
        memories=[
            pb.DerivedMemory(
                record_id=each.record_id,
                text=each.derived.text,
                turn_record_id=each.derived.turn.record_id,
                created=each.is_new,
            )
            for each in remembered
        ]
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
    refuse_text("user_id", user_id, _MAX_USER_CHARS)
    return user_id


def _parse_labels(labels: Mapping[str, str]) -> dict[str, str]:
    if len(labels) > _MAX_LABELS:
        raise InvalidRequestError.of("labels", f"must be at most {_MAX_LABELS}")
    for key, value in sorted(labels.items()):
        if _LABEL_KEY.fullmatch(key) is None:
            raise InvalidRequestError.of(
                "labels", "keys must be 1 to 63 characters of a-z, 0-9, _, . and -, and begin with a letter"
            )
        refuse_text(f"labels[{key}]", value, _MAX_LABEL_CHARS)
    return dict(sorted(labels.items()))


def refuse_text(field: str, text: str, max_chars: int) -> None:
    """Return if a text of one line has at most `max_chars` code points.

    Raises:
        InvalidRequestError: it has more, or control characters.
    """
    if len(text) > max_chars:
        raise InvalidRequestError.of(field, f"must be at most {max_chars} characters, has {len(text)}")
    if _CONTROLS.search(text):
        raise InvalidRequestError.of(field, "must not contain control characters")


def parse_list_request(request: pb.ListSessionsRequest) -> SessionFilter:
    """Return which sessions to list.

    Raises:
        InvalidRequestError: the state is not one of the contract.
    """
    if request.state not in session_pb2.SessionState.values():
        raise InvalidRequestError.of("state", "is not a state")
    state = None
    if request.state:
        state = SessionState(session_pb2.SessionState.Name(request.state).removeprefix("SESSION_STATE_"))
    return SessionFilter(request.collection, _parse_user_id(request.user_id), state, _parse_labels(request.labels))


def to_position(session: Session) -> tuple[int, str]:
    """Return the place of a session in a listing, for a page token."""
    return (epoch_ms(session.last_activity), session.session_id)


def parse_position(position: tuple[str | int, ...] | None) -> tuple[datetime, str] | None:
    """Return the place that a page token holds, None for the first page."""
    return None if position is None else (from_epoch_ms(int(position[0])), str(position[1]))


def _to_state(state: SessionState | None) -> session_pb2.SessionState.ValueType:
    return session_pb2.SessionState.Value(f"SESSION_STATE_{state or 'UNSPECIFIED'}")


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
        transitions=[]
        if brief
        else [
            session_pb2.SessionTransition(
                from_state=_to_state(transition.before),
                to_state=_to_state(transition.after),
                transition_time=to_timestamp(transition.time),
            )
            for transition in session.transitions
        ],
        message_count=session.message_count,
        idle_timeout=to_duration(session.idle_timeout.total_seconds()),
        user_id=session.user_id,
        labels=session.labels,
        conversation_id=session.conversation_id,
        scope=session.scope,
        unrecorded_exchange_count=0 if brief else session.unrecorded,
    )


def parse_answers_request(request: pb.ListAnswersRequest) -> AnswerFilter:
    """Return which answers to list.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    session_id = parse_uuid(request.session_id, "session_id") if request.session_id else ""
    return AnswerFilter(request.collection, _parse_user_id(request.user_id), session_id)


def parse_answer_position(position: tuple[str | int, ...] | None) -> tuple[str, int] | None:
    """Return the place that a page token holds, None for the first page."""
    return None if position is None else (str(position[0]), int(position[1]))


def to_kept_answer(listed: ListedAnswer) -> pb.KeptAnswer:
    kept = listed.kept
    if kept.reply.answer is not None:
        answer = without_found(kept.reply.answer)
    else:
        answer = answer_pb2.Answer(message_id=kept.reply.message_id, answer_time=to_timestamp(kept.reply.time))
    answer.session_id, answer.collection = kept.session_id, kept.collection
    return pb.KeptAnswer(
        answer=answer,
        question=kept.question.content,
        question_id=kept.question.message_id,
        state=_to_message_state(kept.reply),
        stale=listed.is_stale,
    )


def to_message(message: Message) -> session_pb2.Message:
    answer = message.answer
    return session_pb2.Message(
        message_id=message.message_id,
        role=ROLES[message.role],
        content=message.content,
        message_time=to_timestamp(message.time),
        citations=answer.citations if answer else (),
        related_message_id=message.related_message_id,
        grounded=answer.grounded if answer else False,
        confidence=answer.confidence if answer else None,
        refusal_reason=answer.refusal_reason if answer else answer_pb2.REFUSAL_REASON_UNSPECIFIED,
        state=_to_message_state(message),
    )


def _to_message_state(message: Message) -> "session_pb2.MessageState.ValueType":
    if message.redacted:
        return session_pb2.MESSAGE_STATE_REDACTED
    return session_pb2.MESSAGE_STATE_ABANDONED if message.abandoned else session_pb2.MESSAGE_STATE_COMPLETE


MAX_TEXT_CHARS = 20_000
MAX_GROUNDING_CHUNKS = 50


def check_ground_request(request: pb.GroundTextRequest) -> None:
    """Raise InvalidRequestError, naming every field that breaks a rule."""
    violations = [
        *violations_of(parse_collection_name, request.collection, "collection"),
        *text_violations("text", request.text, MAX_TEXT_CHARS),
    ]
    if not request.text.strip():
        violations.append(FieldViolation("text", "must not be blank"))
    violations += _chunk_violations(request.chunk_ids, MAX_GROUNDING_CHUNKS)
    refuse(violations)
