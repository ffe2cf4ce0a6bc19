"""Compare citations with what is stored now."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from groundwire.answer.domain.verifying import (
    MESSAGES,
    CanonicalText,
    ClaimedCitation,
    Failure,
    Verification,
    compare,
)
from groundwire.answer.ports import ChunkPlace, DocumentGeneration, SourceTexts, StoredDocument
from groundwire.kernel.spans import Span

MAX_TEXT_BYTES = 3 << 20
"""UTF-8 of all stored texts that verifications of one call show."""


class VerifyCitations:
    """Verifies citations; changes nothing."""

    def __init__(self, texts: SourceTexts) -> None:
        self._texts = texts

    async def __call__(self, tenant: str, citations: Sequence[ClaimedCitation]) -> list[Verification]:
        """Return one verification for each citation, in the order given; none of them is an error.

        Each document is read once, whatever the number of its citations. Stored texts are left out that would make up
        more than 3 MiB together.
        """
        places: dict[DocumentGeneration, list[int]] = defaultdict(list)
        for index, claimed in enumerate(citations):
            key = DocumentGeneration(claimed.collection, claimed.document_id, claimed.generation)
            places[key].append(index)
        chunks = await self._texts.chunk_places(tenant, [(each.chunk_id, each.chunk_number) for each in citations])
        found: dict[int, Verification] = {}
        room = MAX_TEXT_BYTES
        for wanted, indexes in places.items():
            document = await self._texts.document(tenant, wanted)
            cited = CanonicalText(document.text) if document and document.text is not None else None
            for index in indexes:
                checked = _verify(citations[index], chunks[index], document, cited)
                # A citation that is wrong may name a whole book, a thousand times.
                size = len(checked.stored_text.encode("utf-8"))
                if size > room:
                    checked, size = replace(checked, stored_text=""), 0
                found[index] = checked
                room -= size
        return [found[index] for index in range(len(citations))]


def _verify(
    claimed: ClaimedCitation, chunk: ChunkPlace | None, document: StoredDocument | None, cited: CanonicalText | None
) -> Verification:
    if document is None:
        return Verification(Failure.DOCUMENT_NOT_FOUND, MESSAGES[Failure.DOCUMENT_NOT_FOUND])
    is_live = claimed.generation == document.live_generation
    failure, stored, span = compare(claimed, cited)
    if failure is None and span is not None and is_live and not _chunk_agrees(claimed, chunk, span):
        failure = Failure.CHUNK_MISMATCH
    current = span if is_live and failure is None else CanonicalText(document.live_text).only_place(claimed.quote)
    return Verification(failure, MESSAGES[failure], stored, is_live, document.live_generation, current)


def _chunk_agrees(claimed: ClaimedCitation, chunk: ChunkPlace | None, span: Span) -> bool:
    """Tell whether the chunk that the citation names holds the span; chunks of older generations are gone."""
    if not claimed.chunk_id and not claimed.chunk_number:
        return True
    if chunk is None or (chunk.document_id, chunk.generation) != (claimed.document_id, claimed.generation):
        return False
    return chunk.span.start <= span.start and span.end <= chunk.span.end
