"""The Library port over the services that read what is stored: gRPC stubs, or the servicers of the same process."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Protocol

from groundwire.answer.adapters.retrieve_client import typed_errors
from groundwire.answer.evidence import Source, StoredSpan
from groundwire.answer.ports import ChunkPlace, DocumentGeneration, StoredDocument
from groundwire.api.common.v1 import chunk_pb2, document_pb2, span_pb2
from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.kernel.collection import ProfileName
from groundwire.kernel.errors import DocumentNotFoundError, InvalidRequestError
from groundwire.kernel.spans import Span
from groundwire.rpc.error_status import from_status

_ENTRIES_PER_CALL = 1000


class LibraryStub(Protocol):
    """The part of the generated aio stub that is used; `InProcessStub` has it too."""

    def LocateSources(self, request: pb.LocateSourcesRequest, /) -> Any:  # noqa: N802 - name of the contract
        """Return an awaitable of the response."""

    def DescribeCollection(self, request: pb.DescribeCollectionRequest, /) -> Any:  # noqa: N802 - the same
        """Return an awaitable of the response."""

    def ReadSpans(self, request: pb.ReadSpansRequest, /) -> Any:  # noqa: N802 - the same
        """Return an awaitable of the response."""

    def GetDocumentText(self, request: pb.GetDocumentTextRequest, /) -> Any:  # noqa: N802 - the same
        """Return an asynchronous iterator of the responses."""


class RetrieveLibrary:
    """Reads what retrieve serves to the caller of the current call, whose tenant is the one of each method."""

    def __init__(self, stub: LibraryStub) -> None:
        self._stub = stub

    async def stored(self, collection: str, sources: Sequence[Source]) -> list[StoredSpan | None]:
        """Return what is stored at each source; see `groundwire.answer.ports.Library`."""
        inside = [source for source in sources if _is_within_passage(source)]
        numbers = list(dict.fromkeys(source.passage.chunk_number for source in inside))
        references = [chunk_pb2.ChunkReference(chunk_number=number) for number in numbers]
        spans = [_to_reference(source) for source in inside]
        located, read = await asyncio.gather(self._chunks(references), self._spans(collection, spans))
        chunks, outcomes = dict(zip(numbers, located, strict=True)), iter(read)
        return [
            _to_stored(chunks[source.passage.chunk_number], next(outcomes), collection)
            if _is_within_passage(source)
            else None
            for source in sources
        ]

    async def document(self, wanted: DocumentGeneration) -> StoredDocument | None:
        """Return a document with its texts; see `groundwire.answer.ports.Library`."""
        (found,) = await self._documents([wanted.document_id])
        if not found.live_generation or wanted.collection not in {"", found.collection}:
            return None
        live = await self._text(found, found.live_generation)
        if live is None:
            return None
        is_live = wanted.generation == found.live_generation
        text = live if is_live else await self._text(found, wanted.generation)
        return StoredDocument(found.live_generation, text, live)

    async def chunk_places(self, named: Sequence[tuple[str, int]]) -> list[ChunkPlace | None]:
        """Return where live chunks stand; see `groundwire.answer.ports.Library`."""
        wanted = list(dict.fromkeys(chunk_id or number for chunk_id, number in named if chunk_id or number))
        references = [
            chunk_pb2.ChunkReference(chunk_id=each)
            if isinstance(each, str)
            else chunk_pb2.ChunkReference(chunk_number=each)
            for each in wanted
        ]
        located = dict(zip(wanted, await self._chunks(references), strict=True))
        nothing = pb.ChunkLocation()
        found = [located.get(chunk_id or number, nothing) for chunk_id, number in named]
        return [
            ChunkPlace(each.document_id, each.generation, _to_span(each.span))
            if each.chunk_id and number in {0, each.chunk_number}
            else None
            for each, (_, number) in zip(found, named, strict=True)
        ]

    async def live_generations(self, document_ids: Iterable[str]) -> dict[str, int]:
        """Return live generations; see `groundwire.answer.ports.Library`."""
        found = await self._documents(document_ids)
        return {each.document_id: each.live_generation for each in found if each.live_generation}

    async def purged(self, document_ids: Iterable[str]) -> frozenset[str]:
        """Return which documents are gone for good; see `groundwire.answer.ports.Library`."""
        return frozenset(each.document_id for each in await self._documents(document_ids) if each.purged)

    async def profile_of(self, collection: str) -> ProfileName:
        """Return the profile of a collection; see `groundwire.answer.ports.Library`."""
        return ProfileName((await self._description(collection)).profile)

    async def max_query_chars_of(self, collection: str) -> int:
        """Return the longest query of a collection; see `groundwire.answer.ports.Library`."""
        return (await self._description(collection)).max_query_chars

    async def _description(self, collection: str) -> pb.DescribeCollectionResponse:
        with typed_errors():
            response: pb.DescribeCollectionResponse = await self._stub.DescribeCollection(
                pb.DescribeCollectionRequest(collection=collection)
            )
        return response

    async def _documents(self, document_ids: Iterable[str]) -> list[pb.DocumentLocation]:
        remaining, found = iter(document_ids), list[pb.DocumentLocation]()
        while part := list(islice(remaining, _ENTRIES_PER_CALL)):
            with typed_errors():
                response = await self._stub.LocateSources(pb.LocateSourcesRequest(document_ids=part))
            found += response.documents
        return found

    async def _chunks(self, references: Sequence[chunk_pb2.ChunkReference]) -> list[pb.ChunkLocation]:
        found: list[pb.ChunkLocation] = []
        for first in range(0, len(references), _ENTRIES_PER_CALL):
            request = pb.LocateSourcesRequest(chunks=references[first : first + _ENTRIES_PER_CALL])
            with typed_errors():
                found += (await self._stub.LocateSources(request)).chunks
        return found

    async def _spans(self, collection: str, spans: Sequence[pb.SpanReference]) -> list[pb.ReadSpansOutcome]:
        outcomes: list[pb.ReadSpansOutcome] = []
        # A response holds as many as fit, at least one.
        while len(outcomes) < len(spans):
            rest = spans[len(outcomes) : len(outcomes) + _ENTRIES_PER_CALL]
            request = pb.ReadSpansRequest(collection=collection, spans=rest)
            with typed_errors():
                outcomes += (await self._stub.ReadSpans(request)).outcomes
        return outcomes

    async def _text(self, found: pb.DocumentLocation, generation: int) -> str | None:
        """Return a canonical text, None when the document does not have this generation or no longer has it."""
        if generation < 1:
            return None
        request = pb.GetDocumentTextRequest(
            collection=found.collection,
            reference=document_pb2.DocumentReference(document_id=found.document_id),
            generation=generation,
        )
        try:
            with typed_errors():
                return "".join([part.text async for part in self._stub.GetDocumentText(request)])
        except DocumentNotFoundError:
            return None


def _is_within_passage(source: Source) -> bool:
    passage = source.passage.span
    return passage.start <= source.span.start < source.span.end <= passage.end


def _to_reference(source: Source) -> pb.SpanReference:
    span = source.span
    return pb.SpanReference(
        reference=document_pb2.DocumentReference(document_id=source.passage.document_id),
        generation=source.passage.generation,
        span=span_pb2.Span(start=span.start, end=span.end, start_byte=span.start_byte, end_byte=span.end_byte),
    )


def _to_stored(chunk: pb.ChunkLocation, outcome: pb.ReadSpansOutcome, collection: str) -> StoredSpan | None:
    """Return what stands at a span, None when it was deleted meanwhile or is not where the source says.

    Raises:
        GroundwireError: it could not be read for another reason.
    """
    if outcome.HasField("error"):
        error = from_status(outcome.error)
        if isinstance(error, (DocumentNotFoundError, InvalidRequestError)):
            return None
        raise error
    if chunk.collection != collection:
        return None
    return StoredSpan(
        chunk_id=chunk.chunk_id,
        document_id=chunk.document_id,
        generation=chunk.generation,
        chunk_span=_to_span(chunk.span),
        span=_to_span(outcome.found.span),
        text=outcome.found.text,
        page_numbers=tuple(outcome.found.page_numbers),
    )


def _to_span(message: span_pb2.Span) -> Span:
    return Span(message.start, message.end, message.start_byte, message.end_byte)
