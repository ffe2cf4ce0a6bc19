"""`groundwire search`: show the best chunks for a text."""

import json
from typing import TYPE_CHECKING, Any

import click

from groundwire.cli.expansion import expand, expand_option, passage_json, radius_option
from groundwire.cli.explanation import (
    diversity_option,
    exact_option,
    explain_option,
    refine,
    show_explanation,
    snapshot_option,
)
from groundwire.cli.options import address_option, collection_option, connect, json_option
from groundwire.cli.output import page_place, print_json, print_line, print_text
from groundwire.cli.retrieval import (
    ask_more,
    filter_option,
    min_relevance_option,
    mode_option,
    query_type_option,
    retrieval_options,
    self_query_option,
    top_down_option,
    top_k_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groundwire.api.common.v1 import retrieval_options_pb2
    from groundwire.api.retrieve.v1 import retrieve_service_pb2

EXCERPT_CHARS = 400


@click.command()
@click.argument("text", help="What to search for.")
@collection_option
@top_k_option
@filter_option
@mode_option
@min_relevance_option
@query_type_option
@self_query_option
@top_down_option
@expand_option
@radius_option
@exact_option
@diversity_option
@snapshot_option
@explain_option
@address_option
@json_option
def search(
    text: str,
    collection: str,
    top_k: int | None,
    filter_json: str | None,
    mode: str | None,
    min_relevance: float | None,
    query_types: tuple[str, ...],
    self_query: bool,
    top_down: bool,
    expand_mode: str | None,
    radius: int | None,
    exact: bool,
    diversity: float | None,
    snapshot: int | None,
    explain: bool,
    address: str,
    as_json: bool,
) -> None:
    """Show the chunks that match a text best, with their scores and places."""
    options = retrieval_options(top_k, filter_json, mode, min_relevance)
    ask_more(options, query_types, self_query=self_query, top_down=top_down)
    options.include_report = True
    refine(options, exact=exact, diversity=diversity, snapshot=snapshot, explain=explain)
    with connect(address) as client:
        response = client.retrieve(collection=collection, query=text, options=options)
        chunk_ids = [hit.chunk.chunk_id for hit in response.results]
        passages = expand(client, collection, chunk_ids, expand_mode, radius) if expand_mode else None
    if as_json:
        print_json(_as_json(response, options, passages))
        return
    _show_applied(response)
    _show(response) if passages is None else _show_passages(passages)
    if explain:
        show_explanation(response.explain_plan)
        print_line(f"read at position {response.snapshot}; --snapshot {response.snapshot} reads the same again")


def _as_json(
    response: "retrieve_service_pb2.RetrieveResponse",
    options: "retrieval_options_pb2.RetrievalOptions",
    passages: "Sequence[retrieve_service_pb2.ExpandedPassage] | None",
) -> dict[str, Any]:
    """Return what `--json` prints: more than results and times only where more was asked for."""
    from groundwire.cli.messages import applied_json, message_json, search_json  # noqa: PLC0415 - --help stays fast

    found = search_json(response)
    if options.self_query or options.strategy or options.query_types:
        found["applied"] = applied_json(response)
    if options.explain:
        found["explain"] = message_json(response.explain_plan)
    if options.explain or options.HasField("snapshot"):
        found["snapshot"] = response.snapshot
    if passages is not None:
        found["passages"] = [passage_json(passage) for passage in passages]
    return found


def _show_applied(response: "retrieve_service_pb2.RetrieveResponse") -> None:
    """Say on standard error what was applied beside the query."""
    from groundwire.cli.messages import applied_json  # noqa: PLC0415 - --help stays fast

    applied = applied_json(response)
    if applied["degraded"]:
        print_line(f"left out: {', '.join(applied['degraded'])}", err=True)
    if applied["filter"] is not None:
        print_line(f"filter: {json.dumps(applied['filter'], ensure_ascii=False)}", err=True)
    for section in applied["sections"]:
        print_line(f"searched in: {' › '.join(section['path'])}", err=True)


def _show_passages(passages: "Sequence[retrieve_service_pb2.ExpandedPassage]") -> None:
    if not passages:
        print_line("nothing found")
    for number, passage in enumerate(passages, start=1):
        source = passage.chunks[0].source_uri if passage.chunks else passage.document_id
        place = " › ".join([source, *passage.hierarchy_path])
        cut = " · cut" if passage.truncated else ""
        print_line(f"{number}  {place} · characters {passage.span.start:,}–{passage.span.end:,}{cut}")
        print_text(passage.content)
        print_line()


def _show(response: "retrieve_service_pb2.RetrieveResponse") -> None:
    if not response.results:
        print_line("nothing found")
    for hit in response.results:
        chunk = hit.chunk
        place = " › ".join([chunk.source_uri, *chunk.hierarchy_path])
        pages = page_place(chunk.page_numbers)
        found_at = f"{place}{pages} · characters {chunk.span.start:,}–{chunk.span.end:,}"
        print_line((str(hit.rank), "bold"), "  ", (f"{hit.relevance_score:.3f}", "green"), "  ", (found_at, "bold"))
        excerpt = " ".join(chunk.content.split())
        print_line(excerpt[:EXCERPT_CHARS] + ("…" if len(excerpt) > EXCERPT_CHARS else ""))
        print_line()
