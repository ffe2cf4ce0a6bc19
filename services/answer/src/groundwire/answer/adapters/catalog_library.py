"""Stored sources, and which collections there are, from the catalog."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ParamSpec, TypeVar

from groundwire.answer.evidence import Source, StoredChunkText
from groundwire.answer.ports import ChunkPlace, DocumentGeneration, StoredDocument
from groundwire.catalog.chunks import Chunks
from groundwire.catalog.collections import Collections
from groundwire.catalog.database import Database
from groundwire.catalog.documents import Documents
from groundwire.catalog.texts import Sources, Texts
from groundwire.kernel.collection import ProfileName
from groundwire.kernel.document import Document
from groundwire.kernel.errors import DocumentNotFoundError, NotFoundError
from groundwire.kernel.spans import Span, pages_between
from groundwire.kernel.stored_chunk import StoredChunk
from groundwire.rpc import request_context
from groundwire.rpc.workers import Workers

Params = ParamSpec("Params")
ResultT = TypeVar("ResultT")

_PART_CHARS = 1_000_000
_COLLECTIONS_PAGE = 200
_CHUNKS_PER_READ = 50


class CatalogLibrary:
    """Reads the catalog in worker threads."""

    def __init__(self, catalog: Database, workers: Workers) -> None:
        self._collections = Collections(catalog)
        self._documents = Documents(catalog)
        self._chunks = Chunks(catalog)
        self._texts = Texts(catalog)
        self._sources = Sources(catalog)
        self._workers = workers

    async def stored(self, tenant: str, collection: str, sources: Sequence[Source]) -> list[StoredChunkText | None]:
        """Return what is stored at each source; see `groundwire.answer.ports.Library`."""
        return await self._run(self._stored, tenant, collection, sources)

    async def document(self, tenant: str, wanted: DocumentGeneration) -> StoredDocument | None:
        """Return a document with its texts; see `groundwire.answer.ports.Library`."""
        return await self._run(self._document, tenant, wanted)

    async def chunk_places(self, tenant: str, named: Sequence[tuple[str, int]]) -> list[ChunkPlace | None]:
        """Return where live chunks stand; see `groundwire.answer.ports.Library`."""
        return await self._run(self._chunk_places, tenant, named)

    async def live_generations(self, tenant: str, document_ids: Iterable[str]) -> dict[str, int]:
        """Return live generations; see `groundwire.answer.ports.Library`."""
        return await self._run(self._documents.live_generations, tenant, document_ids)

    async def profile_of(self, tenant: str, collection: str) -> ProfileName:
        """Return the profile of a collection; see `groundwire.answer.ports.Library`."""
        return (await self._run(self._collections.get, tenant, collection)).profile

    async def max_query_chars_of(self, tenant: str, collection: str) -> int:
        """Return the longest query of a collection; see `groundwire.answer.ports.Library`."""
        return (await self._run(self._collections.get, tenant, collection)).settings.limits.max_query_chars

    async def _run(self, fn: Callable[Params, ResultT], *args: Params.args, **kwargs: Params.kwargs) -> ResultT:
        return await self._workers.run(request_context.current().budget, fn, *args, **kwargs)

    def _stored(self, tenant: str, collection: str, sources: Sequence[Source]) -> list[StoredChunkText | None]:
        chunks = self._chunks.live(tenant, collection, [source.passage.chunk_number for source in sources])
        groups: dict[tuple[str, int], list[int]] = defaultdict(list)
        for index, source in enumerate(sources):
            chunk = chunks.get(source.passage.chunk_number)
            if chunk is not None and _is_within(source, chunk):
                groups[chunk.document.document_id, chunk.generation].append(index)
        found: list[StoredChunkText | None] = [None] * len(sources)
        for (document_id, generation), indexes in groups.items():
            spans = [(sources[index].span.start, sources[index].span.end) for index in indexes]
            for index, text in zip(
                indexes, self._slices(tenant, collection, document_id, generation, spans), strict=True
            ):
                source = sources[index]
                chunk = chunks[source.passage.chunk_number]
                found[index] = _to_stored(chunk, text, self._pages(tenant, chunk, source.span))
        return found

    def _pages(self, tenant: str, chunk: StoredChunk, span: Span) -> tuple[int, ...]:
        """Return the pages of the span itself; none when the source has no pages or was deleted meanwhile."""
        if not chunk.chunk.page_numbers:
            return ()
        try:
            touched = self._sources.pages(tenant, chunk.document.document_id, chunk.generation, span.start, span.end)
        except DocumentNotFoundError:
            return ()
        return pages_between(touched, span.start, span.end)

    def _slices(
        self, tenant: str, collection: str, document_id: str, generation: int, spans: Sequence[tuple[int, int]]
    ) -> Sequence[str]:
        """Return the canonical text at the spans; empty texts, which equal no quote, when it was deleted meanwhile."""
        try:
            return self._texts.slice(tenant, collection, document_id, generation, spans)
        except DocumentNotFoundError:
            return [""] * len(spans)

    def _document(self, tenant: str, wanted: DocumentGeneration) -> StoredDocument | None:
        for collection in self._candidates(tenant, wanted.collection):
            try:
                document = self._documents.get(tenant, collection, wanted.document_id)
                live = self._whole(tenant, document, document.generation)
            except NotFoundError:
                continue
            if live is None:
                return None
            is_live = wanted.generation == document.generation
            text = live if is_live else self._whole(tenant, document, wanted.generation)
            return StoredDocument(document.generation, text, live)
        return None

    def _candidates(self, tenant: str, collection: str) -> Iterator[str]:
        """Iterate over the collections to look in: the one given, or all."""
        if collection:
            yield collection
            return
        after = ""
        while page := self._collections.page(tenant, after, _COLLECTIONS_PAGE):
            yield from (each.name for each in page)
            after = page[-1].name

    def _whole(self, tenant: str, document: Document, generation: int) -> str | None:
        if generation < 1:
            return None
        try:
            parts = self._texts.parts(tenant, document.collection, document.document_id, generation, _PART_CHARS)
            return "".join(part.text for part in parts)
        except DocumentNotFoundError:
            return None

    def _chunk_places(self, tenant: str, named: Sequence[tuple[str, int]]) -> list[ChunkPlace | None]:
        wanted = list(dict.fromkeys(chunk_id or number for chunk_id, number in named if chunk_id or number))
        places: dict[str | int, tuple[int, ChunkPlace]] = {}
        for at in range(0, len(wanted), _CHUNKS_PER_READ):
            for chunk in self._chunks.find(tenant, wanted[at : at + _CHUNKS_PER_READ]):
                place = ChunkPlace(chunk.document.document_id, chunk.generation, chunk.chunk.span)
                places[chunk.chunk_id] = places[chunk.chunk_number] = chunk.chunk_number, place
        nothing = 0, None
        found = [places.get(chunk_id or number, nothing) for chunk_id, number in named]
        return [place if number in {0, its} else None for (its, place), (_, number) in zip(found, named, strict=True)]


def _is_within(source: Source, chunk: StoredChunk) -> bool:
    return chunk.chunk.span.start <= source.span.start < source.span.end <= chunk.chunk.span.end


def _to_stored(chunk: StoredChunk, text: str, page_numbers: tuple[int, ...]) -> StoredChunkText:
    return StoredChunkText(
        chunk_id=chunk.chunk_id,
        document_id=chunk.document.document_id,
        generation=chunk.generation,
        chunk_span=chunk.chunk.span,
        chunk_content=chunk.chunk.content,
        text=text,
        page_numbers=page_numbers,
    )
