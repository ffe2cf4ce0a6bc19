"""`groundwire stats`: show how much is stored."""

from typing import TYPE_CHECKING

import click

from groundwire.cli.options import address_option, connect, json_option
from groundwire.cli.output import print_fields, print_json, print_table
from groundwire.cli.paging import PAGE_SIZE, all_items

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groundwire.api.retrieve.v1 import stats_pb2

COLUMNS = ("collection", "documents", "chunks", "vectors", "characters", "overlap", "per document")
NO_KEY = "(none)"


@click.command()
@click.option("--collection", "-c", default="", help="Collection to show in detail; all in short if not given.")
@address_option
@json_option
def stats(collection: str, address: str, as_json: bool) -> None:
    """Show the figures of what is live, counted in the catalog."""
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    with connect(address) as client:

        def page(token: str) -> "tuple[Sequence[stats_pb2.CollectionStats], str]":
            response = client.list_stats(collection=collection, page_size=PAGE_SIZE, page_token=token)
            return response.stats, response.next_page_token

        found = list(all_items(page))
    if as_json:
        print_json([message_json(each) for each in found])
    elif collection:
        for each in found:
            _show(each)
    else:
        print_table(COLUMNS, [_row(each) for each in found], "no collections")


def _row(each: "stats_pb2.CollectionStats") -> tuple[str | int | float, ...]:
    return (
        each.collection,
        each.document_count,
        each.chunk_count,
        each.vector_count,
        each.total_chars,
        f"{each.overlap_share:.1%}",
        round(each.average_vectors_per_document, 1),
    )


def _show(each: "stats_pb2.CollectionStats") -> None:
    print_fields(
        {
            "collection": each.collection,
            "documents": f"{each.document_count:,}",
            "chunks": f"{each.chunk_count:,}",
            "vectors": f"{each.vector_count:,}",
            "characters": f"{each.total_chars:,}",
            "overlap": f"{each.overlap_share:.1%} of the characters",
            "vectors per document": round(each.average_vectors_per_document, 1),
            "model": f"{each.embedding.model_name}, {each.embedding.dimensions} dimensions",
            "by format": _counts(each.by_format),
            "projects": f"{each.project_count:,}",
            "by project": _counts(each.by_project),
            "by embedding model": _counts(each.by_embedding_model),
        }
    )


def _counts(counts: "Iterable[stats_pb2.KeyCount]") -> str:
    return ", ".join(f"{count.key or NO_KEY} {count.count:,}" for count in counts)
