"""Chunks with their surroundings over gRPC: exact text, nothing twice, nothing lost."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING

import grpc
import pytest
from sqlalchemy import update

from groundwire.api.common.v1.chunk_pb2 import ChunkReference
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.retrieve.v1 import library_service_pb2 as ingest_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.catalog.schema import documents
from tests.integration.retrieve.reading_room import ReadingRoom
from tests.integration.retrieve.serving import refused, serving
from tests.stubs import by_id

if TYPE_CHECKING:
    from tests.integration.retrieve.serving import Stub

_WINDOW, _NEIGHBOURS = pb.EXPAND_MODE_WINDOW, pb.EXPAND_MODE_NEIGHBOURS
_PARENT, _HIERARCHY = pb.EXPAND_MODE_PARENT, pb.EXPAND_MODE_HIERARCHY

SENTENCES = [f"This is sentence number {number} of all of them." for number in range(8)]
LONG = "".join(f"{number:04d}." for number in range(200))
BOOK = """# Tides

The tide comes and goes twice a day, äöü 🌊 and so on.

## Spring tides

Sun and moon stand in line, and the water is highest.

## Neap tides

Sun and moon stand at right angles, and the water is lowest.

# Bread

Bread is made of flour and water.

## Sourdough

Wild yeast makes it rise.
"""


def _policy(**fields: object) -> collection_pb2.CollectionSettings:
    chunking = collection_pb2.ChunkingPolicy(**fields)  # type: ignore[arg-type]  # fields of the policy
    return collection_pb2.CollectionSettings(chunking=chunking)


_CHARS = collection_pb2.CHUNK_UNIT_CHARS


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadingRoom]:
    opened = ReadingRoom(tmp_path_factory.mktemp("room"))
    opened.create("sentences", _policy(chunker=collection_pb2.CHUNKER_SENTENCE, min_chars=1, minimum_size=1))
    fixed = _policy(
        chunker=collection_pb2.CHUNKER_FIXED,
        unit=_CHARS,
        target_size=400,
        minimum_size=1,
        maximum_size=400,
        overlap_ratio=0.2,
    )
    opened.create("fixed", fixed)
    opened.create("levels", _policy(chunker=collection_pb2.CHUNKER_HIERARCHY, min_chars=1, minimum_size=1))
    sizes = {
        "unit": _CHARS,
        "target_size": 90,
        "minimum_size": 1,
        "maximum_size": 90,
        "overlap_ratio": 0.0,
        "min_chars": 1,
    }
    opened.create("structure", _policy(**sizes))
    yield opened
    opened.close()


@pytest.fixture
async def reader(room: ReadingRoom) -> "AsyncIterator[Stub]":
    async with serving(room) as stub:  # type: ignore[arg-type]  # it has a service
        yield stub


def _chunks(room: ReadingRoom, collection: str, document: str) -> list[str]:
    request = ingest_pb.ListChunksRequest(collection=collection, reference=by_id(document), page_size=1000)
    listed = room.ingest.library.list_chunks(request).chunks
    return [chunk.chunk_id for chunk in listed if collection != "levels" or chunk.level == 3]


def _request(collection: str, mode: int, chunk_ids: Sequence[str], **fields: int) -> pb.ExpandRequest:
    chunks = [ChunkReference(chunk_id=chunk_id) for chunk_id in chunk_ids]
    return pb.ExpandRequest(collection=collection, chunks=chunks, mode=mode, **fields)  # type: ignore[arg-type]  # an enum


def _check_exact(passage: pb.ExpandedPassage, text: str) -> None:
    span = passage.span
    assert text[span.start : span.end] == passage.content
    assert text.encode()[span.start_byte : span.end_byte].decode() == passage.content
    for chunk in passage.chunks:
        assert text[chunk.span.start : chunk.span.end] == chunk.content


async def test_chunks_name_the_tokenizer_that_counted_their_document(room: ReadingRoom, reader: "Stub") -> None:
    room.create("counted")
    document_id = room.put("counted", "a.md", "The tide comes and goes.")
    room.ingest.catalog.write(
        lambda connection: connection.execute(
            update(documents).where(documents.c.document_id == document_id).values(tokenizer="another-counter")
        )
    )
    request = pb.ExpandRequest(
        collection="counted", chunks=[ChunkReference(chunk_id=f"{document_id}#chunk_000")], mode=_NEIGHBOURS
    )
    (passage,) = (await reader.Expand(request)).passages
    assert [chunk.tokenizer for chunk in passage.chunks] == ["another-counter"]


@pytest.mark.requirement("S1-115")
@pytest.mark.requirement("S1-44")
async def test_the_parent_is_the_whole_document(room: ReadingRoom, reader: "Stub") -> None:
    text = f"\n\n  {BOOK}\n\n"
    document = room.put("structure", "book.md", text)
    chunk_ids = _chunks(room, "structure", document)
    (passage,) = (await reader.Expand(_request("structure", _PARENT, chunk_ids[2:3]))).passages
    assert passage.content == room.ingest.text("structure", "book.md") == text
    _check_exact(passage, text)
    assert [chunk.chunk_id for chunk in passage.chunks] == chunk_ids
    assert list(passage.requested_chunk_ids) == chunk_ids[2:3]
    assert (passage.document_id, passage.generation, passage.truncated) == (document, 1, False)


@pytest.mark.requirement("S1-45")
@pytest.mark.parametrize(
    ("hit", "fields", "expected"),
    [
        (2, {}, range(5)),
        (0, {}, range(3)),
        (7, {}, range(5, 8)),
        (3, {"radius": 1}, range(2, 5)),
        (3, {"radius": 0}, range(3, 4)),
        (3, {"radius": 20}, range(8)),
    ],
)
async def test_a_window_holds_the_sentences_on_both_sides_clipped_at_the_ends(
    room: ReadingRoom, reader: "Stub", hit: int, fields: dict[str, int], expected: range
) -> None:
    document = room.put("sentences", "s.txt", " ".join(SENTENCES))
    chunk_ids = _chunks(room, "sentences", document)
    assert len(chunk_ids) == 8
    (passage,) = (await reader.Expand(_request("sentences", _WINDOW, [chunk_ids[hit]], **fields))).passages
    assert passage.content == " ".join(SENTENCES[number] for number in expected)
    assert [chunk.sentence_index for chunk in passage.chunks] == list(expected)
    assert all(chunk.window_size == 2 for chunk in passage.chunks)


async def test_a_window_around_what_is_no_sentence_is_refused(room: ReadingRoom, reader: "Stub") -> None:
    chunk_ids = _chunks(room, "structure", room.put("structure", "book.md", BOOK))
    code, info, _ = await refused(reader.Expand(_request("structure", _WINDOW, chunk_ids[:1])))
    assert (code, info.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "FAILED_PRECONDITION")


@pytest.mark.requirement("S1-50")
@pytest.mark.parametrize(
    ("hit", "fields", "expected"),
    [
        (2, {}, (0, 4)),
        (0, {}, (0, 2)),
        (5, {"radius": 2}, (3, 5)),
        (2, {"radius": 1}, (1, 3)),
        (2, {"radius": 0}, (2, 2)),
    ],
)
async def test_neighbours_are_fetched_by_sequence_and_clipped(
    room: ReadingRoom, reader: "Stub", hit: int, fields: dict[str, int], expected: tuple[int, int]
) -> None:
    text = LONG * 2
    document = room.put("fixed", "long.txt", text)
    chunk_ids = _chunks(room, "fixed", document)
    assert len(chunk_ids) == 6
    (passage,) = (await reader.Expand(_request("fixed", _NEIGHBOURS, [chunk_ids[hit]], **fields))).passages
    first, last = expected
    assert [chunk.sequence_num for chunk in passage.chunks] == list(range(first, last + 1))
    assert passage.content == text[passage.chunks[0].span.start : passage.chunks[-1].span.end]
    _check_exact(passage, text)


@pytest.mark.requirement("S1-55")
@pytest.mark.requirement("T09")
async def test_overlaps_of_neighbouring_hits_are_returned_once_and_nothing_is_lost(
    room: ReadingRoom, reader: "Stub"
) -> None:
    document = room.put("fixed", "long.txt", LONG)
    chunk_ids = _chunks(room, "fixed", document)
    spans = [(0, 400), (320, 720), (640, 1000)]
    (passage,) = (await reader.Expand(_request("fixed", _NEIGHBOURS, chunk_ids, radius=0))).passages
    assert [(chunk.span.start, chunk.span.end) for chunk in passage.chunks] == spans
    assert passage.content == LONG, "the unique parts alone would miss 160 characters"
    assert list(passage.requested_chunk_ids) == chunk_ids
    (pair,) = (await reader.Expand(_request("fixed", _NEIGHBOURS, chunk_ids[1:], radius=0))).passages
    assert pair.content == LONG[320:]


@pytest.mark.requirement("S1-47")
@pytest.mark.parametrize("collection", ["levels", "structure"])
async def test_the_hierarchy_goes_up_to_section_chapter_and_document(
    room: ReadingRoom, reader: "Stub", collection: str
) -> None:
    document = room.put(collection, "book.md", BOOK)
    chunk_ids = _chunks(room, collection, document)
    texts = {chunk.chunk_id: chunk.content for chunk in await _all(reader, collection, chunk_ids)}
    hit = next(chunk_id for chunk_id, content in texts.items() if "right angles" in content)
    up = {}
    for levels in (1, 2, 3):
        (passage,) = (await reader.Expand(_request(collection, _HIERARCHY, [hit], levels_up=levels))).passages
        _check_exact(passage, BOOK)
        up[levels] = passage
    default = (await reader.Expand(_request(collection, _HIERARCHY, [hit]))).passages[0]
    assert default == up[1]
    right_angles = "## Neap tides\n\nSun and moon stand at right angles, and the water is lowest."
    assert up[1].content == right_angles
    assert up[2].content.startswith("# Tides")
    assert up[2].content.endswith("the water is lowest.")
    assert up[3].content.strip() == BOOK.strip()
    assert list(up[1].hierarchy_path)[-1] == "Neap tides"
    assert list(up[2].hierarchy_path)[-1] == "Tides"


async def _all(reader: "Stub", collection: str, chunk_ids: Sequence[str]) -> list:  # type: ignore[type-arg]  # of chunks
    passages = (await reader.Expand(_request(collection, _NEIGHBOURS, chunk_ids, radius=0))).passages
    return [chunk for passage in passages for chunk in passage.chunks]


async def test_long_passages_are_cut_at_chunk_borders_around_the_chunk(room: ReadingRoom, reader: "Stub") -> None:
    document = room.put("fixed", "long.txt", LONG * 3)
    chunk_ids = _chunks(room, "fixed", document)
    (whole,) = (await reader.Expand(_request("fixed", _PARENT, [chunk_ids[4]], max_chars=3000))).passages
    assert not whole.truncated
    (cut,) = (await reader.Expand(_request("fixed", _PARENT, [chunk_ids[4]], max_chars=1100))).passages
    assert cut.truncated
    assert [chunk.sequence_num for chunk in cut.chunks] == [3, 4, 5]
    assert len(cut.content) <= 1100
    _check_exact(cut, LONG * 3)
    (alone,) = (await reader.Expand(_request("fixed", _PARENT, [chunk_ids[4]], max_chars=10))).passages
    assert [chunk.sequence_num for chunk in alone.chunks] == [4], "the chunk itself stays whole"
    assert alone.truncated


async def test_passages_that_may_not_become_one_share_no_text(room: ReadingRoom, reader: "Stub") -> None:
    text = LONG * 3
    chunk_ids = _chunks(room, "fixed", room.put("fixed", "long.txt", text))
    request = _request("fixed", _NEIGHBOURS, [chunk_ids[2], chunk_ids[4]], radius=1, max_chars=1100)
    passages = (await reader.Expand(request)).passages
    spans = sorted((passage.span.start, passage.span.end) for passage in passages)
    assert len(spans) == 2
    assert spans[0][1] == spans[1][0]
    for passage in passages:
        assert text[passage.span.start : passage.span.end] == passage.content
    assert [list(passage.requested_chunk_ids) for passage in passages] == [[chunk_ids[2]], [chunk_ids[4]]]
    assert passages[1].truncated


async def test_passages_of_several_documents_keep_the_order_of_the_request(room: ReadingRoom, reader: "Stub") -> None:
    first = _chunks(room, "fixed", room.put("fixed", "a.txt", LONG))
    second = _chunks(room, "fixed", room.put("fixed", "b.txt", LONG[::-1]))
    request = _request("fixed", _NEIGHBOURS, [second[2], first[0], second[0], second[2]], radius=0)
    passages = (await reader.Expand(request)).passages
    assert [list(passage.requested_chunk_ids) for passage in passages] == [[second[2]], [first[0]], [second[0]]]


async def test_a_chunk_may_be_named_by_its_number(room: ReadingRoom, reader: "Stub") -> None:
    room.put("fixed", "a.txt", LONG)
    number = room.ingest.live_numbers("fixed")[0]
    request = pb.ExpandRequest(collection="fixed", chunks=[ChunkReference(chunk_number=number)], mode=_PARENT)
    assert (await reader.Expand(request)).passages[0].chunks[0].chunk_number == number


async def test_unknown_and_deleted_chunks_and_those_elsewhere_are_not_found(room: ReadingRoom, reader: "Stub") -> None:
    document = room.put("fixed", "a.txt", LONG)
    chunk_ids = _chunks(room, "fixed", document)
    missing = ChunkReference(chunk_number=2**60)
    requests = [
        _request("fixed", _PARENT, ["nothing"]),
        _request("levels", _PARENT, chunk_ids[:1]),
        pb.ExpandRequest(collection="fixed", chunks=[missing], mode=_PARENT),
        _request("fixed", _PARENT, [chunk_ids[0], "../../etc/passwd"]),
    ]
    before = set(room.ingest.live_numbers("structure"))
    goes = room.put("structure", "gone.txt", "A text that goes away again soon.")
    (gone,) = set(room.ingest.live_numbers("structure")) - before
    room.ingest.delete("structure", goes)
    requests.append(pb.ExpandRequest(collection="structure", chunks=[ChunkReference(chunk_number=gone)], mode=_PARENT))
    for request in requests:
        code, info, _ = await refused(reader.Expand(request))
        assert (code, info.reason) == (grpc.StatusCode.NOT_FOUND, "CHUNK_NOT_FOUND"), request


async def test_every_violation_of_a_request_is_named(reader: "Stub") -> None:
    wrong = pb.ExpandRequest(
        collection="No!",
        chunks=[ChunkReference()],
        mode=9,  # type: ignore[arg-type]  # on purpose
        radius=21,
        levels_up=0,
        max_chars=0,
    )
    _, _, fields = await refused(reader.Expand(wrong))
    assert fields == ["collection", "chunks[0]", "mode", "radius", "levels_up", "max_chars"]
    _, _, fields = await refused(reader.Expand(_request("fixed", 0, ["x"] * 21, radius=-1)))
    assert fields == ["chunks", "mode", "radius"]


async def test_more_text_than_a_response_may_hold_is_refused(room: ReadingRoom, reader: "Stub") -> None:
    ids = []
    for number in range(3):
        document = room.put("fixed", f"{number}.txt", f"{number}" + LONG * 400)
        ids.append(_chunks(room, "fixed", document)[0])
    _, _, fields = await refused(reader.Expand(_request("fixed", _PARENT, ids, max_chars=1_000_000)))
    assert fields == ["max_chars"]


def _search(collection: str, query: str, mode: int, **fields: int) -> pb.RetrieveRequest:
    expansion = pb.ResultExpansion(mode=mode, **fields)  # type: ignore[arg-type]  # an enum
    return pb.RetrieveRequest(collection=collection, query=query, expansion=expansion)


async def test_a_search_returns_its_first_results_with_what_expanding_them_returns(
    room: ReadingRoom, reader: "Stub"
) -> None:
    room.put("structure", "book.md", BOOK)
    room.put("structure", "long.txt", LONG)
    query = "when is the water of the tide lowest?"
    assert not (await reader.Retrieve(pb.RetrieveRequest(collection="structure", query=query))).passages
    for mode, fields in ((_HIERARCHY, {"levels_up": 2}), (_NEIGHBOURS, {"radius": 1, "max_chars": 300}), (_PARENT, {})):
        found = await reader.Retrieve(_search("structure", query, mode, result_count=3, **fields))
        first = [hit.chunk.chunk_id for hit in found.results[:3]]
        assert len(found.results) > 3
        expanded = await reader.Expand(_request("structure", mode, first, **fields))
        assert list(found.passages) == list(expanded.passages)
    five = (await reader.Retrieve(_search("structure", query, _NEIGHBOURS, radius=0))).passages
    assert sum(len(passage.requested_chunk_ids) for passage in five) == 5


async def test_a_repeated_search_returns_the_passages_as_they_are_now(room: ReadingRoom, reader: "Stub") -> None:
    room.create("changing")
    room.put("changing", "a.md", "# Tides\n\nThe tide comes in the morning.")
    request = _search("changing", "tide", _PARENT)
    assert [each.content for each in (await reader.Retrieve(request)).passages] == [
        each.content for each in (await reader.Retrieve(request)).passages
    ]
    room.put("changing", "a.md", "# Tides\n\nThe tide comes in the evening.")
    (passage,) = (await reader.Retrieve(request)).passages
    assert passage.content == "# Tides\n\nThe tide comes in the evening."


async def test_every_violation_of_an_expansion_of_results_is_named(reader: "Stub") -> None:
    wrong = _search("fixed", "tide", 0, radius=21, levels_up=4, max_chars=0, result_count=21)
    wrong.options.snapshot = 1
    _, _, fields = await refused(reader.Retrieve(wrong))
    names = ["mode", "radius", "levels_up", "max_chars", "result_count"]
    assert fields == [*(f"expansion.{name}" for name in names), "expansion"]
