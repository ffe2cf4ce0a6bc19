"""Record what became of a search: in the log of queries and in the figures of the pipeline."""

import time
import uuid
from contextlib import suppress
from dataclasses import dataclass

from groundwire.kernel.collection import Collection, ProfileName
from groundwire.kernel.errors import GroundwireError
from groundwire.kernel.query_log import LoggedQuery
from groundwire.retrieve.domain.pipeline import Pipeline, SearchSample
from groundwire.retrieve.domain.received_call import QueryLogMode, ReceivedCall
from groundwire.retrieve.domain.searching import SearchResult
from groundwire.retrieve.log_ports import CollectionReader
from groundwire.retrieve.query_recorder import QueryRecorder

MAX_QUERY_CHARS = 8192
_MAX_NAME_CHARS = 63
_MAX_AGENT_CHARS = 256


@dataclass(frozen=True, slots=True)
class RecordSearch:
    """Records each search once, served or failed, without waiting for the catalog."""

    collections: CollectionReader
    recorder: QueryRecorder
    pipeline: Pipeline
    mode: QueryLogMode

    def served(self, call: ReceivedCall, result: SearchResult) -> str | None:
        """Record a search that was served; return its log id, empty when no log is kept, None when it could not be."""
        sample = _sample_of(result)
        self.pipeline.add(call.tenant, call.collection, sample)
        entry = LoggedQuery(
            log_id=uuid.uuid4().hex,
            tenant=call.tenant,
            collection=call.collection,
            collection_uid=result.plan.collection.uid,
            query=self._text(call, result.plan.collection),
            query_type=result.plan.query_type,
            result_count=len(result.hits),
            average_relevance=min(1.0, sample.relevance or 0.0),
            processing_s=result.times.total_s,
            log_time=call.received,
            user_agent=call.user_agent[:_MAX_AGENT_CHARS],
            mode=result.plan.mode,
            error_reason="",
        )
        return self._record(entry)

    def failed(self, call: ReceivedCall, reason: str) -> None:
        """Record a search that failed for a reason of the contract."""
        collection = None
        with suppress(GroundwireError):
            collection = self.collections.get(call.tenant, call.collection)
        elapsed_s = time.perf_counter() - call.started
        sample = SearchSample(failed=True, total_s=elapsed_s)
        self.pipeline.add(call.tenant, None if collection is None else collection.name, sample)
        entry = LoggedQuery(
            log_id=uuid.uuid4().hex,
            tenant=call.tenant,
            collection=call.collection[:_MAX_NAME_CHARS],
            collection_uid="" if collection is None else collection.uid,
            query=self._text(call, collection),
            query_type=None,
            result_count=0,
            average_relevance=0.0,
            processing_s=elapsed_s,
            log_time=call.received,
            user_agent=call.user_agent[:_MAX_AGENT_CHARS],
            mode=None,
            error_reason=reason,
        )
        self._record(entry)

    def _record(self, entry: LoggedQuery) -> str | None:
        if self.mode is QueryLogMode.OFF:
            return ""
        return entry.log_id if self.recorder.record(entry) else None

    def _text(self, call: ReceivedCall, collection: Collection | None) -> str:
        """Return what the log may say: the book profile keeps no question on disk (requirement S4-44)."""
        is_private = collection is None or collection.profile is ProfileName.BOOK
        if self.mode is QueryLogMode.FACTS or (self.mode is QueryLogMode.AUTO and is_private):
            return ""
        return call.query[:MAX_QUERY_CHARS]


def _sample_of(result: SearchResult) -> SearchSample:
    relevances = [hit.score.relevance for hit in result.hits]
    return SearchSample(
        failed=False,
        total_s=result.times.total_s,
        results=len(result.hits),
        rejected=result.counts.rejected,
        relevance=sum(relevances) / len(relevances) if relevances else None,
        embedding_s=result.times.embedding_s or None,
        search_s=result.times.search_s or None,
        engine_s=result.times.engine_s,
    )
