"""Turn the explanation of a ranking into the message of the contract."""

from collections.abc import Iterator

from groundwire.api.common.v1 import explain_plan_pb2 as pb
from groundwire.kernel.collection import SearchMode
from groundwire.kernel.hit import StoredChunk
from groundwire.retrieve.domain.planning import DensePath
from groundwire.retrieve.domain.searching import ExplainedCandidate, Explanation, SearchPlan, StageKind, StageTrace
from groundwire.rpc.times import to_duration

_PATHS = {
    DensePath.EXACT: "exact",
    DensePath.APPROXIMATE: "approximate",
    DensePath.ENGINE_FILTER: "engine filter",
    DensePath.SCAN: "filtered exact",
    DensePath.WITHIN: "engine filter",
    DensePath.OVERFETCH: "overfetch",
}
_FROM_CATALOG = {DensePath.EXACT, DensePath.SCAN}
_FULL_TEXT = "sqlite-fts5"
_CATALOG = "catalog"


def to_explain_plan(explanation: Explanation, plan: SearchPlan) -> pb.ExplainPlan:
    """Return the message."""
    scores = _Scores(explanation, plan)
    return pb.ExplainPlan(
        stages=[_to_stage(stage, explanation, plan) for stage in explanation.stages],
        candidates=[_to_candidate(candidate, scores.of(candidate)) for candidate in explanation.candidates],
        candidate_count=explanation.candidate_count,
    )


def _to_stage(stage: StageTrace, explanation: Explanation, plan: SearchPlan) -> pb.ExplainStage:
    message = pb.ExplainStage(
        name=stage.kind.value.lower(),
        candidate_count=stage.count,
        elapsed=to_duration(stage.elapsed_s),
        figures=_figures(stage, explanation, plan),
    )
    if stage.kind is StageKind.LEXICAL:
        message.engine = _FULL_TEXT
    if stage.kind is StageKind.JOIN:
        message.engine = _CATALOG
    if stage.path is not None:
        message.engine = _CATALOG if stage.path.path in _FROM_CATALOG else explanation.engine
        message.path = _PATHS[stage.path.path]
        unable = f"engine cannot evaluate {stage.resolved_clause}" if stage.resolved_clause else ""
        message.detail = "; ".join(filter(None, (stage.path.detail, unable)))
    return message


def _figures(stage: StageTrace, explanation: Explanation, plan: SearchPlan) -> Iterator[pb.ScoreNode]:
    if stage.path is not None and plan.where is not None and stage.path.share is not None:
        yield pb.ScoreNode(name="selectivity", value=min(1.0, stage.path.share))
    match stage.kind:
        case StageKind.LEXICAL:
            for kind, texts in (("term", plan.terms), ("phrase", plan.phrases)):
                for text in texts:
                    yield pb.ScoreNode(name=kind, value=explanation.frequencies.get(text, 0), detail=text)
        case StageKind.FUSION:
            yield pb.ScoreNode(name="dense_weight", value=plan.dense_weight)
            yield pb.ScoreNode(name="similarity_min", value=explanation.similarity_min)
            yield pb.ScoreNode(name="similarity_max", value=explanation.similarity_max)
            yield pb.ScoreNode(name="lexical_max", value=explanation.lexical_max)
            yield pb.ScoreNode(name="chapter_support", value=plan.rules.support)
        case StageKind.RERANK:
            yield pb.ScoreNode(name="rerank_weight", value=explanation.rerank_weight)
        case StageKind.VALIDATE:
            yield pb.ScoreNode(name="min_relevance", value=plan.min_relevance)
            yield pb.ScoreNode(name="top_k", value=plan.top_k)
            yield pb.ScoreNode(name="diversity", value=plan.diversity)
        case _:
            pass


class _Scores:
    """Takes the relevance of candidates apart: each figure is the sum of weight * value over its children."""

    def __init__(self, explanation: Explanation, plan: SearchPlan) -> None:
        self._explanation = explanation
        self._plan = plan
        judged = [each.score.ranked for each in explanation.candidates if each.score.ranked is not None]
        self._lowest, self._highest = min(judged, default=0.0), max(judged, default=0.0)

    def of(self, candidate: ExplainedCandidate) -> pb.ScoreNode:
        score = candidate.score
        if score.ranked is None:
            return pb.ScoreNode(name="relevance", value=score.relevance, children=self._ranked(candidate))
        weight, span = self._explanation.rerank_weight, self._highest - self._lowest
        before = pb.ScoreNode(
            name="before_rerank", value=score.ranked, weight=1.0 - weight, children=self._ranked(candidate)
        )
        share = score.rerank or 0.0
        judged = pb.ScoreNode(
            name="reranked",
            value=self._lowest + share * span,
            weight=weight,
            children=[
                pb.ScoreNode(name="before_rerank_min", value=self._lowest),
                pb.ScoreNode(name="rerank_score", value=share, weight=span),
            ],
        )
        return pb.ScoreNode(name="relevance", value=score.relevance, children=[before, judged])

    def _ranked(self, candidate: ExplainedCandidate) -> Iterator[pb.ScoreNode]:
        """Yield what a candidate was ranked by before the reranker."""
        score, support = candidate.score, self._plan.rules.support
        ranked = score.relevance if score.ranked is None else score.ranked
        summed = score.fused
        fused = pb.ScoreNode(name="fused", value=score.fused, children=self._fused(candidate))
        if score.chapter is not None:
            fused.weight = 1.0 - support
            summed = fused.weight * score.fused + support * score.chapter
        yield fused
        if score.chapter is not None:
            yield pb.ScoreNode(name="chapter", value=score.chapter, weight=support)
        if ranked > summed:
            yield pb.ScoreNode(name="query_type_bonus", value=ranked - summed)

    def _fused(self, candidate: ExplainedCandidate) -> Iterator[pb.ScoreNode]:
        score, weight, explanation = candidate.score, self._plan.dense_weight, self._explanation
        lexical = pb.ScoreNode(name="lexical_score", value=score.lexical)
        if candidate.lexical_raw is not None:
            lexical.detail = f"#{candidate.lexical_rank}"
            raw = pb.ScoreNode(name="raw_score", value=candidate.lexical_raw, weight=1.0 / explanation.lexical_max)
            lexical.children.append(raw)
        if self._plan.vector is None:  # no similarity whose scale the words could be brought to
            yield lexical
            return
        place = "" if candidate.dense_rank is None else f"#{candidate.dense_rank}"
        yield pb.ScoreNode(name="similarity", value=score.similarity, weight=weight, detail=place)
        if self._plan.mode is SearchMode.VECTOR:
            return
        low, lexical.weight = explanation.similarity_min, explanation.similarity_max - explanation.similarity_min
        floor = pb.ScoreNode(name="similarity_min", value=low)
        value = low + score.lexical * lexical.weight
        yield pb.ScoreNode(name="words", value=value, weight=1.0 - weight, children=[floor, lexical])


def _to_candidate(candidate: ExplainedCandidate, score: pb.ScoreNode) -> pb.ExplainCandidate:
    return pb.ExplainCandidate(
        chunk_number=candidate.score.number,
        chunk_id=candidate.stored.chunk_id if candidate.stored else "",
        place=_place(candidate.stored) if candidate.stored else "",
        rank=candidate.rank,
        fate=candidate.fate.value.lower(),
        score=score,
        selection_step=candidate.selection_step,
        selection_penalty=candidate.penalty,
        duplicate_of=candidate.duplicate_of,
    )


def _place(stored: StoredChunk) -> str:
    return " › ".join([stored.document.source_uri, *stored.chunk.hierarchy_path])
