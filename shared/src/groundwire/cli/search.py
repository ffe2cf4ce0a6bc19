"""`groundwire search`: show the best chunks for a text."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groundwire.cli.expansion import ExpandOption, RadiusOption, expand, passage_json
from groundwire.cli.explanation import (
    DiversityOption,
    ExactOption,
    ExplainOption,
    SnapshotOption,
    refine,
    show_explanation,
)
from groundwire.cli.options import AddressOption, CollectionOption, JsonOption, connect
from groundwire.cli.output import page_place, print_json, print_line, print_text
from groundwire.cli.retrieval import (
    FilterOption,
    MinRelevanceOption,
    ModeOption,
    QueryTypeOption,
    SelfQueryOption,
    TopDownOption,
    TopKOption,
    ask_more,
    retrieval_options,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groundwire.api.common.v1 import retrieval_options_pb2
    from groundwire.api.retrieve.v1 import retrieve_service_pb2

EXCERPT_CHARS = 400


def search(
    text: Annotated[str, typer.Argument(help="What to search for.")],
    collection: CollectionOption,
    top_k: TopKOption = None,
    filter_json: FilterOption = None,
    mode: ModeOption = None,
    min_relevance: MinRelevanceOption = None,
    query_types: QueryTypeOption = None,
    self_query: SelfQueryOption = False,
    top_down: TopDownOption = False,
    expand_mode: ExpandOption = None,
    radius: RadiusOption = None,
    exact: ExactOption = False,
    diversity: DiversityOption = None,
    snapshot: SnapshotOption = None,
    explain: ExplainOption = False,
    address: AddressOption = "127.0.0.1:50051",
    as_json: JsonOption = False,
) -> None:
    """Show the chunks that match a text best, with their scores and places."""
    options = retrieval_options(top_k, filter_json, mode, min_relevance)
    ask_more(options, query_types or (), self_query=self_query, top_down=top_down)
    refine(options, exact=exact, diversity=diversity, snapshot=snapshot, explain=explain)
    with connect(address) as client:
        response = client.retrieve(collection=collection, query=text, options=options)
        chunk_ids = [hit.chunk_id for hit in response.results]
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
        place = " › ".join([hit.source_uri, *hit.hierarchy_path])
        pages = page_place(hit.page_numbers)
        found_at = f"{place}{pages} · characters {hit.span.start:,}–{hit.span.end:,}"
        print_line((str(hit.rank), "bold"), "  ", (f"{hit.relevance_score:.3f}", "green"), "  ", (found_at, "bold"))
        excerpt = " ".join(hit.content.split())
        print_line(excerpt[:EXCERPT_CHARS] + ("…" if len(excerpt) > EXCERPT_CHARS else ""))
        print_line()
