"""Answers and their events; answers also back, because sessions store them as messages."""

from groundwire.answer.domain.answer import (
    Answer,
    AnswerEvent,
    Cited,
    Claim,
    Final,
    FinishReason,
    RefusalReason,
    Retrieved,
    SearchReport,
    TextDelta,
    Timings,
)
from groundwire.answer.wire.citations import parse_citation, to_citation
from groundwire.answer.wire.spans import parse_span
from groundwire.api.answer.v1 import answer_pb2
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.rpc.chunk_messages import to_span
from groundwire.rpc.times import parse_timestamp, to_duration, to_timestamp


def to_answer(answer: Answer) -> answer_pb2.Answer:
    """Return the message of an answer."""
    return answer_pb2.Answer(
        content=answer.content,
        citations=[to_citation(citation) for citation in answer.citations],
        confidence=answer.confidence,
        grounded=answer.grounded,
        message_id=answer.message_id,
        session_id=answer.session_id,
        claims=[_to_claim(claim) for claim in answer.claims],
        refusal_reason=to_refusal(answer.refusal),
        finish_reason=answer_pb2.FinishReason.Value(f"FINISH_REASON_{answer.finish.value}"),
        answer_time=to_timestamp(answer.answer_time),
        topic_shift=answer.topic_shift,
        hits=answer.search.hits,
        documents=answer.search.documents,
        timings=_to_timings(answer.timings),
        generator=answer.generator,
        search_text=answer.search.search_text,
        snapshot=answer.search.snapshot,
        degraded_stages=answer.search.degraded_stages,  # type: ignore[arg-type] # enum numbers, handed on unread
        explain_plan=answer.search.explain_plan,
        collection=answer.collection,
    )


def parse_answer(message: answer_pb2.Answer) -> Answer:
    """Return the answer of a message that this service made."""
    return Answer(
        content=message.content,
        citations=tuple(parse_citation(citation) for citation in message.citations),
        claims=tuple(_parse_claim(claim) for claim in message.claims),
        confidence=message.confidence,
        refusal=_parse_refusal(message.refusal_reason),
        finish=FinishReason(answer_pb2.FinishReason.Name(message.finish_reason).removeprefix("FINISH_REASON_")),
        message_id=message.message_id,
        collection=message.collection,
        answer_time=parse_timestamp(message.answer_time, "answer_time"),
        generator=message.generator,
        search=SearchReport(
            search_text=message.search_text,
            hits=tuple(message.hits),
            documents=tuple(message.documents),
            snapshot=message.snapshot,
            degraded_stages=tuple(message.degraded_stages),
            explain_plan=message.explain_plan if message.HasField("explain_plan") else None,
        ),
        session_id=message.session_id,
        topic_shift=message.topic_shift,
        timings=_parse_timings(message.timings),
    )


def to_ask_response(answer: Answer) -> pb.AskResponse:
    """Return the response to an Ask call."""
    return pb.AskResponse(answer=to_answer(answer))


def to_stream_response(sequence: int, event: AnswerEvent) -> pb.AskStreamResponse:
    """Return one message of an AskStream call; `sequence` counts from 1."""
    return pb.AskStreamResponse(event=to_event(sequence, event))


def to_event(sequence: int, event: AnswerEvent) -> pb.AnswerEvent:
    """Return the message of an event."""
    match event:
        case Retrieved(search):
            retrieved = pb.RetrievedEvent(hits=search.hits, search_text=search.search_text, documents=search.documents)
            return pb.AnswerEvent(sequence=sequence, retrieved=retrieved)
        case TextDelta(text, start):
            return pb.AnswerEvent(sequence=sequence, text_delta=pb.TextDelta(text=text, start=start))
        case Cited(citation):
            return pb.AnswerEvent(sequence=sequence, citation=pb.CitationEvent(citation=to_citation(citation)))
        case Final(answer):
            return pb.AnswerEvent(sequence=sequence, final=pb.FinalEvent(answer=to_answer(answer)))


def to_refusal(refusal: RefusalReason | None) -> "answer_pb2.RefusalReason.ValueType":
    """Return the enum value of a refusal, unspecified for none."""
    return answer_pb2.RefusalReason.Value(f"REFUSAL_REASON_{refusal.value if refusal else 'UNSPECIFIED'}")


def _parse_refusal(value: "answer_pb2.RefusalReason.ValueType") -> RefusalReason | None:
    if value == answer_pb2.REFUSAL_REASON_UNSPECIFIED:
        return None
    return RefusalReason(answer_pb2.RefusalReason.Name(value).removeprefix("REFUSAL_REASON_"))


def _to_claim(claim: Claim) -> answer_pb2.Claim:
    return answer_pb2.Claim(
        answer_span=to_span(claim.answer_span),
        text=claim.text,
        markers=claim.markers,
        confidence=claim.confidence,
    )


def _parse_claim(message: answer_pb2.Claim) -> Claim:
    return Claim(parse_span(message.answer_span), message.text, tuple(message.markers), message.confidence)


def _to_timings(timings: Timings) -> answer_pb2.AnswerTimings:
    return answer_pb2.AnswerTimings(
        retrieval_time=to_duration(timings.retrieval_s),
        generation_time=to_duration(timings.generation_s),
        verification_time=to_duration(timings.verification_s),
        total_time=to_duration(timings.total_s),
    )


def _parse_timings(message: answer_pb2.AnswerTimings) -> Timings:
    return Timings(
        retrieval_s=message.retrieval_time.ToTimedelta().total_seconds(),
        generation_s=message.generation_time.ToTimedelta().total_seconds(),
        verification_s=message.verification_time.ToTimedelta().total_seconds(),
        total_s=message.total_time.ToTimedelta().total_seconds(),
    )
