"""Collections of the web and book profiles with vectors of 1,024 numbers, as their source designs have them."""

from collections.abc import Iterator

import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.errors import DimensionMismatchError
from groundwire.kernel.filter_parsing import parse_filter
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
    opened.put("web", "https://docs.example/bread", "A baker kneads flour and water into a dough.")
    opened.put("book", "tides.md", "# Tides\n\nThe moon causes the tides of the sea, twice a day.\n")
    opened.put("book", "bread.md", "# Bread\n\nA baker kneads flour and water into a dough.\n")
    yield opened
    opened.close()


@pytest.mark.requirement("S3-02")
@pytest.mark.requirement("S3-08")
@pytest.mark.requirement("S4-18")
@pytest.mark.parametrize("collection", ["web", "book"])
async def test_vectors_have_1024_numbers_and_others_are_refused(room: ReadingRoom, collection: str) -> None:
    chunks = room.ingest.library.list_chunks(
        library_pb.ListChunksRequest(collection=collection, include_embedding=True)
    )
    tides, bread = sorted(chunks.chunks, key=lambda chunk: "tides" not in chunk.content)
    assert [len(chunk.embedding) for chunk in (tides, bread)] == [1024, 1024]
    async with serving(room) as stub:  # type: ignore[arg-type]  # it has a service
        for wanted, other in ((tides, bread), (bread, tides)):
            request = pb.RetrieveRequest(collection=collection, query="zzz", query_vector=wanted.embedding)
            request.options.mode = search_mode_pb2.SEARCH_MODE_VECTOR
            request.options.min_relevance = 0.0
            # Of a vector only the direction counts, and the opposite one is as far away as can be.
            for scale, expected in ((1.0, 1.0), (40.0, 1.0), (-1.0, 0.0)):
                request.query_vector[:] = [scale * number for number in wanted.embedding]
                found = {hit.chunk.chunk_id: hit.relevance_score for hit in (await stub.Retrieve(request)).results}
                assert found.keys() == {wanted.chunk_id, other.chunk_id}
                assert found[wanted.chunk_id] == pytest.approx(expected, abs=1e-5)
            for length in (1, 384, 1023, 1025):
                request.query_vector[:] = [1.0] * length
                _, info, fields = await refused(stub.Retrieve(request))
                assert (info.reason, fields) == ("DIMENSION_MISMATCH", ["query_vector"])
                assert (info.metadata["got"], info.metadata["expected"]) == (str(length), "1024")
    for length in (1023, 1025):
        given = ingest_pb.ReadyChunk(content="a chunk with a vector", embedding=[1.0] * length)
        with pytest.raises(DimensionMismatchError) as caught:
            room.ingest.put_chunks(collection, "https://docs.example/new", given)
        assert caught.value.metadata == {"got": str(length), "expected": "1024"}


@pytest.mark.requirement("T36")
@pytest.mark.requirement("C16")
async def test_times_with_any_offset_mean_the_same_moment_and_naive_ones_nothing(room: ReadingRoom) -> None:
    async with serving(room) as stub:  # type: ignore[arg-type]  # the same
        found = {}
        for time in ("2024-07-01T00:00:00Z", "2024-07-01T02:00:00+02:00", "2024-06-30T23:00:00.000-01:00"):
            request = pb.RetrieveRequest(collection="book", query="tides")
            request.options.include_report = True
            request.options.filter.CopyFrom(to_filter_message(parse_filter({"date": {"$gte": time}})))
            response = await stub.Retrieve(request)
            found[time] = response.report.applied_filter.condition.values[0].int64_value
        assert set(found.values()) == {1719792000000}
        request.options.filter.CopyFrom(to_filter_message(parse_filter({"date": {"$gte": "2024-07-01T00:00:00"}})))
        _, info, fields = await refused(stub.Retrieve(request))
    assert info.reason == "INVALID_FILTER"
    assert fields == ["options.filter.condition.values"]
