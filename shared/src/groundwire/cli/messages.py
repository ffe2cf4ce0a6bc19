"""Turns messages of the contract into the plain JSON that the command line prints."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from groundwire.api.answer.v1 import answer_pb2, answer_service_pb2, citation_pb2
from groundwire.api.common.v1.degraded_stage_pb2 import DegradedStage
from groundwire.api.common.v1.metadata_value_pb2 import MetadataValue
from groundwire.api.retrieve.v1 import retrieve_service_pb2
from groundwire.client.values import enum_name, plain_metadata, plain_value
from groundwire.kernel.clock import from_epoch_ms
from groundwire.kernel.filter_parsing import filter_to_json
from groundwire.kernel.filters import ALIASES, BUILT_IN_FIELDS, FieldKind
from groundwire.rpc.filter_messages import parse_filter_message

_DECIMALS = 6


def search_json(response: retrieve_service_pb2.RetrieveResponse) -> dict[str, Any]:
    """Return a search response with the keys that docs/reference/command-line.md names."""
    report = response.report
    timings = {
        "embed": milliseconds(report.query_embedding_time),
        "search": milliseconds(report.search_time),
        "total": milliseconds(report.total_time),
    }
    results = [
        {
            "rank": hit.rank,
            "chunk_id": hit.chunk.chunk_id,
            "chunk_number": hit.chunk.chunk_number,
            "document_id": hit.chunk.document_id,
            "source": hit.chunk.source_uri,
            "score": round(hit.relevance_score, _DECIMALS),
            "content": hit.chunk.content,
            "start": hit.chunk.span.start,
            "end": hit.chunk.span.end,
            "section": hit.chunk.section or None,
            "chapter": hit.chunk.chapter,
            "page_numbers": list(hit.chunk.page_numbers),
            "metadata": plain_metadata(hit.chunk.metadata),
        }
        for hit in response.results
    ]
    return {"results": results, "timings_ms": timings}


def applied_json(response: retrieve_service_pb2.RetrieveResponse) -> dict[str, Any]:
    """Return what a search applied beside its query, with the keys that docs/reference/command-line.md names."""
    report, applied_filter = response.report, None
    if report.HasField("applied_filter"):
        applied_filter = _with_times(filter_to_json(parse_filter_message(report.applied_filter)))
    return {
        "filter": applied_filter,
        "query_type": shown_name(report, "query_type"),
        "applied_query_type": shown_name(report, "applied_query_type"),
        "degraded": stage_names(response.degraded_stages),
        "sections": [
            {"document_id": section.document_id, "path": list(section.hierarchy_path), "score": section.score}
            for section in report.chosen_sections
        ],
    }


def stage_names(stages: Iterable["DegradedStage.ValueType"]) -> list[str]:
    """Return the names of degraded stages as people write them, such as `self-query`."""
    return [_as_written(DegradedStage.DESCRIPTOR, stage) for stage in stages]


def _with_times(condition: Any, *, is_time: bool = False) -> Any:
    """Replace the milliseconds that time fields are compared with by ISO 8601 texts, which mean the same."""
    if isinstance(condition, dict):
        keys = map(str, condition)
        times = {key for key in keys if BUILT_IN_FIELDS.get(ALIASES.get(key, key)) is FieldKind.TIME}
        return {key: _with_times(value, is_time=is_time or key in times) for key, value in condition.items()}
    if isinstance(condition, list):
        return [_with_times(each, is_time=is_time) for each in condition]
    if is_time and isinstance(condition, int) and not isinstance(condition, bool):
        with suppress(OverflowError):  # outside of the years 1 to 9999 a number is the only way to write it
            return (
                from_epoch_ms(condition)
                .isoformat(timespec="milliseconds" if condition % 1000 else "seconds")
                .replace("+00:00", "Z")
            )
    return condition


def answer_json(answer: answer_pb2.Answer, question_id: str) -> dict[str, Any]:
    """Return an answer with the keys that docs/reference/command-line.md names, derived ones included."""
    steps = ("retrieval", "generation", "verification", "total")
    return {
        "answer": answer.content,
        "grounded": answer.grounded,
        "is_from_book": answer.refusal_reason == answer_pb2.REFUSAL_REASON_UNSPECIFIED,
        "refusal_reason": shown_name(answer, "refusal_reason") or None,
        "confidence": round(answer.confidence, _DECIMALS),
        "citations": [_citation(citation) for citation in answer.citations],
        "opposing": [
            {"claim": claim.text, "marker": each.marker, **message_json(each.discrepancy, short_names=True)}
            for claim in answer.claims
            for each in claim.opposing
        ],
        "opposing_citations": [_citation(citation) for citation in answer.opposing_citations],
        "unsupported": [answer.content[span.start : span.end] for span in answer.unsupported_spans],
        "generator": answer.generator,
        "generation": {
            "model": answer.generation.model,
            "failure": shown_name(answer.generation, "failure") or None,
            "dropped_sentences": answer.generation.dropped_sentence_count,
        }
        if answer.HasField("generation")
        else None,
        "session_id": answer.session_id or None,
        "topic_shift": answer.topic_shift,
        "message_id": answer.message_id,
        "related_message_id": question_id,
        "timestamp": answer.answer_time.ToJsonString(),
        "timings_ms": {step: milliseconds(getattr(answer.timings, f"{step}_time")) for step in steps},
    }


def grounding_json(response: answer_service_pb2.GroundTextResponse) -> dict[str, Any]:
    """Return a compared text with the keys that docs/reference/command-line.md names."""
    claims = []
    for claim in response.claims:
        shown = message_json(claim, short_names=True)
        span = shown.pop("text_span")
        # `closest` has no value for a claim that is supported, and programs read the same keys of every claim.
        claims.append({"start": span["start"], "end": span["end"], **shown, "closest": shown.get("closest")})
    return {
        "verdict": shown_name(response, "verdict"),
        "needed": response.needed_count,
        "supported": response.supported_count,
        "claims": claims,
        "citations": [_citation(citation) for citation in response.citations],
    }


def message_json(message: Message, *, short_names: bool = False) -> dict[str, Any]:
    """Return any message with the field names of the protos, fields without a value included.

    Numbers are numbers, times ISO 8601 texts, metadata plain values, and enum values their names in the contract, or
    with `short_names` as people write them, such as `section-based`.
    """
    shown: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        held = getattr(message, field.name)
        if field.message_type and field.message_type.GetOptions().map_entry:
            value = field.message_type.fields_by_name["value"]
            shown[field.name] = {key: _plain(value, held[key], short_names) for key in sorted(held)}
        elif field.is_repeated:
            shown[field.name] = [_plain(field, item, short_names) for item in held]
        else:
            shown[field.name] = _plain(field, held, short_names)
    return shown


def _plain(field: Any, value: Any, short_names: bool) -> Any:
    if field.message_type:
        if isinstance(value, MetadataValue):
            return plain_value(value)
        return value.ToJsonString() if hasattr(value, "ToJsonString") else message_json(value, short_names=short_names)
    if field.enum_type:
        if short_names:
            return _as_written(field.enum_type, value)
        known = field.enum_type.values_by_number.get(value)  # a later version of the server may have more
        return str(value) if known is None else known.name
    return value


def shown_name(message: Message, field: str) -> str:
    """Return the name of the enum value of a field as people write it, such as `section-based`; empty where unset."""
    return _as_written(message.DESCRIPTOR.fields_by_name[field].enum_type, getattr(message, field))


def _as_written(kind: Any, value: int) -> str:
    return enum_name(kind, value).replace("_", "-")


def milliseconds(duration: Duration) -> float:
    """Return a duration in milliseconds, rounded to a microsecond."""
    return round(duration.seconds * 1000 + duration.nanos / 1_000_000, 3)


def _citation(citation: citation_pb2.Citation) -> dict[str, Any]:
    return {
        "marker": citation.marker,
        "document_id": citation.document_id,
        "source": citation.source_uri,
        "generation": citation.generation,
        "chunk_id": citation.chunk_id,
        "quote": citation.quote,
        "start": citation.span.start,
        "end": citation.span.end,
        "start_byte": citation.span.start_byte,
        "end_byte": citation.span.end_byte,
        "section": citation.section or None,
        "chapter": citation.chapter,
        "page_numbers": list(citation.page_numbers),
        "score": round(citation.relevance_score, _DECIMALS),
        "support": round(citation.support_score, _DECIMALS),
        "title": citation.title,
        "creators": list(citation.creators),
        "date_created": citation.date_created.ToJsonString() if citation.HasField("date_created") else None,
        "doi": citation.doi or None,
        "url": citation.url or None,
    }


def passage_json(passage: retrieve_service_pb2.ExpandedPassage) -> dict[str, Any]:
    """Return a passage with the keys that docs/reference/command-line.md names."""
    return {
        "document_id": passage.document_id,
        "chunk_ids": list(passage.requested_chunk_ids),
        "start": passage.span.start,
        "end": passage.span.end,
        "content": passage.content,
        "truncated": passage.truncated,
    }
