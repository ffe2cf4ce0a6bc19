"""The messages of FormatCitations: every rule on a request, and its citations as text in a style."""

from dataclasses import replace

from groundwire.answer.answers import Citation
from groundwire.answer.citation_styles import CitationStyle, Reference, line_of, list_of, reference_of
from groundwire.answer.messages import MAX_CITATIONS, MAX_TEXT_CHARS, parse_citation, refuse_text, text_violations
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import citation_style_pb2
from groundwire.kernel.errors import InvalidRequestError
from groundwire.rpc.value_messages import to_metadata

_MAX_FORMATTED_BYTES = 4_000_000
_MAX_AUTHORS = 100
_MAX_AUTHOR_CHARS = 500
_MAX_REFERENCE_CHARS = 2000
_LAST_YEAR = 9999


def to_format_response(request: pb.FormatCitationsRequest) -> pb.FormatCitationsResponse:
    """Return the citations of a request as text.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    if request.style not in citation_style_pb2.CitationStyle.values() or not request.style:
        raise InvalidRequestError.of("style", "must be one of the styles")
    if len(request.citations) > MAX_CITATIONS:
        raise InvalidRequestError.of("citations", f"must be at most {MAX_CITATIONS} citations")
    if len(request.references) not in {0, len(request.citations)}:
        raise InvalidRequestError.of("references", "must be none, or one for each citation")
    if violations := list(text_violations("content", request.content, MAX_TEXT_CHARS)):
        raise InvalidRequestError(violations)
    style = CitationStyle(citation_style_pb2.CitationStyle.Name(request.style).removeprefix("CITATION_STYLE_"))
    formatted = []
    for index, message in enumerate(request.citations):
        citation = parse_citation(message)
        citation = replace(citation, marker=citation.marker or index + 1)
        given = request.references[index] if request.references else None
        reference = reference_of(citation) if given is None else _parse_reference(given, f"references[{index}]")
        is_node = style is CitationStyle.SOURCE_NODES
        formatted.append(
            citation_style_pb2.FormattedCitation(
                marker=citation.marker,
                text=" ".join(line_of(citation, reference, style).split()),
                reference=citation_style_pb2.Reference(
                    authors=reference.authors,
                    year=reference.year or None,
                    title=reference.title,
                    source=reference.source,
                    pages=reference.pages,
                    doi=reference.doi,
                    url=reference.url,
                ),
                quote=citation.quote if style is CitationStyle.INLINE else "",
                page=citation.page_numbers[0] if citation.page_numbers else None,
                source_node=_to_source_node(citation) if is_node else None,
            )
        )
    text = list_of([each.text for each in formatted], style)
    if style is CitationStyle.INLINE and request.content:
        text = request.content
    response = pb.FormatCitationsResponse(text=text, citations=formatted)
    if response.ByteSize() > _MAX_FORMATTED_BYTES:
        raise InvalidRequestError.of("citations", "make a response of more than 4 MiB; send them in parts")
    return response


def _to_source_node(citation: Citation) -> citation_style_pb2.SourceNode:
    known = {
        "document_id": citation.document_id,
        "source": citation.source_uri,
        "title": citation.title,
        "chapter": citation.chapter,
        "section": citation.section,
        "page": citation.page_numbers[0] if citation.page_numbers else "",
        "start": citation.span.start,
        "end": citation.span.end,
    }
    metadata = to_metadata({key: value for key, value in known.items() if value != ""})
    return citation_style_pb2.SourceNode(
        node_id=citation.chunk_id, text=citation.quote, metadata=metadata, score=citation.relevance
    )


def _parse_reference(message: citation_style_pb2.Reference, field: str) -> Reference:
    if len(message.authors) > _MAX_AUTHORS:
        raise InvalidRequestError.of(f"{field}.authors", f"must be at most {_MAX_AUTHORS}")
    for index, author in enumerate(message.authors):
        refuse_text(f"{field}.authors[{index}]", author, _MAX_AUTHOR_CHARS)
    for name in ("title", "source", "pages", "doi", "url"):
        refuse_text(f"{field}.{name}", getattr(message, name), _MAX_REFERENCE_CHARS)
    if message.HasField("year") and not 1 <= message.year <= _LAST_YEAR:
        raise InvalidRequestError.of(f"{field}.year", f"must be 1 to {_LAST_YEAR}")
    return Reference(
        authors=tuple(message.authors),
        year=message.year,
        title=message.title,
        source=message.source,
        pages=message.pages,
        doi=message.doi,
        url=message.url,
    )
