"""FormatCitations: citations as text, numbered sources, source nodes, and references in APA style."""

import re
from collections.abc import Sequence

from groundwire.answer.messages import MAX_CITATIONS, MAX_TEXT_CHARS, refuse_text, text_violations
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import citation_pb2, citation_style_pb2
from groundwire.api.answer.v1.citation_style_pb2 import (
    CITATION_STYLE_APA,
    CITATION_STYLE_APA_PLAIN,
    CITATION_STYLE_INLINE,
    CITATION_STYLE_NUMBERED,
    CITATION_STYLE_SOURCE_NODES,
    Reference,
)
from groundwire.kernel.errors import InvalidRequestError, refuse
from groundwire.rpc.value_messages import parse_timestamp, to_metadata

# Clients accept messages of 4 MiB by default.
_MAX_FORMATTED_BYTES = 4_000_000
_MAX_AUTHORS = 100
_MAX_AUTHOR_CHARS = 500
_MAX_REFERENCE_CHARS = 2000
_LAST_YEAR = 9999
_UNKNOWN = "unknown"


def format_citations(request: pb.FormatCitationsRequest) -> pb.FormatCitationsResponse:
    """Return the citations of a request as text.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    style = request.style
    if style not in citation_style_pb2.CitationStyle.values() or not style:
        names = ", ".join(citation_style_pb2.CitationStyle.keys()[1:])
        raise InvalidRequestError.of("style", f"must be one of {names}")
    if len(request.citations) > MAX_CITATIONS:
        raise InvalidRequestError.of("citations", f"must be at most {MAX_CITATIONS} citations")
    if len(request.references) not in {0, len(request.citations)}:
        raise InvalidRequestError.of("references", "must be none, or one for each citation")
    refuse(text_violations("content", request.content, MAX_TEXT_CHARS))
    for index, given in enumerate(request.references):
        field = f"references[{index}]"
        if len(given.authors) > _MAX_AUTHORS:
            raise InvalidRequestError.of(f"{field}.authors", f"must be at most {_MAX_AUTHORS}")
        for number, author in enumerate(given.authors):
            refuse_text(f"{field}.authors[{number}]", author, _MAX_AUTHOR_CHARS)
        for name in ("title", "source", "pages", "doi", "url"):
            refuse_text(f"{field}.{name}", getattr(given, name), _MAX_REFERENCE_CHARS)
        if given.HasField("year") and not 1 <= given.year <= _LAST_YEAR:
            raise InvalidRequestError.of(f"{field}.year", f"must be 1 to {_LAST_YEAR}")
    formatted = []
    for index, citation in enumerate(request.citations):
        formatted.append(_formatted(citation, index, request.references[index] if request.references else None, style))
    # Equal lines once; references in the order of the alphabet, others as they come.
    lines = list(dict.fromkeys(each.text for each in formatted))
    if style == CITATION_STYLE_APA:
        lines.sort(key=str.casefold)
    is_marked = style == CITATION_STYLE_INLINE and request.content
    text = request.content if is_marked else "\n".join(lines)
    response = pb.FormatCitationsResponse(text=text, citations=formatted)
    if response.ByteSize() > _MAX_FORMATTED_BYTES:
        raise InvalidRequestError.of("citations", "make a response of more than 4 MiB; send them in parts")
    return response


def _formatted(
    citation: citation_pb2.Citation,
    index: int,
    given: Reference | None,
    style: "citation_style_pb2.CitationStyle.ValueType",
) -> citation_style_pb2.FormattedCitation:
    marker, year, page, pages = citation.marker or index + 1, None, None, ""
    # Read even where a reference is given: a date that is none is refused either way.
    if citation.HasField("date_created"):
        year = parse_timestamp(citation.date_created, f"citations[{index}].date_created").year
    if citation.page_numbers:
        page, last = citation.page_numbers[0], citation.page_numbers[-1]
        pages = str(page) if len(citation.page_numbers) == 1 else f"{page}-{last}"
    reference = given or Reference(
        authors=citation.creators,
        year=year,
        title=citation.title,
        source=citation.source_uri,
        pages=pages,
        doi=citation.doi,
        url=citation.url,
    )
    if style == CITATION_STYLE_APA:
        text = apa(reference)
    elif style == CITATION_STYLE_APA_PLAIN:
        text = apa_plain(reference)
    else:
        is_short = style in {CITATION_STYLE_NUMBERED, CITATION_STYLE_SOURCE_NODES}
        quote = "" if is_short else f"\u201c{citation.quote}\u201d "
        text = f"[{marker}] {quote}{reference.title or _UNKNOWN}, p. {reference.pages or _UNKNOWN}"
    node = None
    if style == CITATION_STYLE_SOURCE_NODES:
        known = {
            "document_id": citation.document_id,
            "source": citation.source_uri,
            "title": citation.title,
            "chapter": citation.chapter,
            "section": citation.section,
            "page": page,
            "start": citation.span.start,
            "end": citation.span.end,
        }
        node = citation_style_pb2.SourceNode(
            node_id=citation.chunk_id,
            text=citation.quote,
            metadata=to_metadata({key: value for key, value in known.items() if value not in {None, ""}}),
            score=citation.relevance_score,
        )
    return citation_style_pb2.FormattedCitation(
        marker=marker,
        text=" ".join(text.split()),
        reference=reference,
        quote=citation.quote if style == CITATION_STYLE_INLINE else "",
        page=page,
        source_node=node,
    )


# APA, 7th edition: up to 20 authors are all listed; of more, the first 19 and the last.
_MOST_AUTHORS = 20
_FIRST_AUTHORS = 19
_DOI_PREFIX = re.compile(r"^(?:doi:\s*|https?://(?:dx\.)?doi\.org/)+", re.IGNORECASE)


def apa(reference: Reference) -> str:
    """Return a reference in APA style, 7th edition, as plain text.

    `&` before the last author; given names as initials if a comma separates them from the family name; from 21 authors
    on the first 19, an ellipsis and the last; `n.d.` without a year; the title first without an author; `p.` for one
    page and `pp.` for several; a DOI as a link, else the URL, without a full stop after it.
    """
    names = [_inverted(name) for name in _named(reference.authors)]
    if len(names) > _MOST_AUTHORS:
        authors = f"{', '.join(names[:_FIRST_AUTHORS])}, . . . {names[-1]}"
    else:
        authors = ", & ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    source = _source(reference)
    title, source = (reference.title, source) if reference.title else (source, "")
    year = f"({reference.year})." if reference.year else "(n.d.)."
    head = (_with_stop(authors), year, _with_stop(title)) if authors else (_with_stop(title), year)
    pages = reference.pages.replace("-", "\u2013")
    if pages:
        is_range = any(mark in pages for mark in "\u2013,")
        pages = f"{'pp.' if is_range else 'p.'} {pages}"
    place = ", ".join(part for part in (source, pages) if part)
    return " ".join(part for part in (*head, _with_stop(place), _link(reference)) if part)


def apa_plain(reference: Reference) -> str:
    """Return a reference in a simpler form: authors joined by commas, `Unknown` without any, always `pp.`.

    `Smith, J., Doe, A. (2024). Q3 Financial Report. Corporate Finance Quarterly, pp. 45-47.` A link has no stop behind
    it.
    """
    authors = ", ".join(_named(reference.authors)) or "Unknown"
    place = ", ".join(part for part in (_source(reference), reference.pages and f"pp. {reference.pages}") if part)
    head = f"{authors} ({reference.year or 'n.d.'})."
    parts = (head, _with_stop(reference.title), _with_stop(place), _link(reference))
    return " ".join(part for part in parts if part)


def _source(reference: Reference) -> str:
    """Return the source, unless the title or the link says the same, as for a file without a title."""
    return "" if reference.source in {reference.url, reference.title} else reference.source


def _link(reference: Reference) -> str:
    """Return the DOI as a link, however it was written (`10.1000/182`, `doi:10.1000/182`, a link), else the URL."""
    doi = _DOI_PREFIX.sub("", reference.doi.strip(), count=1)
    if not doi:
        return reference.url
    return doi if doi.startswith(("https://", "http://")) else f"https://doi.org/{doi}"


def _named(authors: Sequence[str]) -> list[str]:
    """Return the authors without those that are no more than blanks and punctuation."""
    return [author for author in authors if any(map(str.isalnum, author))]


def _inverted(name: str) -> str:
    """Return `Doe, J. A.` for `Doe, Jane Ann`.

    A name without a comma stays as it is: `World Health Organization` is no person.
    """
    family, _, given = (part.strip() for part in name.partition(","))
    if not family or not given:
        return family or given
    parts = (part.split("-") for part in given.split())
    initials = ["-".join(f"{each[0]}." for each in part if each) for part in parts]
    return ", ".join(part for part in (family, " ".join(filter(None, initials))) if part)


def _with_stop(text: str) -> str:
    return text if not text or text.endswith((".", "?", "!")) else f"{text}."
