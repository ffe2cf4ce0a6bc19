"""What the use cases of ingest need from outside."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from groundwire.ingest.domain.parsing import ParsedDocument, ParseRules
from groundwire.kernel.budget import Budget


@dataclass(frozen=True, slots=True)
class Original:
    """The bytes of a document: in memory, or in a file of ours when `path` is set."""

    size_bytes: int
    content: bytes = b""
    path: Path | None = None

    def read(self) -> bytes:
        """Return all bytes."""
        return self.path.read_bytes() if self.path else self.content


class Parser(Protocol):
    """Takes documents apart without holding up the process."""

    def parse(self, original: Original, rules: ParseRules, budget: Budget) -> ParsedDocument:
        """Return the chunks of a document; blocking, safe to call from many threads.

        Raises:
            EmptyDocumentError: no text.
            BinaryDocumentError: not text.
            DocumentEncodingError: not UTF-8.
            InvalidRequestError: the document takes more time or memory than it may, or crashes the parser.
            CallCancelledError: `budget` was cancelled.
            DeadlineError: `budget` is used up.
        """
        ...
