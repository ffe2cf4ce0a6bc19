"""`groundwire cite`: the citations of an answer as text, and how an answer that was printed is read back."""

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from groundwire.api.answer.v1 import citation_pb2, citation_style_pb2
from groundwire.api.common.v1 import span_pb2
from groundwire.cli.connection import connect
from groundwire.cli.options import read_json, server_options
from groundwire.cli.output import print_text, printed_as_json
from groundwire.client.values import enum_value
from groundwire.kernel.errors import InvalidRequestError

_NEEDED_KEYS = ("document_id", "generation", "quote", "start", "end", "start_byte", "end_byte")
_STYLES = ("numbered", "inline", "source-nodes", "apa", "apa-plain")


@click.command()
@click.argument(
    "answer",
    type=click.Path(path_type=Path, allow_dash=True),
    help="What `ask --json` or `ground --json` printed; - reads standard input.",
)
@click.option("--style", type=click.Choice(_STYLES), default="numbered", help="How to write them.")
@server_options
def cite(answer: Path, style: str) -> None:
    """Write the citations of an answer as text, such as a list of references."""
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
    return [_citation(item, index) for index, item in enumerate(items)]


def _citation(item: Any, index: int) -> citation_pb2.Citation:
    missing = [key for key in _NEEDED_KEYS if not isinstance(item, dict) or key not in item]
    if missing:
        raise InvalidRequestError.of(f"citations[{index}]", f"lacks {', '.join(missing)}")
    try:
        span = span_pb2.Span(**{key: item[key] for key in ("start", "end", "start_byte", "end_byte")})
        citation = citation_pb2.Citation(
            marker=item.get("marker", index + 1),
            document_id=item["document_id"],
            source_uri=item.get("source", ""),
            generation=item["generation"],
            chunk_id=item.get("chunk_id", ""),
            quote=item["quote"],
            span=span,
            relevance_score=item.get("score") or 0.0,
            chapter=item.get("chapter") or "",
            section=item.get("section") or "",
            page_numbers=item.get("page_numbers") or (),
            title=item.get("title") or "",
            creators=item.get("creators") or (),
            doi=item.get("doi") or "",
            url=item.get("url") or "",
        )
        if item.get("date_created"):
            citation.date_created.FromDatetime(datetime.fromisoformat(item["date_created"]))
    except (TypeError, ValueError) as error:
        raise InvalidRequestError.of(f"citations[{index}]", f"has a value of the wrong type: {error}") from error
    return citation
