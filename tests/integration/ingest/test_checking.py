"""The checker finds each kind of damage, repairs what can be made from the catalog, and is silent afterwards."""

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from groundwire.api.common.v1 import document_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import GenerationDraft
from groundwire.catalog.sessions import NewMessage, Sessions
from groundwire.catalog.sqlite import CatalogFile
from groundwire.ingest.ingesting import Progress
from groundwire.ingest.store_check import CheckEvent, StoreReport
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import (
    CallCancelledError,
    CollectionNotFoundError,
    StoreUnavailableError,
    UnsupportedFilterError,
)
from groundwire.kernel.filters import Filter
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.session import Role, Session
from groundwire.kernel.store_findings import FindingKind, StoreFinding
from groundwire.kernel.vector_store import PointBatch, ScoredPoint
from groundwire.vectorstores.memory import MemoryVectorStore
from tests.integration.ingest.harness import DIMENSIONS, Harness
from tests.integration.ingest.test_ingest_document import long_text
from tests.stubs import by_source


class Library:
    """A process with three documents in a collection; nothing sweeps behind the tests' backs."""

    def __init__(self, folder: Path, vectors: MemoryVectorStore | None = None) -> None:
        self.vectors = vectors or MemoryVectorStore()
        self.harness = Harness(folder, self.vectors).without_housekeeping()

    def fill(self) -> None:
        self.harness.create("tides")
        for number in range(3):
            text = f"# Tides {number}\n\n" + long_text(number, 12)
            request_id = f"00000000-0000-4000-8000-00000000000{number}"
            self.harness.ingest("tides", f"{number}.md", text, request_id=request_id)
        self.harness.create("empty")

    @property
    def collection(self) -> Collection:
        return self.harness.collection("tides")

    @property
    def engine_name(self) -> str:
        return self.collection.engine_name

    @property
    def numbers(self) -> list[int]:
        return self.harness.live_numbers("tides")

    def sql(self, statement: str, *values: Any) -> None:
        self.harness.catalog.write(lambda connection: connection.exec_driver_sql(statement, values))

    def check(self, collection: str = "", *, repair: bool = False) -> tuple[list[StoreFinding], StoreReport]:
        events: list[CheckEvent] = []
        check = self.harness.service.long_work.check.check
        report = check(DEFAULT_TENANT, collection, Budget(60), events.append, repair=repair)
        return [event for event in events if isinstance(event, StoreFinding)], report

    def kinds(self, collection: str = "") -> set[FindingKind]:
        return {finding.kind for finding in self.check(collection)[0]}

    def assert_repairable(self, kind: FindingKind, count: int | None = None) -> None:
        """The damage is found, found again (finding changes nothing), repaired, and gone."""
        found, report = self.check()
        assert {finding.kind for finding in found} == {kind}, found
        assert report.repaired == 0
        assert count in {None, len(found)}
        assert self.check()[0] == found
        repaired, report = self.check(repair=True)
        assert [finding.repaired for finding in repaired] == [True] * len(found)
        assert report.repaired == report.findings == len(found)
        assert self.check()[0] == []

    def assert_lasting(self, kind: FindingKind) -> list[StoreFinding]:
        """The damage is found, and still told after the repair of everything else."""
        assert kind in self.kinds()
        left = [finding for finding in self.check(repair=True)[0] if not finding.repaired]
        assert kind in {finding.kind for finding in left}
        assert {finding.kind for finding in self.check()[0]} == {finding.kind for finding in left}
        return left


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return a filled catalog and the collections of a filled store, to be copied."""
    folder, store = tmp_path_factory.mktemp("model"), MemoryVectorStore()
    library = Library(folder, store)
    library.fill()
    collections = deepcopy(store._collections)
    library.harness.close()
    return folder, collections


@pytest.fixture
def store() -> MemoryVectorStore:
    return MemoryVectorStore()


@pytest.fixture
def library(model: tuple[Path, dict[str, Any]], store: MemoryVectorStore, tmp_path: Path) -> Iterator[Library]:
    shutil.copytree(model[0], tmp_path, dirs_exist_ok=True)
    store._collections = deepcopy(model[1])
    library = Library(tmp_path, store)
    yield library
    library.harness.close()


def other_vector(library: Library) -> Vectors:
    """Return a vector of no chunk."""
    vector = np.random.default_rng(5).normal(size=DIMENSIONS).astype(np.float32)
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


def add_session(sessions: Sessions, exchanges: int) -> None:
    """Add a session with so many questions and answers."""
    now = datetime.now(UTC)
    session: Session[Any] = Session("s", "tides", timedelta(minutes=30), now, now)
    session = sessions.create(DEFAULT_TENANT, session)
    for number in range(exchanges):
        question = NewMessage(f"q{number}", Role.USER, "question", now)
        answer = NewMessage(f"a{number}", Role.ASSISTANT, "answer", now, f"q{number}")
        session = sessions.append(DEFAULT_TENANT, "s", session.head, [question, answer])


def delete_of(source_uri: str, *, purge: bool = False) -> pb.DeleteDocumentRequest:
    return pb.DeleteDocumentRequest(collection="tides", reference=by_source(source_uri), purge=purge)


def turned(vector: Vectors, cosine: float) -> Vectors:
    """Return a vector of length 1 with this cosine to the given one, which has length 1 too."""
    aside = np.roll(vector, 1) - (np.roll(vector, 1) @ vector) * vector
    made = cosine * vector + np.sqrt(1 - cosine**2) * aside / np.linalg.norm(aside)
    return np.asarray(made, dtype=np.float32)


def plant_vector(library: Library, number: int, vector: Vectors) -> None:
    """Put a vector into the engine past its checks."""
    held = library.vectors._collections[library.engine_name]
    held.units[held.rows[number]] = vector


def test_nothing_is_wrong_with_what_was_ingested(library: Library) -> None:
    found, report = library.check()
    assert found == []
    assert report == StoreReport(checked=len(library.numbers), findings=0, repaired=0)
    assert library.check(repair=True)[1] == report


def test_progress_rises_to_the_number_of_chunks(library: Library) -> None:
    events: list[Progress] = []

    def report(event: CheckEvent) -> None:
        assert isinstance(event, Progress)
        if not events:  # more of them than were counted, in the last collection
            library.harness.ingest("tides", "more.md", "# More\n\n" + long_text(7, 4))
        events.append(event)

    library.harness.create("moon")
    library.harness.ingest("moon", "a.md", "# Moon\n\n" + long_text(9, 3))
    counted = len(library.harness.live_numbers("moon")) + len(library.numbers)
    check = library.harness.service.long_work.check.check
    checked = check(DEFAULT_TENANT, "", Budget(60), report, repair=False).checked
    done = [event.done for event in events]
    assert (events[0].done, events[0].total) == (0, counted)
    assert done == sorted(done)
    assert events[-1].done == events[-1].total == checked
    assert checked == len(library.harness.live_numbers("moon")) + len(library.numbers) > counted


def test_an_unknown_collection_is_not_found(library: Library) -> None:
    with pytest.raises(CollectionNotFoundError):
        library.check("none")


@pytest.mark.requirement("C24")
def test_missing_vectors_are_written_again(library: Library) -> None:
    library.vectors.delete(library.engine_name, library.numbers[:2], Budget())
    library.assert_repairable(FindingKind.VECTOR_MISSING, 2)


@pytest.mark.requirement("T40")
def test_vectors_without_a_chunk_are_removed(library: Library) -> None:
    vectors = np.stack([other_vector(library)] * 2)
    library.vectors.upsert(library.engine_name, PointBatch([2**50, 2**50 + 1], vectors, [{}, {}]), Budget())
    library.assert_repairable(FindingKind.VECTOR_ORPHANED, 2)
    assert list(library.vectors.numbers(library.engine_name, Budget())) == library.numbers


def test_other_filter_keys_are_found_and_named(library: Library) -> None:
    number = library.numbers[0]
    held = library.vectors.fetch(library.engine_name, [number], Budget())
    changed = dict(held.payloads[0]) | {"title": "Another", "extra": 1}
    library.vectors.upsert(library.engine_name, PointBatch([number], held.vectors, [changed]), Budget())
    assert library.check()[0][0].message == "filter keys differ: extra, title"
    library.assert_repairable(FindingKind.PAYLOAD_DIFFERS, 1)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda vector: np.roll(vector, 1), "another one"),
        (lambda vector: vector * np.float32(np.nan), "not finite"),
        (lambda vector: vector * np.float32(0), "all zero"),
        (lambda vector: vector * np.float32(3), "length 3.000"),
        (lambda vector: vector / np.float32(3), "length 0.333"),
        (lambda vector: turned(vector, cosine=0.99), "cosine 0.990"),
    ],
    ids=["other", "nan", "zero", "long", "short", "turned"],
)
def test_wrong_vectors_in_the_engine_are_written_again(
    library: Library, make: Callable[[Vectors], Vectors], said: str
) -> None:
    number = library.numbers[1]
    plant_vector(library, number, make(library.vectors.fetch(library.engine_name, [number], Budget()).vectors[0]))
    assert said in library.check()[0][0].message
    library.assert_repairable(FindingKind.VECTOR_DIFFERS, 1)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"123",
        b"\x00" * 4 * (DIMENSIONS + 1),
        np.full(DIMENSIONS, np.nan, "<f4").tobytes(),
        b"\x00\x00@@" * DIMENSIONS,
    ],
    ids=["gone", "cut", "long", "nan", "not of length 1"],
)
def test_vectors_that_the_catalog_lost_are_made_again(library: Library, value: bytes | None) -> None:
    (chosen,) = library.harness.catalog.write(
        lambda connection: connection.exec_driver_sql("SELECT embedding_hash FROM chunks LIMIT 1").one()
    )
    if value is None:
        library.sql("DELETE FROM embeddings WHERE embedding_hash = ?", chosen)
    else:
        library.sql("UPDATE embeddings SET vector = ? WHERE embedding_hash = ?", value, chosen)
    library.assert_repairable(FindingKind.EMBEDDING_MISSING, 1)


def test_a_lost_engine_collection_is_built_anew(library: Library) -> None:
    library.vectors.drop_collection(library.engine_name, Budget())
    library.assert_repairable(FindingKind.VECTOR_MISSING, 1)
    assert list(library.vectors.numbers(library.engine_name, Budget())) == library.numbers


@pytest.mark.requirement("T08")
def test_an_engine_collection_of_another_dimension_is_replaced(library: Library) -> None:
    library.vectors.drop_collection(library.engine_name, Budget())
    library.vectors.create_collection(library.engine_name, DIMENSIONS + 1, Budget())
    library.assert_repairable(FindingKind.VECTOR_DIFFERS, 1)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM lexical_segments WHERE segment_key = (SELECT min(segment_key) FROM lexical_segments)",
        "UPDATE lexical_segments SET members = CAST(members || x'ffff0100' AS BLOB), chunk_count = chunk_count + 1",
        "UPDATE lexical_segments SET members = x'0102'",
        "UPDATE lexical_segments SET word_count = word_count + 1",
        "DELETE FROM lexical_segments",
        "DELETE FROM lexical_postings WHERE word > 'm'",
        "INSERT INTO lexical_postings SELECT segment_key, 'x' || word, postings, positions FROM lexical_postings",
        "UPDATE lexical_postings SET postings = substr(postings, 2)",
        "UPDATE lexical_postings SET positions = zeroblob(length(positions)) WHERE length(positions) > 2",
    ],
    ids=[
        "segment missing",
        "chunk too many",
        "chunks unreadable",
        "other length",
        "empty",
        "words missing",
        "words too many",
        "words unreadable",
        "other positions",
    ],
)
def test_the_full_text_index_is_built_anew(library: Library, damage: str) -> None:
    library.sql(damage)
    library.assert_repairable(FindingKind.FULL_TEXT_DIFFERS)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE text_segments SET content = replace(content, 'a', 'b')", "not the one that was stored"),
        ("UPDATE text_segments SET char_start = 7", "wrong places"),
        ("UPDATE chunks SET content_hash = replace(content_hash, 'a', 'b')", "another digest"),
        ("UPDATE chunks SET char_end = char_end - 1", "not the text of its span"),
        ("UPDATE chunks SET byte_end = byte_end + 1", "byte offsets"),
        ("UPDATE generations SET text_hash = replace(text_hash, 'a', 'b')", "not the one that was stored"),
    ],
)
def test_damaged_texts_are_told_and_stay(library: Library, damage: str, said: str) -> None:
    library.sql(damage)
    left = library.assert_lasting(FindingKind.TEXT_DIFFERS)
    assert any(said in finding.message for finding in left)
    assert {finding.collection for finding in left} == {"tides"}


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE generations SET chunk_count = chunk_count + 1",
        "UPDATE documents SET live_generation = 7 WHERE document_key = 1",
        "UPDATE documents SET live_generation = 0 WHERE document_key = 1",
        "DELETE FROM chunks WHERE sequence_num = 1",
    ],
)
def test_documents_that_contradict_their_chunks_are_told(library: Library, damage: str) -> None:
    library.sql(damage)
    left = library.assert_lasting(FindingKind.GENERATION_INCONSISTENT)
    assert all(finding.subject for finding in left)


def leave_unfinished(library: Library) -> None:
    """Begin a generation as a process that ended before it was written."""
    abandoned = Documents(library.harness.catalog)
    draft = GenerationDraft(
        document_id=None,
        source_uri="left.md",
        format=DocumentFormat.TEXT,
        source_hash="0" * 64,
        fields=DocumentFields(),
        text="moon",
        chunks=(),
        expected_generation=0,
    )
    abandoned.begin(library.collection, [draft])


def test_unfinished_generations_are_taken_back(library: Library) -> None:
    leave_unfinished(library)
    library.assert_repairable(FindingKind.GENERATION_UNFINISHED, 1)


def test_generations_that_are_being_written_are_left_alone(library: Library) -> None:
    documents = library.harness.service.long_work.documents.catalog.documents
    draft = GenerationDraft(None, "now.md", DocumentFormat.TEXT, "0" * 64, DocumentFields(), "moon", (), 0)
    (pending,) = documents.begin(library.collection, [draft])
    library.sql("UPDATE generations SET create_time = 0 WHERE state = 'PENDING'")
    assert library.check(repair=True)[0] == []
    documents.publish(pending)


def test_overdue_tasks_are_done(library: Library) -> None:
    library.sql(
        "INSERT INTO outbox (tenant, kind, engine_name, numbers, queued_steady)"
        " VALUES ('default', 'delete_points', ?, '[77]', 0)",
        library.engine_name,
    )
    library.assert_repairable(FindingKind.OUTBOX_OVERDUE, 1)


def test_points_that_a_task_will_remove_are_no_finding(library: Library) -> None:
    library.vectors.upsert(library.engine_name, PointBatch([77], other_vector(library)[None], [{}]), Budget())
    library.sql(
        "INSERT INTO outbox (tenant, kind, engine_name, numbers, queued_steady)"
        " SELECT 'default', 'delete_points', ?, '[77]', value FROM counters WHERE name = 'steady_ms'",
        library.engine_name,
    )
    assert library.check()[0] == []


def test_points_that_a_task_will_write_are_no_finding(library: Library) -> None:
    number = library.numbers[0]
    library.vectors.delete(library.engine_name, [number], Budget())
    library.sql(
        "INSERT INTO outbox (tenant, kind, engine_name, numbers, queued_steady)"
        " SELECT 'default', 'match_points', ?, ?, value FROM counters WHERE name = 'steady_ms'",
        library.engine_name,
        f"[{number}]",
    )
    assert library.check(repair=True)[0] == []
    library.harness.sweep()
    assert list(library.vectors.numbers(library.engine_name, Budget())) == library.numbers


def test_a_collection_without_chunks_may_lack_its_index(library: Library) -> None:
    engine_name = library.harness.collection("empty").engine_name
    library.vectors.drop_collection(engine_name, Budget())
    assert library.check()[0] == []
    # A check takes no room, which a full disk may not have.
    assert engine_name not in library.vectors.collections(Budget())


def test_vectors_that_another_model_made_are_told_and_not_made_again(library: Library) -> None:
    library.harness.calls.delete_document(delete_of("0.md"))
    library.sql("DELETE FROM embeddings")
    embedder = library.harness.embedder
    embedder.identity = replace(embedder.identity, probe_digest="0" * 64)
    lost = len(library.check()[0])
    embedder.texts.clear()
    left = library.assert_lasting(FindingKind.EMBEDDING_MISSING)
    assert len(left) == lost > len(library.numbers)  # those of the deleted document can be restored
    assert embedder.texts == []


def test_requests_without_a_remembered_answer_are_told(library: Library) -> None:
    library.sql("DELETE FROM requests WHERE request_id LIKE '%1'")
    (finding,) = library.assert_lasting(FindingKind.REQUEST_REPEATED)
    assert finding.subject == "00000000-0000-4000-8000-000000000001"


def test_requests_that_took_effect_twice_are_told(library: Library) -> None:
    library.sql(
        "INSERT INTO audit"
        " (tenant, time, steady_time, action, resource, outcome, request_id, position, previous_hash, hash)"
        " SELECT tenant, time, steady_time, action, resource, outcome, request_id, position, previous_hash, hash"
        " FROM audit WHERE request_id LIKE '%2'"
    )
    left = library.assert_lasting(FindingKind.REQUEST_REPEATED)
    assert any("twice" in finding.message for finding in left)


def test_gaps_in_sessions_are_told(library: Library) -> None:
    add_session(Sessions(library.harness.catalog), exchanges=2)
    assert library.check()[0] == []
    library.sql("DELETE FROM messages WHERE sequence = 2")
    (finding,) = library.assert_lasting(FindingKind.SESSION_INCOMPLETE)
    assert "gap" in finding.message


def test_sessions_that_lost_their_first_messages_or_all_are_told(library: Library) -> None:
    add_session(Sessions(library.harness.catalog), exchanges=2)
    library.sql("DELETE FROM messages WHERE sequence <= 2")
    (finding,) = library.assert_lasting(FindingKind.SESSION_INCOMPLETE)
    assert "gap" in finding.message
    library.sql("DELETE FROM messages")
    (finding,) = library.assert_lasting(FindingKind.SESSION_INCOMPLETE)
    assert "end" in finding.message


def test_sessions_that_lost_their_last_message_are_told(library: Library) -> None:
    add_session(Sessions(library.harness.catalog), exchanges=2)
    library.sql("DELETE FROM messages WHERE sequence = 4")
    (finding,) = library.assert_lasting(FindingKind.SESSION_INCOMPLETE)
    assert "end" in finding.message


@pytest.mark.parametrize(
    "damage",
    ["UPDATE audit SET resource = 'x' WHERE id = 2", "DELETE FROM audit WHERE id = 2"],
    ids=["changed", "gone"],
)
def test_an_altered_record_of_changes_is_told(library: Library, damage: str) -> None:
    library.sql(damage)
    library.assert_lasting(FindingKind.AUDIT_BROKEN)


def test_broken_references_are_told(library: Library) -> None:
    storage = library.harness.catalog._storage
    assert isinstance(storage, CatalogFile)
    # A connection of its own does not check references.
    with closing(sqlite3.connect(storage.path)) as connection, connection:
        connection.execute("INSERT INTO document_tags (document_key, tag) VALUES (999, 'x')")
    left = library.assert_lasting(FindingKind.CATALOG_DAMAGED)
    assert [(each.subject, each.message) for each in left] == [
        ("", "broken reference from document_tags to documents")  # its rows have no numbers
    ]


class WrongStore(MemoryVectorStore):
    """Has all points, and is wrong about those of one engine collection; `before` runs before a call, by its name."""

    wrong = ""
    damaged = ""
    hidden: frozenset[int] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, Callable[[], object]] = {}

    def _begin(self, call: str) -> None:
        # Once: what runs may call the store itself.
        self.before.pop(call, lambda: None)()

    def search(
        self,
        collection: str,
        vector: Vectors,
        limit: int,
        budget: Budget,
        *,
        where: Filter | None = None,
        within: Sequence[int] | None = None,
    ) -> list[ScoredPoint]:
        self._begin("search")
        is_wrong = collection == self.damaged
        if where is not None and self.wrong == "unsupported":
            raise UnsupportedFilterError("not on this engine")
        if is_wrong and self.wrong == "filter":
            where = None
        if is_wrong and self.wrong == "hidden":
            held = super().numbers(collection, budget) if within is None else within
            within = [number for number in held if number not in self.hidden]
        found = super().search(collection, vector, limit, budget, where=where, within=within)
        is_cut = (self.wrong == "search" and where is None) or (self.wrong == "filtered" and where is not None)
        return found[1:] if is_wrong and is_cut else found

    def count(self, collection: str, budget: Budget) -> int:
        self._begin("count")
        return super().count(collection, budget) + (collection == self.damaged and self.wrong == "count")

    def numbers(self, collection: str, budget: Budget) -> Iterator[int]:
        if collection == self.damaged and self.wrong == "down":
            raise StoreUnavailableError("the engine does not answer")
        found = list(super().numbers(collection, budget))
        self._begin("numbers")
        return iter(found)

    def collections(self, budget: Budget) -> list[str]:
        self._begin("collections")
        return super().collections(budget)

    def create_collection(self, collection: str, dimensions: int, budget: Budget) -> None:
        self._begin("create")
        super().create_collection(collection, dimensions, budget)

    def fetch(self, collection: str, numbers: Sequence[int], budget: Budget) -> PointBatch:
        self._begin("fetch")
        return super().fetch(collection, numbers, budget)

    def upsert(self, collection: str, points: PointBatch, budget: Budget) -> None:
        self._begin("upsert")
        if collection != self.damaged or self.wrong != "upsert":
            super().upsert(collection, points, budget)

    def delete(self, collection: str, numbers: Sequence[int], budget: Budget) -> None:
        if collection == self.damaged and self.wrong == "delete":
            raise StoreUnavailableError("the engine does not delete")
        super().delete(collection, numbers, budget)


class TestWrongEngine:
    @pytest.fixture
    def store(self) -> WrongStore:
        return WrongStore()

    def damage(self, library: Library, store: WrongStore, wrong: str, collection: str = "tides") -> None:
        store.wrong, store.damaged = wrong, library.harness.collection(collection).engine_name

    def move(self, library: Library) -> None:
        """Build another index for the collection, and drop the one that served."""
        long_work = library.harness.service.long_work
        long_work.builder.rebuild(DEFAULT_TENANT, "tides", Budget(60), lambda _: None)
        library.harness.sweep()

    def put_many(self, library: Library, contents: Sequence[str]) -> list[int]:
        chunks = [pb.ReadyChunk(content=content, sequence_num=number) for number, content in enumerate(contents)]
        library.harness.create("many")
        library.harness.put_chunks("many", "many", *chunks)
        return library.harness.live_numbers("many")

    @pytest.mark.parametrize("wrong", ["search", "filter", "filtered", "count"])
    def test_an_index_that_answers_wrongly_is_built_anew(self, library: Library, store: WrongStore, wrong: str) -> None:
        self.damage(library, store, wrong)
        library.assert_repairable(FindingKind.SEARCH_DIFFERS)

    def test_two_chunks_are_enough_to_see_that_one_is_not_found(self, library: Library, store: WrongStore) -> None:
        self.put_many(library, ["The moon pulls the sea.", "Granite is made in the depth."])
        self.damage(library, store, "search", "many")
        library.assert_repairable(FindingKind.SEARCH_DIFFERS)

    def test_one_chunk_that_no_search_finds_is_damage(self, library: Library, store: WrongStore) -> None:
        store.hidden = frozenset(library.numbers[:1])
        self.damage(library, store, "hidden")
        assert any("own vector" in finding.message for finding in library.check()[0])
        library.assert_repairable(FindingKind.SEARCH_DIFFERS)

    def test_damage_at_the_end_of_a_large_index_is_found(self, library: Library, store: WrongStore) -> None:
        numbers = self.put_many(library, [f"Tide {number} comes." for number in range(300)])
        store.hidden = frozenset(numbers[200:])
        self.damage(library, store, "hidden", "many")
        assert any("own vector" in finding.message for finding in library.check()[0])

    def test_every_document_is_searched_by_a_filter(self, library: Library, store: WrongStore) -> None:
        page = library.harness.library.list_chunks(library_pb.ListChunksRequest(collection="tides", page_size=1000))
        last = max(chunk.document_id for chunk in page.chunks)
        store.hidden = frozenset(chunk.chunk_number for chunk in page.chunks if chunk.document_id == last)
        self.damage(library, store, "hidden")
        said = f"a filter on document {last} finds other chunks than the catalog"
        assert said in [finding.message for finding in library.check()[0]]

    def test_copies_of_one_text_are_no_damage(self, library: Library) -> None:
        self.put_many(library, ["The moon pulls the sea."] * 150)
        assert library.check()[0] == []

    def test_filters_that_an_engine_does_not_have_are_no_damage(self, library: Library, store: WrongStore) -> None:
        self.damage(library, store, "unsupported")
        assert library.check()[0] == []

    def test_points_that_are_being_written_are_no_damage(self, library: Library, store: WrongStore) -> None:
        begun = PointBatch([2**50], other_vector(library)[None], [{}])
        store.before["count"] = lambda: store.upsert(library.engine_name, begun, Budget())
        assert library.check("tides")[0] == []

    def test_points_that_are_removed_meanwhile_are_no_finding(self, library: Library, store: WrongStore) -> None:
        stray = PointBatch([2**50], other_vector(library)[None], [{}])
        store.upsert(library.engine_name, stray, Budget())
        store.before["numbers"] = lambda: store.delete(library.engine_name, stray.numbers, Budget())
        store.before["fetch"] = lambda: library.harness.calls.delete_document(delete_of("0.md", purge=True))
        assert library.check("tides")[0] == []
        assert store.before == {}

    def test_every_batch_is_compared(self, library: Library, store: WrongStore) -> None:
        numbers = self.put_many(library, [f"Tide {number} comes." for number in range(300)])
        engine_name = library.harness.collection("many").engine_name
        vectors = np.stack([other_vector(library)] * 2100)
        store.upsert(engine_name, PointBatch(range(2**50, 2**50 + 2100), vectors, [{}] * 2100), Budget())
        store.delete(engine_name, numbers[-1:], Budget())
        found, report = library.check("many", repair=True)
        kinds = [finding.kind for finding in found]
        assert (kinds.count(FindingKind.VECTOR_MISSING), kinds.count(FindingKind.VECTOR_ORPHANED)) == (1, 2100)
        assert (report.checked, report.findings, report.repaired) == (300, 2101, 2101)

    def test_every_batch_of_chunks_without_a_point_is_looked_at(self, library: Library) -> None:
        self.put_many(library, [f"Tide {number} comes." for number in range(300)])
        request = delete_of("many")
        request.collection = "many"
        library.harness.calls.delete_document(request)
        library.sql("DELETE FROM embeddings")
        assert len(library.check("many")[0]) == len(library.check("many", repair=True)[0]) == 300
        assert library.check("many")[0] == []

    def test_what_an_engine_does_not_take_is_not_called_repaired(self, library: Library, store: WrongStore) -> None:
        store.delete(library.engine_name, library.numbers[:1], Budget())
        self.damage(library, store, "upsert")
        (finding,) = library.assert_lasting(FindingKind.VECTOR_MISSING)
        assert not finding.repaired

    def test_tasks_that_an_engine_does_not_do_are_not_called_repaired(
        self, library: Library, store: WrongStore
    ) -> None:
        library.sql(
            "INSERT INTO outbox (tenant, kind, engine_name, numbers, queued_steady)"
            " VALUES ('default', 'delete_points', ?, '[77]', 0)",
            library.engine_name,
        )
        self.damage(library, store, "delete")
        (finding,) = library.assert_lasting(FindingKind.OUTBOX_OVERDUE)
        assert finding.subject == library.engine_name

    def test_an_engine_that_fails_ends_the_check(self, library: Library, store: WrongStore) -> None:
        self.damage(library, store, "down")
        events: list[CheckEvent] = []
        check = library.harness.service.long_work.check.check
        with pytest.raises(StoreUnavailableError):
            check(DEFAULT_TENANT, "", Budget(60), events.append, repair=False)
        assert {type(event) for event in events} == {Progress}

    def test_collections_of_others_on_a_server_stay(self, library: Library, store: WrongStore) -> None:
        names = [f"gw-{letter * 32}" for letter in "ba"]
        for name in [*names, "gw-notes"]:
            store.create_collection(name, DIMENSIONS, Budget())
        left = library.assert_lasting(FindingKind.VECTOR_ORPHANED)
        assert [finding.subject for finding in left] == sorted(names)
        assert {*names, "gw-notes"} <= {*store.collections(Budget())}

    @pytest.mark.parametrize("call", ["collections", "fetch", "numbers"])
    def test_an_index_that_moves_meanwhile_is_checked_where_it_is(
        self, library: Library, store: WrongStore, call: str
    ) -> None:
        before = library.engine_name
        store.before[call] = lambda: self.move(library)
        assert library.check("tides", repair=True) == ([], StoreReport(len(library.numbers), 0, 0))
        assert before != library.engine_name
        assert before not in store.collections(Budget())
        assert list(store.numbers(library.engine_name, Budget())) == library.numbers

    def test_a_collection_that_is_deleted_meanwhile_is_left_out(self, library: Library, store: WrongStore) -> None:
        request = collections_pb.DeleteCollectionRequest(collection="tides", force=True)

        def delete() -> None:
            library.harness.calls.delete_collection(request)
            library.harness.sweep()

        store.before["collections"] = delete
        assert library.check()[0] == []

    def test_an_index_that_another_call_builds_first_is_repaired(self, library: Library, store: WrongStore) -> None:
        self.damage(library, store, "search")
        # The first call makes sure that the index is there, the second makes the new one.
        store.before["create"] = lambda: store.before.update(create=lambda: self.move(library))
        found, _ = library.check("tides", repair=True)
        assert {(finding.kind, finding.repaired) for finding in found} == {(FindingKind.SEARCH_DIFFERS, True)}
        assert library.check()[0] == []

    def test_an_update_during_a_repair_is_not_undone(self, library: Library, store: WrongStore) -> None:
        request = pb.UpdateDocumentRequest(
            collection="tides",
            reference=by_source("0.md"),
            document=document_pb2.Document(fields=document_pb2.DocumentFields(title="Ebb")),
        )
        updating = threading.Thread(target=library.harness.calls.update_document, args=(request,))

        def update() -> None:
            updating.start()
            updating.join(0.5)  # without the lock, it would end now

        store.delete(library.engine_name, library.numbers[:1], Budget())
        store.before["upsert"] = update
        (finding,) = library.check(repair=True)[0]
        updating.join()
        assert finding.kind is FindingKind.VECTOR_MISSING
        assert library.check()[0] == []

    @pytest.mark.parametrize("lasts", [True, False])
    def test_answers_given_while_something_was_written_do_not_count(
        self, library: Library, store: WrongStore, lasts: bool
    ) -> None:
        def write() -> None:
            library.harness.ingest("tides", "more.md", "# More\n\n" + long_text(7, 4))
            # The count comes first, the list for the second attempt later.
            store.before["numbers"] = lambda: None if lasts else setattr(store, "wrong", "")

        self.damage(library, store, "count")
        store.before["count"] = write
        assert [finding.kind for finding in library.check("tides")[0]] == [FindingKind.SEARCH_DIFFERS] * lasts


def test_only_the_collection_asked_for_is_checked(library: Library) -> None:
    library.harness.create("other")
    library.harness.ingest("other", "a.md", "# Moon\n\n" + long_text(9, 3))
    library.vectors.delete(library.engine_name, library.numbers[:1], Budget())
    library.sql("UPDATE generations SET chunk_count = chunk_count + 1 WHERE generation_key = 1")
    library.sql("UPDATE audit SET resource = 'x' WHERE id = 2")
    leave_unfinished(library)
    assert library.check("other", repair=True)[0] == []
    assert library.kinds("tides") == {
        FindingKind.VECTOR_MISSING,
        FindingKind.GENERATION_INCONSISTENT,
        FindingKind.GENERATION_UNFINISHED,
    }


def test_a_check_finds_nothing_of_another_tenant_that_has_a_collection_of_the_same_name(library: Library) -> None:
    library.sql("UPDATE generations SET chunk_count = chunk_count + 1 WHERE generation_key = 1")
    leave_unfinished(library)
    found = library.kinds("tides")
    library.sql("UPDATE collections SET tenant = 'other' WHERE name = 'tides'")
    library.harness.create("tides")
    assert library.check("tides", repair=True)[0] == []
    library.sql("UPDATE collections SET name = 'ebb' WHERE name = 'tides' AND tenant = ?", DEFAULT_TENANT)
    library.sql("UPDATE collections SET tenant = ? WHERE name = 'tides'", DEFAULT_TENANT)
    assert library.kinds("tides") == found == {FindingKind.GENERATION_INCONSISTENT, FindingKind.GENERATION_UNFINISHED}


@pytest.mark.parametrize(
    ("tenant", "name", "repair", "expected"),
    [("other", "", False, (0, 0)), (DEFAULT_TENANT, "empty", False, (0, 0)), (DEFAULT_TENANT, "", True, (1, 1))],
    ids=["tenant", "name", "repair"],
)
def test_a_check_joins_none_of_another_tenant_or_collection_and_none_that_repairs_less(
    library: Library, tenant: str, name: str, repair: bool, expected: tuple[int, int]
) -> None:
    library.vectors.delete(library.engine_name, library.numbers[:1], Budget())
    check, reports = library.harness.service.long_work.check.check, list[StoreReport]()

    def check_beside(_: CheckEvent) -> None:
        if not reports:
            reports.append(check(tenant, name, Budget(60), lambda _: None, repair=repair))

    check(DEFAULT_TENANT, "", Budget(60), check_beside, repair=False)
    assert (reports[0].findings, reports[0].repaired) == expected


def test_a_check_ends_within_a_batch_after_its_caller_left(library: Library) -> None:
    budget = Budget()
    check = library.harness.service.long_work.check.check
    with pytest.raises(CallCancelledError):
        check(DEFAULT_TENANT, "", budget, lambda _: budget.cancel(), repair=False)


def test_nothing_is_found_while_documents_come_change_and_go(library: Library) -> None:
    harness, is_over = library.harness, threading.Event()
    harness.service.housekeeping.start()
    failures: list[Exception] = []

    def write(worker: int) -> None:
        round_ = 0
        try:
            while not is_over.is_set():
                round_ += 1
                source = f"w{worker}-{round_ % 5}.md"
                result = harness.ingest("tides", source, f"# {source}\n\n" + long_text(worker * 1000 + round_, 6))
                if round_ % 7 == 0:
                    harness.delete("tides", result.document.document_id)
        except Exception as error:  # noqa: BLE001 - any failure fails the test
            failures.append(error)

    writers = [threading.Thread(target=write, args=(worker,)) for worker in range(3)]
    for writer in writers:
        writer.start()
    found = [finding for _ in range(6) for finding in library.check(repair=True)[0]]
    is_over.set()
    for writer in writers:
        writer.join()
    harness.sweep()
    assert (failures, found) == ([], [])
    assert library.check()[0] == []
