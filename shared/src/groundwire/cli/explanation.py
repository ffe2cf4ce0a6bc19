"""The options of `groundwire search` that look behind a ranking, and the explanation on a terminal."""

from typing import TYPE_CHECKING, Annotated

import typer

from groundwire.cli.output import console, counted

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration

    from groundwire.api.common.v1 import explain_plan_pb2, retrieval_options_pb2

ExactOption = Annotated[bool, typer.Option("--exact", help="Compare with every vector instead of an index.")]
DiversityOption = Annotated[
    float | None, typer.Option(help="How much results that resemble each other make way, 0 to 1.")
]
SnapshotOption = Annotated[int | None, typer.Option(help="Read as of this position of the catalog.")]
ExplainOption = Annotated[bool, typer.Option("--explain", help="Show how the ranking came about.")]

_SHOWN = 15
_DASH = "–"


def refine(
    options: "retrieval_options_pb2.RetrievalOptions",
    *,
    exact: bool,
    diversity: float | None,
    snapshot: int | None,
    explain: bool,
) -> None:
    """Add to the options what was given."""
    options.exact = exact
    options.explain = explain
    if diversity is not None:
        options.diversity = diversity
    if snapshot is not None:
        options.snapshot = snapshot


def show_explanation(plan: "explain_plan_pb2.ExplainPlan") -> None:
    """Print stages, arithmetic and candidates."""
    shown = console()
    shown.print(_stages(plan))
    for line in _arithmetic(plan):
        shown.print(line, markup=False)
    shown.print(_candidates(plan))
    hidden = plan.candidate_count - min(_SHOWN, len(plan.candidates))
    if hidden > 0:
        shown.print(f"… and {counted(hidden, 'candidate')} more; --json shows up to 100", markup=False, style="dim")


def _stages(plan: "explain_plan_pb2.ExplainPlan") -> object:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - --help stays fast
    from rich.table import Table  # noqa: PLC0415 - the same

    from groundwire.api.common.v1 import explain_plan_pb2 as pb  # noqa: PLC0415 - the same

    table = Table("stage", "engine", "path", box=SIMPLE_HEAD)
    table.add_column("out", justify="right")
    table.add_column("ms", justify="right")
    table.add_column("why")
    for stage in plan.stages:
        why = [stage.detail, *(f"engine cannot evaluate {clause}" for clause in stage.resolved_clauses)]
        table.add_row(
            _name(pb.ExplainStageKind.Name(stage.kind), "EXPLAIN_STAGE_KIND_"),
            stage.engine or _DASH,
            _name(pb.SearchPath.Name(stage.path), "SEARCH_PATH_") if stage.path else _DASH,
            str(stage.candidate_count),
            f"{_milliseconds(stage.elapsed):.2f}" if stage.elapsed.nanos else _DASH,
            "; ".join(filter(None, why)) or _DASH,
        )
    return table


def _arithmetic(plan: "explain_plan_pb2.ExplainPlan") -> list[str]:
    weight, low, high = plan.dense_weight, plan.similarity_min, plan.similarity_max
    fused = f"{weight:.2f} * similarity + {1 - weight:.2f} * ({low:.3f} + words * {high - low:.3f})"
    lines = [f"fused = {fused}"]
    if plan.chapter_support:
        support = plan.chapter_support
        lines.append(f"relevance = {1 - support:.2f} * fused + {support:.2f} * chapter + bonus")
    if plan.rerank_weight:
        lines.append(f"the reranker decides {plan.rerank_weight:.0%} of the relevance of what it read")
    if plan.diversity:
        lines.append(f"selected by relevance - {plan.diversity:.2f} * similarity to the nearest one already selected")
    terms = [*plan.terms, *plan.phrases]
    if terms:
        lines.append("words: " + ", ".join(f"{term.term} ({counted(term.chunk_count, 'chunk')})" for term in terms))
    if plan.filter_json:
        lines.append(f"filter: {plan.filter_json}")
    return [*lines, f"at least {plan.min_relevance:.2f} relevant, at most {plan.top_k} results"]


def _candidates(plan: "explain_plan_pb2.ExplainPlan") -> object:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - --help stays fast
    from rich.markup import escape  # noqa: PLC0415 - the same
    from rich.table import Table  # noqa: PLC0415 - the same

    from groundwire.api.common.v1 import explain_plan_pb2 as pb  # noqa: PLC0415 - the same

    table = Table(box=SIMPLE_HEAD)
    for heading, width in (("rank", 4), ("relevance", 9), ("similarity", 12), ("words", 12)):
        table.add_column(heading, justify="right", no_wrap=True, min_width=width)
    table.add_column("fate", no_wrap=True, min_width=12)
    table.add_column("chunk", no_wrap=True, overflow="ellipsis")
    for each in plan.candidates[:_SHOWN]:
        table.add_row(
            str(each.rank) if each.HasField("rank") else _DASH,
            f"{each.relevance_score:.3f}",
            _scored(each.similarity, each.dense_rank),
            _scored(each.lexical_score, each.lexical_rank) if each.HasField("lexical_rank") else _DASH,
            _name(pb.CandidateFate.Name(each.fate), "CANDIDATE_FATE_"),
            escape(each.place or each.chunk_id),
        )
    return table


def _scored(score: float, rank: int) -> str:
    return f"{score:.3f} (#{rank})" if rank else f"{score:.3f}"


def _name(value: str, prefix: str) -> str:
    return value.removeprefix(prefix).lower().replace("_", " ")


def _milliseconds(duration: "Duration") -> float:
    return duration.seconds * 1000 + duration.nanos / 1_000_000
