"""Texts and vectors that point nowhere are refused before they reach an engine, on each of them."""

from collections.abc import Iterator

import pytest

from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.errors import InvalidRequestError
from groundwire.vectorstores.factory import open_vector_store
from tests.integration.ingest.harness import DIMENSIONS
from tests.integration.retrieve.conftest import ENGINES
from tests.integration.retrieve.reading_room import ReadingRoom
from tests.integration.retrieve.serving import refused, serving
from tests.packages import requires

pytestmark = requires("qdrant_edge", "chromadb")


@pytest.fixture(scope="module", params=ENGINES)
def room(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadingRoom]:
    folder = tmp_path_factory.mktemp("room")
    vectors = open_vector_store(ENGINES[request.param], data_dir=folder)
    opened = ReadingRoom(folder, vectors=vectors)
    opened.create("docs")
    opened.put("docs", "a.txt", "The moon causes the tides of the sea.")
    yield opened
    opened.close()
    vectors.close()


@pytest.mark.requirement("T39")
@pytest.mark.parametrize("text", ["", " ", "\n\t\r\n", "\u00a0\u2003"])
def test_a_document_without_words_is_refused(room: ReadingRoom, text: str) -> None:
    with pytest.raises(InvalidRequestError):
        room.put("docs", "b.txt", text)
    assert room.ingest.sources("docs") == ["a.txt"]
    assert len(room.ingest.points("docs")) == 1


@pytest.mark.requirement("T39")
async def test_vectors_without_a_direction_are_refused_on_the_way_in_and_in_a_question(room: ReadingRoom) -> None:
    digest = room.ingest.embedder.identity.probe_digest
    for bad in (0.0, float("nan"), float("inf")):
        vector = [bad] * DIMENSIONS
        chunk = ingest_pb.ReadyChunk(content="a chunk with a vector", embedding=vector)
        with pytest.raises(InvalidRequestError):
            room.ingest.put_chunks("docs", "b.txt", chunk, embedding_probe_digest=digest)
        async with serving(room) as stub:  # type: ignore[arg-type]  # it has a service
            request = pb.RetrieveRequest(collection="docs", query="moon", query_vector=vector)
            _, _, fields = await refused(stub.Retrieve(request))
        assert fields == ["query_vector"]
    assert room.ingest.sources("docs") == ["a.txt"]


@pytest.mark.requirement("T39")
@pytest.mark.parametrize("query", ["the of and", "?!", "…", "🌊"])
async def test_a_question_without_a_telling_word_is_answered_in_range(room: ReadingRoom, query: str) -> None:
    async with serving(room) as stub:  # type: ignore[arg-type]  # the same
        response = await stub.Retrieve(pb.RetrieveRequest(collection="docs", query=query))
    [hit] = response.results
    assert 0.0 <= hit.relevance_score <= 1.0
