"""`groundwire logs`: show which queries were asked."""

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

import click

from groundwire.cli.options import address_option, connect, json_option
from groundwire.cli.output import print_json, print_line
from groundwire.cli.paging import PAGE_SIZE, all_items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.timestamp_pb2 import Timestamp

    from groundwire.api.retrieve.v1 import query_log_pb2

since_option = click.option("--since", type=click.DateTime(), help="Only queries from this time on; UTC.")
until_option = click.option("--until", type=click.DateTime(), help="Only queries before this time; UTC.")


@click.command()
@click.option("--collection", "-c", default="", help="Only queries of this collection.")
@click.option("-n", "--count", type=click.IntRange(min=1), default=20, help="Most entries to show.")
@since_option
@until_option
@address_option
@json_option
def logs(
    collection: str, count: int, since: datetime | None, until: datetime | None, address: str, as_json: bool
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
    outcome = entry.error_reason or f"{entry.result_count} results, {entry.average_relevance:.3f}"
    query = " ".join(entry.query.split()) or "(text not logged)"
    return f"{time}  {milliseconds(entry.processing_time):8.1f} ms  {outcome:<24}  {entry.collection}  {query}"


def _timestamp(moment: datetime | None) -> "Timestamp | None":
    from google.protobuf.timestamp_pb2 import Timestamp  # noqa: PLC0415 - --help stays fast

    if moment is None:
        return None
    message = Timestamp()
    message.FromDatetime(moment)
    return message
