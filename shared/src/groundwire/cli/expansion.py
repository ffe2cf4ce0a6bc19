"""What surrounds the results of a search: `groundwire search --expand`."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groundwire.api.retrieve.v1 import retrieve_service_pb2
    from groundwire.client import GroundwireClient


HIERARCHY = "hierarchy"

expand_option = click.option(
    "--expand",
    "expand_mode",
    type=click.Choice(["window", "neighbours", "parent", HIERARCHY]),
    help="Show the results with their surroundings.",
)
radius_option = click.option(
    "--radius",
    type=int,
    help="With --expand: sentences or chunks on each side, or levels up the hierarchy; the server's default.",
)


def expand(
    client: "GroundwireClient", collection: str, chunk_ids: "Sequence[str]", mode: str, radius: int | None
) -> "Sequence[retrieve_service_pb2.ExpandedPassage]":
    """Return the passages around chunks, in the order of the chunks."""
    from groundwire.api.common.v1.chunk_pb2 import ChunkReference  # noqa: PLC0415 - --help stays fast
    from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb  # noqa: PLC0415 - the same

    is_hierarchy = mode == HIERARCHY
    passages: list[pb.ExpandedPassage] = []
    while chunk_ids:
        response = client.expand(
            collection=collection,
            chunks=[ChunkReference(chunk_id=chunk_id) for chunk_id in chunk_ids],
            mode=pb.ExpandMode.Value(f"EXPAND_MODE_{mode.upper()}"),
            radius=None if is_hierarchy else radius,
            levels_up=radius if is_hierarchy else None,
        )
        passages += response.passages
        chunk_ids = response.omitted_chunk_ids
    return passages


def passage_json(passage: "retrieve_service_pb2.ExpandedPassage") -> dict[str, Any]:
    """Return a passage with the keys that docs/reference/command-line.md names."""
    return {
        "document_id": passage.document_id,
        "chunk_ids": list(passage.requested_chunk_ids),
        "start": passage.span.start,
        "end": passage.span.end,
        "content": passage.content,
        "truncated": passage.truncated,
    }
