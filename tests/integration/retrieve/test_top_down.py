"""From chapters down to chunks: only the chosen sections are searched, and the reply names them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.budget import Budget
from tests.integration.retrieve.library import DIMENSIONS, Library
from tests.integration.retrieve.reading_room import ReadingRoom
from tests.integration.retrieve.serving import refused, serving

if TYPE_CHECKING:
    from tests.integration.retrieve.serving import Stub

_TOP_DOWN = search_mode_pb2.RETRIEVAL_STRATEGY_TOP_DOWN

CHAPTERS = {
    "Ownership": ("Moving values", "Borrowing references", "Slices of strings"),
    "Concurrency": ("Threads and joins", "Channels for messages", "Shared state"),
    "Macros": ("Declarative macros", "Procedural macros", "Hygiene of names"),
    "Testing": ("Unit tests", "Integration tests", "Benchmarks of code"),
    "Modules": ("Paths of modules", "Visibility of items", "Use declarations"),
}


def _book() -> str:
    parts = []
    for chapter, sections in CHAPTERS.items():
        parts.append(f"# {chapter}\n\nThis chapter is about {chapter.lower()}.\n")
        for section in sections:
            parts += [f"## {section}\n", f"{section} belong to {chapter.lower()}. " * 3, "More words stand here.\n"]
    return "\n".join(parts)


def _request(query: str, collection: str, **options: object) -> pb.RetrieveRequest:
    request = pb.RetrieveRequest(collection=collection, query=query)
    request.options.include_report = True
    request.options.strategy = _TOP_DOWN
    for name, value in options.items():
        setattr(request.options, name, value)
    return request


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadingRoom]:
    opened = ReadingRoom(tmp_path_factory.mktemp("room"))
    hierarchy = collection_pb2.ChunkingPolicy(chunker=collection_pb2.CHUNKER_HIERARCHY, min_chars=1, minimum_size=1)
    opened.create("levels", collection_pb2.CollectionSettings(chunking=hierarchy))
    structure = collection_pb2.ChunkingPolicy(
        target_size=40, minimum_size=1, maximum_size=60, min_chars=1, overlap_ratio=0.0
    )
    opened.create("structure", collection_pb2.CollectionSettings(chunking=structure))
    for collection in ("levels", "structure"):
        opened.put(collection, "book.md", _book())
        opened.put(collection, "other.md", "# Bread\n\n## Dough\n\nA baker kneads flour and water.\n")
    yield opened
    opened.close()


@pytest.mark.requirement("S1-48")
@pytest.mark.parametrize("collection", ["levels", "structure"])
async def test_hits_are_the_paragraphs_of_the_chosen_sections_which_are_named(
    room: ReadingRoom, collection: str
) -> None:
    question = "borrowing references of ownership"
    direct = _request(question, collection, top_k=20, min_relevance=0.0)
    direct.options.strategy = search_mode_pb2.RETRIEVAL_STRATEGY_DIRECT
    async with serving(room) as stub:  # type: ignore[arg-type]  # it has a service
        response = await stub.Retrieve(_request(question, collection, top_k=20, min_relevance=0.0))
        anywhere = await stub.Retrieve(direct)
    assert response.report.chosen_sections[0].hierarchy_path == ["Ownership", "Borrowing references"]
    chosen = {tuple(section.hierarchy_path) for section in response.report.chosen_sections}
    everything = {(chapter, section) for chapter, sections in CHAPTERS.items() for section in sections}
    assert 0 < len(chosen) < len(everything)
    scores = [section.score for section in response.report.chosen_sections]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 < score <= 1.0 for score in scores)
    assert response.results[0].chunk.section == "Borrowing references"
    inside = {
        hit.chunk.chunk_id: any(
            section.document_id == hit.chunk.document_id
            and section.first_sequence_num <= hit.chunk.sequence_num <= section.last_sequence_num
            for section in response.report.chosen_sections
        )
        for hit in (*response.results, *anywhere.results)
    }
    assert {inside[hit.chunk.chunk_id] for hit in response.results} == {True}
    assert not all(inside[hit.chunk.chunk_id] for hit in anywhere.results), "a direct search finds chunks elsewhere too"
    if collection == "levels":
        assert {hit.chunk.level for hit in response.results} == {3}
        # The path of a paragraph is the document, the path of its section, and the paragraph.
        assert {tuple(hit.chunk.hierarchy_path[1:-1]) for hit in response.results} <= chosen
    assert {hit.chunk.document_id for hit in response.results} == {response.results[0].chunk.document_id}


async def test_a_filter_of_the_request_holds_below_the_chosen_sections(room: ReadingRoom) -> None:
    async with serving(room) as stub:  # type: ignore[arg-type]  # the same
        request = _request("borrowing references", "structure")
        request.options.filter.json = '{"section": "Moving values"}'
        response = await stub.Retrieve(request)
    assert {hit.chunk.section for hit in response.results} == {"Moving values"}


async def test_sections_of_sources_that_are_not_approved_are_neither_searched_nor_named(
    library: Library, stub: "Stub"
) -> None:
    plans = library.create("plans", approved_source_prefixes=("https://public/",))
    for source, chapter in (("https://secret/merger", "Merger"), ("https://public/plan", "Growth")):
        library.put(source, ["the merger plan"], collection=plans, places=[(chapter, None)])
    response = await stub.Retrieve(_request("merger", "plans"))
    assert [list(section.hierarchy_path) for section in response.report.chosen_sections] == [["Growth"]]
    assert [hit.chunk.source_uri for hit in response.results] == ["https://public/plan"]


async def test_texts_without_headings_and_empty_collections_work_as_well(library: Library, stub: "Stub") -> None:
    assert not (await stub.Retrieve(_request("alpha", "docs"))).results
    library.put("a.txt", ["alpha one", "beta two"])
    response = await stub.Retrieve(_request("alpha", "docs"))
    assert response.results[0].chunk.content == "alpha one"
    of_signs = await stub.Retrieve(_request("?!", "docs", min_relevance=0.0))
    assert len(of_signs.results) == 2
    assert [list(section.hierarchy_path) for section in response.report.chosen_sections] == [["Chapter 1"]]


@pytest.mark.requirement("S1-48")
async def test_the_best_three_chapters_are_searched_by_themselves_and_their_best_section(
    library: Library, stub: "Stub"
) -> None:
    # Similarities to the question of a chapter's own text and of its one section.
    chapters = {"Ants": (0.3, 0.35), "Bees": (0.5, 0.5), "Cats": (0.5, 0.5), "Dogs": (0.2, 0.7), "Elks": (0.1, 1.0)}
    similarities = [similarity for both in chapters.values() for similarity in both]
    places = [(name, section) for name in chapters for section in (None, f"On {name}")]
    toward, across = np.eye(DIMENSIONS, dtype=np.float32)[:2]
    vectors = np.outer(similarities, toward) + np.outer(np.sqrt(1.0 - np.square(similarities)), across)
    texts = [f"text {number}" for number in range(len(places))]
    library.put("a.md", texts, places=places, vectors=vectors.astype(np.float32))
    request = _request("zzz", "docs", top_k=20, mode=search_mode_pb2.SEARCH_MODE_VECTOR)
    request.query_vector.extend(toward.tolist())
    response = await stub.Retrieve(request)
    # Dogs have a better section than bees and cats, but on the whole the chapter comes fourth.
    expected = [["Elks", "On Elks"], ["Bees"], ["Bees", "On Bees"], ["Cats"], ["Cats", "On Cats"]]
    assert [list(section.hierarchy_path) for section in response.report.chosen_sections] == expected
    assert {(hit.chunk.chapter, hit.chunk.section) for hit in response.results} >= {
        ("Elks", "On Elks"),
        ("Bees", "On Bees"),
    }
    assert {hit.chunk.chapter for hit in response.results} == {"Elks", "Bees", "Cats"}


async def test_the_choice_follows_changes_of_the_collection(library: Library, stub: "Stub") -> None:
    document = library.put("a.md", ["alpha one"], places=[("Old", "Part")])
    assert (await stub.Retrieve(_request("alpha", "docs"))).report.chosen_sections[0].hierarchy_path == ["Old", "Part"]
    library.put("a.md", ["alpha one more"], places=[("New", "Part")], replaces=document)
    assert (await stub.Retrieve(_request("alpha", "docs"))).report.chosen_sections[0].hierarchy_path == ["New", "Part"]


async def test_a_vector_of_the_caller_chooses_too_and_a_wrong_one_is_refused(room: ReadingRoom) -> None:
    wanted = room.ingest.embedder.embed_query("Channels for messages belong to concurrency", Budget())
    async with serving(room) as stub:  # type: ignore[arg-type]  # the same
        request = _request("zzz", "levels")
        request.query_vector.extend(wanted.tolist())
        response = await stub.Retrieve(request)
        assert response.report.chosen_sections[0].hierarchy_path == ["Concurrency", "Channels for messages"]
        wrong = _request("zzz", "levels")
        wrong.query_vector.extend([1.0, 2.0])
        _, info, _ = await refused(stub.Retrieve(wrong))
    assert info.reason == "DIMENSION_MISMATCH"


async def test_the_past_cannot_be_searched_from_the_top(stub: "Stub") -> None:
    _, _, fields = await refused(stub.Retrieve(_request("alpha", "docs", snapshot=1)))
    assert fields == ["options.strategy"]
