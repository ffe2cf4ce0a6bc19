"""Files of every format through a real server: pages, headings and citations, and the files it names as failed."""

import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import docx
import pytest

from groundwire.api.common.v1 import chunk_pb2, document_format_pb2, document_pb2, hit_pb2, retrieval_options_pb2
from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.client import GroundwireClient
from groundwire.kernel.document_errors import DocumentLimitError
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.filter_parsing import parse_filter_text
from groundwire.rpc.filter_messages import to_filter_message
from tests.e2e.server import ServerProcess, groundwire
from tests.e2e.split import Deployment, start_services
from tests.stubs import by_id, by_source
from tests.unit.ingest.made_files import make_docx, make_pdf, make_tagged_pdf, make_zip, save

COLLECTION = "formats"
FILLER = "Filler lines say little of it.\n"
PAGES = [
    *(
        f"Page {number} is about subject {number}.\n" + "Filler lines say little of it.\n" * 45
        for number in range(1, 5)
    ),
    "The heron stands still in shallow water and waits for fish.\nMany words follow here to fill this page.",
    "A badger digs its sett with strong claws under old oak trees.\nIt sleeps there by day.",
    "",
    "The otter closes its ears under water.",
]
FORMATS = {
    "a.txt": "text",
    "b.md": "markdown",
    "c.html": "html",
    "d.pdf": "pdf",
    "e.docx": "docx",
    "f.rst": "rst",
    "g.csv": "csv",
    "h.jsonl": "jsonl",
    "i.ipynb": "markdown",
    "j.eml": "text",
}
FAILURES = {
    "bomb.docx": "DOCUMENT_LIMIT",
    "broken.csv": "DOCUMENT_MALFORMED",
    "cut.docx": "DOCUMENT_MALFORMED",
    "empty.html": "DOCUMENT_EMPTY",
    "fake.pdf": "DOCUMENT_FORMAT_MISMATCH",
    "latin.txt": "DOCUMENT_ENCODING",
    "scan.pdf": "DOCUMENT_WITHOUT_TEXT",
    "sheet.docx": "DOCUMENT_FORMAT_MISMATCH",
}


def word_document() -> bytes:
    document = docx.Document()
    document.add_heading("Wetlands", level=1)
    document.add_heading("Reeds", level=2)
    document.add_paragraph("Reeds clean the water of a marsh.")
    return save(document)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess | Deployment]:
    """Start a server that answers even though the model of the tests understands little."""
    running = start_services(tmp_path_factory.mktemp("formats-server"), GROUNDWIRE_ANSWER_MIN_SUPPORT="0")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("formats")
    contents = {
        "a.txt": b"Frogs sing at night.",
        "b.md": b"# Ponds\n\nNewts live in ponds.",
        "c.html": b"<title>Rivers</title><h1>Rivers</h1><script>x</script><p>Trout like cold rivers.",
        "d.pdf": make_pdf(PAGES, info={"Title": "Animals", "Author": "Ada"}),
        "e.docx": word_document(),
        "f.rst": b"Lakes\n=====\n\nPike hunt in lakes.\n",
        "g.csv": b"bird,food\nheron,fish\nswan,plants\n",
        "h.jsonl": b'{"bird": "kingfisher", "food": "minnows"}\n',
        "i.ipynb": b'{"cells": [{"cell_type": "markdown", "source": ["# Frogs\\n", "Toads walk."]}], "metadata": {}}',
        "j.eml": b"From: Ann <ann@example.org>\nSubject: Bitterns\n\nBitterns boom in spring.\n",
        "bomb.docx": make_zip({"word/document.xml": b" " * (8 << 20)}),
        "broken.csv": b'a,b\n1,"2\n',
        "cut.docx": make_docx("Text.")[:900],
        "empty.html": b"<nav>Home</nav>",
        "fake.pdf": b"This is text.",
        "latin.txt": "très".encode("latin-1"),
        "scan.pdf": make_pdf(["", ""]),
        "sheet.docx": make_zip({"xl/workbook.xml": b"<a/>"}),
        ".hidden.md": b"# Hidden",
        "picture": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    }
    for name, content in contents.items():
        (made / name).write_bytes(content)
    return made


@pytest.fixture(scope="module")
def client(server: ServerProcess, folder: Path) -> Iterator[GroundwireClient]:
    done = groundwire("ingest", str(folder), "-c", COLLECTION, "--json", address=server.address)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    failed = {file["source"]: file["error"].partition(":")[0] for file in report["files"] if file["error"]}
    assert failed == FAILURES
    assert {file["source"] for file in report["files"]} == {*FORMATS, *FAILURES}
    with GroundwireClient(server.address) as connected:
        yield connected


def document_of(client: GroundwireClient, source: str) -> document_pb2.Document:
    return client.get_document(collection=COLLECTION, reference=by_source(source)).document


def chunks_of(client: GroundwireClient, source: str) -> list[chunk_pb2.Chunk]:
    document_id = document_of(client, source).document_id
    return list(client.list_chunks(collection=COLLECTION, reference=by_id(document_id), page_size=200).chunks)


def find(client: GroundwireClient, query: str, where: Mapping[str, object]) -> list[hit_pb2.Hit]:
    options = retrieval_options_pb2.RetrievalOptions(
        filter=to_filter_message(parse_filter_text(json.dumps(where))), include_flat_view=True
    )
    return list(client.retrieve(collection=COLLECTION, query=query, options=options).results)


@pytest.mark.requirement("S1-64")
@pytest.mark.requirement("C07")
def test_each_format_is_ingested_and_named(client: GroundwireClient) -> None:
    name = document_format_pb2.DocumentFormat.Name
    found = {source: name(document_of(client, source).format) for source in FORMATS}
    assert found == {source: f"DOCUMENT_FORMAT_{kind.upper()}" for source, kind in FORMATS.items()}


@pytest.mark.requirement("S1-64")
def test_a_format_that_is_not_in_the_contract_is_refused(client: GroundwireClient) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        client.ingest_document(collection=COLLECTION, source_uri="x", text="Text.", format=99)  # type: ignore[arg-type]  # what is tested
    assert [violation.field for violation in caught.value.violations] == ["format"]


@pytest.mark.requirement("S1-66")
@pytest.mark.requirement("C25")
def test_chunks_are_exact_ranges_of_the_stored_text(client: GroundwireClient) -> None:
    for source in FORMATS:
        found = client.get_document(collection=COLLECTION, reference=by_source(source), include_text=True)
        chunks = chunks_of(client, source)
        assert found.document.chunk_count == len(chunks)
        assert found.document.total_chars == len(found.text)
        for chunk in chunks:
            assert found.text[chunk.span.start : chunk.span.end] == chunk.content
            assert found.text.encode()[chunk.span.start_byte : chunk.span.end_byte].decode() == chunk.content


@pytest.mark.requirement("S1-76")
@pytest.mark.requirement("C14")
@pytest.mark.requirement("T11")
def test_pages_of_a_chunk_are_the_whole_span_also_over_a_blank_page(client: GroundwireClient) -> None:
    text = client.get_document(collection=COLLECTION, reference=by_source("d.pdf"), include_text=True).text
    starts = {number: text.index(page.split("\n")[0]) for number, page in enumerate(PAGES, start=1) if page}
    chunks = chunks_of(client, "d.pdf")
    assert len(chunks) > 1
    for chunk in chunks:
        begun = [number for number, start in starts.items() if start < chunk.span.end]
        first = max(number for number, start in starts.items() if start <= chunk.span.start)
        assert list(chunk.page_numbers) == list(range(first, begun[-1] + 1))
    assert 7 in chunks[-1].page_numbers
    assert all(not chunk.page_numbers for source in FORMATS if source != "d.pdf" for chunk in chunks_of(client, source))


@pytest.mark.requirement("S1-77")
def test_headings_give_chunks_their_place(client: GroundwireClient) -> None:
    places = {
        "b.md": ("Ponds", "", "Ponds"),
        "c.html": ("Rivers", "", "Rivers"),
        "e.docx": ("Wetlands", "Reeds", "Reeds"),
        "f.rst": ("Lakes", "", "Lakes"),
    }
    for source, place in places.items():
        (chunk,) = chunks_of(client, source)
        assert (chunk.chapter, chunk.section, chunk.section_heading) == place


@pytest.mark.requirement("S1-59")
@pytest.mark.requirement("S1-60")
def test_what_a_file_says_about_itself_fills_what_the_caller_leaves_out(client: GroundwireClient, folder: Path) -> None:
    document = document_of(client, "d.pdf")
    assert (document.fields.title, list(document.fields.creators)) == ("Animals", ["Ada"])
    stated = document_pb2.DocumentFields(title="Mine")
    content = (folder / "d.pdf").read_bytes()
    allow = ingest_result_pb2.DUPLICATE_POLICY_ALLOW
    again = [
        client.ingest_document(
            collection=COLLECTION, source_uri="d2.pdf", content=content, fields=stated, duplicate_policy=allow
        ).result
        for _ in range(2)
    ]
    assert [(each.document.fields.title, list(each.document.fields.creators)) for each in again] == [
        ("Mine", ["Ada"])
    ] * 2
    assert again[1].outcome == ingest_result_pb2.INGEST_OUTCOME_UNCHANGED
    client.delete_document(collection=COLLECTION, reference=by_id(again[0].document.document_id), purge=True)


def test_a_page_without_text_is_a_warning_with_its_count(client: GroundwireClient) -> None:
    content = make_pdf(["Text of one page.", "", ""])
    result = client.ingest_document(collection=COLLECTION, source_uri="blank.pdf", content=content).result
    counts = {warning.kind: warning.occurrence_count for warning in result.warnings}
    assert counts[ingest_result_pb2.INGEST_WARNING_KIND_PAGE_WITHOUT_TEXT] == 2


@pytest.mark.requirement("S1-14")
@pytest.mark.requirement("S1-15")
@pytest.mark.requirement("S1-32")
@pytest.mark.requirement("T23")
def test_pages_can_be_searched_for_and_are_shown(client: GroundwireClient) -> None:
    last = chunks_of(client, "d.pdf")[-1]
    first, final = last.page_numbers[0], last.page_numbers[-1]
    for where in (
        {"page_end": {"$gte": final}},
        {"page_start": first, "page_end": final},
        {"pages": {"$contains": final}},
        {"page": final},
    ):
        found = find(client, "otter under water", where)
        assert {hit.chunk.chunk_id for hit in found} == {last.chunk_id}, where
    (hit,) = found
    assert list(hit.chunk.page_numbers) == list(last.page_numbers)
    assert hit.flat_view["page"].int64_value == first
    assert hit.flat_view["pages"].string_value == ",".join(str(page) for page in last.page_numbers)
    assert find(client, "otter under water", {"page_start": {"$gt": final}}) == []


def test_a_citation_names_the_pages_of_its_quote_and_not_of_its_chunk(client: GroundwireClient) -> None:
    for question, page in (("Where does the heron stand and wait?", 5), ("What does the otter close under water?", 8)):
        answer = client.ask(collection=COLLECTION, question=question).answer
        cited = [citation for citation in answer.citations if citation.source_uri == "d.pdf"]
        assert cited, answer.content
        assert {tuple(citation.page_numbers) for citation in cited} == {(page,)}
        assert client.verify_citations(citations=cited).all_verified


@pytest.mark.parametrize(
    ("question", "row", "quote"),
    [
        ("What food does the swan eat?", "bird swan: plants", "bird: swan\nfood: plants"),
        ("What food does the kingfisher eat?", "bird kingfisher: minnows", "bird: kingfisher\nfood: minnows"),
    ],
)
def test_a_question_about_a_table_file_is_answered_by_its_row(
    client: GroundwireClient, question: str, row: str, quote: str
) -> None:
    answer = client.ask(collection=COLLECTION, question=question).answer
    assert answer.content.partition("\n")[0].startswith(row), answer.content
    assert answer.citations[0].quote == quote
    assert client.verify_citations(citations=answer.citations).all_verified


def test_sections_of_a_tagged_pdf_are_told_apart_in_answers(client: GroundwireClient) -> None:
    duties = {
        "Vice President of Sales": "- Lead the company\n- Set its goals for years",
        "Senior Manager of Sales": "- Lead the north\n- Report to the president",
        "Manager of Sales": "- Meet with customers\n- Count what was sold",
    }
    page = [
        piece
        for title, items in duties.items()
        for piece in (("H1", title), ("P", f"Job summary:\nSells what we make.\nResponsibilities:\n{items}"))
    ]
    client.create_collection(collection="tagged")
    client.ingest_document(collection="tagged", source_uri="roles.pdf", content=make_tagged_pdf([page]))
    for title, items in duties.items():
        answer = client.ask(collection="tagged", question=f"What are the responsibilities of the {title}?").answer
        assert re.sub(r" \[\d\]", "", answer.content).endswith(f"Responsibilities:\n{items}")
        assert {each.section_heading for each in answer.citations} == {title}


@pytest.mark.requirement("S1-59")
@pytest.mark.requirement("S1-60")
@pytest.mark.requirement("S1-61")
@pytest.mark.requirement("S1-62")
@pytest.mark.requirement("S1-63")
@pytest.mark.requirement("S1-65")
def test_fields_come_back_and_the_language_is_english_unless_said(client: GroundwireClient) -> None:
    stated = document_pb2.DocumentFields(
        title="Moors", creators=["B", "A"], subjects=["peat", "moss"], description="Wet land", language="de"
    )
    stated.date_created.FromJsonString("2024-05-01T10:00:00Z")
    stored = client.ingest_document(
        collection=COLLECTION, source_uri="moors.txt", text="Moors are wet.", fields=stated
    ).result.document
    assert stored.fields == stated
    assert document_of(client, "moors.txt").fields == stated
    assert document_of(client, "a.txt").fields.language == "en"


@pytest.mark.requirement("S1-57")
@pytest.mark.requirement("S1-58")
@pytest.mark.requirement("S1-63")
@pytest.mark.requirement("S1-65")
@pytest.mark.requirement("T35")
def test_bad_fields_are_refused_by_name(client: GroundwireClient) -> None:
    late = document_pb2.DocumentFields()
    late.date_created.seconds = 1 << 50
    text = "Fens are wet as well."
    digest = hashlib.sha256(text.encode()).hexdigest()
    cases: list[tuple[str, dict[str, Any]]] = [
        ("source_uri", {"source_uri": ""}),
        ("source_hash", {"source_hash": digest[:63]}),
        ("source_hash", {"source_hash": "z" * 64}),
        ("source_hash", {"source_hash": "0" * 64}),
        ("fields.date_created", {"fields": late}),
        ("fields.language", {"fields": document_pb2.DocumentFields(language="english")}),
    ]
    for field, given in cases:
        with pytest.raises(InvalidRequestError) as caught:
            client.ingest_document(**{"collection": COLLECTION, "source_uri": "fens.txt", "text": text, **given})
        assert [violation.field for violation in caught.value.violations] == [field]
    stored = client.ingest_document(
        collection=COLLECTION, source_uri="fens.txt", text=text, source_hash=digest.upper()
    ).result.document
    assert stored.source_hash == digest


def test_files_are_read_within_the_limits_that_the_operator_sets(tmp_path: Path) -> None:
    limits = {"PAGES": "2", "ZIP_ENTRIES": "20", "ZIP_RATIO": "100", "INFLATED_MIB": "3", "S_PER_MIB": "30"}
    variables = {f"GROUNDWIRE_INGEST_PARSER_{name}": value for name, value in limits.items()}
    body = make_docx("Herons wait for fish.")
    files = {
        "two-pages.pdf": (make_pdf(["One page.", "Another page."]), ""),
        "three-pages.pdf": (make_pdf(["One page.", "Another page.", "A third one."]), "pages"),
        "few-entries.docx": (body, ""),
        "many-entries.docx": (_with_entries(body, {f"extra/{number}": b"x" for number in range(21)}), "zip_entries"),
        "large.docx": (_with_entries(body, {"extra/large": os.urandom(4 << 20)}), "inflated_bytes"),
        "repetitive.docx": (_with_entries(body, {"extra/zeros": bytes(2 << 20)}), "zip_ratio"),
    }
    with ServerProcess(tmp_path / "data", **variables) as server, GroundwireClient(server.address) as client:
        client.create_collection(collection="docs")
        exceeded = {}
        for name, (content, _) in files.items():
            try:
                client.ingest_document(collection="docs", source_uri=name, content=content)
                exceeded[name] = ""
            except DocumentLimitError as error:
                exceeded[name] = error.metadata["resource"]
    assert exceeded == {name: limit for name, (_, limit) in files.items()}


def _with_entries(archive: bytes, entries: Mapping[str, bytes]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as read:
        own = {name: read.read(name) for name in read.namelist()}
    return make_zip(own | dict(entries))
