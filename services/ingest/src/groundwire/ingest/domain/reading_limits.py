"""What reading a document may cost besides time and memory."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """Most entries of a zip, bytes it may inflate to, how many times an entry may inflate, and pages of a PDF."""

    zip_entries: int = 10_000
    inflated_bytes: int = 256 << 20
    zip_ratio: int = 200
    pages: int = 20_000
