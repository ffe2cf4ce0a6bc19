"""Split text at its natural seams with semantic-text-splitter, and measure it with the model's tokenizer."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from groundwire.ingest.chunking.boundaries import cut_before
from groundwire.kernel.collection import ChunkingPolicy, ChunkUnit
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.embedder import Tokenizer

# The library takes quadratic time on long paragraphs (12 s for 1 MB in one line), so it gets blocks of this size.
_BLOCK_CHARS = 8192
# The last blank line, the last line, the last white space: the earlier, the better the seam.
_SEAMS = (
    re.compile(r"(?s).*(?:\n|\r)[ \t]*(?:\r\n|\n|\r)"),
    re.compile(r"(?s).*(?:\n|\r)"),
    re.compile(r"(?s).*\s"),
)


class Splitter:
    """Splits by paragraphs, sentences, words and grapheme clusters, for Markdown also by its blocks."""

    def __init__(self, tokenizer: Tokenizer, document_format: DocumentFormat) -> None:
        self._tokenizer = tokenizer
        self._is_markdown = document_format is DocumentFormat.MARKDOWN

    def split(self, text: str, max_chars: int) -> list[str]:
        """Return pieces of at most `max_chars` that join to `text` exactly, cut at the best seams."""
        splitter = _library_splitter(max_chars, self._is_markdown)
        return [piece for block in _blocks(text) for piece in splitter.chunks(block)]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without special tokens."""
        return [self._tokenizer.count(text) for text in texts]

    def sizes(self, texts: Sequence[str], policy: ChunkingPolicy) -> list[int]:
        """Return the size of each text in the unit of the policy."""
        if policy.unit is ChunkUnit.CHARS:
            return [len(text) for text in texts]
        return [policy.size_of(len(text), n) for text, n in zip(texts, self.count_tokens(texts), strict=True)]

    def token_starts(self, text: str) -> Iterator[int]:
        """Iterate over the code points at which tokens begin, in order; block by block, which bounds the memory."""
        offset = 0
        for block in _blocks(text):
            yield from (offset + start for start, _ in self._tokenizer.offsets(block))
            offset += len(block)


@lru_cache(maxsize=64)
def _library_splitter(max_chars: int, is_markdown: bool) -> MarkdownSplitter | TextSplitter:
    # Untrimmed, so that the pieces join to the text again.
    return MarkdownSplitter(max_chars, trim=False) if is_markdown else TextSplitter(max_chars, trim=False)


def _blocks(text: str) -> Iterator[str]:
    """Cut a text into blocks of at most 8 KiB at blank lines, else lines, else white space, else clusters."""
    start = 0
    while len(text) - start > _BLOCK_CHARS:
        limit = start + _BLOCK_CHARS
        # A seam in the first half would make small blocks, and more of them than needed.
        searches = (each.match(text, start + _BLOCK_CHARS // 2, limit) for each in _SEAMS)
        seam = next((match.end() for match in searches if match is not None), limit)
        end = cut_before(text, seam)
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]
