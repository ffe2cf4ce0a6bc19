"""What a search reads of the catalog: whole chunks only where they leave, and none again that nobody has changed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from groundwire.catalog.search_view import SearchView
from groundwire.kernel.collection import SearchMode
from groundwire.kernel.document import DocumentFields
from groundwire.retrieve.search_types import SearchRequest
from groundwire.retrieve.settings import RetrieveSettings
from tests.integration.retrieve.library import DIMENSIONS, Library

_TEXTS = [f"alpha beta {number} " + "gamma " * number for number in range(30)]


@pytest.fixture
def read_whole(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the chunks that were read whole, in this order."""
    numbers: list[int] = []
    chunks = SearchView.chunks

    def noting(view: SearchView, wanted: Sequence[int], *args: Any) -> Any:
        numbers.extend(wanted)
        return chunks(view, wanted, *args)

    monkeypatch.setattr(SearchView, "chunks", noting)
    return numbers


@contextmanager
def counting_reads(library: Library) -> Iterator[list[int]]:
    """Count how often a connection of the catalog is taken."""
    database, taken = library.database, list[int]()
    read, rows = database.read, database.rows

    def counted_read() -> Any:
        taken.append(1)
        return read()

    def counted_rows(*arguments: Any) -> Any:
        taken.append(1)
        return rows(*arguments)

    database.read, database.rows = counted_read, counted_rows  # type: ignore[method-assign,assignment]  # counted
    try:
        yield taken
    finally:
        database.read, database.rows = read, rows  # type: ignore[method-assign]  # as before


def _by_vector(seed: int, **options: Any) -> SearchRequest:
    vector = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return SearchRequest(
        "default", "docs", f"alpha {seed}", mode=SearchMode.VECTOR, vector=vector, min_relevance=0.0, **options
    )


def test_only_what_leaves_is_read_whole(library: Library, read_whole: list[int]) -> None:
    library.put("a.txt", _TEXTS)
    result = library.search(SearchRequest("default", "docs", "why does alpha follow beta", top_k=3, min_relevance=0.0))
    assert result.plan.rules.neighbours > 0.0, "so that more candidates than results are looked at"
    assert read_whole == [hit.stored.chunk_number for hit in result.hits]
    assert len(read_whole) == 3


def test_where_ranks_do_not_depend_on_one_another_two_spare_chunks_are_read(
    library: Library, read_whole: list[int]
) -> None:
    library.put("a.txt", _TEXTS)
    result = library.search(_by_vector(1, top_k=3))
    assert result.plan.rules.neighbours == 0.0
    assert len(read_whole) == 5
    assert read_whole[:3] == [hit.stored.chunk_number for hit in result.hits]


def test_a_search_by_vector_takes_one_connection_and_none_where_its_results_are_known(tmp_path: Path) -> None:
    library = Library(tmp_path)
    library.put("a.txt", _TEXTS)
    library.search(_by_vector(0))  # counts the chunks of the collection, and reads their document
    with counting_reads(library) as taken:
        first = library.search(_by_vector(1, top_k=28))
        assert len(taken) == 1
        again = library.search(_by_vector(2, top_k=28))
        assert len(taken) == 1
    assert len(first.hits) == len(again.hits) == 28
    library.close()


def test_what_has_changed_is_read_again(tmp_path: Path) -> None:
    for folder, mebibytes in (("with", 64), ("without", 0)):
        (tmp_path / folder).mkdir()
        library = Library(tmp_path / folder, settings=RetrieveSettings(exact_chunks=0, chunk_cache_mib=mebibytes))
        before = library.put("a.txt", ["alpha one"], fields=DocumentFields(title="Old"))
        library.put("b.txt", ["alpha two"], fields=DocumentFields(title="Same"))
        titles = [hit.stored.document.fields.title for hit in library.search(_by_vector(1)).hits]
        assert sorted(map(str, titles)) == ["Old", "Same"]
        library.put("a.txt", ["alpha one"], fields=DocumentFields(title="New"), replaces=before)
        titles = [hit.stored.document.fields.title for hit in library.search(_by_vector(1)).hits]
        assert sorted(map(str, titles)) == ["New", "Same"], folder
        library.close()


def test_the_memory_of_chunks_is_bounded_and_switched_off_by_zero(tmp_path: Path) -> None:
    for mebibytes in (1, 0):
        folder = tmp_path / str(mebibytes)
        folder.mkdir()
        library = Library(folder, settings=RetrieveSettings(exact_chunks=0, chunk_cache_mib=mebibytes))
        library.put("a.txt", [f"alpha {number} " + "x" * 20_000 for number in range(60)])
        for seed in range(12):
            library.search(_by_vector(seed, top_k=10))
        chunks = library.service.search.views.caches.chunks
        assert chunks.weight <= mebibytes << 19
        assert (chunks.weight > 0) is (mebibytes > 0)
        library.close()


def test_metadata_headings_and_sources_count_among_the_memory_of_chunks(tmp_path: Path) -> None:
    library = Library(tmp_path, settings=RetrieveSettings(exact_chunks=0, chunk_cache_mib=2))
    fields = DocumentFields(metadata={f"key{number}": "x" * 5000 for number in range(20)})
    for number in range(30):
        library.put(f"{number}/{'s' * 900}.txt", [f"alpha {number} {each}" for each in range(10)], fields=fields)
    found = library.search(_by_vector(1, top_k=30))
    views = library.service.search.views
    numbers = views.open("default", "docs").matching(None).tolist()
    assert views.open("default", "docs").facts(numbers).keys() == {*numbers}
    held = [stored for stored, _ in views.caches.chunks._held.values()]
    assert len(found.hits) == 30 > len(held) > 0
    assert sum(len(str(stored.document.fields.metadata)) for stored in held) <= 1 << 20
    facts = [each for each, _ in views.caches.facts._held.values()]
    assert len(numbers) == 300 > len(facts) > 0
    assert sum(len(each.source_uri) for each in facts) <= 2 << 17
    library.close()


def test_vectors_of_candidates_that_only_words_found_are_read_once(tmp_path: Path) -> None:
    library = Library(tmp_path)
    library.put("a.txt", [f"alpha {number}" for number in range(300)])
    view = library.service.search.views.open("default", "docs")
    numbers = view.matching(None)[:50]
    stored, rows = view.vectors(numbers)
    with counting_reads(library) as taken:
        again, same = library.service.search.views.open("default", "docs").vectors(numbers[::-1])
        assert len(taken) == 0, "the collection is remembered too"
    assert again.tolist() == stored.tolist()[::-1]
    assert (same == rows[::-1]).all()
    library.close()


def test_a_search_with_a_token_sees_what_is_committed_and_not_acknowledged_yet(tmp_path: Path) -> None:
    library = Library(tmp_path)
    library.put("a.txt", ["alpha one"])
    assert len(library.search(_by_vector(1)).hits) == 1
    before = library.database.latest_position
    library.put("b.txt", ["alpha two"])
    # As in the moment between a commit and the note of its position.
    library.database._writer.position = before
    wait = library.service.search.wait_for_position
    now = wait.collections.position("default", "docs")
    token = wait.tokens.issue(now.position, tenant="default", collection_uid=now.uid)
    assert now.position > before
    assert len(library.search(_by_vector(1, consistency_token=token)).hits) == 2
    library.close()
