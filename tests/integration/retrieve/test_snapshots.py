"""Reading as of an earlier position: the same results as then, or a refusal; readers of now never notice."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.catalog.deletions import Restorations
from groundwire.kernel.budget import Budget
from groundwire.kernel.document import Document, DocumentFields
from groundwire.kernel.errors import InvalidRequestError, SnapshotExpiredError
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.rpc.filter_messages import to_filter_message
from tests.catalogs import problems_of
from tests.integration.retrieve.conftest import ENGINES
from tests.integration.retrieve.library import Library, contents
from tests.manual_clock import ManualClock

_MODES = [
    search_mode_pb2.SEARCH_MODE_HYBRID,
    search_mode_pb2.SEARCH_MODE_VECTOR,
    search_mode_pb2.SEARCH_MODE_LEXICAL,
]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "qdrant-edge"])
def keeping(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Library]:
    """A library whose collection `kept` keeps replaced generations for an hour."""
    library = Library(tmp_path, ENGINES[request.param], clock=clock)
    library.collection = library.create("kept", generation_retention=timedelta(hours=1))
    yield library
    library.close()


def _replace(library: Library, document: Document, *texts: str, fields: DocumentFields | None = None) -> Document:
    """Put a new generation, and let the engine forget the points of the old one, as the sweeper does."""
    engine_name = library.collection.engine_name
    before = set(library.vectors.numbers(engine_name, Budget(60)))
    replaced = library.put(document.source_uri, texts, replaces=document, fields=fields)
    library.vectors.delete(engine_name, sorted(before), Budget(60))
    return replaced


@pytest.mark.parametrize("mode", _MODES)
def test_a_snapshot_gives_the_results_of_its_time_again(keeping: Library, mode: int) -> None:
    first = keeping.put("a.txt", ["alpha old one", "alpha old two", "beta"], fields=DocumentFields(title="Before"))
    before = keeping.retrieve("alpha old", collection="kept", mode=mode, top_k=20)
    _replace(keeping, first, "alpha new", fields=DocumentFields(title="After"))
    now = keeping.retrieve("alpha old", collection="kept", mode=mode, top_k=20)
    assert contents(now) == ["alpha new"]
    assert now.documents[0].display_title == "After"
    then = keeping.retrieve("alpha old", collection="kept", mode=mode, top_k=20, snapshot=before.snapshot)
    assert then.snapshot == before.snapshot
    assert contents(then) == contents(before)
    assert [document.display_title for document in then.documents] == ["Before"]
    for old, again in zip(before.results, then.results, strict=True):
        assert again.relevance_score == pytest.approx(old.relevance_score, abs=1e-6)
        assert (again.chunk.chunk_id, again.chunk.generation, again.chunk.span) == (
            old.chunk.chunk_id,
            1,
            old.chunk.span,
        )


@pytest.mark.parametrize("mode", _MODES)
def test_what_came_later_is_not_in_a_snapshot(keeping: Library, mode: int) -> None:
    keeping.put("a.txt", ["alpha one"])
    before = keeping.retrieve("alpha", collection="kept", mode=mode)
    for number in range(40):
        keeping.put(f"later{number}.txt", [f"alpha {number}"])
    then = keeping.retrieve("alpha", collection="kept", mode=mode, snapshot=before.snapshot, top_k=20)
    assert contents(then) == ["alpha one"]


def test_filters_mean_the_fields_of_then(keeping: Library) -> None:
    first = keeping.put("a.txt", ["alpha"], fields=DocumentFields(category="x"))
    before = keeping.retrieve("alpha", collection="kept")
    _replace(keeping, first, "alpha changed", fields=DocumentFields(category="y"))
    for category, expected in (("x", ["alpha"]), ("y", [])):
        where = to_filter_message(parse_filter({"category": category}))
        for exact in (False, True):
            found = keeping.retrieve(
                "alpha", collection="kept", snapshot=before.snapshot, filter=where, exact=exact, min_relevance=0.0
            )
            assert contents(found) == expected


def test_many_generations_are_kept_apart(keeping: Library) -> None:
    document = keeping.put("a.txt", ["alpha generation 1"])
    snapshots = [keeping.retrieve("alpha", collection="kept").snapshot]
    for generation in range(2, 7):
        document = _replace(keeping, document, f"alpha generation {generation}")
        snapshots.append(keeping.retrieve("alpha", collection="kept").snapshot)
    for generation, snapshot in enumerate(snapshots, start=1):
        found = keeping.retrieve("alpha generation", collection="kept", snapshot=snapshot)
        assert contents(found) == [f"alpha generation {generation}"]
    assert problems_of(keeping.database) == []


@pytest.mark.parametrize("mode", _MODES)
def test_readers_of_now_rank_as_if_nothing_were_kept(keeping: Library, mode: int) -> None:
    document = keeping.put("a.txt", [f"alpha {word}" for word in ("one", "two", "three")])
    document = _replace(keeping, document, "alpha four", "alpha five")
    response = keeping.retrieve("alpha two", collection="kept", mode=mode, top_k=20)
    assert set(contents(response)) == {"alpha four", "alpha five"}
    assert response.report.quality.stale_count == 0
    assert {hit.chunk.generation for hit in response.results} == {2}


@pytest.mark.parametrize("permanent", [True, False])
def test_a_deletion_ends_every_earlier_snapshot(keeping: Library, *, permanent: bool) -> None:
    keeping.put("a.txt", ["alpha one"])
    gone = keeping.put("b.txt", ["alpha secret"])
    before = keeping.retrieve("alpha", collection="kept").snapshot
    keeping.documents.delete(DEFAULT_TENANT, "kept", gone.document_id, permanent=permanent)
    with pytest.raises(SnapshotExpiredError) as caught:
        keeping.retrieve("alpha", collection="kept", snapshot=before)
    oldest = int(caught.value.metadata["oldest"])
    assert caught.value.metadata["snapshot"] == str(before)
    assert contents(keeping.retrieve("alpha", collection="kept", snapshot=oldest)) == ["alpha one"]


def test_a_document_that_was_restored_is_not_seen_in_between(keeping: Library) -> None:
    keeping.put("a.txt", ["alpha one"])
    hidden = keeping.put("b.txt", ["alpha two"])
    keeping.documents.delete(DEFAULT_TENANT, "kept", hidden.document_id, permanent=False)
    between = keeping.retrieve("alpha", collection="kept").snapshot
    restorations = Restorations(keeping.database)
    restoration = restorations.begin(DEFAULT_TENANT, "kept", [hidden.document_id])
    assert restoration is not None
    restorations.finish(restoration)
    assert contents(keeping.retrieve("alpha", collection="kept", snapshot=between)) == ["alpha one"]
    assert len(contents(keeping.retrieve("alpha", collection="kept"))) == 2


def test_deleting_a_document_removes_its_kept_generations_too(keeping: Library) -> None:
    first = keeping.put("a.txt", ["alpha secret"])
    second = _replace(keeping, first, "alpha public")
    keeping.documents.delete(DEFAULT_TENANT, "kept", second.document_id)
    with keeping.database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM chunks").scalar_one() == 0
        assert connection.exec_driver_sql("SELECT count(*) FROM lexical_postings").scalar_one() == 0
    assert problems_of(keeping.database) == []


def test_without_retention_a_replacement_ends_earlier_snapshots(library: Library) -> None:
    first = library.put("a.txt", ["alpha old"])
    before = library.retrieve("alpha").snapshot
    library.put("b.txt", ["alpha other"])
    assert contents(library.retrieve("alpha", snapshot=before)) == ["alpha old"], "nothing was lost yet"
    library.put("a.txt", ["alpha new"], replaces=first)
    with pytest.raises(SnapshotExpiredError):
        library.retrieve("alpha", snapshot=before)
    with library.database.read() as connection:
        kept = "SELECT count(*) FROM chunks JOIN generations USING (generation_key) WHERE state = 'SUPERSEDED'"
        assert connection.exec_driver_sql(kept).scalar_one() == 0


def expire(library: Library) -> int:
    """Do what housekeeping does about generations whose retention has passed."""
    documents = library.documents
    return sum(documents.sweep_generations(each.uid, Budget(60)) for each in documents.collections_with_expiry())


@pytest.mark.parametrize("is_swept", [False, True])
def test_when_the_retention_has_passed_the_snapshot_is_gone_swept_or_not(
    keeping: Library, clock: ManualClock, is_swept: bool
) -> None:
    first = keeping.put("a.txt", ["alpha old"])
    before = keeping.retrieve("alpha", collection="kept").snapshot
    _replace(keeping, first, "alpha new")
    clock.advance(minutes=59)
    assert contents(keeping.retrieve("alpha", collection="kept", snapshot=before)) == ["alpha old"]
    assert expire(keeping) == 0
    clock.advance(minutes=2)
    if is_swept:
        assert expire(keeping) == 1
        with keeping.database.read() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM chunks").scalar_one() == 1
    with pytest.raises(SnapshotExpiredError):
        keeping.retrieve("alpha", collection="kept", snapshot=before)
    assert contents(keeping.retrieve("alpha", collection="kept")) == ["alpha new"]
    assert problems_of(keeping.database) == []


def test_a_snapshot_ahead_of_the_catalog_is_refused(library: Library) -> None:
    library.put("a.txt", ["alpha"])
    position = library.retrieve("alpha").snapshot
    assert contents(library.retrieve("alpha", snapshot=position)) == ["alpha"]
    with pytest.raises(InvalidRequestError, match=r"options\.snapshot"):
        library.retrieve("alpha", snapshot=position + 1)
