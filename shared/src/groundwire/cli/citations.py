"""Citations of an answer: where they stand, `groundwire cite`, which writes them as text, and the page for browsers.

The page has the answer, its sources, and each quote highlighted in its paragraph. It loads nothing and runs nothing,
which its own policy says too, and all that comes from documents is escaped as on a terminal: whoever wrote one must not
be able to add markup, hide words or turn the direction of writing.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from groundwire.api.answer.v1 import answer_pb2, citation_pb2, citation_style_pb2
from groundwire.api.common.v1 import document_pb2, span_pb2
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.cli.connection import connect
from groundwire.cli.options import input_argument, read_json, server_options
from groundwire.cli.output import many_lines, one_line, page_place, print_text, printed_as_json
from groundwire.client import GroundwireClient
from groundwire.client.values import enum_value
from groundwire.kernel.errors import InvalidRequestError, NotFoundError

# Most code points that are shown on each side of a quote; longer paragraphs are cut between words.
_CONTEXT_CHARS = 700


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


def opposing_citations(answer: answer_pb2.Answer) -> list[citation_pb2.Citation]:
    """Return what contradicts claims of an answer, in their order, each once."""
    citations = {each.marker: each for each in (*answer.citations, *answer.opposing_citations)}
    markers = dict.fromkeys(each.marker for claim in answer.claims for each in claim.opposing)
    return [citations[marker] for marker in markers]


def opposing_date(citation: citation_pb2.Citation) -> str:
    """Return when the document was made, as it is put behind a quote; empty where that is not known."""
    return f" ({citation.date_created.ToDatetime():%Y-%m-%d})" if citation.HasField("date_created") else ""


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
                if (window[3][0].document_id, window[3][0].generation) == (citation.document_id, citation.generation)
                and window[0] <= citation.span.start
                and citation.span.end <= window[1]
            ),
            None,
        )
        if same is None:
            start, text = citation.span.start, citation.quote
            first = max(0, start - _CONTEXT_CHARS - 1)
            request = library_pb.GetDocumentTextRequest(
                collection=citation.collection,
                reference=document_pb2.DocumentReference(document_id=citation.document_id),
                generation=citation.generation,
                start=first,
            )
            # Without an end: a range beyond the text is refused, and nobody here knows how long the text is. The first
            # part is longer than quote and context, and leaving the stream ends the rest.
            with suppress(NotFoundError), closing(client.document_text.send(request)) as responses:
                around = next(responses).text
                begin, end = start - first, citation.span.end - first
                before, after = around.rfind("\n\n", 0, begin), around.find("\n\n", end, end + _CONTEXT_CHARS)
                begin = before + 2 if before >= 0 else 0
                end = after if after >= 0 else end + _CONTEXT_CHARS
                start, text = first + begin, around[begin:end].rstrip("\n")
            windows.append((start, start + len(text), text, [citation]))
        else:
            same[3].append(citation)
    return [Quotation(tuple(cited), tuple(_parts(start, text, cited))) for start, _, text, cited in windows]


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


_OF_SPAN = ("start", "end", "start_byte", "end_byte")
_NEEDED_KEYS = ("document_id", "generation", "quote", *_OF_SPAN)
# Of the message, by the keys that are printed.
_FIELDS = {
    **{key: key for key in ("document_id", "generation", "quote", "chunk_id", "chapter", "section", "page_numbers")},
    **{key: key for key in ("title", "doi", "url")},
    "source": "source_uri",
    "score": "relevance_score",
}
_STYLES = ("numbered", "inline", "source-nodes", "apa", "apa-plain")


@click.command()
@input_argument("answer", "What `ask --json` or `ground --json` printed")
@click.option("--style", type=click.Choice(_STYLES), default="numbered", help="Citation style.")
@server_options
def cite(answer: Path, style: str) -> None:
    """Format the citations of an answer as text, such as a list of references."""
    document = read_json(answer)
    citations = read_citations(document, str(answer))
    content = document.get("answer", "")
    with connect() as client:
        response = client.format_citations(
            citations=citations,
            style=enum_value(citation_style_pb2.CitationStyle.DESCRIPTOR, style),
            content=content if isinstance(content, str) else "",
        )
    if not printed_as_json(response):
        print_text(response.text)


def read_citations(document: Any, name: str) -> list[citation_pb2.Citation]:
    """Return the citations of what `ask --json` or `ground --json` printed; `name` is that of the file.

    Raises:
        InvalidRequestError: it holds no citations as those commands print them.
    """
    items = document.get("citations") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise InvalidRequestError.of(name, "has no list `citations`")
    citations = []
    for index, item in enumerate(items):
        missing = [key for key in _NEEDED_KEYS if not isinstance(item, dict) or key not in item]
        if missing:
            raise InvalidRequestError.of(f"citations[{index}]", f"lacks {', '.join(missing)}")
        creators = item.get("creators") or []
        # A text would be taken for a list of its letters.
        if not isinstance(creators, list) or not all(isinstance(each, str) for each in creators):
            raise InvalidRequestError.of(f"citations[{index}].creators", "must be a list of texts")
        try:
            citation = citation_pb2.Citation(
                marker=item.get("marker", index + 1),
                span=span_pb2.Span(**{key: item[key] for key in _OF_SPAN}),
                creators=creators,
                **{field: item[key] for key, field in _FIELDS.items() if item.get(key) is not None},
            )
            if item.get("date_created"):
                citation.date_created.FromDatetime(datetime.fromisoformat(item["date_created"]))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidRequestError.of(f"citations[{index}]", f"has a value of the wrong type: {error}") from error
        citations.append(citation)
    return citations


_MARKER = re.compile(r"\[(\d{1,9})\]")

_STYLE = """
:root { color-scheme: light dark; --text: #1c1c1e; --quiet: #5f6368; --page: #fff; --line: #d8dadd; --mark: #fff3b0; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e6; --quiet: #a0a4a8; --page: #17181a; --line: #3a3c40; --mark: #5c4a00; }
}
body { margin: 2rem auto; max-width: 44rem; padding: 0 1rem; background: var(--page); color: var(--text);
       font: 1rem/1.6 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; line-height: 1.3; }
h2 { font-size: 1rem; margin-top: 2.5rem; }
.answer, .opposing, blockquote { white-space: pre-wrap; }
.answer { font-size: 1.1rem; }
.answer a, .opposing a { text-decoration: none; font-size: .8em; vertical-align: .3em; }
.quiet, .place { color: var(--quiet); font-size: .875rem; }
.place { margin: 0; }
section { margin: 1.5rem 0; break-inside: avoid; }
section .place:first-child { border-top: 1px solid var(--line); padding-top: .75rem; }
blockquote { margin: .5rem 0 0; padding-left: 1rem; border-left: 3px solid var(--line); }
mark { background: var(--mark); color: inherit; border-radius: 2px; print-color-adjust: exact;
       -webkit-print-color-adjust: exact; }
mark:target { outline: 2px solid currentColor; }
@media print {
  :root { --text: #000; --quiet: #444; --page: #fff; --line: #bbb; --mark: #fff3b0; }
  body { margin: 0; max-width: none; }
}
"""

_PAGE = """<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{question}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{question}</h1>
<p class="answer">{answer}</p>
{opposing}<p class="quiet">{about}</p>
{sources}</main>
</body>
</html>
"""


def write_page(path: Path, question: str, answer: answer_pb2.Answer, quotations: Sequence[Quotation]) -> None:
    """Write the page of an answer to a file.

    Raises:
        InvalidRequestError: the file cannot be written.
    """
    time = answer.answer_time.ToJsonString()
    about = f"Collection {answer.collection} · {answer.generator} · confidence {answer.confidence:.2f} · {time}"
    sections = ""
    for quotation in quotations:
        places = ""
        for citation in quotation.citations:
            place = _escaped(one_line(quoted_place(citation)))
            try:
                is_web = urlsplit(citation.url).scheme in {"http", "https"}
            except ValueError:
                is_web = False
            if is_web:  # anything else, such as `javascript:`, would run when somebody follows it
                place = f'<a href="{_escaped(one_line(citation.url))}" rel="noreferrer">{place}</a>'
            places += f'<p class="place">[{citation.marker}] {place}</p>\n'
        # A quote that another one overlaps has no part of its own; its link goes to the one that covers it.
        own = {marker for _, marker in quotation.parts}
        text = "".join(
            f'<a id="quote-{citation.marker}"></a>' for citation in quotation.citations if citation.marker not in own
        )
        for part, marker in quotation.parts:
            shown = _escaped(many_lines(part))
            text += f'<mark id="quote-{marker}">{shown}</mark>' if marker else shown
        sections += f"<section>\n{places}<blockquote>{text}</blockquote>\n</section>\n"
    # Markers are links, but what looks like one inside a statement is text of a source.
    content, done = "", 0
    markers = {citation.marker for citation in (*answer.citations, *answer.opposing_citations)}
    for claim in answer.claims:
        start, end = claim.answer_span.start, claim.answer_span.end
        content += _linked(answer.content[done:start], markers) + _escaped(many_lines(answer.content[start:end]))
        done = end
    content += _linked(answer.content[done:], markers)
    opposing = ""
    for citation in opposing_citations(answer):
        link = _linked(f"[{citation.marker}]", markers)
        opposing += (
            f'<p class="opposing">but: {_escaped(one_line(citation.quote))} {link}{opposing_date(citation)}</p>\n'
        )
    page = _PAGE.format(
        question=_escaped(one_line(question)),
        style=_STYLE,
        answer=content,
        opposing=opposing,
        about=_escaped(one_line(about)),
        sources=f"<h2>Sources</h2>\n{sections}" if sections else "",
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InvalidRequestError.of("--html", f"{path} cannot be written: {error.strerror}") from error


def _linked(text: str, markers: set[int]) -> str:
    def link(found: re.Match[str]) -> str:
        return f'<a href="#quote-{found[1]}">{found[0]}</a>' if int(found[1]) in markers else found[0]

    return _MARKER.sub(link, _escaped(many_lines(text)))


def _escaped(text: str) -> str:
    return escape(text, quote=True)
