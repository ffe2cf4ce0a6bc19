"""An answer as one page for browsers: its text, its sources, and each quote highlighted in its paragraph.

The page loads nothing and runs nothing, which its own policy says too, and all that comes from documents is escaped as
on a terminal: whoever wrote one must not be able to add markup, hide words or turn the direction of writing.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

from groundwire.api.answer.v1 import answer_pb2, citation_pb2
from groundwire.cli.output import many_lines, one_line
from groundwire.cli.quotations import Quotation, quoted_place
from groundwire.kernel.errors import InvalidRequestError

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
.answer, blockquote { white-space: pre-wrap; }
.answer { font-size: 1.1rem; }
.answer a { text-decoration: none; font-size: .8em; vertical-align: .3em; }
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
<p class="quiet">{about}</p>
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
    sections = "".join(_section(quotation) for quotation in quotations)
    page = _PAGE.format(
        question=_escaped(one_line(question)),
        style=_STYLE,
        answer="".join(_answer(answer)),
        about=_escaped(one_line(about)),
        sources=f"<h2>Sources</h2>\n{sections}" if sections else "",
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InvalidRequestError.of("--html", f"{path} cannot be written: {error.strerror}") from error


def _answer(answer: answer_pb2.Answer) -> Iterator[str]:
    """Yield the content, its markers as links; what looks like one inside a statement is text of a source."""
    done = 0
    markers = {citation.marker for citation in answer.citations}
    for claim in answer.claims:
        yield _linked(answer.content[done : claim.answer_span.start], markers)
        yield _escaped(many_lines(answer.content[claim.answer_span.start : claim.answer_span.end]))
        done = claim.answer_span.end
    yield _linked(answer.content[done:], markers)


def _linked(text: str, markers: set[int]) -> str:
    def link(found: re.Match[str]) -> str:
        return f'<a href="#quote-{found[1]}">{found[0]}</a>' if int(found[1]) in markers else found[0]

    return _MARKER.sub(link, _escaped(many_lines(text)))


def _section(quotation: Quotation) -> str:
    """Return the places of quotes and the paragraph they stand in."""
    places = "".join(
        f'<p class="place">[{citation.marker}] {_place(citation)}</p>\n' for citation in quotation.citations
    )
    # A quote that another one overlaps has no part of its own; its link goes to the one that covers it.
    shown = {marker for _, marker in quotation.parts}
    covered = "".join(
        f'<a id="quote-{citation.marker}"></a>' for citation in quotation.citations if citation.marker not in shown
    )
    text = "".join(
        f'<mark id="quote-{marker}">{_escaped(many_lines(part))}</mark>' if marker else _escaped(many_lines(part))
        for part, marker in quotation.parts
    )
    return f"<section>\n{places}<blockquote>{covered}{text}</blockquote>\n</section>\n"


def _place(citation: citation_pb2.Citation) -> str:
    """Return where a quote stands, as a link where the document has an address of the web."""
    place = _escaped(one_line(quoted_place(citation)))
    try:
        is_web = urlsplit(citation.url).scheme in {"http", "https"}
    except ValueError:
        is_web = False
    # Anything else, such as `javascript:`, would run when somebody follows it.
    return f'<a href="{_escaped(one_line(citation.url))}" rel="noreferrer">{place}</a>' if is_web else place


def _escaped(text: str) -> str:
    return escape(text, quote=True)
