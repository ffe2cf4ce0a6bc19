"""Turn what a search found into the messages of the contract: hits, report, flat records, explanation, context."""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime

from groundwire.api.common.v1 import degraded_stage_pb2
from groundwire.api.common.v1 import explain_plan_pb2 as explain_pb
from groundwire.api.common.v1.hit_pb2 import HIT_VIEW_IDS, Hit, HitView, MemoryScore
from groundwire.api.retrieve.v1 import retrieve_report_pb2 as report_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.chunk import StoredChunk
from groundwire.kernel.collection import ProfileName, SearchMode
from groundwire.kernel.filters import Value, contract_name
from groundwire.kernel.records import StoredRecord
from groundwire.retrieve.context import Context
from groundwire.retrieve.expansion import Passage
from groundwire.retrieve.ranking import Fate, Score
from groundwire.retrieve.search_types import (
    Evidence,
    ResultOrder,
    SearchHit,
    SearchPlan,
    SearchResult,
    SearchState,
    SearchTimes,
    StageKind,
    StageTrace,
)
from groundwire.retrieve.self_query.questions import ParsedQuestion
from groundwire.retrieve.vector_search import VectorPath
from groundwire.retrieve.wire.requests import MODES, ORDERS, QUERY_TYPE_VALUES, RECORD_TYPES
from groundwire.rpc.calls import ReadyResponse
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.rpc.messages import chunk_in_view, documents_in_view, to_chunk_message, to_record_message, to_span
from groundwire.rpc.pagination import MAX_PAGE_BYTES
from groundwire.rpc.value_messages import members_by_number, parse_timestamp, to_duration, to_metadata, to_timestamp

_MODES = {mode: number for number, mode in MODES.items()}
_ORDERS = {order: number for number, order in ORDERS.items()}
_STATES = {state: number for number, state in members_by_number(report_pb.QueryState, SearchState).items()}


def to_retrieve_response(
    request: pb.RetrieveRequest, result: SearchResult, order: ResultOrder, passages: Sequence[Passage]
) -> pb.RetrieveResponse:
    """Return the response with what the request asks for, without what `ready_response` adds for each call.

    The report says all that is known of the search itself.
    """
    options, mode = request.options, result.plan.mode
    response = pb.RetrieveResponse(passages=map(to_passage_message, passages))
    for hit in result.hits:
        fill_hit(response.results.add(), hit, options.view, has_words=mode is not SearchMode.VECTOR)
    for raw in documents_in_view((hit.stored.document for hit in result.hits), options.view):
        response.documents.add().MergeFromString(raw)
    if options.include_flat_view:
        for message, hit in zip(response.results, result.hits, strict=True):
            for key, value in to_metadata(flat_view(hit.stored, result.plan.collection.profile)).items():
                message.flat_view[key].CopyFrom(value)
    if options.include_report:
        plan = result.plan
        scores = [hit.score.relevance for hit in result.hits]
        report = report_pb.RetrieveReport(
            query_text=request.query,
            retrieval_count=len(result.hits),
            quality=report_pb.QualityMetrics(
                average_relevance=sum(scores) / len(scores) if scores else 0.0,
                minimum_relevance=min(scores, default=0.0),
                maximum_relevance=max(scores, default=0.0),
                candidate_count=result.counts.candidates,
                below_threshold_count=result.counts.below_threshold,
                rejected_count=result.counts.rejected,
                incomplete_count=result.counts.incomplete,
                duplicate_count=result.counts.duplicates,
                stale_count=result.counts.stale,
                coverage=result.coverage(),
            ),
            mode=_MODES[plan.mode],
            order_by=_ORDERS[order],
            query_type=QUERY_TYPE_VALUES[plan.query_type],
            applied_query_type=QUERY_TYPE_VALUES[plan.applied_type],
            embedding_model=plan.collection.identity.model_name,
        )
        if plan.where is not None:
            report.applied_filter.CopyFrom(to_filter_message(plan.where))
        report.chosen_sections.extend(
            report_pb.ChosenSection(
                document_id=chosen.section.document_id,
                hierarchy_path=chosen.section.path,
                score=chosen.score,
                first_sequence_num=chosen.section.first,
                last_sequence_num=chosen.section.last,
            )
            for chosen in result.chosen_sections
        )
        response.report.CopyFrom(report)
    if result.evidence is not None:
        response.explain_plan.CopyFrom(to_explain_plan(result.evidence, result.plan))
    if result.self_query_failed:
        response.degraded_stages.append(degraded_stage_pb2.DEGRADED_STAGE_SELF_QUERY)
    if result.lacks_dense:
        response.degraded_stages.append(degraded_stage_pb2.DEGRADED_STAGE_DENSE)
    if result.lacks_rerank:
        response.degraded_stages.append(degraded_stage_pb2.DEGRADED_STAGE_RERANK)
    return response


def ready_response(
    raw: bytes,
    request: pb.RetrieveRequest,
    position: int,
    token: str,
    log_id: str | None,
    times: SearchTimes,
    *,
    from_cache: bool = False,
    max_bytes: int = MAX_PAGE_BYTES,
) -> ReadyResponse:
    """Add to a serialized response what each call has of its own, and cut it to size.

    A log id of None means that logging failed, which the response says.
    """
    own = pb.RetrieveResponse(snapshot=position, consistency_token=token, log_id=log_id or "")
    if log_id is None:
        own.degraded_stages.append(degraded_stage_pb2.DEGRADED_STAGE_RECORDING)
    if request.options.include_report:
        received, processed = times.states[0][1], times.states[-1][1]
        asked = parse_timestamp(request.query_time, "query_time") if request.HasField("query_time") else received
        own.report.query_embedding_time.CopyFrom(to_duration(times.embedding_s))
        own.report.search_time.CopyFrom(to_duration(times.search_s))
        own.report.total_time.CopyFrom(to_duration(times.total_s))
        own.report.query_time.CopyFrom(to_timestamp(asked))
        own.report.process_time.CopyFrom(to_timestamp(max(processed, asked)))
        own.report.states.extend(
            report_pb.QueryStateChange(state=_STATES[state], reach_time=to_timestamp(at)) for state, at in times.states
        )
        if from_cache:
            own.report.from_cache = True
    # Concatenated serialized messages are one message with the fields of both.
    whole = raw + own.SerializeToString()
    if len(whole) > max_bytes:
        whole = cut_to_size(pb.RetrieveResponse.FromString(whole), max_bytes).SerializeToString()
    return ReadyResponse(whole, pb.RetrieveResponse.FromString)


def cut_to_size(response: pb.RetrieveResponse, max_bytes: int) -> pb.RetrieveResponse:
    """Leave out the last passages, then the last results, until the response has at most `max_bytes`.

    The documents of results that are left out go with them, unless they are those of others.
    """
    # Passages first: whoever needs one that is missing can still ask `Expand` for it.
    while response.passages and response.ByteSize() > max_bytes:
        response.passages.pop()
    while response.results and response.ByteSize() > max_bytes:
        document_id = response.results.pop().chunk.document_id
        response.omitted_result_count += 1
        # In the order of their first hit, so that the document of the last one is last, if it is its only hit.
        if (
            response.documents
            and response.documents[-1].document_id == document_id
            and all(hit.chunk.document_id != document_id for hit in response.results)
        ):
            response.documents.pop()
    return response


def fill_hit(message: Hit, hit: SearchHit, view: "HitView.ValueType", *, has_words: bool = True) -> None:
    """Fill in the empty message of a result; `has_words` says that the search looked for words."""
    message.rank = hit.rank
    message.relevance_score = hit.score.relevance
    message.similarity = hit.score.similarity
    if has_words:
        message.lexical_score = hit.score.lexical
    # Serialized once and kept with the chunk: merging bytes is quicker than setting two dozen fields.
    message.chunk.MergeFromString(chunk_in_view(hit.stored, view))
    if hit.memory is not None:
        for name in MemoryScore.DESCRIPTOR.fields_by_name:
            if math.isfinite(value := getattr(hit.memory, name)):
                setattr(message.memory_score, name, value)


def to_parse_response(parsed: ParsedQuestion) -> pb.ParseQueryResponse:
    response = pb.ParseQueryResponse(
        semantic_query=parsed.extraction.semantic_query,
        field_names=map(contract_name, parsed.extraction.field_names),
        query_type=QUERY_TYPE_VALUES[parsed.query_type],
        extractor=parsed.extractor,
        fell_back=parsed.fell_back,
    )
    if parsed.extraction.where is not None:
        response.filter.CopyFrom(to_filter_message(parsed.extraction.where))
    return response


def to_passage_message(passage: Passage) -> pb.ExpandedPassage:
    return pb.ExpandedPassage(
        requested_chunk_ids=[chunk.chunk_id for chunk in passage.requested],
        document_id=passage.requested[0].document.document_id,
        generation=passage.requested[0].generation,
        span=to_span(passage.span),
        content=passage.content,
        chunks=[to_chunk_message(chunk) for chunk in passage.chunks],
        hierarchy_path=passage.path,
        truncated=passage.truncated,
    )


def flat_view(stored: StoredChunk, profile: ProfileName) -> dict[str, Value]:
    """Return a chunk as one flat record under the names of a source design (S1-10 to S1-26, S3-19, S4-16, C21).

    Keys without a value are left out. The caller's own metadata stand beside the names, which win.
    """
    chunk, document, fields = stored.chunk, stored.document, stored.document.fields
    named: dict[str, Value | None]
    match profile:
        case ProfileName.WEB:
            named = {
                "chunk_id": stored.chunk_number,
                "text": chunk.content,
                "url": document.source_uri,
                "source_url": document.source_uri,
                "section_title": chunk.section_title,
                "chunk_index": chunk.sequence_num,
                "word_count": len(chunk.content.split()),
                "char_count": len(chunk.content),
                "created_at": _iso(stored.ingest_time),
            }
        case ProfileName.BOOK:
            named = {
                "chapter": chunk.chapter,
                "section": chunk.section,
                "chunk_id": stored.chunk_number,
                "text": chunk.content,
            }
        case _:
            named = {
                "doc_id": document.document_id,
                "chunk_id": stored.chunk_id,
                "source": document.source_uri,
                "chunk_index": chunk.sequence_num,
                "page": chunk.page_numbers[0] if chunk.page_numbers else None,
                "pages": ",".join(map(str, chunk.page_numbers)),
                "section": chunk.section,
                "char_start": chunk.span.start,
                "char_end": chunk.span.end,
                "title": fields.title,
                "author": fields.creators[0] if fields.creators else None,
                "date": _iso(fields.date_created) if fields.date_created else None,
                "tags": ",".join(stored.tags),
                "project": fields.project,
                "timestamp": _iso(stored.ingest_time),
            }
    return {key: value for key, value in {**stored.metadata, **named}.items() if value is not None and value != ""}


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


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


def to_explain_plan(evidence: Evidence, plan: SearchPlan) -> explain_pb.ExplainPlan:
    """Tell how a ranking came about, by what the steps of a search left behind; its arithmetic gives the order again.

    Stages come in order, candidates as results by rank, then near misses by relevance.
    """
    places = {number: place for place, number in enumerate(evidence.scores.numbers.tolist())}
    listed = evidence.scores.at([places[number] for number in evidence.listed])
    scores = _Scores(listed, evidence, plan)
    candidates = []
    for score in listed:
        number, stored = score.number, evidence.stored.get(score.number)
        memory = evidence.memory.get(number)
        if number in evidence.ranks:
            fate = Fate.RETURNED
        elif stored is None:
            fate = Fate.STALE
        elif number in evidence.withheld:
            fate = evidence.withheld[number]
        elif number in evidence.repeated:
            fate = Fate.DUPLICATE
        # The threshold tests how well a memory fits, before importance and recency count.
        elif (score.relevance if memory is None else memory.similarity) < plan.min_relevance:
            fate = Fate.BELOW_THRESHOLD
        else:
            fate = Fate.BEYOND_TOP_K
        candidates.append(
            explain_pb.ExplainCandidate(
                chunk_number=number,
                chunk_id=stored.chunk_id if stored else "",
                place=" › ".join([stored.document.source_uri, *stored.chunk.hierarchy_path]) if stored else "",
                rank=evidence.ranks.get(number),
                fate=fate.value.lower(),
                score=scores.of(score),
                selection_step=evidence.steps.get(number),
                selection_penalty=evidence.penalties.get(number, 0.0),
                duplicate_of=evidence.repeated.get(number),
            )
        )
    return explain_pb.ExplainPlan(
        stages=[_to_stage(stage, evidence, plan) for stage in evidence.stages],
        candidates=candidates,
        candidate_count=len(evidence.scores),
    )


def _to_stage(stage: StageTrace, evidence: Evidence, plan: SearchPlan) -> explain_pb.ExplainStage:
    figures: list[tuple[str, float, str]] = []
    if stage.path is not None and plan.where is not None and stage.path.share is not None:
        figures.append(("selectivity", min(1.0, stage.path.share), ""))
    match stage.kind:
        case StageKind.LEXICAL:
            for kind, texts in (("term", plan.terms), ("phrase", plan.phrases)):
                figures += [(kind, evidence.frequencies.get(text, 0), text) for text in texts]
        case StageKind.FUSION:
            figures += [
                ("dense_weight", plan.dense_weight, ""),
                ("similarity_min", evidence.similarity_min, ""),
                ("similarity_max", evidence.similarity_max, ""),
                ("lexical_max", max(evidence.lexical_raw.values(), default=0.0), ""),
                ("neighbour_share", plan.rules.neighbours, ""),
                ("turn_share", plan.rules.turns, ""),
            ]
        case StageKind.RERANK:
            figures.append(("rerank_weight", evidence.rerank_weight, ""))
        case StageKind.VALIDATE:
            figures += [("min_relevance", plan.min_relevance, ""), ("top_k", plan.top_k, "")]
            figures.append(("diversity", plan.diversity, ""))
            if plan.max_per_document is not None:
                figures.append(("max_per_document", plan.max_per_document, ""))
        case _:
            pass
    message = explain_pb.ExplainStage(
        name=stage.kind.value.lower(),
        candidate_count=stage.count,
        elapsed=to_duration(stage.elapsed_s),
        figures=[explain_pb.ScoreNode(name=name, value=value, detail=text) for name, value, text in figures],
    )
    if stage.kind in {StageKind.LEXICAL, StageKind.JOIN}:
        message.engine = _CATALOG
    if stage.path is not None:
        message.engine = _CATALOG if stage.path.path in _FROM_CATALOG else evidence.engine
        message.path = _PATHS[stage.path.path]
        unable = f"engine cannot evaluate {stage.resolved_clause}" if stage.resolved_clause else ""
        message.detail = "; ".join(filter(None, (stage.path.detail, unable)))
    return message


class _Scores:
    """Explains the relevance of candidates: each figure is the sum of weight * value over its children."""

    def __init__(self, listed: list[Score], evidence: Evidence, plan: SearchPlan) -> None:
        self._evidence = evidence
        self._plan = plan
        judged = [score.ranked for score in listed if score.ranked is not None]
        self._lowest, self._highest = min(judged, default=0.0), max(judged, default=0.0)

    def of(self, score: Score) -> explain_pb.ScoreNode:
        memory = self._evidence.memory.get(score.number)
        if memory is None:
            return self._relevance(score)
        similarity = self._relevance(score._replace(relevance=memory.similarity))
        weights = self._plan.collection.settings.retrieval.memory
        total = weights.similarity + weights.importance + weights.recency
        similarity.weight = weights.similarity / total
        importance = weights.importance * memory.influence / total
        children = [
            similarity,
            explain_pb.ScoreNode(name="importance_share", value=memory.importance_share, weight=importance),
            explain_pb.ScoreNode(name="recency_bonus", value=memory.recency_bonus, weight=memory.influence / total),
            explain_pb.ScoreNode(name="update_bonus", value=memory.update_bonus, weight=1.0 / total),
        ]
        return explain_pb.ScoreNode(name="relevance", value=score.relevance, children=children)

    def _relevance(self, score: Score) -> explain_pb.ScoreNode:
        if score.ranked is None:
            return explain_pb.ScoreNode(name="relevance", value=score.relevance, children=self._ranked(score))
        weight, span = self._evidence.rerank_weight, self._highest - self._lowest
        before = explain_pb.ScoreNode(
            name="before_rerank", value=score.ranked, weight=1.0 - weight, children=self._ranked(score)
        )
        share = score.rerank or 0.0
        judged = explain_pb.ScoreNode(
            name="reranked",
            value=self._lowest + share * span,
            weight=weight,
            children=[
                explain_pb.ScoreNode(name="before_rerank_min", value=self._lowest),
                explain_pb.ScoreNode(name="rerank_score", value=share, weight=span),
            ],
        )
        return explain_pb.ScoreNode(name="relevance", value=score.relevance, children=[before, judged])

    def _ranked(self, score: Score) -> Iterator[explain_pb.ScoreNode]:
        """Yield the figures that ranked a candidate before the reranker."""
        weight, evidence = self._plan.dense_weight, self._evidence
        lexical = explain_pb.ScoreNode(name="lexical_score", value=score.lexical)
        if (raw := evidence.lexical_raw.get(score.number)) is not None:
            lexical.detail = f"#{evidence.lexical_ranks[score.number]}"
            best = max(evidence.lexical_raw.values())
            lexical.children.append(explain_pb.ScoreNode(name="raw_score", value=raw, weight=1.0 / best))
        fused = [lexical]
        if self._plan.vector is not None:  # else there is no scale of similarities to bring the words to
            rank = evidence.dense_ranks.get(score.number)
            place = "" if rank is None else f"#{rank}"
            fused = [explain_pb.ScoreNode(name="similarity", value=score.similarity, weight=weight, detail=place)]
        if self._plan.vector is not None and self._plan.mode is not SearchMode.VECTOR:
            low, lexical.weight = evidence.similarity_min, evidence.similarity_max - evidence.similarity_min
            floor = explain_pb.ScoreNode(name="similarity_min", value=low)
            value = low + score.lexical * lexical.weight
            fused.append(
                explain_pb.ScoreNode(name="words", value=value, weight=1.0 - weight, children=[floor, lexical])
            )
        yield explain_pb.ScoreNode(name="fused", value=score.fused, children=fused)
        ranked = score.relevance if score.ranked is None else score.ranked
        if ranked > score.fused:
            yield explain_pb.ScoreNode(name="bonus", value=ranked - score.fused)


def to_context_response(request: pb.RetrieveContextRequest, context: Context) -> pb.RetrieveContextResponse:
    """Return the response; chunks of records have no content, which stands in the record."""
    view = request.options.view
    hits = [entry.hit for entry in context.documents.entries if entry.hit is not None]
    response = pb.RetrieveContextResponse(
        omitted_document_result_count=context.documents.omitted,
        token_count=context.tokens,
        snapshot=context.position,
        consistency_token=context.consistency_token,
    )
    for kind, section in context.sections.items():
        shown = response.sections.add(record_type=RECORD_TYPES[kind], omitted_count=section.omitted)
        for rank, entry in enumerate(section.entries, start=1):
            stored, chunk = entry.stored, entry.stored.chunk
            record = StoredRecord(stored.document, chunk.content, chunk.token_count, chunk.embedding_hash)
            message = shown.entries.add(record=to_record_message(record), contradicts=entry.contradicts)
            if entry.hit is None:
                message.hit.chunk.MergeFromString(chunk_in_view(stored, HIT_VIEW_IDS))
            else:
                fill_hit(message.hit, entry.hit, HIT_VIEW_IDS)
            message.hit.rank = rank
            message.record.ClearField("links")
            # Those of seventy records may be twice as large as a response can be.
            message.record.ClearField("quoted_document_ids")
    for hit in hits:
        fill_hit(response.document_results.add(), hit, view)
    for raw in documents_in_view((hit.stored.document for hit in hits), view):
        response.documents.add().MergeFromString(raw)
    if context.lacks_dense:
        response.degraded_stages.append(degraded_stage_pb2.DEGRADED_STAGE_DENSE)
    if context.lacks_rerank:
        response.degraded_stages.append(degraded_stage_pb2.DEGRADED_STAGE_RERANK)
    return response
