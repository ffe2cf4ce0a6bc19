"""What the use cases of ingest need from outside."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from groundwire.ingest.parsing.parsed_document import ParsedDocument, ParseRules
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

    def head(self, size_bytes: int) -> bytes:
        """Return the first bytes, at most `size_bytes`."""
        if self.path is None:
            return self.content[:size_bytes]
        with self.path.open("rb") as file:
            return file.read(size_bytes)

    def sha256(self) -> str:
        """Return the SHA-256 of all bytes in lower-case hex."""
        if self.path is None:
            return hashlib.sha256(self.content).hexdigest()
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


class Parser(Protocol):
    """Takes documents apart without holding up the process."""

    def parse(self, original: Original, rules: ParseRules, budget: Budget) -> ParsedDocument:
        """Return text, structure and chunks of a document; blocking, safe to call from many threads.

        Raises:
            EmptyDocumentError: no text.
            BinaryDocumentError: not text.
            DocumentEncodingError: not valid in its encoding, or that cannot be told.
            InvalidRequestError: the document takes more time or memory than it may, or crashes the parser.
            UnavailableError: no parser can be started, or it hangs.
            CallCancelledError: `budget` was cancelled.
            DeadlineError: `budget` is used up.
        """
        ...
