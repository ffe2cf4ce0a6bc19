"""The quotes of an answer where they stand: each paragraph of a source with what is quoted of it."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from groundwire.api.answer.v1 import citation_pb2
from groundwire.api.common.v1 import document_pb2
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.cli.output import page_place
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import NotFoundError

_CONTEXT_CHARS = 700
"""Most code points that are shown on each side of a quote; longer paragraphs are cut between words."""


@dataclass(frozen=True, slots=True)
class Quotation:
    """Quotes of one paragraph: `citations` of the same place in rising order, `parts` of its text in order.

    A part is (text, marker), with marker 0 for what is not quoted. Where quotes overlap, a part has the marker of the
    one that begins first. The texts of all parts are the paragraph, with an ellipsis where it is cut.
    """

    citations: tuple[citation_pb2.Citation, ...]
    parts: tuple[tuple[str, int], ...]


def quoted_place(citation: citation_pb2.Citation) -> str:
    """Return where a quote stands, for people: source, heading, pages, characters and generation."""
    place = " › ".join(part for part in (citation.source_uri, citation.section_heading or citation.chapter) if part)
    span = f"characters {citation.span.start:,}–{citation.span.end:,}"
    return f"{place}{page_place(citation.page_numbers)} · {span} · generation {citation.generation}"


def read_quotations(client: GroundwireClient, citations: Sequence[citation_pb2.Citation]) -> list[Quotation]:
    """Read the paragraph around each citation, in the order of markers; quotes of one paragraph are shown together.

    A source that was deleted meanwhile is shown by its quote alone.
    """
    windows: list[tuple[int, int, str, list[citation_pb2.Citation]]] = []
    for citation in citations:
        same = next(
            (
                window
                for window in windows
                if _generation(window[3][0]) == _generation(citation)
                and window[0] <= citation.span.start
                and citation.span.end <= window[1]
            ),
            None,
        )
        if same is None:
            start, text = _paragraph(client, citation)
            windows.append((start, start + len(text), text, [citation]))
        else:
            same[3].append(citation)
    return [Quotation(tuple(cited), tuple(_parts(start, text, cited))) for start, _, text, cited in windows]


def _generation(citation: citation_pb2.Citation) -> tuple[str, int]:
    return citation.document_id, citation.generation


def _paragraph(client: GroundwireClient, citation: citation_pb2.Citation) -> tuple[int, str]:
    """Return the paragraph that a quote stands in, and where in the source it begins."""
    first = max(0, citation.span.start - _CONTEXT_CHARS - 1)
    request = library_pb.GetDocumentTextRequest(
        collection=citation.collection,
        reference=document_pb2.DocumentReference(document_id=citation.document_id),
        generation=citation.generation,
        start=first,
    )
    # Without an end: a range beyond the text is refused, and nobody here knows how long the text is. The first part is
    # longer than quote and context, and leaving the stream ends the rest.
    try:
        with closing(client.document_text.send(request)) as responses:
            text = next(responses).text
    except NotFoundError:
        return citation.span.start, citation.quote
    quote_start, quote_end = citation.span.start - first, citation.span.end - first
    start = text.rfind("\n\n", 0, quote_start)
    start = start + 2 if start >= 0 else 0
    end = text.find("\n\n", quote_end, quote_end + _CONTEXT_CHARS)
    end = end if end >= 0 else min(len(text), quote_end + _CONTEXT_CHARS)
    return first + start, text[start:end].rstrip("\n")


def _parts(start: int, text: str, cited: Sequence[citation_pb2.Citation]) -> Iterator[tuple[str, int]]:
    """Yield the parts of a paragraph that begins at `start` of its source."""
    done = 0
    for citation in sorted(cited, key=lambda each: (each.span.start, each.span.end)):
        begin, end = max(done, citation.span.start - start), citation.span.end - start
        if begin > done:
            yield text[done:begin], 0
        if end > begin:
            yield text[begin:end], citation.marker
        done = max(done, end)
    if done < len(text):
        yield text[done:], 0
