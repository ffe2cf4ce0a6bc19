"""The filters of the source designs, as they are written there, over gRPC on every engine."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from groundwire.api.common.v1 import document_pb2, filter_pb2, metadata_value_pb2, record_pb2, search_mode_pb2
from groundwire.api.common.v1.hit_pb2 import Hit
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import InvalidFilterError, InvalidRequestError
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from tests.conformance.chroma_server import chroma_server
from tests.e2e.server import ASKS_ENGINE, HASHING, ServerProcess, groundwire
from tests.e2e.split import Deployment, is_split, start_services
from tests.integration.records.keeping import FAQ, USER, Keeping, memory, record, turn
from tests.stubs import by_id, by_source
from tests.unit.ingest.made_files import make_pdf

ENGINES = ("qdrant-edge:", "chroma:", "chroma-server")
Where = dict[str, Any]
Flat = dict[str, Any]

NOTES: list[tuple[str, list[str], dict[str, Any]]] = [
    ("tone.md", ["critical", "style"], {"type": "persona", "topic": "tone", "scope": "global"}),
    ("specialists.md", [], {"type": "faq", "topic": "specialists", "scope": "global"}),
    ("billing.md", ["critical"], {"type": "faq", "topic": "billing", "department": "finance"}),
    ("alpha.md", ["critical", "deadline"], {"type": "memory", "importance": 5, "scope": "entity:project-alpha"}),
    ("beta.md", ["crit"], {"type": "memory", "importance": 4, "scope": "entity:project-beta"}),
    ("old.md", ["critical"], {"type": "memory", "importance": 3, "department": "engineering"}),
    ("turn.md", ["finance", "quarterly"], {"type": "turn", "conversation_id": "conv-abc123", "final": True}),
    ("summary.md", ["quarterly"], {"type": "summary", "quality": 1.5, "labels": ["a", "b"]}),
]


class World:
    """A server on one engine with the notes, a report with pages, and a book."""

    def __init__(self, client: GroundwireClient, address: str) -> None:
        self.client = client
        self.address = address
        self.filled_from = datetime.now(UTC)
        _fill(client)
        self.filled_until = datetime.now(UTC)

    def search(self, where: Where | None = None, collection: str = "notes", query: str = "note") -> list[Hit]:
        """Return all hits of a collection under a filter."""
        options = RetrievalOptions(
            top_k=20, min_relevance=0.0, mode=search_mode_pb2.SEARCH_MODE_VECTOR, include_flat_view=True
        )
        if where is not None:
            options.filter.CopyFrom(to_filter_message(parse_filter(where)))
        return list(self.client.retrieve(collection=collection, query=query, options=options).results)

    def sources(self, where: Where) -> set[str]:
        return {hit.chunk.source_uri for hit in self.search(where)}


@pytest.fixture(scope="module", params=("split",) if is_split() else ENGINES)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    pytest.importorskip("qdrant_edge" if request.param.startswith("qdrant") else "chromadb")
    folder = tmp_path_factory.mktemp("world")
    with ExitStack() as stack:
        server: ServerProcess | Deployment
        if request.param == "split":
            server = start_services(folder, **ASKS_ENGINE)
        else:
            is_server = request.param == "chroma-server"
            vectors = stack.enter_context(chroma_server(folder / "chroma")).url if is_server else request.param
            server = ServerProcess(folder / "data", (*HASHING, "--vectors", vectors), **ASKS_ENGINE)
        try:
            with GroundwireClient(server.address) as client:
                yield World(client, server.address)
        finally:
            assert server.stop() == 0


def _fill(client: GroundwireClient) -> None:
    for name in ("notes", "reports"):
        client.create_collection(collection=name, profile=collection_pb2.PROFILE_DOCUMENTS)
    client.create_collection(collection="book", profile=collection_pb2.PROFILE_BOOK)
    for number, (source, tags, own) in enumerate(NOTES):
        fields = document_pb2.DocumentFields(
            tags=tags, metadata={key: _value(value) for key, value in own.items()}, project="acme" if number % 2 else ""
        )
        fields.date_created.FromDatetime(datetime(2024, 1, 1, 12, tzinfo=UTC) + timedelta(days=31 * number))
        heading = f"## Part {number}\n\n" if number else ""
        text = f"# Note {number}\n\n{heading}This is the note about {source}, and it says what there is to say.\n"
        client.ingest_document(collection="notes", source_uri=source, content=text.encode(), fields=fields)
    pages = [
        f"Page {page} of the report. " + f"Sentence of page {page} on revenue and costs. " * 60 for page in range(1, 9)
    ]
    report = document_pb2.DocumentFields(title="Report", creators=["Smith, J.", "Doe"], tags=["finance", "quarterly"])
    report.date_created.FromDatetime(datetime(2024, 7, 1, tzinfo=UTC))
    client.ingest_document(collection="reports", source_uri="report.pdf", content=make_pdf(pages), fields=report)
    memo = document_pb2.DocumentFields(title="Memo", creators=["Roe"], tags=["finance"])
    memo.date_created.FromDatetime(datetime(2023, 7, 1, tzinfo=UTC))
    content = make_pdf(["A memo on revenue and costs, of one page."])
    client.ingest_document(collection="reports", source_uri="memo.pdf", content=content, fields=memo)
    chapters = "".join(
        (f"# Chapter {chapter}\n\n" if section == 1 else "")
        + f"## Section {chapter}.{section}\n\n"
        + f"Section {chapter}.{section} tells of tides and waves. " * 80
        + "\n\n"
        for chapter in (1, 2)
        for section in (1, 2)
    )
    client.ingest_document(collection="book", source_uri="book.md", content=chapters.encode())


def _value(value: Any) -> metadata_value_pb2.MetadataValue:
    match value:
        case bool():
            return metadata_value_pb2.MetadataValue(bool_value=value)
        case int():
            return metadata_value_pb2.MetadataValue(int64_value=value)
        case float():
            return metadata_value_pb2.MetadataValue(double_value=value)
        case list():
            return metadata_value_pb2.MetadataValue(string_list=metadata_value_pb2.StringList(values=value))
        case _:
            return metadata_value_pb2.MetadataValue(string_value=value)


def _flat(hit: Hit) -> Flat:
    """Return the flat view as plain values."""
    found: Flat = {}
    for key, value in hit.flat_view.items():
        held = getattr(value, str(value.WhichOneof("value")))
        found[key] = list(held.values) if hasattr(held, "values") else held
    return found


ALL = {source for source, _, _ in NOTES}


@pytest.mark.requirement("S0-55")
def test_without_a_filter_everything_may_come(world: World) -> None:
    assert {hit.chunk.source_uri for hit in world.search()} == ALL
    options = RetrievalOptions(top_k=5, min_relevance=0.0)
    assert len(world.client.retrieve(collection="notes", query="specialists", options=options).results) == 5


@pytest.mark.requirement("C02")
@pytest.mark.requirement("S0-56")
@pytest.mark.requirement("S0-57")
@pytest.mark.requirement("S0-58")
@pytest.mark.requirement("S0-59")
@pytest.mark.requirement("S0-60")
@pytest.mark.requirement("S0-61")
@pytest.mark.requirement("T01")
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"type": "persona"}, {"tone.md"}),
        ({"type": "faq"}, {"specialists.md", "billing.md"}),
        ({"type": "faq", "topic": "specialists"}, {"specialists.md"}),
        ({"type": "turn", "conversation_id": "conv-abc123"}, {"turn.md"}),
        ({"type": "summary"}, {"summary.md"}),
        ({"type": "memory", "importance": {"$gte": 4}}, {"alpha.md", "beta.md"}),
        ({"scope": "entity:project-alpha"}, {"alpha.md"}),
        (
            {"$and": [{"type": "memory"}, {"importance": {"$gte": 4}}, {"tags": {"$contains": "critical"}}]},
            {"alpha.md"},
        ),
        ({"tags": {"$contains": "critical"}}, {"tone.md", "billing.md", "alpha.md", "old.md"}),
        ({"tags": {"$contains": "crit"}}, {"beta.md"}),
        ({}, ALL),
        ({"$and": [{"type": "faq"}]}, {"specialists.md", "billing.md"}),
        ({"$or": [{"type": "faq"}]}, {"specialists.md", "billing.md"}),
        ({"type": "memory", "importance": {"$gt": 3, "$lt": 5}}, {"beta.md"}),
        ({"type": {"$in": []}}, set()),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),  # the same in every process
)
def test_the_filters_of_records_run_as_they_are_written(world: World, where: Where, expected: set[str]) -> None:
    assert world.sources(where) == expected


@pytest.mark.requirement("S0-57")
@pytest.mark.requirement("S0-60")
@pytest.mark.requirement("S0-61")
@pytest.mark.requirement("T20")
def test_fields_of_records_are_the_same_on_every_engine(world: World) -> None:
    keeping, alpha, beta = Keeping(world.client), "entity:alpha", "entity:beta"
    keeping.put(
        record(FAQ, "note faq", faq=record_pb2.FaqDetails(topic="api", specialist_name="ocr")),
        memory("note alpha", scope=alpha, importance=5, tags=["critical"], confidence=0.5),
        memory("note beta", scope=beta, importance=4, tags=["crit"]),
        memory("note global", importance=3, tags=["critical", "late"]),
        turn(USER, "note turn", "conv-abc123"),
    )
    world.client.ingest_document(collection=keeping.collection, source_uri="a.txt", text="note of no record")
    cases: list[tuple[Where, set[str]]] = [
        ({"type": "faq"}, {"note faq"}),
        ({"_specialist_name": "ocr", "topic": "api"}, {"note faq"}),
        ({"type": "memory", "importance": {"$gte": 4}, "scope": {"$in": [alpha, beta]}}, {"note alpha", "note beta"}),
        ({"$and": [{"type": "memory"}, {"scope": alpha}, {"confidence": {"$lt": 0.6}}]}, {"note alpha"}),
        ({"tags": {"$contains": "critical"}, "scope": "global"}, {"note global"}),
        ({"conversation_id": "conv-abc123", "turn_index": 1, "role": "user"}, {"note turn"}),
        ({"scope": {"$ne": alpha}, "record_type": "memory"}, {"note global"}),  # a scope has to be named
        ({"entity": {"$exists": True}, "scope": {"$in": [alpha, beta]}, "importance": {"$ne": 5}}, {"note beta"}),
        ({"record_type": {"$exists": False}}, {"note of no record"}),
        ({"scope": beta, "importance": {"$nin": [3, 5]}}, {"note beta"}),
    ]
    for where, expected in cases:
        assert set(keeping.found("note", where)) == expected, where


@pytest.mark.requirement("S1-26")
@pytest.mark.requirement("S1-29")
@pytest.mark.requirement("S1-30")
@pytest.mark.requirement("S1-31")
@pytest.mark.requirement("S1-33")
@pytest.mark.requirement("C13")
@pytest.mark.requirement("T04")
@pytest.mark.requirement("T24")
@pytest.mark.requirement("T25")
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"importance": {"$eq": 5}}, {"alpha.md"}),
        ({"importance": {"$ne": 5}}, ALL - {"alpha.md"}),
        ({"importance": {"$gt": 4}}, {"alpha.md"}),
        ({"importance": {"$gte": 4}}, {"alpha.md", "beta.md"}),
        ({"importance": {"$lt": 4}}, {"old.md"}),
        ({"importance": {"$lte": 4.5}}, {"beta.md", "old.md"}),
        ({"importance": {"$in": [3, 5]}}, {"alpha.md", "old.md"}),
        ({"importance": {"$nin": [3, 5]}}, ALL - {"alpha.md", "old.md"}),
        ({"importance": {"$gt": 3, "$lt": 5}}, {"beta.md"}),
        ({"department": "engineering"}, {"old.md"}),
        ({"tags": "critical"}, {"tone.md", "billing.md", "alpha.md", "old.md"}),
        ({"tags": "crit"}, {"beta.md"}),
        ({"tags": {"$in": ["finance", "quarterly"]}}, {"turn.md", "summary.md"}),
        ({"tags": {"$nin": ["critical"]}}, ALL - {"tone.md", "billing.md", "alpha.md", "old.md"}),
        ({"tags": {"$like": "%finance%"}}, {"turn.md"}),
        ({"tags": {"$not_contains": "critical"}}, ALL - {"tone.md", "billing.md", "alpha.md", "old.md"}),
        ({"labels": "b"}, {"summary.md"}),
        ({"final": True}, {"turn.md"}),
        ({"final": 1}, set()),
        ({"quality": 1.5}, {"summary.md"}),
        ({"quality": {"$exists": True}}, {"summary.md"}),
        ({"scope": {"$exists": False}}, ALL - {"tone.md", "specialists.md", "alpha.md", "beta.md"}),
        ({"$not": {"type": {"$in": ["memory", "faq"]}}}, {"tone.md", "turn.md", "summary.md"}),
        (
            {"$or": [{"type": "persona"}, {"$and": [{"date": {"$gte": "2024-03-01"}}, {"department": "finance"}]}]},
            {"tone.md", "billing.md"},
        ),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),  # the same in every process
)
def test_every_operator_gives_the_same_on_every_engine(world: World, where: Where, expected: set[str]) -> None:
    assert world.sources(where) == expected


@pytest.mark.requirement("S1-20")
@pytest.mark.requirement("S1-32")
@pytest.mark.requirement("T02")
def test_dates_compare_as_times(world: World) -> None:
    after = {source for number, (source, _, _) in enumerate(NOTES) if number >= 3}
    assert world.sources({"date": {"$gte": "2024-04-03"}}) == after
    assert world.sources({"date": {"$gt": "2024-04-03T12:00:00Z"}}) == after - {"alpha.md"}
    assert world.sources({"date": {"$gte": "2024-04-03T13:00:00+01:00"}}) == after
    assert world.sources({"date": "2024-04-03"}) == {"alpha.md"}
    assert world.sources({"date": {"$lte": "2024-04-03"}}) == ALL - after | {"alpha.md"}
    now = datetime.now(UTC)
    assert world.sources({"timestamp": {"$lte": now.isoformat()}}) == ALL
    assert world.sources({"created_at": {"$gt": (now + timedelta(hours=1)).isoformat()}}) == set()


@pytest.mark.requirement("S1-14")
@pytest.mark.requirement("S1-15")
@pytest.mark.requirement("S1-32")
@pytest.mark.requirement("T23")
def test_pages_are_found_by_any_page_that_a_chunk_touches(world: World) -> None:
    hits = world.search(collection="reports", query="revenue")
    assert any(len(hit.chunk.page_numbers) > 1 for hit in hits)
    for hit in hits:
        flat = _flat(hit)
        assert (flat["page"], flat["pages"]) == (hit.chunk.page_numbers[0], ",".join(map(str, hit.chunk.page_numbers)))
    checks: list[tuple[Where, Callable[[list[int]], bool]]] = [
        ({"page": {"$gte": 6}}, lambda pages: max(pages) >= 6),
        ({"page": {"$lte": 2}}, lambda pages: min(pages) <= 2),
        ({"pages": 3}, lambda pages: 3 in pages),
        ({"page": {"$in": [1, 8]}}, lambda pages: bool({1, 8} & set(pages))),
        ({"page_start": {"$gte": 3}, "page_end": {"$lte": 6}}, lambda pages: pages[0] >= 3 and pages[-1] <= 6),
        (
            {"$and": [{"page": {"$gte": 5}}, {"page": {"$lte": 10}}, {"tags": {"$in": ["finance", "quarterly"]}}]},
            lambda pages: max(pages) >= 5,
        ),
    ]
    for where, holds in checks:
        expected = {hit.chunk.chunk_id for hit in hits if holds(list(hit.chunk.page_numbers))}
        assert {hit.chunk.chunk_id for hit in world.search(where, "reports", "revenue")} == expected, where
        assert 0 < len(expected) < len(hits), where


@pytest.mark.requirement("S1-109")
@pytest.mark.requirement("S1-10")
@pytest.mark.requirement("S1-11")
@pytest.mark.requirement("S1-12")
@pytest.mark.requirement("S1-13")
@pytest.mark.requirement("S1-17")
@pytest.mark.requirement("S1-18")
@pytest.mark.requirement("S1-19")
@pytest.mark.requirement("S1-21")
@pytest.mark.requirement("S1-23")
@pytest.mark.requirement("S1-25")
@pytest.mark.requirement("C12")
@pytest.mark.requirement("C21")
def test_the_flat_view_of_documents_has_the_names_and_types_of_its_design(world: World) -> None:
    stored = {
        source: list(world.client.list_chunks(collection="reports", reference=by_id(document.document_id)).chunks)
        for source in ("report.pdf", "memo.pdf")
        for document in [world.client.get_document(collection="reports", reference=by_source(source)).document]
    }
    chunks = stored["report.pdf"]
    assert len(chunks) > 3
    hits = world.search({"source": "report.pdf"}, "reports", "revenue")
    for where in ({"author": "Doe"}, {"title": "Report"}, {"tags": "quarterly"}, {"doc_id": chunks[0].document_id}):
        assert {hit.chunk.chunk_id for hit in world.search(where, "reports", "revenue")} == {
            hit.chunk.chunk_id for hit in hits
        }
    flats = sorted(map(_flat, hits), key=lambda flat: flat["chunk_index"])
    parts = world.client.document_text(collection="reports", reference=by_id(chunks[0].document_id))
    text = "".join(part.text for part in parts)
    assert [
        (flat["doc_id"], flat["chunk_id"], flat["chunk_index"], text[flat["char_start"] : flat["char_end"]])
        for flat in flats
    ] == [(chunk.document_id, chunk.chunk_id, number, chunk.content) for number, chunk in enumerate(chunks)]
    assert {(flat["source"], flat["title"], flat["author"], flat["tags"], flat["date"]) for flat in flats} == {
        ("report.pdf", "Report", "Smith, J.", "finance,quarterly", "2024-07-01T00:00:00Z")
    }
    for flat in flats:
        # Stored times are in milliseconds.
        ingested = datetime.fromisoformat(flat["timestamp"])
        assert world.filled_from - timedelta(milliseconds=1) <= ingested <= world.filled_until
    [other] = [_flat(hit) for hit in world.search({"title": "Memo"}, "reports", "revenue")]
    assert (other["doc_id"], other["chunk_index"]) == (stored["memo.pdf"][0].document_id, 0)
    assert (other["source"], other["author"], other["tags"]) == ("memo.pdf", "Roe", "finance")


@pytest.mark.requirement("S1-16")
@pytest.mark.requirement("S1-22")
@pytest.mark.requirement("S1-24")
@pytest.mark.requirement("S1-26")
def test_keys_without_a_value_are_absent_and_ones_own_are_there(world: World) -> None:
    hits = {hit.chunk.source_uri: _flat(hit) for hit in world.search()}
    assert "author" not in hits["tone.md"]
    assert "page" not in hits["tone.md"]
    assert "tags" not in hits["specialists.md"]
    assert "project" not in hits["tone.md"]
    assert hits["specialists.md"]["project"] == "acme"
    assert world.sources({"project": "acme"}) == {source for source in ALL if "project" in hits[source]}
    assert (hits["summary.md"]["quality"], hits["summary.md"]["labels"]) == (1.5, ["a", "b"])
    assert (hits["turn.md"]["final"], hits["alpha.md"]["importance"]) == (True, 5)
    assert "section" not in hits["tone.md"]
    assert {source: flat["section"] for source, flat in hits.items() if "section" in flat} == {
        source: f"Part {number}" for number, (source, _, _) in enumerate(NOTES) if number
    }
    assert world.sources({"section": "Part 3"}) == world.sources({"section_heading": "Part 3"}) == {"alpha.md"}
    assert world.sources({"section": {"$exists": False}}) == {"tone.md"}


@pytest.mark.requirement("S4-22")
def test_a_book_is_filtered_by_chapter_section_and_numbers_of_chunks(world: World) -> None:
    hits = world.search(collection="book", query="tides")
    flats = [_flat(hit) for hit in hits]
    assert all(set(flat) >= {"chapter", "section", "chunk_id", "text"} for flat in flats)
    first = {flat["chunk_id"] for flat in flats if flat["chapter"] == "Chapter 1"}
    assert 0 < len(first) < len(flats)
    assert {hit.chunk.chunk_number for hit in world.search({"chapter": "Chapter 1"}, "book", "tides")} == first
    for section in ("Section 1.1", "Section 1.2", "Section 2.1", "Section 2.2"):
        expected = {flat["chunk_id"] for flat in flats if flat["section"] == section}
        assert {hit.chunk.chunk_number for hit in world.search({"section": section}, "book", "tides")} == expected
        assert 0 < len(expected) < len(flats)
    some, other = min(first), max(flat["chunk_id"] for flat in flats)
    assert [hit.chunk.chunk_number for hit in world.search({"chunk_id": some}, "book", "tides")] == [some]
    where = {"chapter": "Chapter 1", "chunk_id": {"$in": [some, other]}}
    assert [hit.chunk.chunk_number for hit in world.search(where, "book", "tides")] == [some]
    assert world.search({"chapter": "Chapter 1", "section": "Section 2.1"}, "book", "tides") == []


@pytest.mark.requirement("S1-34")
def test_unknown_operators_and_fields_are_named(world: World) -> None:
    message = to_filter_message(parse_filter({"importance": 1}))
    message.condition.op = 77  # type: ignore[assignment]  # an operator of a later version
    with pytest.raises(InvalidFilterError) as refused:
        world.client.retrieve(collection="notes", query="note", options=RetrievalOptions(filter=message))
    assert [violation.field for violation in refused.value.violations] == ["options.filter.condition.op"]
    for where in ({"colour": "red"}, {"colour": {"$exists": False}}, {"$or": [{}, {"colour": 1}]}):
        with pytest.raises(InvalidFilterError, match="unknown field 'colour'"):
            world.search(where)
    printed = groundwire("search", "x", "-c", "notes", "--filter", '{"a": {"$foo": 1}}', address=world.address)
    assert printed.returncode != 0
    assert "unknown operator '$foo'" in printed.stderr


def test_filters_beyond_the_limits_are_refused_with_a_readable_error(world: World) -> None:
    deep: Where = {"type": "faq"}
    for _ in range(8):
        deep = {"$not": deep}
    assert world.sources(deep) == {"specialists.md", "billing.md"}
    many = [{"type": f"kind-{number}"} for number in range(257)]
    for where, words in (
        ({"$or": many}, "256 terms"),
        ({"type": {"$in": [str(number) for number in range(257)]}}, "256"),
        ({"type": "x" * 8193}, "8192"),
        ({"type": "a\x00b"}, "NUL"),
        ({"x" * 65: 1}, "64 characters"),
        ({"$or": [{f"{'x' * 50}{number}": 1} for number in range(200)]}, "unknown field"),
    ):
        with pytest.raises(InvalidFilterError, match=words):
            world.search(where)
    assert world.sources({"$or": many[:256]}) == set()
    assert world.sources({"type": {"$like": "%a" * 127 + "%"}}) == set()
    assert world.sources({"$or": [{"type": {"$nin": ["faq"] * 256}}]}) == ALL - {"specialists.md", "billing.md"}


def test_a_tree_too_deep_for_the_protocol_is_no_defect(world: World) -> None:
    message = filter_pb2.Filter(json='{"type": {"$exists": true}}')
    for _ in range(9):
        message = filter_pb2.Filter(negation=message)
    with pytest.raises(InvalidRequestError, match="deeper than 8"):
        world.client.retrieve(collection="notes", query="note", options=RetrievalOptions(filter=message))
    late = filter_pb2.Filter()
    late.condition.field = "date"
    late.condition.op = filter_pb2.FILTER_OPERATOR_GTE
    late.condition.values.add().timestamp_value.seconds = 2**62
    with pytest.raises(InvalidRequestError, match="years 1 and 9999"):
        world.client.retrieve(collection="notes", query="note", options=RetrievalOptions(filter=late))
    assert world.sources({"type": "persona"}) == {"tone.md"}
