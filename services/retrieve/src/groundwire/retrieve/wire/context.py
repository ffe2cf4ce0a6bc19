"""Messages of `RetrieveContext`: requests checked and parsed, and what was found."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from groundwire.api.common.v1 import degraded_stage_pb2
from groundwire.api.common.v1.hit_pb2 import HIT_VIEW_IDS, Hit
from groundwire.api.common.v1.record_pb2 import RecordType
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.errors import FieldViolation, InvalidRequestError, violations_of
from groundwire.kernel.identifiers import parse_conversation_id
from groundwire.kernel.identity import Identity
from groundwire.kernel.records import StoredRecord
from groundwire.retrieve.context import SECTIONS, Context, ContextEntry, ContextRequest
from groundwire.retrieve.wire.requests import RequestLimits, parse_retrieve_request
from groundwire.retrieve.wire.responses import to_hit
from groundwire.rpc.messages import chunk_in_view, documents_in_view
from groundwire.rpc.record_messages import to_record_message

MOST_RECORDS: Mapping[str, int] = {"persona": 10, "faq": 10, "memory": 20, "turn": 20, "summary": 10}
"""Of each type that a section may have."""
_MAX_TOKENS = 1_000_000
_TYPES = {kind: RecordType.Value(f"RECORD_TYPE_{kind.upper()}") for kind in SECTIONS}


def parse_context_request(
    message: pb.RetrieveContextRequest,
    identity: Identity,
    limits: RequestLimits,
    defaults: Mapping[str, int],
    now: datetime,
) -> ContextRequest:
    """Return the checked request.

    `defaults` says how many records of each type that is switched on are returned unless the request says otherwise.

    Raises:
        InvalidRequestError: with every violation found.
        PermissionDeniedError: the credential does not allow a scope that is named.
    """
    names = [_name(each.record_type) for each in message.sections]
    violations = [*_section_violations(names, message.sections)]
    if message.HasField("max_tokens") and not 1 <= message.max_tokens <= _MAX_TOKENS:
        violations.append(FieldViolation("max_tokens", f"must be 1 to {_MAX_TOKENS}"))
    if message.conversation_id:
        violations += violations_of(parse_conversation_id, message.conversation_id, "conversation_id")
    like_a_search = pb.RetrieveRequest(
        collection=message.collection, query=message.query, options=message.options, context=message.context
    )
    if message.HasField("query_time"):
        like_a_search.query_time.CopyFrom(message.query_time)
    for ignored in ("ranking", "order_by", "self_query", "strategy", "explain"):
        like_a_search.options.ClearField(ignored)
    try:
        search = parse_retrieve_request(like_a_search, identity, limits, now)
    except InvalidRequestError as error:
        error.violations = (*error.violations, *violations)
        raise
    if violations:
        raise InvalidRequestError(violations)
    limits_asked = (each.top_k if each.HasField("top_k") else None for each in message.sections)
    asked = dict(zip(names, limits_asked, strict=True)) or dict.fromkeys(SECTIONS)
    return ContextRequest(
        search=search,
        limits={kind: asked[kind] or defaults[kind] for kind in SECTIONS if kind in asked and kind in defaults},
        conversation_id=message.conversation_id,
        with_documents=not message.without_documents,
        max_tokens=message.max_tokens if message.HasField("max_tokens") else None,
    )


def _section_violations(names: Sequence[str], sections: Sequence[pb.SectionLimit]) -> Iterator[FieldViolation]:
    for number, (name, each) in enumerate(zip(names, sections, strict=True)):
        place = f"sections[{number}]"
        if not name:
            yield FieldViolation(f"{place}.record_type", f"must be one of {', '.join(SECTIONS)}")
        elif name in names[:number]:
            yield FieldViolation(f"{place}.record_type", f"{name} is listed already")
        elif each.HasField("top_k") and not 1 <= each.top_k <= MOST_RECORDS[name]:
            yield FieldViolation(f"{place}.top_k", f"must be 1 to {MOST_RECORDS[name]}")


def _name(record_type: int) -> str:
    return next((name for name, value in _TYPES.items() if value == record_type), "")


def to_context_response(request: pb.RetrieveContextRequest, context: Context) -> pb.RetrieveContextResponse:
    """Return the response; chunks of records have no content, which stands in the record."""
    view = request.options.view
    hits = [entry.hit for entry in context.documents.entries if entry.hit is not None]
    response = pb.RetrieveContextResponse(
        sections=[
            pb.ContextSection(
                record_type=_TYPES[kind],
                entries=[_to_entry(entry, rank) for rank, entry in enumerate(section.entries, start=1)],
                omitted_count=section.omitted,
            )
            for kind, section in context.sections.items()
        ],
        document_results=[to_hit(hit, view) for hit in hits],
        documents=documents_in_view((hit.stored.document for hit in hits), view),
        omitted_document_result_count=context.documents.omitted,
        token_count=context.tokens,
        snapshot=context.position,
        consistency_token=context.consistency_token,
    )
    if context.lacks_dense:
        response.degraded_stages.append(degraded_stage_pb2.DEGRADED_STAGE_DENSE)
    return response


def _to_entry(entry: ContextEntry, rank: int) -> pb.ContextEntry:
    stored = entry.stored
    record = StoredRecord(stored.document, stored.chunk.content, stored.chunk.token_count, stored.chunk.embedding_hash)
    hit = Hit(chunk=chunk_in_view(stored, HIT_VIEW_IDS)) if entry.hit is None else to_hit(entry.hit, HIT_VIEW_IDS)
    hit.rank = rank
    message = pb.ContextEntry(record=to_record_message(record), hit=hit, contradicts=entry.contradicts)
    message.record.ClearField("links")
    # Of seventy records they may be twice what a response can hold.
    message.record.ClearField("quoted_document_ids")
    return message
