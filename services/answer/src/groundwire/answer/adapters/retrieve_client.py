"""The Retriever port over the retrieve service: a gRPC stub, or the servicer of the same process."""

import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC
from itertools import compress
from typing import Any, Protocol

import grpc

from groundwire.answer.answers import SearchReport
from groundwire.answer.consolidation import only_asks
from groundwire.answer.evidence import Markup, Passage
from groundwire.answer.ports import Retrieval, Search, Vector
from groundwire.api.answer.v1 import answer_pb2
from groundwire.api.common.v1 import (
    document_format_pb2,
    document_pb2,
    filter_pb2,
    hit_pb2,
    record_pb2,
    retrieval_options_pb2,
    role_pb2,
    search_mode_pb2,
)
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.errors import (
    ChunkNotFoundError,
    GroundwireError,
    RetrieverUnavailableError,
    UnavailableError,
)
from groundwire.kernel.filters import And, Comparator, Comparison, Filter, Like, Membership, Or
from groundwire.kernel.identifiers import GLOBAL_SCOPE
from groundwire.kernel.records import record_source
from groundwire.kernel.spans import Span
from groundwire.rpc import request_context
from groundwire.rpc.error_status import from_rpc_error, from_status
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.rpc.messages import only_ids

_SELECTION_HITS = 10
_SUMMARY_HITS = 50
# A batch has one worker and one response of 4 MiB for all of its searches.
_SEARCHES_PER_CALL = 20
_TEXTS_PER_CALL = 1000
_TEXT_BYTES_PER_CALL = 3 << 20
_SPACE = re.compile(r"\s+")
_MARKUPS = {
    document_format_pb2.DOCUMENT_FORMAT_MARKDOWN: Markup.MARKDOWN,
    document_format_pb2.DOCUMENT_FORMAT_RST: Markup.RST,
}


class RetrieveStub(Protocol):
    """The part of the generated aio stub that is used; `InProcessStub` has it too."""

    def Retrieve(self, request: pb.RetrieveRequest, /) -> Any:  # noqa: N802 - name of the contract
        """Return an awaitable of the response."""

    def RetrieveContext(self, request: pb.RetrieveContextRequest, /) -> Any:  # noqa: N802 - the same
        """Return an awaitable of the response."""

    def EmbedTexts(self, request: pb.EmbedTextsRequest, /) -> Any:  # noqa: N802 - the same
        """Return an awaitable of the response."""

    def BatchRetrieve(self, request: pb.BatchRetrieveRequest, /) -> Any:  # noqa: N802 - the same
        """Return an awaitable of the response."""


class RetrieveClient:
    """Searches, and embeds what is compared with one another, through the retrieve service.

    Deadline, request id and cancellation are passed on by the channel (`groundwire.rpc.channels`) or the
    in-process stub.
    """

    def __init__(self, stub: RetrieveStub) -> None:
        self._stub = stub

    async def retrieve(self, search: Search) -> Retrieval:
        """Return the passages, best first; see `groundwire.answer.ports.Retriever`."""
        is_restricted = search.chunk_ids or search.places or search.named_like or search.summary_of is not None
        if search.scope and not is_restricted:
            return await self._with_records(search)
        options = _options(search)
        response = await self._send(search.collection, search.text, options, search.context)
        return _retrieval(search, response)

    async def _with_records(self, search: Search) -> Retrieval:
        """Return the passages of documents and records, the most relevant first."""
        options = _options(search)
        allowed = [
            each for each in (search.scope, GLOBAL_SCOPE) if request_context.current().identity.allows_scope(each)
        ]
        options.scopes.extend(dict.fromkeys(allowed))
        request = pb.RetrieveContextRequest(
            collection=search.collection,
            query=search.text,
            options=options,
            context=search.context,
        )
        with typed_errors():
            response = await self._stub.RetrieveContext(request)
        documents = {document.document_id: document for document in response.documents}
        entries = [entry for section in response.sections for entry in section.entries if _is_source(entry.record)]
        found = [_to_passage(hit, documents[hit.chunk.document_id]) for hit in response.document_results]
        found += [_of_record(entry) for entry in entries]
        # By relevance alone: a memory that fits the question comes before a document that hardly does.
        found.sort(key=lambda passage: -passage.relevance)
        passages = tuple(replace(passage, rank=rank) for rank, passage in enumerate(found, start=1))
        is_bare = search.options is not None and search.options.view == hit_pb2.HIT_VIEW_IDS
        report = SearchReport(
            search_text=search.text,
            search_context=search.context,
            hits=tuple(map(only_ids, response.document_results)) if is_bare else tuple(response.document_results),
            documents=() if is_bare else tuple(response.documents),
            document_ids=tuple(dict.fromkeys(passage.document_id for passage in passages)),
            snapshot=response.snapshot,
            degraded_stages=tuple(response.degraded_stages),
            records=tuple(_to_used(entry) for entry in entries),
        )
        return Retrieval(passages, report)

    async def retrieve_all(self, searches: Sequence[Search]) -> list[Retrieval]:
        """Return what each search found; see `groundwire.answer.ports.Retriever`."""
        retrievals: list[Retrieval] = []
        for first in range(0, len(searches), _SEARCHES_PER_CALL):
            batch = searches[first : first + _SEARCHES_PER_CALL]
            requests = [
                pb.RetrieveRequest(
                    collection=each.collection, query=each.text, context=each.context, options=_options(each)
                )
                for each in batch
            ]
            with typed_errors():
                response = await self._stub.BatchRetrieve(pb.BatchRetrieveRequest(requests=requests))
            for search, outcome in zip(batch, response.outcomes, strict=True):
                if outcome.HasField("error"):
                    raise translated(from_status(outcome.error))
                retrievals.append(_retrieval(search, outcome.response))
        return retrievals

    async def embed(self, queries: Sequence[str], texts: Sequence[str]) -> list[Vector]:
        """Return vectors; see `groundwire.answer.ports.Embeddings`."""
        vectors: list[Vector] = []
        wanted = [*((text, True) for text in queries), *((text, False) for text in texts)]
        # A response holds as many as fit, at least one.
        while len(vectors) < len(wanted):
            request = pb.EmbedTextsRequest()
            size = 0
            for text, is_query in wanted[len(vectors) : len(vectors) + _TEXTS_PER_CALL]:
                size += len(text.encode())
                if size > _TEXT_BYTES_PER_CALL and (request.queries or request.texts):
                    break
                (request.queries if is_query else request.texts).append(text)
            with typed_errors():
                response = await self._stub.EmbedTexts(request)
            vectors += (array("f", vector.values) for vector in response.vectors)
        return vectors

    async def places_of(self, collection: str, selected_text: str, max_query_chars: int) -> tuple[tuple[str, str], ...]:
        """Return where a text was selected from; see `groundwire.answer.ports.Retriever`."""
        options = retrieval_options_pb2.RetrievalOptions(
            mode=search_mode_pb2.SEARCH_MODE_LEXICAL, top_k=_SELECTION_HITS, min_relevance=0.0
        )
        response = await self._send(collection, _query_of(selected_text, max_query_chars), options)
        selection, contents = _one_line(selected_text), [_one_line(hit.chunk.content) for hit in response.results]
        # Part of a selection may stand elsewhere too, so parts count only where no chunk holds all of it.
        holds = [selection in content for content in contents]
        if not any(holds):
            holds = [_shares(content, selection) for content in contents]
        holders = compress(response.results, holds)
        return tuple(dict.fromkeys((hit.chunk.document_id, hit.chunk.chapter) for hit in holders))

    async def _send(
        self, collection: str, query: str, options: retrieval_options_pb2.RetrievalOptions, context: str = ""
    ) -> pb.RetrieveResponse:
        request = pb.RetrieveRequest(collection=collection, query=query, options=options, context=context)
        with typed_errors():
            response: pb.RetrieveResponse = await self._stub.Retrieve(request)
        return response


def _options(search: Search) -> retrieval_options_pb2.RetrievalOptions:
    """Return the caller's options, restricted to the chunks or places of the search."""
    options = retrieval_options_pb2.RetrievalOptions()
    if search.options is not None:
        options.CopyFrom(search.options)
    options.include_report = False
    if search.options is None or options.view == hit_pb2.HIT_VIEW_IDS:
        options.view = hit_pb2.HIT_VIEW_BASIC  # ids alone are nothing to answer from
    if search.chunk_ids:
        _restrict(options, Membership("chunk_id", tuple(search.chunk_ids)))
        options.top_k = len(set(search.chunk_ids))
        options.min_relevance = 0.0
        options.collapse_duplicates = False
    elif search.places:
        places = (
            And((Comparison("document_id", Comparator.EQ, document_id), Comparison("chapter", Comparator.EQ, chapter)))
            for document_id, chapter in search.places
        )
        _restrict(options, Or(tuple(places)))
    if search.named_like:
        _restrict(
            options, Or(tuple(Like(field, each) for each in search.named_like for field in ("source_uri", "title")))
        )
    if search.summary_of is not None:
        options.top_k, options.min_relevance = _SUMMARY_HITS, 0.0
        if search.summary_of:
            _restrict(options, Comparison("document_id", Comparator.EQ, search.summary_of))
    return options


def _retrieval(search: Search, response: pb.RetrieveResponse) -> Retrieval:
    found = {hit.chunk.chunk_id for hit in response.results}
    missing = [chunk_id for chunk_id in search.chunk_ids if chunk_id not in found]
    if missing:
        raise ChunkNotFoundError(missing[0])
    documents = {document.document_id: document for document in response.documents}
    passages = tuple(_to_passage(hit, documents[hit.chunk.document_id]) for hit in response.results)
    return Retrieval(passages, _report(search, response))


@contextmanager
def typed_errors() -> Iterator[None]:
    """Raise the error of the kernel that a call over a channel failed with."""
    try:
        yield
    except grpc.RpcError as error:
        raise translated(from_rpc_error(error)) from error


def translated(error: GroundwireError) -> GroundwireError:
    """Return the error with its reason; a broken connection, which has none, is the retriever's."""
    if type(error) is UnavailableError:
        return RetrieverUnavailableError("the retrieve service does not answer")
    return error


def _restrict(options: retrieval_options_pb2.RetrievalOptions, where: Filter) -> None:
    """Add a condition to the filter of the options, beside its clauses: it may be as deep as a filter may be."""
    combined = filter_pb2.FilterList()
    if options.filter.HasField("all_of"):
        combined.CopyFrom(options.filter.all_of)
    elif options.HasField("filter"):
        combined.filters.add().CopyFrom(options.filter)
    combined.filters.append(to_filter_message(where))
    options.filter.CopyFrom(filter_pb2.Filter(all_of=combined))


def _report(search: Search, response: pb.RetrieveResponse) -> SearchReport:
    is_bare = search.options is not None and search.options.view == hit_pb2.HIT_VIEW_IDS
    hits = tuple(map(only_ids, response.results)) if is_bare else tuple(response.results)
    return SearchReport(
        search_text=search.text,
        search_context=search.context,
        hits=hits,
        documents=() if is_bare else tuple(response.documents),
        document_ids=tuple(document.document_id for document in response.documents),
        snapshot=response.snapshot,
        degraded_stages=tuple(response.degraded_stages),
        explain_plan=response.explain_plan if response.HasField("explain_plan") else None,
    )


def _query_of(selected_text: str, max_chars: int) -> str:
    """Return the beginning of a selection, in whole words, as long as a query may be."""
    text = _one_line(selected_text)
    if len(text) <= max_chars:
        return text
    return text[:max_chars].rsplit(" ", 1)[0] or text[:max_chars]


def _one_line(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def _shares(content: str, selection: str) -> bool:
    """Tell whether a chunk holds one end of the selection, which runs across chunks, or lies within it."""
    half = max(1, len(selection) // 2)
    return selection[:half] in content or selection[half:] in content or content in selection


def _is_source(record: record_pb2.Record) -> bool:
    """Tell whether an answer may rest on a record: not on what the assistant said itself, nor on a question or wish."""
    if record.record_type != record_pb2.RECORD_TYPE_TURN:
        return True
    is_asked = record.text.rstrip().endswith("?") or only_asks(record.text)
    return record.turn.role == role_pb2.ROLE_USER and not is_asked


def _of_record(entry: pb.ContextEntry) -> Passage:
    """Return the passage of a record, which is the whole text of its document."""
    record, chunk = entry.record, entry.hit.chunk
    kind = record_pb2.RecordType.Name(record.record_type).removeprefix("RECORD_TYPE_").lower()
    time = record.timestamp.ToDatetime(UTC)
    title = f"{kind} of {time:%Y-%m-%d}"
    return Passage(
        rank=entry.hit.rank,
        chunk_id=chunk.chunk_id,
        chunk_number=chunk.chunk_number,
        document_id=record.document_id,
        generation=record.generation,
        source_uri=record_source(record.record_id),
        title=title,
        chapter=title,
        section="",
        section_heading=title,
        page_numbers=(),
        span=Span(0, len(record.text), 0, len(record.text.encode())),
        content=record.text,
        relevance=entry.hit.relevance_score,
        markup=Markup.NONE,
        date_created=time,
        is_persona=record.record_type == record_pb2.RECORD_TYPE_PERSONA,
    )


def _to_used(entry: pb.ContextEntry) -> answer_pb2.UsedRecord:
    record = entry.record
    return answer_pb2.UsedRecord(
        record_id=record.record_id,
        record_type=record.record_type,
        timestamp=record.timestamp,
        contradicts=entry.contradicts,
    )


def _to_passage(hit: hit_pb2.Hit, document: document_pb2.Document) -> Passage:
    chunk, span, fields = hit.chunk, hit.chunk.span, document.fields
    given = chunk.metadata["url"].string_value if "url" in chunk.metadata else ""
    return Passage(
        rank=hit.rank,
        chunk_id=chunk.chunk_id,
        chunk_number=chunk.chunk_number,
        document_id=chunk.document_id,
        generation=chunk.generation,
        source_uri=chunk.source_uri,
        title=document.display_title,
        chapter=chunk.chapter,
        section=chunk.section,
        section_heading=chunk.section_heading,
        page_numbers=tuple(chunk.page_numbers),
        span=Span(span.start, span.end, span.start_byte, span.end_byte),
        content=chunk.content,
        relevance=hit.relevance_score,
        markup=_MARKUPS.get(document.format, Markup.NONE),
        creators=tuple(fields.creators),
        date_created=fields.date_created.ToDatetime(UTC) if fields.HasField("date_created") else None,
        doi=chunk.metadata["doi"].string_value if "doi" in chunk.metadata else "",
        url=given or (chunk.source_uri if chunk.source_uri.startswith(("http://", "https://")) else ""),
    )
