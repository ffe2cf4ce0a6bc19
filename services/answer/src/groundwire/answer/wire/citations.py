"""Citations and what their verification found."""

from groundwire.answer.domain.answer import Citation
from groundwire.answer.domain.verifying import ClaimedCitation, Verification
from groundwire.answer.wire.spans import parse_span
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import citation_pb2
from groundwire.kernel.errors import InvalidRequestError
from groundwire.rpc.chunk_messages import to_span
from groundwire.rpc.times import parse_timestamp, to_timestamp

MAX_CITATIONS = 1000
"""Most citations of one VerifyCitations call."""


def to_citation(citation: Citation) -> citation_pb2.Citation:
    """Return the message of a checked citation."""
    return citation_pb2.Citation(
        marker=citation.marker,
        document_id=citation.document_id,
        source_uri=citation.source_uri,
        generation=citation.generation,
        chunk_id=citation.chunk_id,
        chunk_number=citation.chunk_number,
        quote=citation.quote,
        quote_sha256=citation.quote_sha256,
        span=to_span(citation.span),
        relevance_score=citation.relevance,
        chapter=citation.chapter,
        section=citation.section,
        section_heading=citation.section_heading,
        page_numbers=citation.page_numbers,
        title=citation.title,
        creators=citation.creators,
        date_created=to_timestamp(citation.date_created) if citation.date_created else None,
        collection=citation.collection,
        answer_spans=[to_span(span) for span in citation.answer_spans],
        verdict=citation_pb2.CITATION_VERDICT_EXACT,
        doi=citation.doi,
        url=citation.url,
    )


def parse_citation(message: citation_pb2.Citation) -> Citation:
    """Return the citation of a message that this service made."""
    return Citation(
        marker=message.marker,
        collection=message.collection,
        document_id=message.document_id,
        source_uri=message.source_uri,
        generation=message.generation,
        chunk_id=message.chunk_id,
        chunk_number=message.chunk_number,
        quote=message.quote,
        span=parse_span(message.span),
        relevance=message.relevance_score,
        chapter=message.chapter,
        section=message.section,
        section_heading=message.section_heading,
        title=message.title,
        page_numbers=tuple(message.page_numbers),
        creators=tuple(message.creators),
        date_created=parse_timestamp(message.date_created, "date_created")
        if message.HasField("date_created")
        else None,
        doi=message.doi,
        url=message.url,
        answer_spans=tuple(parse_span(span) for span in message.answer_spans),
    )


def parse_verify_request(request: pb.VerifyCitationsRequest) -> list[ClaimedCitation]:
    """Return the citations to check, nothing of them trusted.

    Raises:
        InvalidRequestError: there are more than 1,000.
    """
    if len(request.citations) > MAX_CITATIONS:
        raise InvalidRequestError.of("citations", f"must be at most {MAX_CITATIONS} citations")
    return [_to_claimed(message) for message in request.citations]


def _to_claimed(message: citation_pb2.Citation) -> ClaimedCitation:
    span = message.span
    return ClaimedCitation(
        collection=message.collection,
        document_id=message.document_id,
        generation=message.generation,
        chars=(span.start, span.end),
        bytes_=(span.start_byte, span.end_byte),
        quote=message.quote,
        quote_sha256=message.quote_sha256,
        chunk_id=message.chunk_id,
        chunk_number=message.chunk_number,
    )


def to_verify_response(verifications: list[Verification]) -> pb.VerifyCitationsResponse:
    """Return the response to a VerifyCitations call."""
    return pb.VerifyCitationsResponse(
        verifications=[_to_verification(each) for each in verifications],
        all_verified=all(each.failure is None for each in verifications),
    )


def _to_verification(found: Verification) -> citation_pb2.CitationVerification:
    name = f"VERIFICATION_FAILURE_{found.failure.value if found.failure else 'UNSPECIFIED'}"
    verdict = citation_pb2.CITATION_VERDICT_FAILED if found.failure else citation_pb2.CITATION_VERDICT_EXACT
    return citation_pb2.CitationVerification(
        verdict=verdict,
        failure=citation_pb2.VerificationFailure.Value(name),
        stored_text=found.stored_text,
        generation_live=found.generation_live,
        current_generation=found.current_generation,
        current_span=to_span(found.current_span) if found.current_span else None,
        message=found.message,
    )
