"""Make chunks of what the caller has cut, and hold them against the rules of the collection."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from itertools import pairwise

import numpy as np

from groundwire.ingest.domain.ready_chunks import PlacedText, ReadyChunk, ReadyDocument
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import ChunkingPolicy
from groundwire.kernel.embedder import EmbeddingIdentity, Vectors
from groundwire.kernel.errors import (
    DimensionMismatchError,
    EmbeddingMismatchError,
    FieldViolation,
    InvalidRequestError,
)
from groundwire.kernel.spans import OffsetMap, Span

_GIVEN = b"vector of the caller\x00"
_Range = tuple[int, int]


def check_vectors(document: ReadyDocument, identity: EmbeddingIdentity) -> None:
    """Return if the vectors, if any, are of the collection's model.

    Raises:
        DimensionMismatchError: one has another length; names both.
        InvalidRequestError: it is not said which model made them.
        EmbeddingMismatchError: another model made them.
    """
    for number, chunk in enumerate(document.chunks):
        if chunk.vector is not None and len(chunk.vector) != identity.dimensions:
            got, expected = len(chunk.vector), identity.dimensions
            violation = FieldViolation(f"chunks[{number}].embedding", f"has {got} numbers, expected {expected}")
            raise DimensionMismatchError([violation], got=got, expected=expected)
    if document.chunks[0].vector is None:
        return
    if not document.probe_digest:
        raise InvalidRequestError.of("embedding_probe_digest", "must be given with vectors")
    if document.probe_digest != identity.probe_digest:
        message = "the vectors are of another model than those of the collection"
        raise EmbeddingMismatchError(message, expected=identity.probe_digest, got=document.probe_digest)


def make_chunks(
    ready: Sequence[ReadyChunk],
    placed: PlacedText,
    policy: ChunkingPolicy,
    fallback_chapter: str,
    count_tokens: Callable[[str], int],
) -> list[Chunk]:
    """Return the chunks; what is stored of each is its range of the text.

    Raises:
        InvalidRequestError: a content is shorter than `min_chars` or larger than the maximum.
    """
    offsets, chapter = OffsetMap(placed.text), _first_heading(ready) or fallback_chapter
    overlaps = [0, *(_overlap(before, after) for before, after in pairwise(placed.ranges)), 0]
    chunks = []
    for number, (each, (start, end)) in enumerate(zip(ready, placed.ranges, strict=True)):
        content = placed.text[start:end]
        tokens = count_tokens(content)
        size = policy.size_of(len(content), tokens)
        _check_size(number, content, size, policy)
        chunk = replace(
            _as_given(each, number, offsets.span(start, end), content, tokens, chapter),
            overlap_prev_chars=overlaps[number],
            overlap_next_chars=overlaps[number + 1],
            undersized=size < policy.minimum,
        )
        chunks.append(chunk)
    return chunks


def _as_given(ready: ReadyChunk, number: int, span: Span, content: str, tokens: int, chapter: str) -> Chunk:
    return Chunk(
        sequence_num=number,
        span=span,
        content=content,
        token_count=tokens,
        chapter=ready.chapter or chapter,
        section=ready.section,
        hierarchy_path=ready.path,
        level=ready.level,
        page_numbers=ready.pages,
        tags=ready.tags,
        metadata=ready.metadata,
        given_heading=ready.heading,
        given_embedding_hash=None if ready.vector is None else _vector_hash(ready.vector),
    )


def rules_digest(chunks: Sequence[Chunk], chunk_ids: Sequence[str] | None) -> str:
    """Return the SHA-256 (hex) of everything the caller decided about the chunks."""
    said = [(*astuple(chunk), chunk.given_heading, chunk.given_embedding_hash) for chunk in chunks]
    return hashlib.sha256(json.dumps(["ready", chunk_ids, said], sort_keys=True).encode()).hexdigest()


def unit_vectors(chunks: Sequence[ReadyChunk]) -> Vectors:
    """Return the vectors with length 1: float32, shape (len(chunks), d), of chunks that all have one."""
    stacked = np.stack([chunk.vector for chunk in chunks if chunk.vector is not None]).astype(np.float64)
    return np.asarray(stacked / np.linalg.norm(stacked, axis=1, keepdims=True), dtype=np.float32)


def _check_size(number: int, content: str, size: int, policy: ChunkingPolicy) -> None:
    field, unit = f"chunks[{number}].content", policy.unit.value
    if len(content) < policy.min_chars:
        raise InvalidRequestError.of(
            field, f"has {len(content)} characters, the collection takes at least {policy.min_chars}"
        )
    if size > policy.maximum:
        raise InvalidRequestError.of(field, f"has {size} {unit}, the collection takes at most {policy.maximum}")


def _first_heading(ready: Sequence[ReadyChunk]) -> str | None:
    headings = (chunk.path[0] if chunk.path else chunk.heading for chunk in ready)
    return next((heading for heading in headings if heading), None)


def _overlap(before: _Range, after: _Range) -> int:
    shared = before[1] - after[0]
    return max(0, min(shared, before[1] - before[0], after[1] - after[0]))


def _vector_hash(vector: Vectors) -> str:
    """Return the key of a caller's vector: it is no vector of the model for that content, and never taken for one."""
    return hashlib.sha256(_GIVEN + vector.astype("<f4").tobytes()).hexdigest()
