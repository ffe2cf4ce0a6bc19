"""The options of a search that `groundwire search` and `groundwire ask` share."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from groundwire.api.common.v1 import metadata_filter_pb2, retrieval_options_pb2


class ModeChoice(StrEnum):
    """Search modes as the command line spells them."""

    HYBRID = "hybrid"
    VECTOR = "vector"
    LEXICAL = "lexical"


TopKOption = Annotated[int | None, typer.Option("-k", "--top-k", help="Number of chunks; the collection's default.")]
FilterOption = Annotated[
    str | None, typer.Option("--filter", help='Filter as JSON, such as {"chapter": "Traits"}; see docs/filters.md.')
]
ModeOption = Annotated[ModeChoice | None, typer.Option(help="Legs to search; the collection's default.")]
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
        filter=_filter_message(filter_json) if filter_json else None,
    )


def _filter_message(filter_json: str) -> "metadata_filter_pb2.MetadataFilter":
    from groundwire.kernel.filter_json import parse_filter_text  # noqa: PLC0415 - --help stays fast
    from groundwire.rpc.filter_messages import to_filter_message  # noqa: PLC0415 - the same

    return to_filter_message(parse_filter_text(filter_json))
