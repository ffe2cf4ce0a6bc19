"""How a ranking came about, as `groundwire search --explain` shows it."""

from collections.abc import Iterator

from groundwire.api.common.v1 import explain_plan_pb2
from groundwire.cli.messages import milliseconds
from groundwire.cli.output import counted, print_line, print_table

_SHOWN = 15
_DASH = "–"


def show_explanation(plan: explain_plan_pb2.ExplainPlan) -> None:
    """Print stages, arithmetic and candidates."""
    print_line()
    print_table(("stage", "engine", "path", "out", "ms", "why"), list(map(_stage, plan.stages)), "no stages")
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
    for line in (*lines, *filter(None, map(_figures, plan.stages))):
        print_line(line)
    print_line()
    columns = ("rank", "relevance", "similarity", "words", "fate", "chunk")
    print_table(columns, list(map(_candidate, plan.candidates[:_SHOWN])), "no candidates", is_excerpt=True)
    hidden = plan.candidate_count - min(_SHOWN, len(plan.candidates))
    if hidden > 0:
        print_line((f"… and {counted(hidden, 'candidate')} more; --json shows up to 100", "dim"))
    print_line()


def _stage(stage: explain_plan_pb2.ExplainStage) -> tuple[str | int, ...]:
    elapsed_ms = milliseconds(stage.elapsed)
    return (
        _words(stage.name),
        stage.engine or _DASH,
        stage.path or _DASH,
        stage.candidate_count,
        f"{elapsed_ms:.2f}" if elapsed_ms else _DASH,
        stage.detail or _DASH,
    )


def _figures(stage: explain_plan_pb2.ExplainStage) -> str:
    shown = [f"{figure.name} {figure.value:.4g} {figure.detail}".rstrip() for figure in stage.figures]
    return f"{_words(stage.name)}: {', '.join(shown)}" if shown else ""


def _candidate(each: explain_plan_pb2.ExplainCandidate) -> tuple[str, ...]:
    nodes = {node.name: node for node in _nodes(each.score)}
    return (
        str(each.rank) if each.HasField("rank") else _DASH,
        f"{each.score.value:.3f}",
        _scored(nodes.get("similarity")),
        _scored(nodes.get("lexical_score")),
        _words(each.fate),
        each.place or each.chunk_id,
    )


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
