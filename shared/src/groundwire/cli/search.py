"""`groundwire search`: show the best chunks for a text."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from groundwire.cli.options import AddressOption, CollectionOption, JsonOption, connect
from groundwire.cli.retrieval import FilterOption, MinRelevanceOption, ModeOption, TopKOption, retrieval_options

if TYPE_CHECKING:
    from groundwire.api.retrieve.v1 import retrieve_service_pb2

EXCERPT_CHARS = 400


def search(
    text: Annotated[str, typer.Argument(help="What to search for.")],
    collection: CollectionOption,
    top_k: TopKOption = None,
    filter_json: FilterOption = None,
    mode: ModeOption = None,
    min_relevance: MinRelevanceOption = None,
    address: AddressOption = "127.0.0.1:50051",
    as_json: JsonOption = False,
) -> None:
    """Show the chunks that match a text best, with their scores and places."""
    from groundwire.cli.messages import search_json  # noqa: PLC0415 - --help stays fast

    options = retrieval_options(top_k, filter_json, mode, min_relevance)
    with connect(address) as client:
        response = client.retrieve(collection=collection, query=text, options=options)
    if as_json:
        typer.echo(json.dumps(search_json(response), ensure_ascii=False, indent=2))
    else:
        _show(response)


def _show(response: "retrieve_service_pb2.RetrieveResponse") -> None:
    from rich.console import Console  # noqa: PLC0415 - --help stays fast

    console = Console(highlight=False)
    if not response.results:
        console.print("nothing found")
    for hit in response.results:
        place = " › ".join([hit.source_uri, *hit.hierarchy_path])
        console.print(f"[bold]{hit.rank}[/]  [green]{hit.relevance_score:.3f}[/]  ", end="")
        console.print(f"{place} · characters {hit.span.start:,}–{hit.span.end:,}", markup=False, style="bold")
        excerpt = " ".join(hit.content.split())
        console.print(excerpt[:EXCERPT_CHARS] + ("…" if len(excerpt) > EXCERPT_CHARS else ""), markup=False)
        console.print()
