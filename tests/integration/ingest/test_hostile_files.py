"""Files made to hurt: each ends in a typed error or a document, in time, and the next document works."""

import contextlib
import os
import random
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groundwire.embedders.hashing import HashingEmbedder
from groundwire.ingest.parsing.parsed_document import Original, ParsedDocument, ParseRules
from groundwire.ingest.parsing.parser_pool import ParserLimits, ParserProcess
from groundwire.ingest.parsing.parser_worker import read_source
from groundwire.ingest.parsing.source_text import ReadingLimits
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import PROFILES, ProfileName
from groundwire.kernel.document_errors import DocumentLimitError, DocumentMalformedError
from groundwire.kernel.errors import InvalidRequestError, MissingExtraError
from groundwire.processes.child import cpu_s
from tests.unit.ingest.made_files import make_docx, make_pdf, make_zip, with_part

TOKENIZER = HashingEmbedder(8).tokenizer
LIMIT_S = 9.0
MAX_EXTRA_MIB = 512
MAIN = "word/document.xml"
SPACES = b" " * (32 << 20)
PDF = make_pdf([f"The tide of page {number} rises." for number in range(20)])
DOCX = make_docx("The tide rises.")
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def rules(name: str) -> ParseRules:
    return ParseRules(None, PROFILES[ProfileName.DOCUMENTS].chunking, None, name, "content")


def parse(parser: ParserProcess, data: bytes, name: str) -> ParsedDocument:
    return parser.parse(Original(len(data), data), rules(name), Budget())


def outcome(parser: ParserProcess, data: bytes, name: str) -> ParsedDocument | InvalidRequestError:
    try:
        return parse(parser, data, name)
    except InvalidRequestError as error:
        return error


def check(found: ParsedDocument | InvalidRequestError) -> None:
    """Hold what came of a document to what is promised: chunks within its text, or a typed error naming the field."""
    if isinstance(found, ParsedDocument):
        assert found.chunks
        assert all(chunk.span.end <= len(found.text) for chunk in found.chunks)
    else:
        assert found.reason.startswith("DOCUMENT_")
        assert found.violations[0].field in {"content", "format"}


@pytest.fixture(scope="module")
def parser() -> Iterator[ParserProcess]:
    running = ParserProcess(TOKENIZER.definition, ParserLimits())
    yield running
    running.close()


def pdf_with_stream(content: bytes, filters: str) -> bytes:
    """Return a PDF of one page whose content is packed by hand."""
    [before, rest] = make_pdf(["x"]).split(b"<< /Length", maxsplit=1)
    after = rest.split(b"endstream", maxsplit=1)[1]
    stream = f"<< /Length {len(content)} /Filter [{filters}] >>\nstream\n".encode() + content
    return before + stream + b"\nendstream" + after


def body(xml: str) -> bytes:
    return with_part(DOCX, MAIN, f'<w:document xmlns:w="{WORD}"><w:body>{xml}</w:body></w:document>'.encode())


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "bomb.docx": lambda: with_part(DOCX, MAIN, SPACES),
    "entries.docx": lambda: make_zip({f"word/{number}": b"" for number in range(11_000)}),
    "nested.docx": lambda: make_zip({"a.zip": make_zip({"b.zip": make_zip({"c": b" " * 100_000})})}),
    "tables.docx": lambda: body("<w:tbl><w:tr><w:tc>" * 80 + "</w:tc></w:tr></w:tbl>" * 80),
    "deep.docx": lambda: body("<w:sdt>" * 50_000),
    "no-parts.docx": lambda: make_zip({MAIN: b"<a/>"}),
    "noise.docx": lambda: b"PK\x03\x04" + noise(1, 50_000),
    "bomb.pdf": lambda: pdf_with_stream(zlib.compress(SPACES, 9), "/FlateDecode"),
    "bombs.pdf": lambda: pdf_with_stream(zlib.compress(zlib.compress(SPACES * 4, 9), 9), "/FlateDecode /FlateDecode"),
    "filters.pdf": lambda: pdf_with_stream(b"00", "/ASCIIHexDecode " * 20_000),
    "count.pdf": lambda: PDF.replace(b"/Count 20", b"/Count 2147483647"),
    "negative.pdf": lambda: PDF.replace(b"/Count 20", b"/Count -1"),
    "kids.pdf": lambda: PDF.replace(b"/Kids [4 0 R", b"/Kids [2 0 R"),
    "parent.pdf": lambda: PDF.replace(b"/Parent 2 0 R", b"/Parent 4 0 R"),
    "root.pdf": lambda: PDF.replace(b"/Root 1 0 R", b"/Root 9 0 R"),
    "previous.pdf": lambda: PDF.replace(b"/Root", f"/Prev {PDF.rindex(b'xref' + bytes([10]))} /Root".encode()),
    "arrays.pdf": lambda: PDF.replace(b"/Type /Catalog", b"/X " + b"[" * 200_000 + b" /Type /Catalog"),
    "noise.pdf": lambda: b"%PDF-1.7\n" + noise(2, 200_000),
    "empty.pdf": lambda: b"%PDF-1.7\n%%EOF",
    "deep.html": lambda: b"<div>" * 100_000,
    "lists.html": lambda: b"<ul><li>x" * 1500,
    "formats.html": lambda: b"<a><b><i><p>" * 900 + b"x",
    "attributes.html": lambda: b"<p " + b"a=b " * 200_000 + b">x",
    "brackets.html": lambda: b"<" * 300_000 + b"x",
    "comments.html": lambda: b"<!--" * 100_000,
    "cells.html": lambda: b"<table><tr><td>" * 1000 + b"x",
    "surrogates.html": lambda: b"<p>&#xD800;&#xDFFF;&#x110000; x",
    "lone.txt": lambda: b"text \xed\xa0\x80 text",
    "latin.txt": lambda: b"text \xe9 text",
    "nul.txt": lambda: b"text \x00 text",
    "line.txt": lambda: b"tide" * 1_000_000,
    "line.jsonl": lambda: b'{"a": "' + b"tide " * 200_000 + b'"}',
    "deep.jsonl": lambda: b"[" * 500_000,
    "keys.jsonl": lambda: b"{" + b",".join(b'"k%d": 1' % number for number in range(50_000)) + b"}",
    "quotes.csv": lambda: b'a,b\n"' + b"x\n" * 200_000,
    "columns.csv": lambda: b",".join(b"c%d" % number for number in range(20_000)) + b"\n" + b"1," * 20_000,
    "stars.rst": lambda: b"*" * 30_000,
    "nested.rst": lambda: b"".join(b" " * depth + b"- x\n\n" for depth in range(800)),
    "blocks.md": lambda: b"> " * 20_000 + b"x",
    "brackets.md": lambda: b"[" * 300_000,
}


@pytest.mark.requirement("R8")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_ends_in_time_and_memory_and_the_next_one_works(parser: ParserProcess, name: str) -> None:
    data = HOSTILE[name]()
    parse(parser, b"Small text.", "small.txt")
    before = peak_mib(parser)
    began = time.monotonic()
    check(outcome(parser, data, name))
    # The limit is one of the processor, of which others take their share.
    assert time.monotonic() - began < 6 * (LIMIT_S + 8.0 * len(data) / (1 << 20))
    assert peak_mib(parser) - before <= MAX_EXTRA_MIB
    assert parse(parser, b"Small text.", "small.txt").text == "Small text."


def peak_mib(parser: ParserProcess) -> int:
    """Return the most memory that the process had; 0 when it is gone."""
    status = Path(f"/proc/{parser.process_id}/status")
    if not status.exists():
        return 0
    lines = [line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) >> 10 if lines else 0


@pytest.mark.requirement("R8")
@pytest.mark.parametrize("name", ["cut.pdf", "cut.docx"])
def test_a_file_cut_off_anywhere_ends_in_a_typed_error_or_a_document(parser: ParserProcess, name: str) -> None:
    whole = PDF if name == "cut.pdf" else make_docx(*(f"Paragraph {number} of the tide." for number in range(50)))
    for end in range(1, len(whole), max(1, len(whole) // 25)):
        check(outcome(parser, whole[:end], name))


@pytest.mark.requirement("R8")
def test_work_that_takes_too_long_is_a_typed_limit_and_the_next_document_works() -> None:
    operators = zlib.compress(b"BT /F1 12 Tf 72 720 Td " + b"(tide) Tj " * 1_500_000 + b"ET", 9)
    parser = ParserProcess(TOKENIZER.definition, ParserLimits(base_s=1.0, memory_base_bytes=8 << 30))
    try:
        parse(parser, b"Small text.", "small.txt")
        with pytest.raises(DocumentLimitError) as caught:
            parse(parser, pdf_with_stream(operators, "/FlateDecode"), "slow.pdf")
        assert caught.value.metadata["resource"] == "time_s"
        assert parse(parser, b"Small text.", "small.txt").chunks
    finally:
        parser.close()


@pytest.mark.requirement("R8")
def test_memory_beyond_the_limit_is_a_typed_error_and_the_next_document_works() -> None:
    parser = ParserProcess(TOKENIZER.definition, ParserLimits(memory_base_bytes=32 << 20, memory_per_byte=1))
    try:
        with pytest.raises(DocumentLimitError) as caught:
            parse(parser, b"- a\n\n" * 600_000, "lists.md")
        assert caught.value.metadata == {"resource": "memory_bytes", "limit": str((32 << 20) + 3_000_000)}
        assert parse(parser, b"Small text.", "small.txt").chunks
    finally:
        parser.close()


def test_a_crash_of_a_library_is_a_typed_error_and_the_next_document_works(parser: ParserProcess) -> None:
    stop = threading.Event()

    def crash_it() -> None:
        while not stop.wait(0.05):
            process_id = parser.process_id
            if process_id is not None and (cpu_s(process_id) or 0) > 1.0:  # no longer starting
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process_id, signal.SIGSEGV)

    parse(parser, b"Small text.", "small.txt")
    attacker = threading.Thread(target=crash_it)
    attacker.start()
    try:
        with pytest.raises(DocumentMalformedError, match="crashes the parser"):
            parse(parser, b"word " * 2_000_000, "long.txt")
    finally:
        stop.set()
        attacker.join()
    assert parse(parser, b"Small text.", "small.txt").chunks


@pytest.mark.parametrize(
    ("module", "data", "name"),
    [
        ("selectolax.lexbor", b"<p>text", "a.html"),
        ("pypdfium2", PDF, "a.pdf"),
        ("docx", DOCX, "a.docx"),
        ("docutils.nodes", b"text", "a.rst"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, data: bytes, name: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"groundwire\[formats\]") as caught:
        read_source(data, rules(name), ReadingLimits())
    assert caught.value.metadata == {"extra": "formats"}


def test_a_missing_library_is_told_across_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "selectolax").mkdir()
    (tmp_path / "selectolax" / "__init__.py").write_text("raise ImportError", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    parser = ParserProcess(TOKENIZER.definition, ParserLimits())
    try:
        with pytest.raises(MissingExtraError) as caught:
            parse(parser, b"<p>text", "a.html")
        assert caught.value.metadata == {"extra": "formats"}
    finally:
        parser.close()
