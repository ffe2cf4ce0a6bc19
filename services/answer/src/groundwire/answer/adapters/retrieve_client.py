"""The ports over what retrieve serves: searches and vectors, and reads of what is stored.

Stubs are the generated aio stubs of a channel of `groundwire.rpc.channels`, or the `InProcessStub` of a servicer of the
same process; both pass deadline, request id and cancellation on.
"""

import asyncio
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC
from itertools import islice
from typing import Any

import grpc

from groundwire.answer.evidence import Markup, Passage, Source, StoredSpan
from groundwire.answer.messages import parse_span
from groundwire.answer.ports import DocumentGeneration, Retrieval, Search, StoredDocument, Vector
from groundwire.answer.summaries import only_asks
from groundwire.api.answer.v1 import answer_pb2
from groundwire.api.common.v1 import (
    chunk_pb2,
    document_format_pb2,
    document_pb2,
    filter_pb2,
    hit_pb2,
    record_pb2,
    retrieval_options_pb2,
    role_pb2,
    search_mode_pb2,
)
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.collection import ProfileName
from groundwire.kernel.errors import (
    ChunkNotFoundError,
    DocumentNotFoundError,
    GroundwireError,
    InvalidRequestError,
    RetrieverUnavailableError,
    UnavailableError,
)
from groundwire.kernel.filters import And, Comparator, Comparison, Filter, Like, Membership, Or
from groundwire.kernel.identifiers import GLOBAL_SCOPE
from groundwire.kernel.records import record_source
from groundwire.kernel.sentences import QUESTION_MARKS
from groundwire.kernel.spans import Span
from groundwire.rpc import request_context
from groundwire.rpc.error_status import from_rpc_error, from_status
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.rpc.messages import only_ids, to_span

# Enough for a selection that runs across several chunks, and for texts that repeat it.
_SELECTION_HITS = 10
# Small chunks cut lists, tables and instructions apart, of which a search seldom finds all parts. So much of a section
# is as much as five or six such chunks.
_SECTIONS = pb.ResultExpansion(mode=pb.EXPAND_MODE_HIERARCHY, max_chars=1600, result_count=5)
# The first may be no more than a title, the fields of a head, or badges.
_OPENING_CHUNKS = 8
# So many chunks of one document show what it is about.
_SUMMARY_HITS = 50
# A batch has one worker and one response of 4 MiB for all of its searches.
_SEARCHES_PER_CALL = 20
# As many as one call accepts, and as much text as fits into a message of 4 MiB with everything around it.
_TEXTS_PER_CALL = 1000
_TEXT_BYTES_PER_CALL = 3 << 20
# As many as one call accepts.
_ENTRIES_PER_CALL = 1000

_MARKUPS = {
    document_format_pb2.DOCUMENT_FORMAT_MARKDOWN: Markup.MARKDOWN,
    document_format_pb2.DOCUMENT_FORMAT_RST: Markup.RST,
    # As ingest extracts them.
    document_format_pb2.DOCUMENT_FORMAT_HTML: Markup.BLOCKS,
    document_format_pb2.DOCUMENT_FORMAT_DOCX: Markup.BLOCKS,
    document_format_pb2.DOCUMENT_FORMAT_CSV: Markup.RECORDS,
    document_format_pb2.DOCUMENT_FORMAT_JSONL: Markup.RECORDS,
}


class RetrieveClient:
    """Searches and embeds through the RetrieveService; `stub` is its stub.

    The methods are documented in `groundwire.answer.ports`.
    """

    def __init__(self, stub: Any) -> None:
        self._stub = stub

    async def retrieve(self, search: Search) -> Retrieval:
        message = _request(search)
        # Records belong to the context of a conversation; a search of certain chunks or documents shuts them out.
        is_restricted = (
            search.chunk_ids
            or search.places
            or search.named_like
            or search.openings_of
            or search.summary_of is not None
        )
        if not search.scope or is_restricted:
            is_narrowed = message.options.HasField("filter") or message.options.HasField("snapshot")
            # What the caller shut out by a filter, or by reading the past, stays out.
            if search.summary_of is None and not (is_narrowed or search.openings_of):
                message.expansion.CopyFrom(_SECTIONS)
            return _retrieval(search, await _answered(self._stub.Retrieve(message)))
        options, caller = message.options, request_context.current().identity
        # A credential may allow only one of the two.
        options.scopes.extend(dict.fromkeys(each for each in (search.scope, GLOBAL_SCOPE) if caller.allows_scope(each)))
        request = pb.RetrieveContextRequest(
            collection=search.collection, query=search.text, options=options, context=search.context
        )
        response: pb.RetrieveContextResponse = await _answered(self._stub.RetrieveContext(request))
        # An answer rests neither on the assistant's own words nor on what the user asked or wished for.
        entries = [
            entry
            for section in response.sections
            for entry in section.entries
            if entry.record.record_type != record_pb2.RECORD_TYPE_TURN
            or (
                entry.record.turn.role == role_pb2.ROLE_USER
                and not entry.record.text.rstrip().endswith(QUESTION_MARKS)
                and not only_asks(entry.record.text)
            )
        ]
        documents = {document.document_id: document for document in response.documents}
        found = [_to_passage(hit, hit.chunk, documents[hit.chunk.document_id]) for hit in response.document_results]
        found += [_of_record(entry) for entry in entries]
        # By relevance alone: a memory that fits the question comes before a document that hardly does.
        found.sort(key=lambda passage: -passage.relevance)
        records = [
            answer_pb2.UsedRecord(
                record_id=entry.record.record_id,
                record_type=entry.record.record_type,
                timestamp=entry.record.timestamp,
                contradicts=entry.contradicts,
            )
            for entry in entries
        ]
        passages = tuple(replace(passage, rank=rank) for rank, passage in enumerate(found, start=1))
        return _report(search, passages, response.document_results, response, records=records)

    async def retrieve_all(self, searches: Sequence[Search]) -> list[Retrieval]:
        retrievals: list[Retrieval] = []
        for first in range(0, len(searches), _SEARCHES_PER_CALL):
            batch = searches[first : first + _SEARCHES_PER_CALL]
            request = pb.BatchRetrieveRequest(requests=map(_request, batch))
            response: pb.BatchRetrieveResponse = await _answered(self._stub.BatchRetrieve(request))
            for search, outcome in zip(batch, response.outcomes, strict=True):
                if outcome.HasField("error"):
                    raise _translated(from_status(outcome.error))
                retrievals.append(_retrieval(search, outcome.response))
        return retrievals

    async def embed(self, queries: Sequence[str], texts: Sequence[str]) -> list[Vector]:
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
            response: pb.EmbedTextsResponse = await _answered(self._stub.EmbedTexts(request))
            vectors += (array("f", vector.values) for vector in response.vectors)
        return vectors

    async def places_of(self, collection: str, selected_text: str, max_query_chars: int) -> tuple[tuple[str, str], ...]:
        selection = " ".join(selected_text.split())
        query = selection
        if len(selection) > max_query_chars:
            query = selection[:max_query_chars].rsplit(" ", 1)[0] or selection[:max_query_chars]
        options = retrieval_options_pb2.RetrievalOptions(
            # By words and without a threshold: whether a chunk holds the selection is decided below, on its text.
            mode=search_mode_pb2.SEARCH_MODE_LEXICAL,
            top_k=_SELECTION_HITS,
            min_relevance=0.0,
        )
        request = pb.RetrieveRequest(collection=collection, query=query, options=options)
        response: pb.RetrieveResponse = await _answered(self._stub.Retrieve(request))
        found = [(hit.chunk, " ".join(hit.chunk.content.split())) for hit in response.results]
        holders = [chunk for chunk, content in found if selection in content]
        if not holders:
            # Only where no chunk holds all of it, because a part may stand elsewhere too: those that hold one end of a
            # selection that runs across chunks, or lie within it.
            half = max(1, len(selection) // 2)
            ends = selection[:half], selection[half:]
            holders = [
                chunk for chunk, content in found if content in selection or any(each in content for each in ends)
            ]
        return tuple(dict.fromkeys((chunk.document_id, chunk.chapter) for chunk in holders))


class RetrieveLibrary:
    """Reads what is stored for the tenant of the current call; `stub` is that of the LibraryService.

    The methods are documented in `groundwire.answer.ports`.
    """

    def __init__(self, stub: Any) -> None:
        self._stub = stub

    async def stored(self, collection: str, sources: Sequence[Source]) -> list[StoredSpan | None]:
        # A quote outside of the passage that was found is no evidence, whatever is stored there.
        inside = {
            place: source
            for place, source in enumerate(sources)
            if source.passage.span.start <= source.span.start < source.span.end <= source.passage.span.end
        }
        numbers = list(dict.fromkeys(source.passage.chunk_number for source in inside.values()))
        references = [chunk_pb2.ChunkReference(chunk_number=number) for number in numbers]
        located, outcomes = await asyncio.gather(self._chunks(references), self._spans(collection, inside.values()))
        chunks = dict(zip(numbers, located, strict=True))
        # Only live chunks are located. What was read of the past, or before another generation replaced it, is compared
        # with the text of its generation, which is stored for as long as the document.
        live = await self.live_generations(
            {each.passage.document_id for each in inside.values() if not chunks[each.passage.chunk_number].chunk_id}
        )
        found: list[StoredSpan | None] = [None] * len(sources)
        for (place, source), outcome in zip(inside.items(), outcomes, strict=True):
            if outcome.HasField("error"):
                error = from_status(outcome.error)
                # It was deleted meanwhile, or is not where the source says.
                if isinstance(error, (DocumentNotFoundError, InvalidRequestError)):
                    continue
                raise error
            passage, text = source.passage, outcome.found
            chunk = chunks[passage.chunk_number]
            if text.generation < live.get(text.document_id, 0):
                chunk_id, document_id, generation = passage.chunk_id, text.document_id, text.generation
                chunk_span = passage.span
            # The number alone may be that of a chunk of another collection.
            elif chunk.collection == collection:
                chunk_id, document_id, generation = chunk.chunk_id, chunk.document_id, chunk.generation
                chunk_span = parse_span(chunk.span)
            else:
                continue
            found[place] = StoredSpan(
                chunk_id=chunk_id,
                document_id=document_id,
                generation=generation,
                chunk_span=chunk_span,
                span=parse_span(text.span),
                text=text.text,
                page_numbers=tuple(text.page_numbers),
            )
        return found

    async def document(self, wanted: DocumentGeneration) -> StoredDocument | None:
        (found,) = await self._documents([wanted.document_id])
        if not found.live_generation or wanted.collection not in {"", found.collection}:
            return None
        live = await self._text(found, found.live_generation)
        if live is None:
            return None
        is_live = wanted.generation == found.live_generation
        text = live if is_live else await self._text(found, wanted.generation)
        return StoredDocument(found.live_generation, text, live)

    async def chunk_places(self, named: Sequence[tuple[str, int]]) -> list[library_pb.ChunkLocation | None]:
        wanted = list(dict.fromkeys(chunk_id or number for chunk_id, number in named if chunk_id or number))
        references = [
            chunk_pb2.ChunkReference(chunk_id=each)
            if isinstance(each, str)
            else chunk_pb2.ChunkReference(chunk_number=each)
            for each in wanted
        ]
        located = dict(zip(wanted, await self._chunks(references), strict=True))
        nothing = library_pb.ChunkLocation()
        found = [located.get(chunk_id or number, nothing) for chunk_id, number in named]
        return [
            each if each.chunk_id and number in {0, each.chunk_number} else None
            for each, (_, number) in zip(found, named, strict=True)
        ]

    async def live_generations(self, document_ids: Iterable[str]) -> dict[str, int]:
        found = await self._documents(document_ids)
        return {each.document_id: each.live_generation for each in found if each.live_generation}

    async def purged(self, document_ids: Iterable[str]) -> frozenset[str]:
        return frozenset(each.document_id for each in await self._documents(document_ids) if each.purged)

    async def profile_of(self, collection: str) -> ProfileName:
        return ProfileName((await self._description(collection)).profile)

    async def max_query_chars_of(self, collection: str) -> int:
        return (await self._description(collection)).max_query_chars

    async def _description(self, collection: str) -> library_pb.DescribeCollectionResponse:
        request = library_pb.DescribeCollectionRequest(collection=collection)
        response: library_pb.DescribeCollectionResponse = await _answered(self._stub.DescribeCollection(request))
        return response

    async def _documents(self, document_ids: Iterable[str]) -> list[library_pb.DocumentLocation]:
        remaining, found = iter(document_ids), list[library_pb.DocumentLocation]()
        while part := list(islice(remaining, _ENTRIES_PER_CALL)):
            request = library_pb.LocateSourcesRequest(document_ids=part)
            found += (await _answered(self._stub.LocateSources(request))).documents
        return found

    async def _chunks(self, references: Sequence[chunk_pb2.ChunkReference]) -> list[library_pb.ChunkLocation]:
        found: list[library_pb.ChunkLocation] = []
        for first in range(0, len(references), _ENTRIES_PER_CALL):
            request = library_pb.LocateSourcesRequest(chunks=references[first : first + _ENTRIES_PER_CALL])
            found += (await _answered(self._stub.LocateSources(request))).chunks
        return found

    async def _spans(self, collection: str, sources: Iterable[Source]) -> list[library_pb.ReadSpansOutcome]:
        spans = [
            library_pb.SpanReference(
                reference=document_pb2.DocumentReference(document_id=source.passage.document_id),
                generation=source.passage.generation,
                span=to_span(source.span),
            )
            for source in sources
        ]
        outcomes: list[library_pb.ReadSpansOutcome] = []
        # A response holds as many as fit, at least one.
        while len(outcomes) < len(spans):
            rest = spans[len(outcomes) : len(outcomes) + _ENTRIES_PER_CALL]
            request = library_pb.ReadSpansRequest(collection=collection, spans=rest)
            outcomes += (await _answered(self._stub.ReadSpans(request))).outcomes
        return outcomes

    async def _text(self, found: library_pb.DocumentLocation, generation: int) -> str | None:
        """Return a canonical text, None when the document does not have this generation or no longer has it."""
        if generation < 1:
            return None
        request = library_pb.GetDocumentTextRequest(
            collection=found.collection,
            reference=document_pb2.DocumentReference(document_id=found.document_id),
            generation=generation,
        )
        try:
            return "".join([part.text async for part in self._stub.GetDocumentText(request)])
        except grpc.RpcError as error:
            failure = _translated(from_rpc_error(error))
            if not isinstance(failure, DocumentNotFoundError):
                raise failure from error
            return None
        except DocumentNotFoundError:  # in process, where errors come as themselves
            return None


async def _answered(call: Any) -> Any:
    """Return the response of a call; an error over the channel is raised as the kernel's error."""
    try:
        return await call
    except grpc.RpcError as error:
        raise _translated(from_rpc_error(error)) from error


def _translated(error: GroundwireError) -> GroundwireError:
    """Return the error for its reason; without a reason, the connection to the retriever is broken."""
    if type(error) is UnavailableError:
        return RetrieverUnavailableError("the retrieve service does not answer")
    return error


def _request(search: Search) -> pb.RetrieveRequest:
    """Return the request, whose options are the caller's, restricted to what the search names."""
    request = pb.RetrieveRequest(collection=search.collection, query=search.text, context=search.context)
    options = request.options
    if search.options is not None:
        options.CopyFrom(search.options)
    # Nothing of it reaches the answer.
    options.include_report = False
    if search.options is None or options.view == hit_pb2.HIT_VIEW_IDS:
        options.view = hit_pb2.HIT_VIEW_BASIC  # ids alone are nothing to answer from
    if search.chunk_ids:
        _restrict(options, Membership("chunk_id", tuple(search.chunk_ids)))
        # The caller chose them, so each has to come, however little it resembles the question or another one.
        options.top_k = len(set(search.chunk_ids))
        options.min_relevance = 0.0
        options.collapse_duplicates = False
        options.ClearField("max_per_document")
    elif search.places:
        places = (
            And((Comparison("document_id", Comparator.EQ, document_id), Comparison("chapter", Comparator.EQ, chapter)))
            for document_id, chapter in search.places
        )
        _restrict(options, Or(tuple(places)))
    if search.named_like:
        names = (Like(field, each) for each in search.named_like for field in ("source_uri", "title"))
        _restrict(options, Or(tuple(names)))
    if search.openings_of:
        openings = Comparison("sequence_num", Comparator.LT, _OPENING_CHUNKS)
        _restrict(options, And((Membership("document_id", search.openings_of), openings)))
        options.top_k, options.min_relevance = _OPENING_CHUNKS * len(search.openings_of), 0.0
        options.ClearField("max_per_document")
    if search.summary_of is not None:
        # A request for a summary resembles none of the chunks that it is about.
        options.top_k, options.min_relevance = _SUMMARY_HITS, 0.0
        options.ClearField("max_per_document")
        if search.summary_of:
            _restrict(options, Comparison("document_id", Comparator.EQ, search.summary_of))
    return request


def _restrict(options: retrieval_options_pb2.RetrievalOptions, where: Filter) -> None:
    """Add a condition beside the clauses of the filter, not around them: it may already have the maximum depth."""
    combined = filter_pb2.FilterList()
    if options.filter.HasField("all_of"):
        combined.CopyFrom(options.filter.all_of)
    elif options.HasField("filter"):
        combined.filters.add().CopyFrom(options.filter)
    combined.filters.append(to_filter_message(where))
    options.filter.CopyFrom(filter_pb2.Filter(all_of=combined))


def _retrieval(search: Search, response: pb.RetrieveResponse) -> Retrieval:
    hits = {hit.chunk.chunk_id: hit for hit in response.results}
    missing = [chunk_id for chunk_id in search.chunk_ids if chunk_id not in hits]
    if missing:
        raise ChunkNotFoundError(missing[0])
    documents = {document.document_id: document for document in response.documents}
    passages = [_to_passage(hit, hit.chunk, documents[hit.chunk.document_id]) for hit in response.results]
    # The other chunks of the sections of the first hits, as relevant as these.
    for section in response.passages:
        hit = min((hits[each] for each in section.requested_chunk_ids), key=lambda each: each.rank)
        others = (chunk for chunk in section.chunks if chunk.chunk_id not in hits)
        passages += [_to_passage(hit, chunk, documents[section.document_id]) for chunk in others]
    plan = response.explain_plan if response.HasField("explain_plan") else None
    return _report(search, tuple(passages), response.results, response, explain_plan=plan)


def _report(
    search: Search,
    passages: tuple[Passage, ...],
    hits: Sequence[hit_pb2.Hit],
    response: pb.RetrieveResponse | pb.RetrieveContextResponse,
    **more: Any,
) -> Retrieval:
    """Return passages with the report of their search, whose hits are in the view that the caller asked for."""
    is_bare = search.options is not None and search.options.view == hit_pb2.HIT_VIEW_IDS
    report = answer_pb2.Answer(
        search_text=search.text,
        search_context=search.context,
        hits=map(only_ids, hits) if is_bare else hits,
        documents=() if is_bare else response.documents,
        snapshot=response.snapshot,
        degraded_stages=response.degraded_stages,
        **more,
    )
    return Retrieval(passages, report)


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
        span=Span.of(record.text),
        content=record.text,
        relevance=entry.hit.relevance_score,
        markup=Markup.NONE,
        date_created=time,
        is_persona=record.record_type == record_pb2.RECORD_TYPE_PERSONA,
    )


def _to_passage(hit: hit_pb2.Hit, chunk: chunk_pb2.Chunk, document: document_pb2.Document) -> Passage:
    """Return the passage of a chunk: that of a hit, or one that stands in the same section."""
    fields, metadata = document.fields, hit.chunk.metadata
    given = metadata["url"].string_value if "url" in metadata else ""
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
        span=parse_span(chunk.span),
        content=chunk.content,
        relevance=hit.relevance_score,
        markup=_MARKUPS.get(document.format, Markup.NONE),
        creators=tuple(fields.creators),
        date_created=fields.date_created.ToDatetime(UTC) if fields.HasField("date_created") else None,
        doi=metadata["doi"].string_value if "doi" in metadata else "",
        url=given or (chunk.source_uri if chunk.source_uri.startswith(("http://", "https://")) else ""),
    )
