"""Requests and responses of Expand."""

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.retrieve.expansion import DEFAULT_LEVELS_UP, DEFAULT_MAX_CHARS, ExpandMode, Expansion, Passage
from groundwire.rpc.messages import to_chunk_message, to_span

_MODES = {
    pb.EXPAND_MODE_WINDOW: ExpandMode.WINDOW,
    pb.EXPAND_MODE_NEIGHBOURS: ExpandMode.NEIGHBOURS,
    pb.EXPAND_MODE_PARENT: ExpandMode.PARENT,
    pb.EXPAND_MODE_HIERARCHY: ExpandMode.HIERARCHY,
}
_MAX_CHUNKS = 20
_LIMITS = {"radius": (0, 20), "levels_up": (1, 3), "max_chars": (1, 1_000_000)}


def parse_expand_request(request: pb.ExpandRequest) -> tuple[list[str | int], Expansion]:
    """Return the chunks, by id or number, and how far to go.

    Raises:
        InvalidRequestError: with every violation found.
    """
    violations: list[FieldViolation] = []
    try:
        parse_collection_name(request.collection)
    except InvalidRequestError as error:
        violations += error.violations
    if not 1 <= len(request.chunks) <= _MAX_CHUNKS:
        violations.append(FieldViolation("chunks", f"must be 1 to {_MAX_CHUNKS} chunks"))
    for position, reference in enumerate(request.chunks):
        if reference.WhichOneof("reference") is None:
            violations.append(FieldViolation(f"chunks[{position}]", "must have either chunk_id or chunk_number"))
    if request.mode not in _MODES:
        violations.append(FieldViolation("mode", "must be WINDOW, NEIGHBOURS, PARENT or HIERARCHY"))
    for field, (low, high) in _LIMITS.items():
        if request.HasField(field) and not low <= getattr(request, field) <= high:  # type: ignore[arg-type]  # our names
            violations.append(FieldViolation(field, f"must be {low} to {high}"))
    if violations:
        raise InvalidRequestError(violations)
    references = [getattr(item, item.WhichOneof("reference") or "") for item in request.chunks]
    return references, _rule(request)


def _rule(request: pb.ExpandRequest) -> Expansion:
    return Expansion(
        mode=_MODES[request.mode],
        radius=request.radius if request.HasField("radius") else None,
        levels_up=request.levels_up if request.HasField("levels_up") else DEFAULT_LEVELS_UP,
        max_chars=request.max_chars if request.HasField("max_chars") else DEFAULT_MAX_CHARS,
    )


def to_passage_message(passage: Passage) -> pb.ExpandedPassage:
    """Return the message of a passage."""
    return pb.ExpandedPassage(
        requested_chunk_ids=[chunk.chunk_id for chunk in passage.requested],
        document_id=passage.requested[0].document.document_id,
        generation=passage.requested[0].generation,
        span=to_span(passage.span),
        content=passage.content,
        chunks=[to_chunk_message(chunk) for chunk in passage.chunks],
        hierarchy_path=passage.path,
        truncated=passage.truncated,
    )
