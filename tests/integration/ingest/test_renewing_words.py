"""Full-text indexes of an earlier version, which cut texts otherwise, are renewed behind the calls."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.catalog import index_words
from groundwire.catalog.lexical_index import LexicalCheck
from groundwire.catalog.search_view import SearchViews
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import StoreUnavailableError
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.vectorstores.memory import MemoryVectorStore
from tests.integration.catalog.drafts import FullText
from tests.integration.ingest.harness import Harness
from tests.integration.ingest.test_housekeeping import eventually
from tests.stubs import by_source


@pytest.fixture
def old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two collections as version 0.1.0 wrote them: a sentence in Japanese was one word, and signs were nothing."""
    with _as_0_1_0(tmp_path, monkeypatch) as harness:
        for collection in ("tides", "towers"):
            harness.create(collection)
            harness.ingest(collection, "a.txt", "東京タワーは高い。")
            harness.ingest(collection, "b.txt", "It is written in C++ by AT&T.")
    return tmp_path


@contextmanager
def _as_0_1_0(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    with monkeypatch.context() as before:
        before.setattr(index_words, "split_words", lambda text, word: word.findall(text))
        before.setattr(index_words, "signed_words", lambda _text: [])
        harness = Harness(folder).start_without_parser_process()
        yield harness
        harness.catalog.write(_forget_rules)
        harness.close()


def _forget_rules(connection: Connection) -> None:
    connection.exec_driver_sql("DELETE FROM counters WHERE name = 'word_rules'")


def _counts(harness: Harness, collection: str) -> dict[str, int]:
    full_text = FullText(SearchViews(harness.catalog))
    return dict(full_text.document_frequencies(DEFAULT_TENANT, collection, ["東京", "c++", "at&t", "written"]))


BEFORE = {"東京": 0, "c++": 0, "at&t": 0, "written": 1}
AFTER = dict.fromkeys(BEFORE, 1)


def test_indexes_of_an_earlier_version_are_renewed_once(old_folder: Path) -> None:
    vectors = MemoryVectorStore()
    harness = Harness(old_folder, vectors=vectors)
    assert _counts(harness, "tides") == BEFORE
    harness.start_without_parser_process()
    assert eventually(lambda: harness.service.housekeeping.figures()["words"].done == 2)
    assert [_counts(harness, name) for name in ("tides", "towers")] == [AFTER, AFTER]
    assert list(LexicalCheck(harness.catalog).problems(Budget())) == []
    # Building both indexes, which the new vector store lacks, is a change as well.
    assert eventually(lambda: harness.service.housekeeping.figures()["missing_indexes"].done == 2)
    position = harness.catalog.latest_position
    harness.close()
    harness = Harness(old_folder, vectors=vectors).start_without_parser_process()
    assert eventually(lambda: harness.service.housekeeping.figures()["requests"].runs == 1)
    assert LexicalCheck(harness.catalog).written_by_other_rules() == []
    assert (harness.service.housekeeping.figures()["words"].done, harness.catalog.latest_position) == (0, position)
    harness.close()


def test_what_a_stop_interrupts_begins_again(old_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rebuild = LexicalCheck.rebuild

    def fails_for_one(self: LexicalCheck, tenant: str, name: str, budget: Budget) -> None:
        if name == "towers":
            raise StoreUnavailableError("the disk is full")
        rebuild(self, tenant, name, budget)

    with monkeypatch.context() as broken:
        broken.setattr(LexicalCheck, "rebuild", fails_for_one)
        harness = Harness(old_folder).start_without_parser_process()
        assert eventually(lambda: harness.service.housekeeping.figures()["words"].failures > 0)
        assert [_counts(harness, name) for name in ("tides", "towers")] == [AFTER, BEFORE]
        harness.close()
    harness = Harness(old_folder).start_without_parser_process()
    assert eventually(lambda: _counts(harness, "towers") == AFTER)
    harness.close()


def test_a_purge_before_the_renewal_takes_the_words_of_the_old_rules_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = "東京タワーは高い"
    with _as_0_1_0(tmp_path, monkeypatch) as harness:
        harness.create("tides")
        # Enough documents for their segments to be merged: the words of one have to be taken out of those of others.
        for number in range(16):
            harness.ingest("tides", f"{number}.txt", f"{number} {sentence}{number}")
    harness = Harness(tmp_path).without_housekeeping()
    request = pb.DeleteDocumentRequest(collection="tides", reference=by_source("3.txt"), purge=True)
    assert harness.calls.delete_document(request).receipt.HasField("complete_time")
    assert f"{sentence}3" not in _stored_words(harness)
    assert f"{sentence}4" in _stored_words(harness)
    harness.close()
    assert f"{sentence}3".encode() not in (tmp_path / "catalog.db").read_bytes()


def test_an_old_catalog_without_collections_has_nothing_to_renew_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _as_0_1_0(tmp_path, monkeypatch):
        pass
    harness = Harness(tmp_path).start_without_parser_process()
    harness.create("tides")
    assert LexicalCheck(harness.catalog).written_by_other_rules() == []
    harness.close()


def _stored_words(harness: Harness) -> set[str]:
    with harness.catalog.read() as connection:
        return set(connection.exec_driver_sql("SELECT word FROM lexical_postings").scalars())


def test_a_new_catalog_has_nothing_to_renew(tmp_path: Path) -> None:
    harness = Harness(tmp_path).start_without_parser_process()
    harness.create("tides")
    assert LexicalCheck(harness.catalog).written_by_other_rules() == []
    harness.ingest("tides", "a.txt", "東京タワーは高い。")
    assert harness.service.housekeeping.run_now(["words"], Budget(60)) == 0
    harness.close()
