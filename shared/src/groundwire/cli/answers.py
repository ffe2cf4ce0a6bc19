"""`groundwire answers` and `ground`: stored answers, and texts compared with the sources."""

from pathlib import Path

import click

from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import grounding_pb2 as grounding_pb
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.cli.citations import quoted_place
from groundwire.cli.connection import connect
from groundwire.cli.messages import grounding_json, shown_name
from groundwire.cli.options import collection_option, input_argument, read_text, server_options, text_option
from groundwire.cli.output import excerpt, print_line, print_list, print_text, printed_as_json
from groundwire.cli.search import retrieval_options
from groundwire.client.contract import Contract
from groundwire.client.transport import all_items

app = click.Group("answers", help="List and show stored answers.")
_COLUMNS = ("time", "session", "answer", "stale", "question")


@app.command("list")
@text_option("--collection", "-c", help="Only answers from this collection.")
@text_option("--user", help="Only answers in sessions of this user.")
@text_option("--session", help="Only answers of this session.")
@text_option("--document", metavar="ID", help="Only answers that cite this document.")
@click.option("--stale", is_flag=True, help="Only answers whose sources have changed since or are gone.")
@server_options
def list_answers(collection: str, user: str, session: str, document: str, *, stale: bool) -> None:
    """List stored answers, newest first."""
    with connect() as client:
        pages = all_items.blocking(
            client,
            Contract.list_answers,
            "answers",
            collection=collection,
            user_id=user,
            session_id=session,
            document_id=document,
            stale=stale,
        )
        answers = list(pages)
    rows = [
        (
            each.answer.answer_time.ToJsonString(),
            each.answer.session_id,
            each.answer.message_id,
            "stale" if each.stale else "",
            each.question,
        )
        for each in answers
    ]
    print_list(answers, _COLUMNS, rows, "no answers", is_excerpt=True)


@app.command("get")
@click.argument("session_id", metavar="SESSION", help="Id of its session.")
@click.argument("answer_id", metavar="ANSWER", help="Id of the answer or of its question.")
@server_options
def get_answer(session_id: str, answer_id: str) -> None:
    """Show an answer with what became of each of its citations."""
    with connect() as client:
        found = client.get_answer(session_id=session_id, answer_id=answer_id)
    if printed_as_json(found):
        return
    print_line((found.answer.question, "bold"))
    print_text(found.answer.answer.content)
    for citation, verification in zip(found.answer.answer.citations, found.verifications, strict=True):
        generation = verification.current_generation
        if verification.generation_live and not verification.failure:
            fate = "still true"
        elif verification.HasField("current_span"):
            span = verification.current_span
            fate = f"moved to characters {span.start:,}–{span.end:,} of generation {generation}"
        elif not generation:
            fate = shown_name(verification, "failure").replace("-", " ")
        else:
            fate = f"gone from generation {generation}"
        print_line((f"  [{citation.marker}] {quoted_place(citation)}: {fate}", "dim"))


_QUOTE_CHARS = 300
_INDENT = " " * 14
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
@input_argument("text", "File with the text, plain or Markdown")
@collection_option
@click.option("--chunk", "chunk_ids", multiple=True, help="Compare with this chunk only; may be given several times.")
@retrieval_options
@server_options
def ground(text: Path, collection: str, chunk_ids: tuple[str, ...], options: RetrievalOptions) -> None:
    """Check a text against the sources, claim by claim, whoever wrote it.

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
            verdict = shown_name(claim, "verdict")
            if claim.verdict == grounding_pb.CLAIM_VERDICT_NOT_NEEDED:
                kind = shown_name(claim, "kind")
                print_line((f"{kind:<13} {claim.text}", "dim"))
                continue
            markers = "".join(f" [{source.marker}]" for source in claim.sources)
            print_line((f"{verdict:<13}", _STYLES.get(claim.verdict, "")), f" {claim.text}", (markers, "bold"))
            # Below a claim: what its sources lack, and which say otherwise, with their dates.
            for each in claim.discrepancies:
                print_line(_INDENT, _difference(each))
            for opposing in claim.opposing:
                citation = citations[opposing.marker]
                date = f" of {citation.date_created.ToDatetime():%Y-%m-%d}" if citation.HasField("date_created") else ""
                print_line(_INDENT, f"[{opposing.marker}]{date} says otherwise: {_difference(opposing.discrepancy)}")
            if claim.HasField("closest"):
                print_line(_INDENT, (f"closest [{claim.closest.marker}], support {claim.support:.2f}", "dim"))
        print_line()
        whole = shown_name(response, "verdict").replace("-", " ")
        print_line(f"{whole}: {response.supported_count} of {response.needed_count} claims have a source")
        for citation in response.citations:
            print_line()
            print_line((f"[{citation.marker}] {quoted_place(citation)}", "dim"))
            print_line(excerpt(citation.quote, _QUOTE_CHARS))
    if response.verdict in _FAILED:
        raise click.exceptions.Exit(1)


def _difference(discrepancy: grounding_pb.Discrepancy) -> str:
    kind = shown_name(discrepancy, "kind")
    if not discrepancy.text:
        return f"{kind}: the source has “{discrepancy.instead}”"
    instead = f", the source has “{discrepancy.instead}”" if discrepancy.instead else " is not in the source"
    return f"{kind} “{discrepancy.text}”{instead}"
