"""`groundwire logs`: show which queries were asked."""

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from groundwire.cli.options import AddressOption, JsonOption, connect
from groundwire.cli.output import print_json, print_line
from groundwire.cli.paging import PAGE_SIZE, all_items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.timestamp_pb2 import Timestamp

    from groundwire.api.retrieve.v1 import query_log_pb2

SinceOption = Annotated[datetime | None, typer.Option(help="Only queries from this time on; UTC.")]
UntilOption = Annotated[datetime | None, typer.Option(help="Only queries before this time; UTC.")]


def logs(
    collection: Annotated[str, typer.Option("--collection", "-c", help="Only queries of this collection.")] = "",
    count: Annotated[int, typer.Option("-n", "--count", help="Most entries to show.", min=1)] = 20,
    since: SinceOption = None,
    until: UntilOption = None,
    address: AddressOption = "127.0.0.1:50051",
    as_json: JsonOption = False,
) -> None:
    """Show the queries that were asked, newest first."""
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    with connect(address) as client:

        def fetch(token: str) -> "tuple[Sequence[query_log_pb2.QueryLog], str]":
            page = client.list_query_logs(
                collection=collection,
                start_time=_timestamp(since),
                end_time=_timestamp(until),
                page_size=min(count, PAGE_SIZE),
                page_token=token,
            )
            return page.logs, page.next_page_token

        entries = list(islice(all_items(fetch), count))
    if as_json:
        print_json([message_json(entry) for entry in entries])
        return
    for entry in entries:
        print_line(_line(entry))


def _line(entry: "query_log_pb2.QueryLog") -> str:
    from groundwire.cli.messages import milliseconds  # noqa: PLC0415 - --help stays fast

    time = entry.log_time.ToDatetime().isoformat(sep=" ", timespec="seconds")
    outcome = entry.error_reason or f"{entry.results_count} results, {entry.avg_relevance:.3f}"
    query = " ".join(entry.query.split()) or "(text not logged)"
    return f"{time}  {milliseconds(entry.processing_time):8.1f} ms  {outcome:<24}  {entry.collection}  {query}"


def _timestamp(moment: datetime | None) -> "Timestamp | None":
    from google.protobuf.timestamp_pb2 import Timestamp  # noqa: PLC0415 - --help stays fast

    if moment is None:
        return None
    message = Timestamp()
    message.FromDatetime(moment)
    return message
