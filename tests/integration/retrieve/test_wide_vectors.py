"""Collections of the web and book profiles with vectors of 1,024 numbers, as their source designs have them."""

from collections.abc import Iterator

import pytest

from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.budget import Budget
from groundwire.kernel.filter_json import parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from tests.integration.retrieve.reading_room import ReadingRoom
from tests.integration.retrieve.serving import refused, serving

_PROFILES = {"web": collection_pb2.PROFILE_WEB, "book": collection_pb2.PROFILE_BOOK}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadingRoom]:
    opened = ReadingRoom(tmp_path_factory.mktemp("room"), dimensions=1024)
    for name, profile in _PROFILES.items():
        opened.create(name, profile=profile)
    opened.put("web", "https://docs.example/tides", "The moon causes the tides of the sea, twice a day.")
    opened.put("book", "tides.md", "# Tides\n\nThe moon causes the tides of the sea, twice a day.\n")
    yield opened
    opened.close()


@pytest.mark.requirement("S3-02")
@pytest.mark.requirement("S4-18")
@pytest.mark.parametrize("collection", ["web", "book"])
async def test_vectors_have_1024_numbers_and_others_are_refused(room: ReadingRoom, collection: str) -> None:
    found = room.ingest.collection_calls.get(ingest_pb.GetCollectionRequest(collection=collection)).collection
    assert (found.embedding.dimensions, found.metric) == (1024, "cosine")
    vector = room.ingest.embedder.embed_query("the tides of the sea", Budget()).tolist()
    async with serving(room) as stub:  # type: ignore[arg-type]  # it has a service
        request = pb.RetrieveRequest(collection=collection, query="the tides of the sea")
        response = await stub.Retrieve(request)
        given = pb.RetrieveRequest(collection=collection, query="the tides of the sea", query_vector=vector)
        assert [hit.chunk_id for hit in (await stub.Retrieve(given)).results] == [
            hit.chunk_id for hit in response.results
        ]
        for length in (0, 1023, 1025):
            wrong = pb.RetrieveRequest(collection=collection, query="q", query_vector=(vector * 2)[:length] or [1.0])
            _, info, fields = await refused(stub.Retrieve(wrong))
            assert (info.reason, fields) == ("DIMENSION_MISMATCH", ["query_vector"])
            assert info.metadata["expected"] == "1024"
    assert response.retrieval_count == 1


@pytest.mark.requirement("C16")
async def test_times_with_any_offset_mean_the_same_moment_and_naive_ones_nothing(room: ReadingRoom) -> None:
    async with serving(room) as stub:  # type: ignore[arg-type]  # the same
        found = {}
        for time in ("2024-07-01T00:00:00Z", "2024-07-01T02:00:00+02:00", "2024-06-30T23:00:00.000-01:00"):
            request = pb.RetrieveRequest(collection="book", query="tides")
            request.options.filter.CopyFrom(to_filter_message(parse_filter({"date": {"$gte": time}})))
            response = await stub.Retrieve(request)
            found[time] = response.applied_filter.comparison.value.int64_value
        assert set(found.values()) == {1719792000000}
        request.options.filter.CopyFrom(to_filter_message(parse_filter({"date": {"$gte": "2024-07-01T00:00:00"}})))
        _, info, fields = await refused(stub.Retrieve(request))
    assert info.reason == "INVALID_FILTER"
    assert fields == ["options.filter.date.$gte"]
