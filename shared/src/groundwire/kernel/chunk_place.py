"""Where the chunks of one generation stand: all that is needed to find what surrounds a chunk."""

from dataclasses import dataclass

from groundwire.kernel.spans import Span


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """One chunk without its text; fields as in `Chunk`.

    `upper` chunks stand for a whole document, chapter or section; `parent` is the sequence number of the one above.
    """

    sequence_num: int
    span: Span
    hierarchy_path: tuple[str, ...]
    level: int
    upper: bool = False
    parent: int | None = None
    sentence_index: int | None = None
    window_size: int | None = None
