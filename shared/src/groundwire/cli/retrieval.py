"""The options of a search that `groundwire search` and `groundwire ask` share."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groundwire.api.common.v1 import retrieval_options_pb2


top_k_option = click.option("-k", "--top-k", type=int, help="Number of chunks; the collection's default.")
filter_option = click.option(
    "--filter", "filter_json", help='Filter as JSON, such as {"chapter": "Traits"}; see docs/reference/filters.md.'
)
mode_option = click.option(
    "--mode", type=click.Choice(["hybrid", "vector", "lexical"]), help="What is searched; the collection's default."
)
query_type_option = click.option(
    "--query-type",
    "query_types",
    type=click.Choice(["conceptual", "factual", "section-based"]),
    multiple=True,
    help="Type of query to prefer, most wanted first; may be given several times.",
)
self_query_option = click.option("--self-query", is_flag=True, help="Derive a filter from the text first.")
top_down_option = click.option("--top-down", is_flag=True, help="Choose chapters and sections first.")
min_relevance_option = click.option(
    "--min-relevance", type=float, help="Lowest score, 0 to 1; the collection's default."
)


def retrieval_options(
    top_k: int | None, filter_json: str | None, mode: str | None, min_relevance: float | None
) -> "retrieval_options_pb2.RetrievalOptions":
    """Return the options message; what is not given is left to the server.

    Raises:
        InvalidFilterError: the filter is no JSON or no filter.
    """
    from groundwire.api.common.v1 import retrieval_options_pb2, search_mode_pb2  # noqa: PLC0415 - --help stays fast
    from groundwire.client.values import filter_message  # noqa: PLC0415 - the same

    return retrieval_options_pb2.RetrievalOptions(
        top_k=top_k,
        min_relevance=min_relevance,
        mode=search_mode_pb2.SearchMode.Value(f"SEARCH_MODE_{(mode or 'unspecified').upper()}"),
        filter=filter_message(filter_json),
    )


def ask_more(
    options: "retrieval_options_pb2.RetrievalOptions",
    query_types: "Iterable[str]",
    *,
    self_query: bool,
    top_down: bool,
) -> None:
    """Add what only searches can be told."""
    from groundwire.api.common.v1 import search_mode_pb2  # noqa: PLC0415 - --help stays fast

    names = (kind.upper().replace("-", "_") for kind in query_types)
    options.query_types.extend(search_mode_pb2.QueryType.Value(f"QUERY_TYPE_{name}") for name in names)
    options.self_query = self_query
    if top_down:
        options.strategy = search_mode_pb2.RETRIEVAL_STRATEGY_TOP_DOWN
