"""A book in a collection of a Qdrant server: what stands in the server when it was ingested and is searched."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("qdrant_client")

from google.protobuf.message import Message
from qdrant_client import grpc as qdrant_pb

from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.retrieve.v1 import library_service_pb2 as ingest_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.filter_parsing import JsonFilter, parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.vectorstores.factory import open_vector_store
from tests.conformance.qdrant_loopback import Backend, qdrant_loopback
from tests.integration.retrieve.library import BY_ENGINE
from tests.integration.retrieve.reading_room import ReadingRoom
from tests.integration.retrieve.serving import serving

# The local mode says that payload indexes do nothing there.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

_KEYWORD, _INTEGER = qdrant_pb.PayloadSchemaType.Keyword, qdrant_pb.PayloadSchemaType.Integer
CHAPTERS = {"One": ("Ebb", "Flood"), "Two": ("Spring", "Neap")}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ReadingRoom, Backend]]:
    with qdrant_loopback() as (url, backend):
        vectors = open_vector_store(url, data_dir=Path())
        room = ReadingRoom(tmp_path_factory.mktemp("shelf"), BY_ENGINE, dimensions=1024, vectors=vectors)
        room.create("book", profile=collection_pb2.PROFILE_BOOK)
        for chapter, sections in CHAPTERS.items():
            parts = [f"## {section}\n\n" + f"{section} belongs to the tides. " * 120 for section in sections]
            room.put("book", f"{chapter}.md", f"# {chapter}\n\n" + "\n\n".join(parts) + "\n")
        yield room, backend
        room.close()
        vectors.close()


def _chunks(room: ReadingRoom) -> list[Any]:
    return list(room.ingest.library.list_chunks(ingest_pb.ListChunksRequest(collection="book", page_size=1000)).chunks)


@pytest.mark.requirement("S4-17")
@pytest.mark.requirement("S4-18")
@pytest.mark.requirement("S4-20")
def test_every_chunk_is_a_point_under_its_number_with_its_chapter_and_section(
    shelf: tuple[ReadingRoom, Backend],
) -> None:
    room, backend = shelf
    [made] = backend.asked(qdrant_pb.CreateCollection)
    vectors = made.vectors_config.params
    assert (vectors.size, vectors.distance) == (1024, qdrant_pb.Distance.Cosine)
    points, _ = backend.local.scroll(made.collection_name, limit=1000)
    chunks = _chunks(room)
    assert {(chunk.chapter, chunk.section) for chunk in chunks} == {
        (chapter, section) for chapter, sections in CHAPTERS.items() for section in sections
    }
    stored = {
        point.id: (point.payload["chunk_number"], point.payload["chapter"], point.payload["section"])
        for point in points
        if point.payload
    }
    assert stored == {chunk.chunk_number: (chunk.chunk_number, chunk.chapter, chunk.section) for chunk in chunks}
    assert len(points) == len(chunks)


def _keys(message: Message) -> set[str]:
    """Return the payload keys that a condition names, at any depth."""
    found: set[str] = set()
    for field, value in message.ListFields():
        if field.name == "key":
            found.add(value)
        elif field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                found |= _keys(each)
    return found


@pytest.mark.requirement("S4-22")
@pytest.mark.requirement("T30")
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"chapter": "One"}, {"Ebb", "Flood"}),
        ({"section": "Neap"}, {"Neap"}),
        ({"chapter": "Two", "section": {"$in": ["Ebb", "Spring"]}}, {"Spring"}),
        ({"source": "One.md", "section": {"$ne": "Ebb"}}, {"Flood"}),
        ({"section": {"$exists": False}}, set()),
        ({"page": {"$gte": 1}}, set()),
        ({"sequence_num": {"$gte": 0}, "chapter": {"$nin": ["One"]}}, {"Spring", "Neap"}),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),  # the same in every process
)
async def test_a_filter_names_only_fields_with_a_payload_index(
    shelf: tuple[ReadingRoom, Backend], where: JsonFilter, expected: set[str]
) -> None:
    room, backend = shelf
    asked = len(backend.requests)
    async with serving(room) as stub:  # type: ignore[arg-type]  # it has a service
        request = pb.RetrieveRequest(collection="book", query="tides")
        request.options.top_k, request.options.min_relevance = 20, 0.0
        request.options.filter.CopyFrom(to_filter_message(parse_filter(where)))
        assert {hit.chunk.section for hit in (await stub.Retrieve(request)).results} == expected
    [indexes] = backend.indexes.values()
    # A server in strict mode refuses a filter on a field without an index.
    named = set[str]().union(*map(_keys, backend.requests[asked:]))
    assert named
    assert named <= indexes.keys()
    assert {field: indexes[field] for field in ("chapter", "section", "source", "chunk_number", "page_start")} == {
        "chapter": _KEYWORD,
        "section": _KEYWORD,
        "source": _KEYWORD,
        "chunk_number": _INTEGER,
        "page_start": _INTEGER,
    }


@pytest.mark.requirement("S4-22")
async def test_chunks_are_chosen_by_their_numbers(shelf: tuple[ReadingRoom, Backend]) -> None:
    room, _ = shelf
    chunks = _chunks(room)
    wanted = [chunks[0].chunk_number, chunks[-1].chunk_number]
    async with serving(room) as stub:  # type: ignore[arg-type]  # the same
        for where, expected in (
            ({"chunk_id": wanted[0]}, wanted[:1]),
            ({"chunk_id": {"$in": wanted}}, wanted),
            ({"chunk_id": {"$in": wanted}, "chapter": "Two"}, [n.chunk_number for n in chunks if n.chapter == "Two"]),
        ):
            request = pb.RetrieveRequest(collection="book", query="tides")
            request.options.top_k, request.options.min_relevance = 20, 0.0
            request.options.filter.CopyFrom(to_filter_message(parse_filter(where)))
            found = {hit.chunk.chunk_number for hit in (await stub.Retrieve(request)).results}
            assert found == set(expected) & set(wanted)
            assert found
