"""The options of `groundwire search` that look behind a ranking, and the explanation on a terminal."""

from typing import TYPE_CHECKING

import click

from groundwire.cli.output import counted, print_line, print_table

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration

    from groundwire.api.common.v1 import explain_plan_pb2, retrieval_options_pb2

exact_option = click.option("--exact", is_flag=True, help="Compare with every vector instead of an index.")
diversity_option = click.option(
    "--diversity", type=float, help="How much results that resemble each other make way, 0 to 1."
)
snapshot_option = click.option("--snapshot", type=int, help="Read as of this position of the catalog.")
explain_option = click.option("--explain", is_flag=True, help="Show how the ranking came about.")

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
    print_line()
    print_table(("stage", "engine", "path", "out", "ms", "why"), list(map(_stage, plan.stages)), "no stages")
    print_line()
    for line in _arithmetic(plan):
        print_line(line)
    print_line()
    columns = ("rank", "relevance", "similarity", "words", "fate", "chunk")
    print_table(columns, list(map(_candidate, plan.candidates[:_SHOWN])), "no candidates", is_excerpt=True)
    hidden = plan.candidate_count - min(_SHOWN, len(plan.candidates))
    if hidden > 0:
        print_line((f"… and {counted(hidden, 'candidate')} more; --json shows up to 100", "dim"))
    print_line()


def _stage(stage: "explain_plan_pb2.ExplainStage") -> tuple[str | int, ...]:
    from groundwire.api.common.v1 import explain_plan_pb2 as pb  # noqa: PLC0415 - --help stays fast

    why = [stage.detail, *(f"engine cannot evaluate {clause}" for clause in stage.resolved_clauses)]
    return (
        _name(pb.ExplainStageKind.Name(stage.kind), "EXPLAIN_STAGE_KIND_"),
        stage.engine or _DASH,
        _name(pb.SearchPath.Name(stage.path), "SEARCH_PATH_") if stage.path else _DASH,
        stage.candidate_count,
        f"{_milliseconds(stage.elapsed):.2f}" if stage.elapsed.nanos else _DASH,
        "; ".join(filter(None, why)) or _DASH,
    )


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


def _candidate(each: "explain_plan_pb2.ExplainCandidate") -> tuple[str, ...]:
    from groundwire.api.common.v1 import explain_plan_pb2 as pb  # noqa: PLC0415 - --help stays fast

    return (
        str(each.rank) if each.HasField("rank") else _DASH,
        f"{each.relevance_score:.3f}",
        _scored(each.similarity, each.dense_rank),
        _scored(each.lexical_score, each.lexical_rank) if each.HasField("lexical_rank") else _DASH,
        _name(pb.CandidateFate.Name(each.fate), "CANDIDATE_FATE_"),
        each.place or each.chunk_id,
    )


def _scored(score: float, rank: int) -> str:
    return f"{score:.3f} (#{rank})" if rank else f"{score:.3f}"


def _name(value: str, prefix: str) -> str:
    return value.removeprefix(prefix).lower().replace("_", " ")


def _milliseconds(duration: "Duration") -> float:
    return duration.seconds * 1000 + duration.nanos / 1_000_000
