"""Which candidates repeat better ones: the same words, or a part of a document that is mostly there already."""

from collections import defaultdict

from groundwire.kernel.hit import StoredChunk

COVERED = 0.8
"""Share of a chunk's characters that better ones of its document must hold for it to be a repetition."""


class Repetitions:
    """The chunks seen so far, best first; belongs to one ranking."""

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._spans: dict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)

    def of(self, stored: StoredChunk) -> int | None:
        """Return the number of the better chunk that this one repeats, else None and count it as seen.

        A chunk repeats another when both have the same words in the same order, whatever the case and the
        spaces (requirement C06), or when better ones of its document cover most of it (S1-55).
        """
        words = " ".join(stored.chunk.content.casefold().split())
        repeated = self._words.get(words) or self._covering(stored)
        if repeated is None:
            self._words[words] = stored.chunk_number
            span = stored.chunk.span
            self._spans[_text_of(stored)].append((span.start, span.end, stored.chunk_number))
        return repeated

    def _covering(self, stored: StoredChunk) -> int | None:
        """Return the first of the better chunks that together cover enough of this one."""
        span, position, covered = stored.chunk.span, stored.chunk.span.start, 0
        touching = [
            (start, end, number)
            for start, end, number in self._spans.get(_text_of(stored), ())
            if start < span.end and end > span.start
        ]
        for start, end, _ in sorted(touching):
            covered += max(0, min(end, span.end) - max(start, position))
            position = max(position, min(end, span.end))
        return touching[0][2] if touching and covered >= COVERED * (span.end - span.start) else None


def _text_of(stored: StoredChunk) -> tuple[str, int]:
    return stored.document.document_id, stored.generation
