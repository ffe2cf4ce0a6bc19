"""Turn the explanation of a ranking into the message of the contract."""

import json

from groundwire.api.common.v1 import explain_plan_pb2 as pb
from groundwire.api.common.v1.search_mode_pb2 import OrderBy, SearchMode
from groundwire.kernel.filter_json import filter_to_json
from groundwire.kernel.hit import StoredChunk
from groundwire.retrieve.domain.planning import DensePath
from groundwire.retrieve.domain.searching import (
    ExplainedCandidate,
    Explanation,
    ResultOrder,
    SearchPlan,
    StageKind,
    StageTrace,
)
from groundwire.rpc.times import to_duration

_PATHS = {
    DensePath.EXACT: pb.SEARCH_PATH_EXACT,
    DensePath.APPROXIMATE: pb.SEARCH_PATH_APPROXIMATE,
    DensePath.ENGINE_FILTER: pb.SEARCH_PATH_ENGINE_FILTER,
    DensePath.SCAN: pb.SEARCH_PATH_FILTERED_EXACT,
    DensePath.WITHIN: pb.SEARCH_PATH_ENGINE_FILTER,
    DensePath.OVERFETCH: pb.SEARCH_PATH_OVERFETCH,
}
_FROM_CATALOG = {DensePath.EXACT, DensePath.SCAN}
_FULL_TEXT = "sqlite-fts5"
_CATALOG = "catalog"


def to_explain_plan(explanation: Explanation, plan: SearchPlan, order: ResultOrder) -> pb.ExplainPlan:
    """Return the message."""
    message = pb.ExplainPlan(
        mode=SearchMode.Value(f"SEARCH_MODE_{plan.mode.name}"),
        dense_weight=plan.dense_weight,
        similarity_min=explanation.similarity_min,
        similarity_max=explanation.similarity_max,
        lexical_max=explanation.lexical_max,
        min_relevance=plan.min_relevance,
        chapter_support=plan.rules.support,
        rerank_weight=explanation.rerank_weight,
        diversity=plan.diversity,
        top_k=plan.top_k,
        order_by=OrderBy.Value(f"ORDER_BY_{order.name}"),
        candidate_count=explanation.candidate_count,
        filter_json="" if plan.where is None else json.dumps(filter_to_json(plan.where), ensure_ascii=False),
        candidates=[_to_candidate(candidate, plan.rules.support) for candidate in explanation.candidates],
    )
    message.stages.extend(_to_stage(stage, plan, explanation.engine) for stage in explanation.stages)
    for term in plan.terms:
        message.terms.add(term=term, chunk_count=explanation.frequencies.get(term, 0))
    for phrase in plan.phrases:
        message.phrases.add(term=phrase, chunk_count=explanation.frequencies.get(phrase, 0))
    return message


def _to_stage(stage: StageTrace, plan: SearchPlan, engine: str) -> pb.ExplainStage:
    message = pb.ExplainStage(
        kind=pb.ExplainStageKind.Value(f"EXPLAIN_STAGE_KIND_{stage.kind.name}"),
        candidate_count=stage.count,
        elapsed=to_duration(stage.elapsed_s),
        filter_applied=plan.where is not None and stage.kind in {StageKind.DENSE, StageKind.LEXICAL},
    )
    if stage.kind is StageKind.LEXICAL:
        message.engine = _FULL_TEXT
    if stage.kind is StageKind.JOIN:
        message.engine = _CATALOG
    if stage.path is None:
        return message
    message.engine = _CATALOG if stage.path.path in _FROM_CATALOG else engine
    message.path = _PATHS[stage.path.path]
    message.detail = stage.path.detail
    if plan.where is not None and stage.path.share is not None:
        message.selectivity = min(1.0, stage.path.share)
    if stage.resolved_clause:
        message.resolved_clauses.append(stage.resolved_clause)
    return message


def _to_candidate(candidate: ExplainedCandidate, support: float) -> pb.ExplainCandidate:
    score = candidate.score
    ranked = score.relevance if score.ranked is None else score.ranked
    with_chapter = score.fused if score.chapter is None else (1.0 - support) * score.fused + support * score.chapter
    return pb.ExplainCandidate(
        chunk_number=score.number,
        chunk_id=candidate.stored.chunk_id if candidate.stored else "",
        dense_rank=candidate.dense_rank,
        similarity=score.similarity,
        lexical_rank=candidate.lexical_rank,
        lexical_raw_score=candidate.lexical_raw,
        lexical_score=None if candidate.lexical_raw is None else score.lexical,
        fused_score=score.fused,
        chapter_score=score.chapter,
        query_type_bonus=max(0.0, ranked - with_chapter),
        rerank_score=score.rerank,
        relevance_score=score.relevance,
        rank=candidate.rank,
        fate=pb.CandidateFate.Value(f"CANDIDATE_FATE_{candidate.fate.name}"),
        selection_penalty=candidate.penalty,
        selection_step=candidate.selection_step,
        duplicate_of=candidate.duplicate_of,
        place=_place(candidate.stored) if candidate.stored else "",
    )


def _place(stored: StoredChunk) -> str:
    return " › ".join([stored.document.source_uri, *stored.chunk.hierarchy_path])
