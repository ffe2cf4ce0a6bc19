"""Questions: every rule on an AskRequest, all violations in one error."""

import unicodedata
import uuid
from collections.abc import Callable, Iterator

from groundwire.answer.domain.asked_question import AskedQuestion
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.identifiers import parse_caller_id, parse_collection_name, parse_uuid

MAX_SELECTED_CHARS = 5000
MAX_CHUNKS = 20
MIN_ANSWER_CHARS = 100
MAX_ANSWER_CHARS = 2000
_ALLOWED_CONTROLS = frozenset("\t\n\r")


def parse_ask_request(request: pb.AskRequest, max_question_chars: int) -> AskedQuestion:
    """Return the question; a missing message id of a single question is made here.

    Raises:
        InvalidRequestError: naming every field that breaks a rule.
    """
    violations = list(_violations(request, max_question_chars))
    if violations:
        raise InvalidRequestError(violations)
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
    )


def parse_stream_request(request: pb.AskStreamRequest, max_question_chars: int) -> AskedQuestion:
    """Return the question of an AskStream call; errors as `parse_ask_request`, with fields below `ask`."""
    try:
        return parse_ask_request(request.ask, max_question_chars)
    except InvalidRequestError as error:
        below = [FieldViolation(f"ask.{each.field}", each.description) for each in error.violations]
        raise InvalidRequestError(below) from error


def expected_head(request: pb.AskRequest) -> str | None:
    """Return the head that the session must have, None for any."""
    return request.expected_head if request.HasField("expected_head") else None


def _violations(request: pb.AskRequest, max_question_chars: int) -> Iterator[FieldViolation]:
    yield from _text_violations("question", request.question, max_question_chars)
    if not request.question.strip():
        yield FieldViolation("question", "must not be blank")
    yield from _text_violations("selected_text", request.selected_text, MAX_SELECTED_CHARS)
    yield from _id_violations(request)
    if request.HasField("max_answer_chars") and not MIN_ANSWER_CHARS <= request.max_answer_chars <= MAX_ANSWER_CHARS:
        yield FieldViolation("max_answer_chars", f"must be {MIN_ANSWER_CHARS} to {MAX_ANSWER_CHARS}")
    if len(request.chunk_ids) > MAX_CHUNKS:
        yield FieldViolation("chunk_ids", f"must be at most {MAX_CHUNKS}")
    for index, chunk_id in enumerate(request.chunk_ids[:MAX_CHUNKS]):
        yield from _violations_of(parse_caller_id, chunk_id, f"chunk_ids[{index}]")


def _id_violations(request: pb.AskRequest) -> Iterator[FieldViolation]:
    if request.session_id:
        yield from _violations_of(parse_uuid, request.session_id, "session_id")
    elif request.HasField("expected_head"):
        yield FieldViolation("expected_head", "needs a session_id")
    if request.collection or not request.session_id:
        yield from _violations_of(parse_collection_name, request.collection, "collection")
    if request.message_id or request.session_id:
        yield from _violations_of(parse_uuid, request.message_id, "message_id")


def _text_violations(field: str, text: str, max_chars: int) -> Iterator[FieldViolation]:
    if len(text) > max_chars:
        yield FieldViolation(field, f"must be at most {max_chars} characters, has {len(text)}")
    if any(unicodedata.category(char) == "Cc" and char not in _ALLOWED_CONTROLS for char in text):
        yield FieldViolation(field, "must not contain control characters other than tab, newline and return")


def _violations_of(parse: Callable[[str, str], str], value: str, field: str) -> Iterator[FieldViolation]:
    try:
        parse(value, field)
    except InvalidRequestError as error:
        yield from error.violations
