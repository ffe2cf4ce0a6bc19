"""The parser process: parses documents, one at a time, until its parent is gone.

It imports neither torch nor grpc and starts in a quarter of a second. Its memory and processor time are limited, it
cannot write files and opens only a few; its parent kills it if a document takes too long. Messages are JSON and raw
bytes, never pickles: a document may take over the process that reads it. Only parser processes import this module,
because it loads the readers and the chunkers.
"""

import resource
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from groundwire.embedders.model import ModelTokenizer
from groundwire.ingest.chunking.chunkers import FixedChunker, HierarchyChunker, SentenceChunker, StructureChunker
from groundwire.ingest.chunking.cuts import CHAPTER_LEVEL, SECTION_LEVEL, Heading, TextChunker
from groundwire.ingest.chunking.splitter import Splitter
from groundwire.ingest.parsing.docx_reader import read_docx
from groundwire.ingest.parsing.epub_reader import read_epub
from groundwire.ingest.parsing.formats import is_zip, known_suffix, recognise_format
from groundwire.ingest.parsing.html_reader import read_html
from groundwire.ingest.parsing.message_reader import read_message
from groundwire.ingest.parsing.parsed_document import (
    ParsedDocument,
    ParseRules,
    parsed_to_message,
    refusal_to_message,
    rules_from_message,
    stored_content,
)
from groundwire.ingest.parsing.pdf_reader import read_pdf
from groundwire.ingest.parsing.source_text import ReadingLimits, SourceText, over_limit
from groundwire.ingest.parsing.text_encoding import UTF_8, checked_text, decode_text
from groundwire.ingest.parsing.text_readers import (
    read_csv,
    read_jsonl,
    read_markdown,
    read_notebook,
    read_rst,
    read_text,
)
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import ChunkerKind, ChunkingPolicy
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import EmptyDocumentError
from groundwire.kernel.embedder import Tokenizer, TokenizerDefinition, TokenizerFormat
from groundwire.kernel.errors import InvalidRequestError, MissingExtraError
from groundwire.kernel.spans import OffsetMap, pages_between
from groundwire.processes.channel import json_parts, read_json, receive_message, send_message

MAX_CHUNKS = 100_000
"""A document of more chunks is refused: each is a row, a vector and entries of two indexes."""
_CHUNKERS: dict[ChunkerKind, Callable[[ChunkingPolicy, Splitter], TextChunker]] = {
    ChunkerKind.STRUCTURE: StructureChunker,
    ChunkerKind.SENTENCE: SentenceChunker,
    ChunkerKind.HIERARCHY: HierarchyChunker,
    ChunkerKind.FIXED: FixedChunker,
}
_MAX_OPEN_FILES = 64


def parse_document(data: bytes, rules: ParseRules, limits: ReadingLimits, tokenizer: Tokenizer) -> ParsedDocument:
    """Return the text of a document, cut into chunks; the same bytes and rules always give the same result.

    Raises:
        EmptyDocumentError: no text, also when front matter is all there is.
        DocumentLimitError: it makes more than MAX_CHUNKS chunks, or costs more than the limits allow.
        InvalidRequestError: the bytes are refused; see `groundwire.kernel.document_errors`.
        MissingExtraError: the library of the format is not installed.
    """
    source = read_source(data, rules, limits)
    chunker = _CHUNKERS[rules.policy.chunker](rules.policy, Splitter(tokenizer, source.format))
    cuts = chunker.cut(source.text, source.outline, source.body_start)
    if not cuts:
        raise EmptyDocumentError.of(rules.field, "has no text after its front matter")
    # Before any chunk is made: the cuts are ranges, which are cheap.
    if len(cuts) > MAX_CHUNKS:
        why = f"makes {len(cuts)} chunks with these rules, the limit is {MAX_CHUNKS}"
        raise over_limit(rules.field, "chunks", MAX_CHUNKS, why)
    offsets = OffsetMap(source.text)
    title = rules.title or source.properties.title or rules.file_name
    headings = source.outline.headings
    fallback_chapter = headings[0].text if headings else title
    # The title of the front matter is shown above the text like a heading, unless the text has one of its own.
    has_title = any(heading.level == CHAPTER_LEVEL for heading in headings)
    stated = source.properties.title if source.format is DocumentFormat.MARKDOWN and not has_title else None
    # Chunks for whole documents, chapters and sections come last and have no neighbours to overlap with.
    leaves = [cut for cut in cuts if not cut.is_upper]
    overlaps = [0, *(max(0, cut.end - after.start) for cut, after in pairwise(leaves))]
    overlaps += [0] * (len(cuts) - len(leaves) + 1)
    chunks = []
    for number, cut in enumerate(cuts):
        chapter, section, level = place_of(cut.path, fallback_chapter)
        path, branch = tuple(heading.text for heading in cut.path), cut.branch
        if branch is not None:  # in a tree the document is the root, and each paragraph has a name of its own
            path = (title, *path) if branch.paragraph is None else (title, *path, f"para_{branch.paragraph}")
            level = branch.level
        elif stated:
            path = (stated, *path)
        span = offsets.span(cut.start, cut.end)
        chunk = Chunk(
            sequence_num=number,
            span=span,
            content=stored_content(source.text, span, upper=cut.is_upper),
            token_count=cut.token_count,
            chapter=chapter,
            section=section,
            hierarchy_path=path,
            level=level,
            page_numbers=pages_between(source.pages, cut.start, cut.end),
            overlap_prev_chars=overlaps[number],
            overlap_next_chars=overlaps[number + 1],
            undersized=cut.undersized,
            sentence_index=cut.sentence,
            window_size=None if cut.sentence is None else rules.policy.window_size,
            parent=branch.parent if branch else None,
            grandparent=branch.grandparent if branch else None,
            upper=cut.is_upper,
            indexed=not cut.is_upper,
        )
        chunks.append(chunk)
    return ParsedDocument(
        format=source.format,
        text=source.text,
        chunks=tuple(chunks),
        pages=source.pages,
        properties=source.properties,
        warnings=source.warnings,
        encoding=source.encoding,
    )


def read_source(data: bytes, rules: ParseRules, limits: ReadingLimits) -> SourceText:
    """Return the canonical text of a file's bytes with its structure and properties; errors as `parse_document`."""
    field = rules.field
    if not data:
        raise EmptyDocumentError.of(field, "is empty")
    document_format = recognise_format(data, rules.format, rules.file_name, limits, field, decoded=rules.decoded)
    match document_format:
        case DocumentFormat.PDF:
            return read_pdf(data, limits, field)
        case DocumentFormat.DOCX:
            return read_docx(data, limits, field)
        case DocumentFormat.HTML:
            is_book = is_zip(data) and not rules.decoded
            return read_epub(data, limits, field) if is_book else read_html(data, field, decoded=rules.decoded)
    suffix = known_suffix(rules.file_name)
    if suffix == ".eml" and rules.format is None:
        return read_message(data, field)
    text, encoding = (checked_text(data, field), UTF_8) if rules.decoded else decode_text(data, field)
    match document_format:
        case DocumentFormat.MARKDOWN:
            source = read_notebook(text, field) if suffix == ".ipynb" else read_markdown(text)
        case DocumentFormat.RST:
            source = read_rst(text)
        case DocumentFormat.CSV:
            source = read_csv(text, field)
        case DocumentFormat.JSONL:
            source = read_jsonl(text, field)
        case DocumentFormat.TEXT:
            source = read_text(text)
    return replace(source, encoding=encoding)


def place_of(path: Sequence[Heading], fallback_chapter: str) -> tuple[str, str | None, int]:
    """Return the chapter, the section and the level of text below the headings `path`, outermost first.

    The chapter is the level-1 heading above; without one it is `fallback_chapter`, which is the first heading of the
    document, else its title, else its file name (requirement C26). The level is the depth in the tree document (0),
    chapter (1), section (2), paragraph (3): text in a section has 3, text of a chapter outside its sections 2, text of
    a document without headings 1.
    """
    chapter = next((heading.text for heading in path if heading.level == CHAPTER_LEVEL), fallback_chapter)
    section = next((heading.text for heading in path if heading.level == SECTION_LEVEL), None)
    in_section = any(heading.level >= SECTION_LEVEL for heading in path)
    return chapter, section, 3 if in_section else 2 if path else 1


def main(connections: Sequence[socket.socket]) -> None:
    """Serve the parent over the only connection until it is closed."""
    (parent,) = connections
    try:
        start, _ = read_json(receive_message(parent))
        # A core dump would leave the text of a document on disk.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (_MAX_OPEN_FILES, _MAX_OPEN_FILES))
        resource.setrlimit(resource.RLIMIT_AS, (start["memory_bytes"], start["memory_bytes"]))
        limits = ReadingLimits(**start["reading"])
        given = start["tokenizer"]
        definition = TokenizerDefinition(given["name"], TokenizerFormat(given["format"]), given["content"])
        tokenizer = ModelTokenizer(definition)
        # Only now: until then the time that loading takes would count as that of a document.
        send_message(parent, *json_parts({"ready": True}))
        while True:
            message, body = read_json(receive_message(parent))
            # Anew for each document: both count what the process has used before.
            _, hard = resource.getrlimit(resource.RLIMIT_CPU)
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + message["cpu_s"], hard))
            # So that allocations beyond what this document may add fail.
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            used_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            most_bytes = used_pages * resource.getpagesize() + message["more_memory_bytes"]
            resource.setrlimit(resource.RLIMIT_AS, (min(hard, most_bytes), hard))
            send_message(parent, *json_parts(*_answer(message, body, limits, tokenizer)))
    except (EOFError, ConnectionError):
        return


def _answer(
    message: dict[str, Any], body: bytearray, limits: ReadingLimits, tokenizer: Tokenizer
) -> tuple[dict[str, Any], bytes]:
    rules = rules_from_message(message["rules"])
    try:
        data = Path(message["path"]).read_bytes() if message["path"] else bytes(body)
        parsed, rows = parsed_to_message(parse_document(data, rules, limits, tokenizer))
    except InvalidRequestError as error:
        return {"refused": refusal_to_message(error)}, b""
    except MissingExtraError as error:
        return {"missing_extra": error.message}, b""
    except MemoryError:
        return {"out_of_memory": message["more_memory_bytes"]}, b""
    except Exception as error:  # noqa: BLE001 - whatever a library raises on a hostile file, the next one must work
        # For the operator: the caller hears no more than that the document is built wrongly.
        traceback.print_exc(file=sys.stderr)
        return {"failed": type(error).__name__}, b""
    return {"parsed": parsed}, rows
