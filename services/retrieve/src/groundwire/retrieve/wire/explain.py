"""Tell how a ranking came about, by what the steps of a search left behind; its arithmetic gives the order again."""

from collections.abc import Iterator
from dataclasses import replace

from groundwire.api.common.v1 import explain_plan_pb2 as pb
from groundwire.kernel.collection import SearchMode
from groundwire.retrieve.fusion import Score
from groundwire.retrieve.ranking import neighbour_share
from groundwire.retrieve.search_types import Evidence, Fate, SearchPlan, StageKind, StageTrace
from groundwire.retrieve.vector_search import VectorPath
from groundwire.rpc.value_messages import to_duration

_PATHS = {
    VectorPath.EXACT: "exact",
    VectorPath.APPROXIMATE: "approximate",
    VectorPath.ENGINE_FILTER: "engine filter",
    VectorPath.SCAN: "filtered exact",
    VectorPath.WITHIN: "engine filter",
    VectorPath.OVERFETCH: "overfetch",
}
_FROM_CATALOG = {VectorPath.EXACT, VectorPath.SCAN}
_CATALOG = "catalog"


def to_explain_plan(evidence: Evidence, plan: SearchPlan) -> pb.ExplainPlan:
    """Return the message: stages in order, results by rank, then near misses by relevance."""
    places = {number: place for place, number in enumerate(evidence.scores.numbers.tolist())}
    listed = [evidence.scores.score(places[number]) for number in evidence.listed]
    scores = _Scores(listed, evidence, plan)
    return pb.ExplainPlan(
        stages=[_to_stage(stage, evidence, plan) for stage in evidence.stages],
        candidates=[_to_candidate(score, evidence, plan, scores.of(score)) for score in listed],
        candidate_count=len(evidence.scores),
    )


def _to_stage(stage: StageTrace, evidence: Evidence, plan: SearchPlan) -> pb.ExplainStage:
    message = pb.ExplainStage(
        name=stage.kind.value.lower(),
        candidate_count=stage.count,
        elapsed=to_duration(stage.elapsed_s),
        figures=_figures(stage, evidence, plan),
    )
    if stage.kind in {StageKind.LEXICAL, StageKind.JOIN}:
        message.engine = _CATALOG
    if stage.path is not None:
        message.engine = _CATALOG if stage.path.path in _FROM_CATALOG else evidence.engine
        message.path = _PATHS[stage.path.path]
        unable = f"engine cannot evaluate {stage.resolved_clause}" if stage.resolved_clause else ""
        message.detail = "; ".join(filter(None, (stage.path.detail, unable)))
    return message


def _figures(stage: StageTrace, evidence: Evidence, plan: SearchPlan) -> Iterator[pb.ScoreNode]:
    if stage.path is not None and plan.where is not None and stage.path.share is not None:
        yield pb.ScoreNode(name="selectivity", value=min(1.0, stage.path.share))
    match stage.kind:
        case StageKind.LEXICAL:
            for kind, texts in (("term", plan.terms), ("phrase", plan.phrases)):
                for text in texts:
                    yield pb.ScoreNode(name=kind, value=evidence.frequencies.get(text, 0), detail=text)
        case StageKind.FUSION:
            yield pb.ScoreNode(name="dense_weight", value=plan.dense_weight)
            yield pb.ScoreNode(name="similarity_min", value=evidence.similarity_min)
            yield pb.ScoreNode(name="similarity_max", value=evidence.similarity_max)
            yield pb.ScoreNode(name="lexical_max", value=max(evidence.lexical_raw.values(), default=0.0))
            yield pb.ScoreNode(name="neighbour_share", value=neighbour_share(plan.rules, plan.strategy))
            yield pb.ScoreNode(name="turn_share", value=plan.rules.turns)
        case StageKind.RERANK:
            yield pb.ScoreNode(name="rerank_weight", value=evidence.rerank_weight)
        case StageKind.VALIDATE:
            yield pb.ScoreNode(name="min_relevance", value=plan.min_relevance)
            yield pb.ScoreNode(name="top_k", value=plan.top_k)
            yield pb.ScoreNode(name="diversity", value=plan.diversity)
        case _:
            pass


class _Scores:
    """Takes the relevance of candidates apart: each figure is the sum of weight * value over its children."""

    def __init__(self, listed: list[Score], evidence: Evidence, plan: SearchPlan) -> None:
        self._evidence = evidence
        self._plan = plan
        judged = [score.ranked for score in listed if score.ranked is not None]
        self._lowest, self._highest = min(judged, default=0.0), max(judged, default=0.0)

    def of(self, score: Score) -> pb.ScoreNode:
        memory = self._evidence.memory.get(score.number)
        if memory is None:
            return self._relevance(score)
        similarity = self._relevance(replace(score, relevance=memory.similarity))
        weights = self._plan.collection.settings.retrieval.memory
        total = weights.similarity + weights.importance + weights.recency
        similarity.weight = weights.similarity / total
        importance = weights.importance * memory.influence / total
        children = [
            similarity,
            pb.ScoreNode(name="importance_share", value=memory.importance_share, weight=importance),
            pb.ScoreNode(name="recency_bonus", value=memory.recency_bonus, weight=memory.influence / total),
            pb.ScoreNode(name="update_bonus", value=memory.update_bonus, weight=1.0 / total),
        ]
        return pb.ScoreNode(name="relevance", value=score.relevance, children=children)

    def _relevance(self, score: Score) -> pb.ScoreNode:
        if score.ranked is None:
            return pb.ScoreNode(name="relevance", value=score.relevance, children=self._ranked(score))
        weight, span = self._evidence.rerank_weight, self._highest - self._lowest
        before = pb.ScoreNode(
            name="before_rerank", value=score.ranked, weight=1.0 - weight, children=self._ranked(score)
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

    def _ranked(self, score: Score) -> Iterator[pb.ScoreNode]:
        """Yield what a candidate was ranked by before the reranker."""
        ranked = score.relevance if score.ranked is None else score.ranked
        yield pb.ScoreNode(name="fused", value=score.fused, children=self._fused(score))
        if ranked > score.fused:
            yield pb.ScoreNode(name="bonus", value=ranked - score.fused)

    def _fused(self, score: Score) -> Iterator[pb.ScoreNode]:
        weight, evidence = self._plan.dense_weight, self._evidence
        lexical = pb.ScoreNode(name="lexical_score", value=score.lexical)
        if (raw := evidence.lexical_raw.get(score.number)) is not None:
            lexical.detail = f"#{evidence.lexical_ranks[score.number]}"
            best = max(evidence.lexical_raw.values())
            lexical.children.append(pb.ScoreNode(name="raw_score", value=raw, weight=1.0 / best))
        if self._plan.vector is None:  # no similarity whose scale the words could be brought to
            yield lexical
            return
        rank = evidence.dense_ranks.get(score.number)
        place = "" if rank is None else f"#{rank}"
        yield pb.ScoreNode(name="similarity", value=score.similarity, weight=weight, detail=place)
        if self._plan.mode is SearchMode.VECTOR:
            return
        low, lexical.weight = evidence.similarity_min, evidence.similarity_max - evidence.similarity_min
        floor = pb.ScoreNode(name="similarity_min", value=low)
        value = low + score.lexical * lexical.weight
        yield pb.ScoreNode(name="words", value=value, weight=1.0 - weight, children=[floor, lexical])


def _to_candidate(score: Score, evidence: Evidence, plan: SearchPlan, tree: pb.ScoreNode) -> pb.ExplainCandidate:
    number, stored = score.number, evidence.stored.get(score.number)
    return pb.ExplainCandidate(
        chunk_number=number,
        chunk_id=stored.chunk_id if stored else "",
        place=" › ".join([stored.document.source_uri, *stored.chunk.hierarchy_path]) if stored else "",
        rank=evidence.ranks.get(number),
        fate=_fate(score, evidence, plan.min_relevance).value.lower(),
        score=tree,
        selection_step=evidence.steps.get(number),
        selection_penalty=evidence.penalties.get(number, 0.0),
        duplicate_of=evidence.repeated.get(number),
    )


def _fate(score: Score, evidence: Evidence, min_relevance: float) -> Fate:
    number = score.number
    if number in evidence.ranks:
        return Fate.RETURNED
    if number not in evidence.stored:
        return Fate.STALE
    if number in evidence.withheld:
        return evidence.withheld[number]
    if number in evidence.repeated:
        return Fate.DUPLICATE
    memory = evidence.memory.get(number)
    tested = score.relevance if memory is None else memory.similarity
    return Fate.BELOW_THRESHOLD if tested < min_relevance else Fate.BEYOND_TOP_K
