"""`groundwire ask`: answer a question with citations."""

import re
import uuid
from typing import TYPE_CHECKING

import click

from groundwire.cli.options import address_option, collection_option, connect, json_option
from groundwire.cli.output import page_place, print_json, print_line, print_text
from groundwire.cli.retrieval import filter_option, min_relevance_option, mode_option, retrieval_options, top_k_option

if TYPE_CHECKING:
    from groundwire.api.answer.v1 import answer_pb2, answer_service_pb2
    from groundwire.client import GroundwireClient

NEW_SESSION = "new"
_LINE_END = re.compile(r"(?<!\n)\n(?![\n\-*#>|]|\d+\.)")
"""A line end inside a paragraph: sentences keep those of their source, which mean nothing on a terminal."""


@click.command()
@click.argument("text", help="The question.")
@collection_option
@click.option("--session", help="Session to continue; `new` starts one and prints its id.")
@click.option("--stream", is_flag=True, help="Show the answer as it is made.")
@top_k_option
@filter_option
@mode_option
@min_relevance_option
@address_option
@json_option
def ask(
    text: str,
    collection: str,
    session: str | None,
    stream: bool,
    top_k: int | None,
    filter_json: str | None,
    mode: str | None,
    min_relevance: float | None,
    address: str,
    as_json: bool,
) -> None:
    """Answer a question from a collection, every sentence with a citation that has been checked."""
    from groundwire.api.answer.v1 import answer_service_pb2 as pb  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.messages import answer_json  # noqa: PLC0415 - the same

    request = pb.AskRequest(
        question=text,
        collection=collection,
        message_id=str(uuid.uuid4()),
        options=retrieval_options(top_k, filter_json, mode, min_relevance),
    )
    with connect(address) as client:
        if session == NEW_SESSION:
            session = client.create_session(collection=collection).session.session_id
        request.session_id = session or ""
        answer = _stream(client, request, quiet=as_json) if stream else client.ask.send(request).answer
    if as_json:
        print_json(answer_json(answer, request.message_id))
    else:
        _show(answer, with_content=not stream)


def _stream(
    client: "GroundwireClient", request: "answer_service_pb2.AskRequest", *, quiet: bool
) -> "answer_pb2.Answer":
    from groundwire.api.answer.v1 import answer_service_pb2 as pb  # noqa: PLC0415 - --help stays fast
    from groundwire.kernel.errors import DataLossError  # noqa: PLC0415 - the same

    for response in client.ask_stream.send(pb.AskStreamRequest(ask=request)):
        event = response.event
        if event.HasField("final"):
            if not quiet:
                print_line()
            return event.final.answer
        if event.HasField("text_delta") and not quiet:
            print_text(_LINE_END.sub(" ", event.text_delta.text), wrap=False, end="")
    raise DataLossError("the stream ended without a final answer", what="answer stream")


def _show(answer: "answer_pb2.Answer", *, with_content: bool) -> None:
    if with_content:
        print_text(_LINE_END.sub(" ", answer.content))
    if answer.citations:
        print_line()
    for citation in answer.citations:
        place = " › ".join(part for part in (citation.source_uri, citation.section_heading or citation.chapter) if part)
        span = f"characters {citation.span.start:,}–{citation.span.end:,}"
        pages = page_place(citation.page_numbers)
        print_line((f"  [{citation.marker}] {place}{pages} · {span} · generation {citation.generation}", "dim"))
    if answer.session_id:
        print_line()
        print_line((f"session {answer.session_id}", "dim"))
