"""Requests and responses of ParseQuery."""

from datetime import datetime

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.filters import contract_name
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.retrieve.self_query.questions import ParsedQuestion
from groundwire.retrieve.wire.requests import QUERY_TYPE_VALUES, check_query
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.rpc.value_messages import parse_timestamp


def check_parse_request(request: pb.ParseQueryRequest, max_chars: int) -> None:
    """Return if collection and question keep the rules.

    Raises:
        InvalidRequestError: with every violation found.
    """
    violations: list[FieldViolation] = []
    try:
        parse_collection_name(request.collection)
    except InvalidRequestError as error:
        violations += error.violations
    violations += check_query(request.question, max_chars, "question")
    if violations:
        raise InvalidRequestError(violations)


def question_time(request: pb.ParseQueryRequest, now: datetime) -> datetime:
    """Return when the question was asked.

    Raises:
        InvalidRequestError: it is no valid time.
    """
    if not request.HasField("question_time"):
        return now
    return parse_timestamp(request.question_time, "question_time")


def to_parse_response(parsed: ParsedQuestion) -> pb.ParseQueryResponse:
    """Return the response."""
    response = pb.ParseQueryResponse(
        semantic_query=parsed.extraction.semantic_query,
        field_names=map(contract_name, parsed.extraction.field_names),
        query_type=QUERY_TYPE_VALUES[parsed.query_type],
        extractor=parsed.extractor,
        fell_back=parsed.fell_back,
    )
    if parsed.extraction.where is not None:
        response.filter.CopyFrom(to_filter_message(parsed.extraction.where))
    return response
