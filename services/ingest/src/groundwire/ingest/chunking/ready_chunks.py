"""Chunks cut by the caller: their places in the text, and whether they follow the rules of the collection."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field
from itertools import pairwise

import numpy as np

from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import ChunkingPolicy
from groundwire.kernel.embedder import EmbeddingIdentity, Vectors
from groundwire.kernel.errors import DimensionMismatchError, EmbeddingMismatchError, InvalidRequestError
from groundwire.kernel.filters import Value
from groundwire.kernel.spans import OffsetMap

SLACK_CHARS = 5
"""By how much the length of a span may differ from that of its content (requirement S1-79)."""
_JOINER = "\n\n"
_FILLER = "\n"
# Hashed with a caller's vector, which therefore never passes for one that the model makes of that content.
_GIVEN = b"vector of the caller\x00"
_Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ReadyChunk:
    """A chunk made by the caller; `start` and `end` are code points of the canonical text, both or neither.

    `pages` rise from 1 without gaps. `vector` is float32, shape (d,), finite and not zero.
    """

    content: str
    start: int | None
    end: int | None
    chunk_id: str | None = None
    chapter: str | None = None
    section: str | None = None
    heading: str | None = None
    path: tuple[str, ...] = ()
    level: int = 3
    pages: tuple[int, ...] = ()
    vector: Vectors | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadyDocument:
    """The chunks in order, at least one, and the text they are cut from if the caller has it.

    `probe_digest` identifies the model of the vectors; empty when there are none.
    """

    text: str | None
    chunks: Sequence[ReadyChunk]
    probe_digest: str


def placed(document: ReadyDocument, max_chars: int) -> tuple[str, Sequence[_Range]]:
    """Return the canonical text and the half-open range of each chunk in it; what a range holds is what is stored.

    Raises:
        InvalidRequestError: a span lies outside the text, or text and contents differ.
    """
    ranges: list[_Range] = []
    if (text := document.text) is not None:
        for number, chunk in enumerate(document.chunks):
            if chunk.start is not None and chunk.end is not None:
                start, end = chunk.start, chunk.end
            else:
                # From the start of the chunk before, not from its end: chunks may overlap. One that says the same again
                # is the next place of it.
                before = ranges[-1] if ranges else (0, 0)
                start = text.find(chunk.content, before[0])
                if (start, start + len(chunk.content)) == before:
                    start = text.find(chunk.content, start + 1)
                end = start + len(chunk.content)
                if start < 0:
                    why = "does not occur in the text after the start of the previous chunk"
                    raise _violation(number, "content", why)
            if end > len(text):
                why = f"{end} is beyond the end of the text, which has {len(text)} characters"
                raise _violation(number, "char_end", why)
            if not is_made_of(text[start:end], chunk.content):
                raise _violation(number, "content", f"differs from the text at {start} to {end}")
            ranges.append((start, end))
        return text, ranges
    spanned = [chunk.start is not None for chunk in document.chunks]
    if not any(spanned):
        start = 0
        for chunk in document.chunks:
            ranges.append((start, start + len(chunk.content)))
            start = ranges[-1][1] + len(_JOINER)
        return _JOINER.join(chunk.content for chunk in document.chunks), ranges
    if not all(spanned):
        raise _violation(spanned.index(False), "char_start", "must be given for all chunks, for none, or text")
    return _laid_out(document.chunks, max_chars)


def _laid_out(chunks: Sequence[ReadyChunk], max_chars: int) -> tuple[str, Sequence[_Range]]:
    """Build a text with every content in its place and line feeds in the gaps."""
    parts: list[str] = []
    ranges: list[_Range] = []
    tail, length = "", 0
    for number, chunk in enumerate(chunks):
        start = chunk.start or 0
        end = start + len(chunk.content)
        if end > max_chars:
            raise _violation(number, "char_end", f"{end} is more than the {max_chars} that a document may have")
        # Only the content of the previous chunk is available, so overlaps further back are not compared.
        shared = length - start
        if shared > len(chunk.content):
            raise _violation(number, "char_start", "is inside an earlier chunk; send the text")
        # Starts never fall, so the chunk before holds all that is shared with it.
        if shared > 0 and tail[-shared:] != chunk.content[:shared]:
            raise _violation(number, "content", "differs from the previous chunk where they overlap; send the text")
        parts += [_FILLER * -shared, chunk.content[max(0, shared) :]]
        ranges.append((start, end))
        tail, length = chunk.content, end
    return "".join(parts), ranges


def is_made_of(stored: str, content: str) -> bool:
    """Tell whether a part of a text is what a content was made of.

    They may differ in white space, and one may have a run of up to `SLACK_CHARS` characters that the other lacks.
    """
    if stored == content:
        return True
    if not stored.strip() or abs(len(stored) - len(content)) > SLACK_CHARS:
        return False
    shorter, longer = sorted(("".join(stored.split()), "".join(content.split())), key=len)
    ahead = _common(shorter, longer)
    behind = _common(shorter[::-1], longer[::-1])
    return len(longer) - len(shorter) <= SLACK_CHARS and ahead + behind >= len(shorter)


def _common(one: str, other: str) -> int:
    """Return the length of the common beginning; `one` is not the longer."""
    # Halves are compared, not characters: the contents of a document have up to 256 MiB.
    low, high = 0, len(one)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _violation(number: int, name: str, description: str) -> InvalidRequestError:
    return InvalidRequestError.of(f"chunks[{number}].{name}", description)


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
            raise DimensionMismatchError.of(
                f"chunks[{number}].embedding", f"has {got} numbers, expected {expected}", got=got, expected=expected
            )
    if document.chunks[0].vector is None:
        return
    if not document.probe_digest:
        raise InvalidRequestError.of("embedding_probe_digest", "must be given with vectors")
    if document.probe_digest != identity.probe_digest:
        message = "the vectors were made by a different model from those of the collection"
        raise EmbeddingMismatchError(message, expected=identity.probe_digest, got=document.probe_digest)


def make_chunks(
    ready: Sequence[ReadyChunk],
    text: str,
    ranges: Sequence[_Range],
    policy: ChunkingPolicy,
    fallback_chapter: str,
    count_tokens: Callable[[str], int],
) -> list[Chunk]:
    """Return the chunks; what is stored of each is its range of the text.

    Raises:
        InvalidRequestError: a content is shorter than `min_chars` or larger than the maximum.
    """
    offsets = OffsetMap(text)
    headings = (each.path[0] if each.path else each.heading for each in ready)
    chapter = next(filter(None, headings), fallback_chapter)
    # One range may lie within the other: they share no more than the shorter of the two.
    shared = (
        max(0, min(before[1] - after[0], before[1] - before[0], after[1] - after[0]))
        for before, after in pairwise(ranges)
    )
    overlaps = [0, *shared, 0]
    chunks: list[Chunk] = []
    for number, (each, (start, end)) in enumerate(zip(ready, ranges, strict=True)):
        content = text[start:end]
        tokens = count_tokens(content)
        size = policy.size_of(len(content), tokens)
        if len(content) < policy.min_chars:
            too_short = f"has {len(content)} characters, the collection takes at least {policy.min_chars}"
            raise _violation(number, "content", too_short)
        if size > policy.maximum:
            too_large = f"has {size} {policy.unit.value}, the collection takes at most {policy.maximum}"
            raise _violation(number, "content", too_large)
        given_hash = None
        # Known by a digest of its own and not of the text, for which the server's model may make another vector.
        if each.vector is not None:
            given_hash = hashlib.sha256(_GIVEN + each.vector.astype("<f4").tobytes()).hexdigest()
        chunk = Chunk(
            sequence_num=number,
            span=offsets.span(start, end),
            content=content,
            token_count=tokens,
            chapter=each.chapter or chapter,
            section=each.section,
            hierarchy_path=each.path,
            level=each.level,
            page_numbers=each.pages,
            overlap_prev_chars=overlaps[number],
            overlap_next_chars=overlaps[number + 1],
            undersized=size < policy.minimum,
            tags=each.tags,
            metadata=each.metadata,
            given_heading=each.heading,
            given_embedding_hash=given_hash,
        )
        chunks.append(chunk)
    return chunks


def rules_digest(chunks: Sequence[Chunk], chunk_ids: Sequence[str] | None) -> str:
    """Return the SHA-256 (hex) of everything the caller decided about the chunks."""
    said = [(*astuple(chunk), chunk.given_heading, chunk.given_embedding_hash) for chunk in chunks]
    return hashlib.sha256(json.dumps(["ready", chunk_ids, said], sort_keys=True).encode()).hexdigest()


def unit_vectors(chunks: Sequence[ReadyChunk]) -> Vectors:
    """Return the vectors with length 1: float32, shape (len(chunks), d), of chunks that all have one."""
    # In double precision: the sum of squares of large float32 numbers may not be one.
    stacked = np.stack([chunk.vector for chunk in chunks if chunk.vector is not None]).astype(np.float64)
    return np.asarray(stacked / np.linalg.norm(stacked, axis=1, keepdims=True), dtype=np.float32)
