"""The options of a search that `groundwire search` and `groundwire ask` share."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groundwire.api.common.v1 import metadata_filter_pb2, retrieval_options_pb2


class ModeChoice(StrEnum):
    """Search modes as the command line spells them."""

    HYBRID = "hybrid"
    VECTOR = "vector"
    LEXICAL = "lexical"


class QueryTypeChoice(StrEnum):
    """Types of queries as the command line spells them."""

    CONCEPTUAL = "conceptual"
    FACTUAL = "factual"
    SECTION_BASED = "section-based"


TopKOption = Annotated[int | None, typer.Option("-k", "--top-k", help="Number of chunks; the collection's default.")]
FilterOption = Annotated[
    str | None, typer.Option("--filter", help='Filter as JSON, such as {"chapter": "Traits"}; see docs/filters.md.')
]
ModeOption = Annotated[ModeChoice | None, typer.Option(help="Legs to search; the collection's default.")]
QueryTypeOption = Annotated[
    list[QueryTypeChoice] | None,
    typer.Option("--query-type", help="Type of query to prefer, most wanted first; may be given several times."),
]
SelfQueryOption = Annotated[bool, typer.Option("--self-query", help="Derive a filter from the text first.")]
TopDownOption = Annotated[bool, typer.Option("--top-down", help="Choose chapters and sections first.")]
MinRelevanceOption = Annotated[float | None, typer.Option(help="Lowest score, 0 to 1; the collection's default.")]


def retrieval_options(
    top_k: int | None, filter_json: str | None, mode: ModeChoice | None, min_relevance: float | None
) -> "retrieval_options_pb2.RetrievalOptions":
    """Return the options message; what is not given is left to the server.

    Raises:
        InvalidFilterError: the filter is no JSON or no filter.
    """
    from groundwire.api.common.v1 import retrieval_options_pb2, search_mode_pb2  # noqa: PLC0415 - --help stays fast

    return retrieval_options_pb2.RetrievalOptions(
        top_k=top_k,
        min_relevance=min_relevance,
        mode=search_mode_pb2.SearchMode.Value(f"SEARCH_MODE_{mode.name if mode else 'UNSPECIFIED'}"),
        filter=filter_message(filter_json),
    )


def ask_more(
    options: "retrieval_options_pb2.RetrievalOptions",
    query_types: "Iterable[QueryTypeChoice]",
    *,
    self_query: bool,
    top_down: bool,
) -> None:
    """Add what only searches can be told."""
    from groundwire.api.common.v1 import search_mode_pb2  # noqa: PLC0415 - --help stays fast

    options.query_types.extend(search_mode_pb2.QueryType.Value(f"QUERY_TYPE_{kind.name}") for kind in query_types)
    options.self_query = self_query
    if top_down:
        options.strategy = search_mode_pb2.RETRIEVAL_STRATEGY_TOP_DOWN


def filter_message(filter_json: str | None) -> "metadata_filter_pb2.MetadataFilter | None":
    """Return the message of a filter in JSON, None when none is given.

    Raises:
        InvalidFilterError: the filter is no JSON or no filter.
    """
    from groundwire.kernel.filter_json import parse_filter_text  # noqa: PLC0415 - --help stays fast
    from groundwire.rpc.filter_messages import to_filter_message  # noqa: PLC0415 - the same

    return None if filter_json is None else to_filter_message(parse_filter_text(filter_json))
