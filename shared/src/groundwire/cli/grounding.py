"""`groundwire ground`: a text that somebody else wrote, compared with the sources claim by claim."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import citation_pb2
from groundwire.api.answer.v1 import grounding_pb2 as grounding_pb
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.cli.connection import connect
from groundwire.cli.messages import grounding_json, shown_name
from groundwire.cli.options import collection_option, read_text, server_options
from groundwire.cli.output import Styled, excerpt, print_line, printed_as_json
from groundwire.cli.quotations import quoted_place
from groundwire.cli.search import retrieval_options

_QUOTE_CHARS = 300
_STYLES = {
    grounding_pb.CLAIM_VERDICT_SUPPORTED: "green",
    grounding_pb.CLAIM_VERDICT_DISPUTED: "yellow",
    grounding_pb.CLAIM_VERDICT_CONTRADICTED: "red",
    grounding_pb.CLAIM_VERDICT_UNSUPPORTED: "red",
}
_FAILED = frozenset(
    {grounding_pb.GROUNDING_VERDICT_PARTLY_GROUNDED, grounding_pb.GROUNDING_VERDICT_UNGROUNDED},
)


@click.command()
@click.argument(
    "text",
    type=click.Path(path_type=Path, allow_dash=True),
    help="File with the text, plain or Markdown; - reads standard input.",
)
@collection_option
@click.option("--chunk", "chunk_ids", multiple=True, help="Compare with this chunk only; may be given several times.")
@retrieval_options
@server_options
def ground(text: Path, collection: str, chunk_ids: tuple[str, ...], options: RetrievalOptions) -> None:
    """Compare a text, whoever wrote it, with the sources: claim by claim.

    Exits with 1 if a claim that needs a source has none.
    """
    request = pb.GroundTextRequest(
        collection=collection,
        text=read_text(text),
        options=options,
        chunk_ids=chunk_ids,
    )
    with connect() as client:
        response = client.ground_text.send(request)
    if not printed_as_json(grounding_json(response)):
        citations = {citation.marker: citation for citation in response.citations}
        for claim in response.claims:
            verdict = shown_name(grounding_pb.ClaimVerdict.DESCRIPTOR, claim.verdict)
            if claim.verdict == grounding_pb.CLAIM_VERDICT_NOT_NEEDED:
                kind = shown_name(grounding_pb.ClaimKind.DESCRIPTOR, claim.kind)
                print_line((f"{kind:<13} {claim.text}", "dim"))
                continue
            markers = "".join(f" [{source.marker}]" for source in claim.sources)
            print_line((f"{verdict:<13}", _STYLES.get(claim.verdict, "")), f" {claim.text}", (markers, "bold"))
            for note in _notes(claim, citations):
                print_line(*note)
        print_line()
        whole = shown_name(grounding_pb.GroundingVerdict.DESCRIPTOR, response.verdict).replace("-", " ")
        print_line(f"{whole}: {response.supported_count} of {response.needed_count} claims have a source")
        for citation in response.citations:
            print_line()
            print_line((f"[{citation.marker}] {quoted_place(citation)}", "dim"))
            print_line(excerpt(citation.quote, _QUOTE_CHARS))
    if response.verdict in _FAILED:
        raise click.exceptions.Exit(1)


def _notes(
    claim: grounding_pb.GroundedClaim, citations: Mapping[int, citation_pb2.Citation]
) -> Iterator[Sequence[str | Styled]]:
    """Yield the lines below a claim: what its sources lack, and which say otherwise, with their dates."""
    for each in claim.discrepancies:
        yield (" " * 14, _difference(each))
    for opposing in claim.opposing:
        citation = citations[opposing.marker]
        date = f" of {citation.date_created.ToDatetime():%Y-%m-%d}" if citation.HasField("date_created") else ""
        yield (" " * 14, f"[{opposing.marker}]{date} says otherwise: {_difference(opposing.discrepancy)}")
    if claim.HasField("closest"):
        yield (" " * 14, (f"closest [{claim.closest.marker}], support {claim.support:.2f}", "dim"))


def _difference(discrepancy: grounding_pb.Discrepancy) -> str:
    kind = shown_name(grounding_pb.FactKind.DESCRIPTOR, discrepancy.kind)
    if not discrepancy.text:
        return f"{kind}: the source has “{discrepancy.instead}”"
    instead = f", the source has “{discrepancy.instead}”" if discrepancy.instead else " is not in the source"
    return f"{kind} “{discrepancy.text}”{instead}"
