"""Does the arithmetic of an explain plan again, from nothing but the plan."""

from collections.abc import Iterator

from groundwire.api.common.v1 import explain_plan_pb2 as pb


def replay(plan: pb.ExplainPlan) -> list[str]:
    """Return the chunk ids of the results, in the order of relevance, as the plan's own figures say."""
    relevances = {each.chunk_id: computed(each.score) for each in plan.candidates}
    unseen = {"stale", "source_rejected", "incomplete"}
    limits = figures(plan, "validate")
    eligible = [
        each
        for each in plan.candidates
        if not each.HasField("duplicate_of")
        and each.fate not in unseen
        and relevances[each.chunk_id] >= limits["min_relevance"]
    ]
    chosen = sorted(eligible, key=lambda each: (each.selection_step or len(eligible) + 1, _rank(each, relevances)))
    best = sorted(chosen[: int(limits["top_k"])], key=lambda each: _rank(each, relevances))
    return [each.chunk_id for each in best]


def computed(node: pb.ScoreNode) -> float:
    """Return a figure from what was measured alone; every figure on the way must be what it says it is."""
    if not node.children:
        return node.value
    value = sum((child.weight if child.HasField("weight") else 1.0) * computed(child) for child in node.children)
    assert abs(value - node.value) < 1e-9, node
    return value


def nodes(node: pb.ScoreNode) -> Iterator[pb.ScoreNode]:
    """Yield a figure and all it was computed from."""
    yield node
    for child in node.children:
        yield from nodes(child)


def figure(each: pb.ExplainCandidate, name: str) -> float:
    """Return a figure of a candidate; 0 where it does not count."""
    return next((node.value for node in nodes(each.score) if node.name == name), 0.0)


def figures(plan: pb.ExplainPlan, stage: str) -> dict[str, float]:
    """Return the figures of a stage."""
    (found,) = [each for each in plan.stages if each.name == stage]
    return {node.name: node.value for node in found.figures}


def _rank(each: pb.ExplainCandidate, relevances: dict[str, float]) -> tuple[float, float, int]:
    return -relevances[each.chunk_id], -figure(each, "lexical_score"), each.chunk_number
