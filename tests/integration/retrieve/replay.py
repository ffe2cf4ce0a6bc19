"""Does the arithmetic of an explain plan again, from nothing but the plan."""

from groundwire.api.common.v1 import explain_plan_pb2 as pb


def replay(plan: pb.ExplainPlan) -> list[str]:
    """Return the chunk ids of the results, in the order of relevance, as the plan's own figures say."""
    relevances = {each.chunk_id: _relevance(plan, each) for each in plan.candidates}
    relevances |= _reranked(plan, relevances)
    for each in plan.candidates:
        assert abs(relevances[each.chunk_id] - each.relevance_score) < 1e-9, each
    unseen = {pb.CANDIDATE_FATE_STALE, pb.CANDIDATE_FATE_SOURCE_REJECTED, pb.CANDIDATE_FATE_INCOMPLETE}
    eligible = [
        each
        for each in plan.candidates
        if not each.HasField("duplicate_of")
        and each.fate not in unseen
        and relevances[each.chunk_id] >= plan.min_relevance
    ]
    chosen = sorted(eligible, key=lambda each: (each.selection_step or len(eligible) + 1, _rank(each, relevances)))
    best = sorted(chosen[: plan.top_k], key=lambda each: _rank(each, relevances))
    return [each.chunk_id for each in best]


def _rank(each: pb.ExplainCandidate, relevances: dict[str, float]) -> tuple[float, float, int]:
    return -relevances[each.chunk_id], -each.lexical_score, each.chunk_number


def _relevance(plan: pb.ExplainPlan, each: pb.ExplainCandidate) -> float:
    low, high = plan.similarity_min, plan.similarity_max
    words = each.lexical_raw_score / plan.lexical_max if plan.lexical_max else 0.0
    assert abs(words - each.lexical_score) < 1e-9
    fused = plan.dense_weight * each.similarity + (1 - plan.dense_weight) * (low + words * (high - low))
    assert abs(fused - each.fused_score) < 1e-9, each
    chapter = each.chapter_score if each.HasField("chapter_score") else fused
    return (1 - plan.chapter_support) * fused + plan.chapter_support * chapter + each.query_type_bonus


def _reranked(plan: pb.ExplainPlan, relevances: dict[str, float]) -> dict[str, float]:
    judged = [each for each in plan.candidates if each.HasField("rerank_score")]
    if not judged:
        return {}
    before = [relevances[each.chunk_id] for each in judged]
    low, high, weight = min(before), max(before), plan.rerank_weight
    return {
        each.chunk_id: (1 - weight) * relevances[each.chunk_id] + weight * (low + each.rerank_score * (high - low))
        for each in judged
    }
