"""A chunk as one flat record under the names of a source design (requirements S1-10 to S1-26, S3-19, S4-16, C21).

Keys without a value are left out. The caller's own metadata stand beside the names, which win.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from groundwire.kernel.collection import ProfileName
from groundwire.kernel.filters import Value
from groundwire.kernel.stored_chunk import StoredChunk

FlatView = dict[str, Value | None]


def flat_view(stored: StoredChunk, profile: ProfileName) -> dict[str, Value]:
    """Return the flat record of a chunk in a collection of this profile."""
    named = _NAMES.get(profile, _documents)(stored)
    return {key: value for key, value in {**stored.metadata, **named}.items() if value is not None and value != ""}


def _documents(stored: StoredChunk) -> FlatView:
    chunk, document = stored.chunk, stored.document
    fields, pages = document.fields, chunk.page_numbers
    return {
        "doc_id": document.document_id,
        "chunk_id": stored.chunk_id,
        "source": document.source_uri,
        "chunk_index": chunk.sequence_num,
        "page": pages[0] if pages else None,
        "pages": ",".join(map(str, pages)),
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


def _web(stored: StoredChunk) -> FlatView:
    chunk, document = stored.chunk, stored.document
    return {
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


def _book(stored: StoredChunk) -> FlatView:
    chunk = stored.chunk
    return {
        "chapter": chunk.chapter,
        "section": chunk.section,
        "chunk_id": stored.chunk_number,
        "text": chunk.content,
    }


_NAMES: Mapping[ProfileName, Callable[[StoredChunk], FlatView]] = {ProfileName.WEB: _web, ProfileName.BOOK: _book}


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
