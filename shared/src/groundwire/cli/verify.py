"""`groundwire verify`: check the citations of a stored answer against the stored text."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groundwire.cli.options import address_option, connect, json_option, read_json
from groundwire.cli.output import print_json, print_line
from groundwire.kernel.errors import InvalidRequestError

if TYPE_CHECKING:
    from groundwire.api.answer.v1 import citation_pb2

REQUIRED = ("document_id", "generation", "quote", "start", "end", "start_byte", "end_byte")


@click.command()
@click.argument(
    "answer",
    type=click.Path(path_type=Path, allow_dash=True),
    help="What `ask --json` printed; - reads standard input.",
)
@address_option
@json_option
def verify(answer: Path, address: str, as_json: bool) -> None:
    """Compare each quote of an answer with the stored text, character for character.

    Exits with 1 if a citation fails.
    """
    citations = [_message(item, index) for index, item in enumerate(_citations(answer))]
    with connect(address) as client:
        response = client.verify_citations(citations=citations)
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    if as_json:
        print_json(message_json(response))
    else:
        if not citations:
            print_line("the answer cites nothing")
        for citation, checked in zip(citations, message_json(response)["verifications"], strict=True):
            _show(citation, checked)
    if not response.all_verified:
        raise click.exceptions.Exit(1)


def _show(citation: "citation_pb2.Citation", checked: dict[str, Any]) -> None:
    verdict = checked["verdict"].removeprefix("CITATION_VERDICT_").lower()
    span = f"{citation.source_uri} characters {citation.span.start:,}–{citation.span.end:,}"
    note = "" if checked["generation_live"] else " · the document has changed since or is gone"
    failure = checked["failure"].removeprefix("VERIFICATION_FAILURE_").lower().replace("_", " ")
    reason = "" if failure == "unspecified" else f" ({failure})"
    print_line(f"[{citation.marker}] {verdict}{reason}  {span}, generation {citation.generation}{note}")


def _citations(answer: Path) -> list[Any]:
    document = read_json(answer)
    citations = document.get("citations") if isinstance(document, dict) else None
    if not isinstance(citations, list):
        raise InvalidRequestError.of(str(answer), "has no list `citations`")
    return citations


def _message(item: Any, index: int) -> "citation_pb2.Citation":
    from groundwire.api.answer.v1 import citation_pb2  # noqa: PLC0415 - --help stays fast
    from groundwire.api.common.v1 import span_pb2  # noqa: PLC0415 - the same

    missing = [key for key in REQUIRED if not isinstance(item, dict) or key not in item]
    if missing:
        raise InvalidRequestError.of(f"citations[{index}]", f"lacks {', '.join(missing)}")
    try:
        span = span_pb2.Span(**{key: item[key] for key in ("start", "end", "start_byte", "end_byte")})
        return citation_pb2.Citation(
            marker=item.get("marker", index + 1),
            document_id=item["document_id"],
            source_uri=item.get("source", ""),
            generation=item["generation"],
            chunk_id=item.get("chunk_id", ""),
            quote=item["quote"],
            span=span,
        )
    except (TypeError, ValueError) as error:
        raise InvalidRequestError.of(f"citations[{index}]", f"has a value of the wrong type: {error}") from error
