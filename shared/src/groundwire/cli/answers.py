"""`groundwire answers`: look at answers that are kept, and at what became of their sources."""

import click

from groundwire.api.answer.v1 import citation_pb2
from groundwire.cli.connection import all_items, connect
from groundwire.cli.messages import shown_name
from groundwire.cli.options import server_options
from groundwire.cli.output import print_line, print_table, print_text, printed_as_json
from groundwire.cli.quotations import quoted_place

app = click.Group("answers", help="List and show answers that are kept.")
_COLUMNS = ("time", "session", "answer", "stale", "question")


@app.command("list")
@click.option("--collection", "-c", default="", help="Only answers from this collection.")
@click.option("--user", default="", help="Only answers in sessions of this user.")
@click.option("--session", default="", help="Only answers of this session.")
@click.option("--stale", is_flag=True, help="Only answers whose sources have changed since or are gone.")
@server_options
def list_answers(collection: str, user: str, session: str, *, stale: bool) -> None:
    """List answers that are kept, the newest first."""
    with connect() as client:
        pages = all_items(
            client.list_answers, "answers", collection=collection, user_id=user, session_id=session, stale=stale
        )
        answers = list(pages)
    if printed_as_json(answers):
        return
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
    print_table(_COLUMNS, rows, "no answers", is_excerpt=True)


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
        print_line((f"  [{citation.marker}] {quoted_place(citation)}: {_fate(verification)}", "dim"))


def _fate(verification: citation_pb2.CitationVerification) -> str:
    """Return what became of a citation, for people."""
    if verification.generation_live and not verification.failure:
        return "still true"
    if verification.HasField("current_span"):
        span = verification.current_span
        return f"moved to characters {span.start:,}–{span.end:,} of generation {verification.current_generation}"
    if not verification.current_generation:
        return shown_name(citation_pb2.VerificationFailure.DESCRIPTOR, verification.failure).replace("-", " ")
    return f"gone from generation {verification.current_generation}"
