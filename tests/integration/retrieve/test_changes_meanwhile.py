"""A search reads the catalog many times, and its reads agree although the collection changes between any two."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.rpc.filter_messages import to_filter_message
from tests.integration.retrieve.library import Library, contents

_MODES = [
    search_mode_pb2.SEARCH_MODE_HYBRID,
    search_mode_pb2.SEARCH_MODE_VECTOR,
    search_mode_pb2.SEARCH_MODE_LEXICAL,
]
READS = range(1, 9)


@contextmanager
def before_read(library: Library, number: int, change: Callable[[], object]) -> Iterator[None]:
    """Make a change right before the read of this number; the changes' own reads do not count."""
    read, rows, count = library.database.read, library.database.rows, 0

    def restore() -> None:
        library.database.read, library.database.rows = read, rows  # type: ignore[method-assign]  # as before

    def counted(reading: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                restore()
                change()
            return reading(*given)

        return call

    library.database.read = counted(read)  # type: ignore[method-assign]  # a fault that is planted
    library.database.rows = counted(rows)  # type: ignore[method-assign]  # likewise
    try:
        yield
    finally:
        restore()


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("number", READS)
def test_a_document_that_is_replaced_is_seen_in_one_version(library: Library, mode: int, number: int) -> None:
    first = library.put("a.txt", [f"alpha old {each}" for each in range(3)])
    library.put("b.txt", ["alpha other"])
    with before_read(library, number, lambda: library.put("a.txt", ["alpha new"], replaces=first)):
        found = set(contents(library.retrieve("alpha", mode=mode, top_k=10, min_relevance=0.0)))
    assert found in (
        {"alpha other", "alpha old 0", "alpha old 1", "alpha old 2"},
        {"alpha other", "alpha new"},
    )


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("number", READS)
def test_a_document_that_comes_meanwhile_is_seen_whole_or_not_and_the_snapshot_says_which(
    tmp_path: Path, mode: int, number: int
) -> None:
    library = Library(tmp_path)
    library.put("a.txt", ["alpha one"])
    with before_read(library, number, lambda: library.put("b.txt", ["alpha two", "alpha three"])):
        response = library.retrieve("alpha", mode=mode, top_k=10, min_relevance=0.0)
    assert set(contents(response)) in ({"alpha one"}, {"alpha one", "alpha two", "alpha three"})
    again = library.retrieve("alpha", mode=mode, top_k=10, min_relevance=0.0, snapshot=response.snapshot)
    assert set(contents(again)) == set(contents(response))
    library.close()


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("number", READS)
def test_what_is_deleted_meanwhile_never_breaks_a_search(library: Library, mode: int, number: int) -> None:
    gone = library.put("a.txt", ["alpha one", "alpha two"])
    library.put("b.txt", ["alpha three"])
    with before_read(library, number, lambda: library.documents.delete(DEFAULT_TENANT, "docs", gone.document_id)):
        found = set(contents(library.retrieve("alpha", mode=mode, top_k=10, min_relevance=0.0)))
    assert found in ({"alpha one", "alpha two", "alpha three"}, {"alpha three"})


@pytest.mark.parametrize("number", READS)
def test_what_is_returned_matches_the_filter_as_it_is_shown(engine_library: Library, number: int) -> None:
    library = engine_library
    first = library.put("a.txt", ["alpha one"], fields=DocumentFields(title="wanted"))
    library.put("b.txt", ["alpha two"], fields=DocumentFields(title="wanted"))
    where = to_filter_message(parse_filter({"title": "wanted"}))

    def retitle() -> None:
        library.put("a.txt", ["alpha one, again"], replaces=first, fields=DocumentFields(title="other"))

    with before_read(library, number, retitle):
        response = library.retrieve("alpha", filter=where, top_k=10, min_relevance=0.0)
    assert {document.fields.title for document in response.documents} == {"wanted"}
    assert set(contents(response)) in ({"alpha one", "alpha two"}, {"alpha two"})


@pytest.mark.parametrize(("before", "after"), [("wanted", "other"), ("other", "wanted")])
@pytest.mark.parametrize("number", READS)
def test_what_is_returned_matches_the_filter_while_its_fields_change(
    library: Library, number: int, before: str, after: str
) -> None:
    first = library.put("a.txt", ["alpha one"], fields=DocumentFields(title=before))
    library.put("b.txt", ["alpha two"], fields=DocumentFields(title="wanted"))
    where = to_filter_message(parse_filter({"title": "wanted"}))
    library.retrieve("alpha", top_k=10, min_relevance=0.0)  # so that the chunks are remembered

    def retitle() -> None:
        library.documents.change(DEFAULT_TENANT, "docs", first.document_id, lambda fields: replace(fields, title=after))

    with before_read(library, number, retitle):
        response = library.retrieve("alpha", filter=where, top_k=10, min_relevance=0.0)
    assert {document.fields.title for document in response.documents} == {"wanted"}
    assert "alpha two" in contents(response)


def test_a_search_goes_on_when_candidates_are_replaced_again_and_again(library: Library) -> None:
    document = library.put("a.txt", ["alpha 0"])
    library.put("b.txt", ["alpha other"])
    chunks = type(library.service.search.views.open(DEFAULT_TENANT, "docs")).chunks
    versions = iter(range(1, 100))
    latest = [document]

    def replaced_first(view: Any, *args: Any, **kwargs: Any) -> Any:
        latest[0] = library.put("a.txt", [f"alpha {next(versions)}"], replaces=latest[0])
        return chunks(view, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("groundwire.catalog.search_view.SearchView.chunks", replaced_first)
        found = contents(library.retrieve("alpha", top_k=10, min_relevance=0.0))
    assert "alpha other" in found
    assert next(versions) < 20, "it does not begin anew for ever"
