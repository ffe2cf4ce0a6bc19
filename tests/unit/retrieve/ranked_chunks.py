"""What ranking knows of chunks, with defaults."""

from collections.abc import Mapping

import numpy as np

from groundwire.catalog.chunks import ChunkFacts, words_hash
from groundwire.retrieve.ranking import Scores


def chunk_facts(
    number: int,
    content: str = "",
    *,
    document: str = "doc_1",
    start: int | None = None,
    length: int | None = None,
    generation: int = 1,
    chapter: str | None = None,
) -> ChunkFacts:
    """Make the facts of a chunk that stands at `start`, by default far from all others."""
    content = content or f"text {number}"
    start = 10_000 * number if start is None else start
    chapter = f"Chapter {number}" if chapter is None else chapter
    return ChunkFacts(
        number=number,
        document_id=document,
        generation=generation,
        sequence_num=number,
        start=start,
        end=start + (len(content) if length is None else length),
        chapter=chapter,
        section=None,
        section_title=chapter,
        hierarchy_path=(chapter,),
        words_hash=words_hash(content),
        source_uri=f"{document}.md",
    )


def scores_of(relevances: Mapping[int, float]) -> Scores:
    """Make scores of chunks by number, given best first."""
    values = np.array([*relevances.values()], dtype=np.float64)
    return Scores(np.array([*relevances], dtype=np.int64), values, values, np.zeros(len(values)), values)
