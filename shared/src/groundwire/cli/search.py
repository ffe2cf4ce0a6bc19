"""`groundwire search`, `ask` and `verify`: the best chunks and how they were ranked, answers, and their check."""

import functools
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from groundwire.api.answer.v1 import answer_pb2, citation_pb2
from groundwire.api.answer.v1 import answer_service_pb2 as answer_service_pb
from groundwire.api.common.v1 import explain_plan_pb2, retrieval_options_pb2, search_mode_pb2
from groundwire.api.common.v1.chunk_pb2 import ChunkReference
from groundwire.api.common.v1.degraded_stage_pb2 import DEGRADED_STAGE_GENERATION, DegradedStage
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.cli.citations import (
    opposing_citations,
    opposing_date,
    quoted_place,
    read_citations,
    read_quotations,
    write_page,
)
from groundwire.cli.connection import connect
from groundwire.cli.fields import duration_message
from groundwire.cli.messages import (
    answer_json,
    applied_json,
    message_json,
    milliseconds,
    passage_json,
    search_json,
    shown_name,
    stage_names,
)
from groundwire.cli.options import (
    INT32,
    INT64,
    collection_option,
    filter_option,
    input_argument,
    is_json,
    read_json,
    server_options,
)
from groundwire.cli.output import (
    counted,
    excerpt,
    one_line,
    page_place,
    print_line,
    print_marked,
    print_table,
    print_text,
    printed_as_json,
)
from groundwire.client import GroundwireClient
from groundwire.client.values import enum_value, filter_message
from groundwire.kernel.errors import DataLossError

_EXCERPT_CHARS = 400
_HIERARCHY = "hierarchy"
# Chunks that one call expands.
_MOST_EXPANDED = 20
_NEW_SESSION = "new"


def retrieval_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a retrieval; the command gets one message, without what the server decides."""

    @functools.wraps(command)
    def with_message(
        *,
        top_k: int | None,
        filter_json: str | None,
        mode: str | None,
        min_relevance: float | None,
        max_per_document: int | None,
        entity: str | None,
        include_global: bool,
        snapshot: int | None,
        **others: Any,
    ) -> None:
        options = retrieval_options_pb2.RetrievalOptions(
            top_k=top_k,
            min_relevance=min_relevance,
            max_per_document=max_per_document,
            mode=search_mode_pb2.SearchMode.Value(f"SEARCH_MODE_{(mode or 'unspecified').upper()}"),
            filter=filter_message(filter_json),
            entity=entity or "",
            include_global=include_global,
            snapshot=snapshot,
        )
        command(options=options, **others)

    decorated: Callable[..., None] = with_message
    for option in (
        click.option("--snapshot", type=INT64, help="Read as of this position of the catalog."),
        click.option("--include-global", is_flag=True, help="With --entity, search global records too."),
        click.option(
            "--entity",
            help="Entity whose records are searched; global records if not given. Documents are open to all.",
        ),
        click.option("--max-per-document", type=INT32, help="Maximum number of chunks of one document."),
        click.option(
            "--min-relevance", type=float, help="Lowest score to return, 0 to 1; the collection's default if not given."
        ),
        click.option(
            "--mode",
            type=click.Choice(["hybrid", "vector", "lexical"]),
            help="How to search; the collection's default if not given.",
        ),
        filter_option,
        click.option("-k", "--top-k", type=INT32, help="Number of chunks; the collection's default if not given."),
    ):
        decorated = option(decorated)
    return decorated


@click.command()
@click.argument("text", help="What to search for.")
@collection_option
@retrieval_options
@click.option(
    "--query-type",
    "query_types",
    type=click.Choice(["conceptual", "factual", "section-based"]),
    multiple=True,
    help="Type of query to prefer, most preferred first; may be given several times.",
)
@click.option("--self-query", is_flag=True, help="Derive a filter from the text first.")
@click.option("--top-down", is_flag=True, help="Select chapters and sections first, then search within them.")
@click.option(
    "--expand",
    "expand_mode",
    type=click.Choice(["window", "neighbours", "parent", _HIERARCHY]),
    help="Show the results with the text around them.",
)
@click.option(
    "--radius",
    type=INT32,
    help="With --expand: sentences or chunks on each side, or levels up the hierarchy; the server's default.",
)
@click.option("--exact", is_flag=True, help="Compare with every vector instead of using an index.")
@click.option("--diversity", type=float, help="How strongly to penalise results that resemble each other, 0 to 1.")
@click.option("--explain", is_flag=True, help="Explain how the results were ranked.")
@server_options
def search(
    text: str,
    collection: str,
    options: retrieval_options_pb2.RetrievalOptions,
    query_types: tuple[str, ...],
    self_query: bool,
    top_down: bool,
    expand_mode: str | None,
    radius: int | None,
    exact: bool,
    diversity: float | None,
    explain: bool,
) -> None:
    """Show the chunks that match a text best, with scores and locations."""
    options.MergeFrom(
        retrieval_options_pb2.RetrievalOptions(
            query_types=[enum_value(search_mode_pb2.QueryType.DESCRIPTOR, each) for each in query_types],
            strategy=search_mode_pb2.RETRIEVAL_STRATEGY_TOP_DOWN
            if top_down
            else search_mode_pb2.RETRIEVAL_STRATEGY_UNSPECIFIED,
            self_query=self_query,
            include_report=True,
            exact=exact,
            diversity=diversity,
            explain=explain,
        )
    )
    with connect() as client:
        request = pb.RetrieveRequest(collection=collection, query=text, options=options)
        response, passages = _retrieved(client, request, expand_mode, radius)
    shown = search_json(response)
    if options.self_query or options.strategy or options.query_types or response.degraded_stages:
        shown["applied"] = applied_json(response)
    if options.explain:
        shown["explain"] = message_json(response.explain_plan)
    if options.explain or options.HasField("snapshot"):
        shown["snapshot"] = response.snapshot
    if passages is not None:
        shown["passages"] = [passage_json(passage) for passage in passages]
    if printed_as_json(shown):
        return
    applied = applied_json(response)
    _show_left_out(response.degraded_stages)
    if applied["filter"] is not None:
        print_line(f"filter: {json.dumps(applied['filter'], ensure_ascii=False)}", err=True)
    for section in applied["sections"]:
        print_line(f"searched in: {' › '.join(section['path'])}", err=True)
    if passages is None:
        _show_hits(response)
    else:
        if not passages:
            print_line("nothing found")
        for number, passage in enumerate(passages, start=1):
            source = passage.chunks[0].source_uri if passage.chunks else passage.document_id
            place = " › ".join([source, *passage.hierarchy_path])
            cut = " · cut" if passage.truncated else ""
            print_line(f"{number}  {place} · characters {passage.span.start:,}–{passage.span.end:,}{cut}")
            print_text(passage.content)
            print_line()
    if explain:
        show_explanation(response.explain_plan, response.snapshot)


def _retrieved(
    client: GroundwireClient, request: pb.RetrieveRequest, mode: str | None, radius: int | None
) -> tuple[pb.RetrieveResponse, list[pb.ExpandedPassage] | None]:
    """Return the response to a search and the passages around its results, None without a mode."""
    if mode is None:
        if radius is not None:
            raise click.UsageError("--radius can only be given with --expand")
        return client.retrieve.send(request), None
    is_hierarchy = mode == _HIERARCHY
    expansion = pb.ResultExpansion(
        mode=pb.ExpandMode.Value(f"EXPAND_MODE_{mode.upper()}"),
        radius=None if is_hierarchy else radius,
        levels_up=radius if is_hierarchy else None,
        result_count=_MOST_EXPANDED,
    )
    # A search of the past refuses to expand what it finds: `Expand` shows the surroundings as they are now.
    if not request.options.HasField("snapshot"):
        request.expansion.CopyFrom(expansion)
    response = client.retrieve.send(request)
    passages = list(response.passages)
    expanded = {chunk_id for passage in passages for chunk_id in passage.requested_chunk_ids}
    left = [hit.chunk.chunk_id for hit in response.results if hit.chunk.chunk_id not in expanded]
    # Both calls expand a limited number of chunks, and a response leaves out what does not fit into a message.
    while left:
        part = client.expand(
            collection=request.collection,
            chunks=[ChunkReference(chunk_id=chunk_id) for chunk_id in left[:_MOST_EXPANDED]],
            mode=expansion.mode,
            radius=expansion.radius if expansion.HasField("radius") else None,
            levels_up=expansion.levels_up if expansion.HasField("levels_up") else None,
        )
        passages += part.passages
        left = [*part.omitted_chunk_ids, *left[_MOST_EXPANDED:]]
    return response, passages


def _show_hits(response: pb.RetrieveResponse) -> None:
    if not response.results:
        print_line("nothing found")
    for hit in response.results:
        chunk = hit.chunk
        place = " › ".join([chunk.source_uri, *chunk.hierarchy_path]) + page_place(chunk.page_numbers)
        span = f"characters {chunk.span.start:,}–{chunk.span.end:,}"
        score = f"{hit.relevance_score:.3f}"
        print_line((str(hit.rank), "bold"), "  ", (score, "green"), "  ", (f"{place} · {span}", "bold"))
        print_line(excerpt(chunk.content, _EXCERPT_CHARS))
        print_line()


def answering_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of what may be said in an answer."""
    grounding = click.option(
        "--grounding",
        type=click.Choice(["strict", "annotate"]),
        default="strict",
        help="What to do with a chat model's sentences that no source supports: strict drops, annotate marks them.",
    )
    strictness = click.option(
        "--strictness", type=float, help="How confident an answer must be, 0 to 1; the server's default if not given."
    )
    return grounding(strictness(command))


@click.command()
@click.argument("text", help="The question.")
@collection_option
@click.option("--session", help="Session to continue; `new` starts one and prints its id.")
@click.option("--keep-for", help="How long to store the answer, such as 12h or 30d; `answers get` shows it again.")
@click.option("--stream", is_flag=True, help="Show the answer as it is generated.")
@click.option("--show", is_flag=True, help="Show each quote in its paragraph, highlighted.")
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the answer and its sources to this file as an HTML page.",
)
@click.option("--explain", is_flag=True, help="Explain how the chunks were ranked that it was answered from.")
@answering_options
@retrieval_options
@server_options
def ask(
    text: str,
    collection: str,
    session: str | None,
    keep_for: str | None,
    stream: bool,
    show: bool,
    page: Path | None,
    explain: bool,
    grounding: str,
    options: retrieval_options_pb2.RetrievalOptions,
    strictness: float | None,
) -> None:
    """Answer a question from a collection, with a verified citation for every sentence."""
    if show and is_json():
        raise click.UsageError("--show is for people and --json for programs; give one of them")
    options.explain = explain
    # The id is made here, so that a retry of the call is the same question and the output can name it.
    request = answer_service_pb.AskRequest(
        question=text,
        collection=collection,
        message_id=str(uuid.uuid4()),
        options=options,
        grounding=enum_value(answer_pb2.GroundingPolicy.DESCRIPTOR, grounding),
        strictness=strictness,
    )
    if keep_for:
        request.keep_for.CopyFrom(duration_message(keep_for, "--keep-for"))
    with connect() as client:
        if session == _NEW_SESSION:
            session = client.create_session(collection=collection).session.session_id
        request.session_id = session or ""
        answer = streamed(client, request, quiet=is_json()) if stream else client.ask.send(request).answer
        cited = (*answer.citations, *answer.opposing_citations)
        quotations = read_quotations(client, cited) if show or page else []
    if page is not None:
        write_page(page, text, answer, quotations)
        print_line(f"wrote {page}", err=True)
    shown = answer_json(answer, request.message_id)
    if explain:
        shown["explain"] = message_json(answer.explain_plan)
    if explain or options.HasField("snapshot"):
        shown["snapshot"] = answer.snapshot
    if printed_as_json(shown):
        return
    if not stream:
        print_text(answer.content)
    show_opposing(answer)
    if show:
        for quotation in quotations:
            show_places(quotation.citations)
            print_marked([(text, marker > 0) for text, marker in quotation.parts])
    else:
        show_places(cited)
    show_generation(answer)
    if answer.session_id:
        print_line()
        print_line((f"session {answer.session_id}", "dim"))
    if explain:
        show_explanation(answer.explain_plan, answer.snapshot)


def _show_left_out(stages: Iterable["DegradedStage.ValueType"]) -> None:
    if names := stage_names(stages):
        print_line(f"left out: {', '.join(names)}", err=True)


def show_generation(answer: answer_pb2.Answer) -> None:
    """Say on standard error which parts of an answer were left out, and what became of the text of a chat model."""
    # The report below says more of the model.
    _show_left_out(stage for stage in answer.degraded_stages if stage != DEGRADED_STAGE_GENERATION)
    for span in answer.unsupported_spans:
        print_line((f"no source supports: {answer.content[span.start : span.end]}", "yellow"), err=True)
    report = answer.generation
    if report.dropped_sentence_count:
        print_line(f"left out, as no source supports them: {report.dropped_sentence_count} of {report.model}", err=True)
    if report.failure:
        failure = shown_name(report, "failure")
        instead = "the answer ends early" if answer.generator == report.model else "the answer is quoted"
        print_line(f"{report.model} failed ({failure}): {instead}", err=True)


def show_opposing(answer: answer_pb2.Answer) -> None:
    """Print what contradicts an answer, below its text."""
    for citation in opposing_citations(answer):
        print_text(f"but: {one_line(citation.quote)} [{citation.marker}]{opposing_date(citation)}")


def show_places(citations: Sequence[citation_pb2.Citation]) -> None:
    """Print where the quotes of an answer stand, below its text."""
    if citations:
        print_line()
    for citation in citations:
        print_line((f"  [{citation.marker}] {quoted_place(citation)}", "dim"))


def streamed(client: GroundwireClient, request: answer_service_pb.AskRequest, *, quiet: bool) -> answer_pb2.Answer:
    """Print the text of an answer as it comes, unless `quiet`, and return the whole."""
    for response in client.ask_stream.send(answer_service_pb.AskStreamRequest(ask=request)):
        event = response.event
        if event.HasField("final"):
            if not quiet:
                print_line()
            return event.final.answer
        if event.HasField("text_delta") and not quiet:
            print_text(event.text_delta.text, wrap=False, end="")
    raise DataLossError("the stream ended without a final answer", what="answer stream")


@click.command()
@input_argument("answer", "What `ask --json` printed")
@server_options
def verify(answer: Path) -> None:
    """Compare each quote of an answer with the stored text, character for character.

    Exits with 1 if a citation fails.
    """
    citations = read_citations(read_json(answer), str(answer))
    with connect() as client:
        response = client.verify_citations(citations=citations)
    if not printed_as_json(response):
        if not citations:
            print_line("the answer cites nothing")
        for citation, verification in zip(citations, response.verifications, strict=True):
            verdict = shown_name(verification, "verdict")
            failure = shown_name(verification, "failure").replace("-", " ")
            reason = f" ({failure})" if failure else ""
            span = f"{citation.source_uri} characters {citation.span.start:,}–{citation.span.end:,}"
            now, moved_to = verification.current_generation, verification.live_span
            # What became of a quote whose document has changed since.
            fate = f" · nowhere in generation {now}" if now else " · the document is gone"
            if verification.generation_live and verification.verdict == citation_pb2.CITATION_VERDICT_EXACT:
                fate = ""
            elif verification.quote_state == citation_pb2.QUOTE_STATE_IN_PLACE:
                fate = f" · in its place in generation {now} too"
            elif verification.quote_state == citation_pb2.QUOTE_STATE_MOVED:
                fate = f" · at characters {moved_to.start:,}–{moved_to.end:,} of generation {now}"
            print_line(f"[{citation.marker}] {verdict}{reason}  {span}, generation {citation.generation}{fate}")
    if not response.all_verified:
        raise click.exceptions.Exit(1)


_SHOWN = 15
_DASH = "–"


def show_explanation(plan: explain_plan_pb2.ExplainPlan, snapshot: int) -> None:
    """Print stages, arithmetic, candidates and the position that was read."""
    print_line()
    stages = []
    for stage in plan.stages:
        elapsed_ms = milliseconds(stage.elapsed)
        shown_ms = f"{elapsed_ms:.2f}" if elapsed_ms else _DASH
        places = stage.engine or _DASH, stage.path or _DASH
        stages.append((_words(stage.name), *places, stage.candidate_count, shown_ms, stage.detail or _DASH))
    print_table(("stage", "engine", "path", "out", "ms", "why"), stages, "no stages")
    print_line()
    formulas: dict[str, str] = {}
    for candidate in plan.candidates:
        for node in _nodes(candidate.score):
            if node.children:
                terms = [
                    f"{child.weight:.3f} * {child.name}" if child.HasField("weight") else child.name
                    for child in node.children
                ]
                formulas.setdefault(node.name, " + ".join(terms))
    lines = [f"{name} = {formula}" for name, formula in formulas.items()]
    figures = {figure.name: figure.value for stage in plan.stages for figure in stage.figures}
    if share := figures.get("diversity"):
        lines.append(f"selected by relevance - {share:.2f} * similarity to the nearest one already selected")
    for stage in plan.stages:
        shown = [f"{figure.name} {figure.value:.4g} {figure.detail}".rstrip() for figure in stage.figures]
        if shown:
            lines.append(f"{_words(stage.name)}: {', '.join(shown)}")
    for line in lines:
        print_line(line)
    print_line()
    columns = ("rank", "relevance", "similarity", "words", "fate", "chunk")
    rows = []
    for each in plan.candidates[:_SHOWN]:
        nodes = {node.name: node for node in _nodes(each.score)}
        rank = str(each.rank) if each.HasField("rank") else _DASH
        scores = (f"{each.score.value:.3f}", _scored(nodes.get("similarity")), _scored(nodes.get("lexical_score")))
        rows.append((rank, *scores, _words(each.fate), each.place or each.chunk_id))
    print_table(columns, rows, "no candidates", is_excerpt=True)
    hidden = plan.candidate_count - min(_SHOWN, len(plan.candidates))
    if hidden > 0:
        print_line((f"… and {counted(hidden, 'candidate')} more; --json shows up to 100", "dim"))
    print_line()
    print_line(f"read at position {snapshot}; --snapshot {snapshot} reads the same again")


def _nodes(node: explain_plan_pb2.ScoreNode) -> Iterator[explain_plan_pb2.ScoreNode]:
    yield node
    for child in node.children:
        yield from _nodes(child)


def _scored(node: explain_plan_pb2.ScoreNode | None) -> str:
    if node is None:
        return _DASH
    return f"{node.value:.3f} ({node.detail})" if node.detail else f"{node.value:.3f}"


def _words(name: str) -> str:
    return name.replace("_", " ")
