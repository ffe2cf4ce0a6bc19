"""Cut text at its natural seams with semantic-text-splitter and count tokens with the model's tokenizer."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from groundwire.ingest.domain.graphemes import cut_before
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.embedder import Tokenizer

_BLOCK_CHARS = 8192
_LAST_BLANK_LINE = re.compile(r"(?s).*(?:\n|\r)[ \t]*(?:\r\n|\n|\r)")
_LAST_LINE = re.compile(r"(?s).*(?:\n|\r)")
_LAST_SPACE = re.compile(r"(?s).*\s")


class SemanticSplitter:
    """Splits by paragraphs, sentences, words and grapheme clusters, for Markdown also by its blocks.

    The library takes quadratic time on long paragraphs (12 s for 1 MB in one line), so it gets blocks of 8 KiB.
    """

    def __init__(self, tokenizer: Tokenizer, document_format: DocumentFormat) -> None:
        self._tokenizer = tokenizer
        self._is_markdown = document_format is DocumentFormat.MARKDOWN

    def split(self, text: str, max_chars: int) -> list[str]:
        """Return pieces of at most `max_chars` that join to `text` exactly."""
        splitter = _splitter(max_chars, self._is_markdown)
        return [piece for block in _blocks(text) for piece in splitter.chunks(block)]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without special tokens."""
        return [self._tokenizer.count(text) for text in texts]

    def token_starts(self, text: str) -> Iterator[int]:
        """Iterate over the code points at which tokens begin; block by block, which bounds the memory."""
        offset = 0
        for block in _blocks(text):
            yield from (offset + start for start, _ in self._tokenizer.offsets(block))
            offset += len(block)


@lru_cache(maxsize=64)
def _splitter(max_chars: int, is_markdown: bool) -> MarkdownSplitter | TextSplitter:
    return MarkdownSplitter(max_chars, trim=False) if is_markdown else TextSplitter(max_chars, trim=False)


def _blocks(text: str) -> Iterator[str]:
    """Cut a text into blocks of at most 8 KiB at blank lines, else lines, else white space, else clusters."""
    start = 0
    while len(text) - start > _BLOCK_CHARS:
        end = _block_end(text, start)
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _block_end(text: str, start: int) -> int:
    limit = start + _BLOCK_CHARS
    for pattern in (_LAST_BLANK_LINE, _LAST_LINE, _LAST_SPACE):
        found = pattern.match(text, start + _BLOCK_CHARS // 2, limit)
        if found is not None:
            return cut_before(text, found.end())
    return cut_before(text, limit)
