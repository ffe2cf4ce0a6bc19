"""What is replaced or deleted is gone at once, whatever the engine still holds; what is pending is not there yet."""

import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.kernel.budget import Budget
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.errors import StoreUnavailableError
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.vector_store import PointBatch
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.filter_messages import to_filter_message
from tests.integration.retrieve.library import Library, contents, metadata

_MODES = [
    search_mode_pb2.SEARCH_MODE_HYBRID,
    search_mode_pb2.SEARCH_MODE_VECTOR,
    search_mode_pb2.SEARCH_MODE_LEXICAL,
]


@pytest.mark.parametrize("mode", _MODES)
def test_a_replaced_document_shows_only_its_new_text(engine_library: Library, mode: int) -> None:
    first = engine_library.put("a.txt", [f"alpha old {number}" for number in range(8)])
    engine_library.put("a.txt", ["alpha new"], replaces=first)
    engine_name = engine_library.collection.engine_name
    assert engine_library.vectors.count(engine_name, Budget()) == 9, "the old points are still in the engine"
    response = engine_library.retrieve("alpha old", mode=mode)
    assert contents(response) == ["alpha new"]
    assert response.results[0].chunk.generation == 2


@pytest.mark.parametrize("mode", _MODES)
def test_a_deleted_document_is_gone_although_its_points_are_not(engine_library: Library, mode: int) -> None:
    gone = engine_library.put("a.txt", ["alpha one", "alpha two"])
    engine_library.put("b.txt", ["alpha three"])
    engine_library.documents.delete(DEFAULT_TENANT, "docs", gone.document_id)
    assert engine_library.vectors.count(engine_library.collection.engine_name, Budget()) == 3
    assert contents(engine_library.retrieve("alpha one", mode=mode)) == ["alpha three"]


@pytest.mark.parametrize("mode", _MODES)
def test_a_pending_generation_is_not_visible(library: Library, mode: int) -> None:
    pending = library.begin("a.txt", ["alpha one"])
    vectors = library.embedder.embed_documents(["alpha one"], Budget())
    batch = PointBatch(pending.numbers, vectors, pending.payloads)
    library.vectors.upsert(pending.collection.engine_name, batch, Budget())
    assert contents(library.retrieve("alpha", mode=mode)) == []
    library.documents.publish(pending)
    assert contents(library.retrieve("alpha", mode=mode)) == ["alpha one"]


def test_a_filter_means_the_fields_of_the_catalog_while_the_engine_has_older_ones(engine_library: Library) -> None:
    old = DocumentFields(project="old")
    document = engine_library.put("a.txt", ["alpha one"], fields=old)
    engine_library.put("b.txt", ["alpha two"], fields=old)
    engine_library.documents.change(DEFAULT_TENANT, "docs", document.document_id, lambda _: metadata({"n": 1}))
    for _ in range(2):
        for where, found in (({"n": 1}, ["alpha one"]), ({"project": "old"}, ["alpha two"])):
            given = to_filter_message(parse_filter(where))
            response = engine_library.retrieve("alpha", filter=given, mode=search_mode_pb2.SEARCH_MODE_VECTOR)
            assert contents(response) == found


@pytest.mark.requirement("S3-34")
def test_points_that_the_catalog_does_not_know_are_never_returned(library: Library) -> None:
    library.put("a.txt", ["alpha one"])
    planted = library.embedder.embed_documents(["alpha"], Budget())
    library.vectors.upsert(
        library.collection.engine_name,
        PointBatch([999_999], planted, [{"source": "evil", "chunk_number": 999_999}]),
        Budget(),
    )
    response = library.retrieve("alpha")
    assert contents(response) == ["alpha one"]
    assert (response.report.quality.stale_count, response.report.quality.candidate_count) == (1, 2)


@pytest.mark.parametrize("is_filtered", [False, True])
def test_the_search_goes_deeper_until_there_are_enough_live_chunks(library: Library, is_filtered: bool) -> None:
    document = library.put("a.txt", [f"alpha near {number}" for number in range(700)])
    library.documents.delete(DEFAULT_TENANT, "docs", document.document_id)
    library.put("b.txt", [f"alpha entirely different words {number}" for number in range(7)])
    where = to_filter_message(parse_filter({"language": "en"} if is_filtered else {}))
    response = library.retrieve("alpha near", mode=search_mode_pb2.SEARCH_MODE_VECTOR, top_k=7, filter=where)
    assert response.report.retrieval_count == 7
    assert {hit.chunk.source_uri for hit in response.results} == {"b.txt"}


def test_equal_texts_do_not_use_up_the_results(library: Library) -> None:
    for number in range(300):
        library.put(f"{number}.txt", ["alpha beta"])
    library.put("other.txt", [f"alpha {number}" for number in range(5)])
    response = library.retrieve("alpha beta", top_k=6)
    assert len(set(contents(response))) == 6


def test_stale_points_do_not_change_what_is_found(library: Library) -> None:
    texts = [f"alpha {word} {number}" for number in range(20) for word in ("beta", "gamma", "delta")]
    library.put("a.txt", texts)
    before = library.retrieve("alpha gamma 7", top_k=20)
    stale = library.put("b.txt", [f"{text} x" for text in texts])
    library.documents.delete(DEFAULT_TENANT, "docs", stale.document_id)
    after = library.retrieve("alpha gamma 7", top_k=20)
    assert contents(after) == contents(before)
    assert [hit.relevance_score for hit in after.results] == [hit.relevance_score for hit in before.results]


def test_a_chunk_whose_vector_is_lost_is_still_found_by_its_words(tmp_path_factory: pytest.TempPathFactory) -> None:
    library = Library(tmp_path_factory.mktemp("lost"), settings=RetrieveSettings(pool_size=1, exact_chunks=0))
    library.put("a.txt", ["alpha one", "beta two"])
    numbers = list(library.vectors.numbers(library.collection.engine_name, Budget()))
    library.vectors.delete(library.collection.engine_name, numbers, Budget())
    assert contents(library.retrieve("alpha")) == ["alpha one"]
    library.close()


def test_an_engine_that_lost_the_index_is_named_with_the_way_out(library: Library) -> None:
    library.put("a.txt", ["alpha"])
    library.vectors.drop_collection(library.collection.engine_name, Budget())
    with pytest.raises(StoreUnavailableError, match="fsck --repair"):
        library.retrieve("alpha")
