"""The checker finds each kind of damage, repairs what can be made from the catalog, and is silent afterwards."""

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
from groundwire.kernel.errors import CallCancelledError, CollectionNotFoundError
from groundwire.kernel.filters import Filter
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.session import Role, Session
from groundwire.kernel.store_findings import FindingKind, StoreFinding
from groundwire.kernel.vector_store import PointBatch, ScoredPoint
from groundwire.vectorstores.memory import MemoryVectorStore
from tests.integration.ingest.harness import DIMENSIONS, Harness
from tests.integration.ingest.test_ingest_document import long_text


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
    events: list[CheckEvent] = []
    library.harness.service.long_work.check.check(DEFAULT_TENANT, "", Budget(60), events.append, repair=False)
    done = [event.done for event in events if isinstance(event, Progress)]
    assert done == sorted(done)
    assert done[-1] == len(library.numbers)


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
    ],
    ids=["other", "nan", "zero", "long"],
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


def test_unfinished_generations_are_taken_back(library: Library) -> None:
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
    library.assert_lasting(FindingKind.CATALOG_DAMAGED)


class WrongStore(MemoryVectorStore):
    """Has all points, and answers wrongly about them until they are in another collection."""

    wrong = ""
    damaged = ""

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
        is_wrong = collection == self.damaged
        if is_wrong and self.wrong == "filter":
            where = None
        found = super().search(collection, vector, limit, budget, where=where, within=within)
        return found[1:] if is_wrong and self.wrong == "search" and where is None else found

    def count(self, collection: str, budget: Budget) -> int:
        return super().count(collection, budget) + (collection == self.damaged and self.wrong == "count")


class TestIndexThatAnswersWrongly:
    @pytest.fixture
    def store(self) -> MemoryVectorStore:
        return WrongStore()

    @pytest.mark.parametrize("wrong", ["search", "filter", "count"])
    def test_it_is_built_anew(self, library: Library, wrong: str) -> None:
        assert isinstance(library.vectors, WrongStore)
        library.vectors.wrong, library.vectors.damaged = wrong, library.engine_name
        library.assert_repairable(FindingKind.SEARCH_DIFFERS)


def test_only_the_collection_asked_for_is_checked(library: Library) -> None:
    library.harness.create("other")
    library.harness.ingest("other", "a.md", "# Moon\n\n" + long_text(9, 3))
    library.vectors.delete(library.engine_name, library.numbers[:1], Budget())
    assert library.check("other")[0] == []
    assert library.kinds("tides") == {FindingKind.VECTOR_MISSING}


@pytest.mark.parametrize(
    ("tenant", "repair", "expected"),
    [("other", False, (0, 0)), (DEFAULT_TENANT, True, (1, 1))],
    ids=["tenant", "repair"],
)
def test_a_check_joins_none_of_another_tenant_and_none_that_repairs_less(
    library: Library, tenant: str, repair: bool, expected: tuple[int, int]
) -> None:
    library.vectors.delete(library.engine_name, library.numbers[:1], Budget())
    check, reports = library.harness.service.long_work.check.check, list[StoreReport]()

    def check_beside(_: CheckEvent) -> None:
        if not reports:
            reports.append(check(tenant, "", Budget(60), lambda _: None, repair=repair))

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
