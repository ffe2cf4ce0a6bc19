"""Compares a citation that came back with what is stored."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from groundwire.kernel.spans import OffsetMap, Span


class Failure(StrEnum):
    """Why a citation does not verify."""

    DOCUMENT_NOT_FOUND = "DOCUMENT_NOT_FOUND"
    GENERATION_NOT_FOUND = "GENERATION_NOT_FOUND"
    SPAN_INVALID = "SPAN_INVALID"
    TEXT_DIFFERS = "TEXT_DIFFERS"
    DIGEST_DIFFERS = "DIGEST_DIFFERS"
    CHUNK_MISMATCH = "CHUNK_MISMATCH"


@dataclass(frozen=True, slots=True)
class ClaimedCitation:
    """A citation as a caller gives it, nothing of it trusted.

    `chars` and `bytes_` are half-open ranges in code points and UTF-8 bytes; one of them may be (0, 0), which is
    no range and means not given. Empty `quote_sha256`, `chunk_id` and a `chunk_number` of 0 are not compared.
    """

    collection: str
    document_id: str
    generation: int
    chars: tuple[int, int]
    bytes_: tuple[int, int]
    quote: str
    quote_sha256: str = ""
    chunk_id: str = ""
    chunk_number: int = 0


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check found; `failure` None means that the stored text at the span equals the quote, exactly.

    `current_span` is where the quote stands in the live generation, if it is there exactly once.
    """

    failure: Failure | None
    message: str
    stored_text: str = ""
    generation_live: bool = False
    current_generation: int = 0
    current_span: Span | None = None


class CanonicalText:
    """A stored text that several citations are compared with."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._offsets = OffsetMap(text)

    def span(self, chars: tuple[int, int], bytes_: tuple[int, int]) -> Span | None:
        """Return the span that both ranges name, None when one is no range of the text or they disagree."""
        try:
            if chars == (0, 0):
                chars = (self._offsets.to_codepoint(bytes_[0]), self._offsets.to_codepoint(bytes_[1]))
            span = self._offsets.span(*chars)
        except (IndexError, ValueError, OverflowError):
            return None
        agrees = bytes_ in {(0, 0), (span.start_byte, span.end_byte)}
        return span if agrees and span.start < span.end else None

    def only_place(self, quote: str) -> Span | None:
        """Return where the quote stands if it occurs exactly once; an empty one stands everywhere."""
        start = self.text.find(quote)
        if start < 0 or self.text.find(quote, start + 1) >= 0:
            return None
        return self._offsets.span(start, start + len(quote))


def compare(claimed: ClaimedCitation, text: CanonicalText | None) -> tuple[Failure | None, str, Span | None]:
    """Return why the citation fails (None when it does not), the stored text at its span, and the span."""
    if text is None:
        return Failure.GENERATION_NOT_FOUND, "", None
    span = text.span(claimed.chars, claimed.bytes_)
    if span is None:
        return Failure.SPAN_INVALID, "", None
    stored = text.text[span.start : span.end]
    if stored != claimed.quote:
        return Failure.TEXT_DIFFERS, stored, span
    digest = hashlib.sha256(claimed.quote.encode()).hexdigest()
    failure = Failure.DIGEST_DIFFERS if claimed.quote_sha256 not in {"", digest} else None
    return failure, stored, span


MESSAGES = {
    None: "the stored text at this span equals the quote",
    Failure.DOCUMENT_NOT_FOUND: "there is no such document",
    Failure.GENERATION_NOT_FOUND: "this generation of the document is not stored",
    Failure.SPAN_INVALID: "the span is not a range of the text, or its code points and bytes disagree",
    Failure.TEXT_DIFFERS: "the stored text at this span is another",
    Failure.DIGEST_DIFFERS: "the quote does not have the digest that the citation gives",
    Failure.CHUNK_MISMATCH: "the chunk does not exist or does not hold the span",
}
"""What each outcome means, for people."""
