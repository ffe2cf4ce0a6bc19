"""Sources that are not approved and chunks without required metadata never come back, and are counted."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pysqlite3
import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.common.v1.chunk_pb2 import ChunkReference
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.collection import ProfileName
from groundwire.kernel.identifiers import is_approved
from groundwire.retrieve.settings import RetrieveSettings
from tests.integration.retrieve.library import Library, contents
from tests.integration.retrieve.serving import refused, serving

if TYPE_CHECKING:
    from tests.integration.retrieve.serving import Stub

_GOOD, _BAD = "https://docs.example/a", "https://elsewhere.example/a"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Library]:
    opened = Library(tmp_path, settings=RetrieveSettings(approved_source_prefixes=("https://docs.example",)))
    yield opened
    opened.close()


async def _search(stub: "Stub", collection: str = "docs", **options: object) -> pb.RetrieveResponse:
    request = pb.RetrieveRequest(collection=collection, query="alpha")
    request.options.include_report = True
    for name, value in options.items():
        setattr(request.options, name, value)
    return await stub.Retrieve(request)


@pytest.mark.requirement("S3-34")
@pytest.mark.requirement("C30")
async def test_unapproved_sources_are_withheld_and_counted_whoever_set_the_list(library: Library) -> None:
    limited = library.create("limited", approved_source_prefixes=("https://docs.example/",))
    library.put(_BAD, [f"alpha bad {number}" for number in range(40)], collection=limited)
    library.put(_GOOD, ["alpha good one", "alpha good two", "alpha good three"], collection=limited)
    async with serving(library) as stub:
        for mode in (search_mode_pb2.SEARCH_MODE_HYBRID, search_mode_pb2.SEARCH_MODE_VECTOR):
            response = await _search(stub, "limited", mode=mode, top_k=3)
            assert len(response.results) == 3, "approved ones are found behind those that are not"
            assert {hit.chunk.source_uri for hit in response.results} == {_GOOD}
            assert response.report.quality.rejected_count > 0
        stats = await stub.GetPipelineStats(library_pb.GetPipelineStatsRequest(collection="limited"))
        assert stats.rejected_count > 0


async def test_what_words_find_behind_withheld_chunks_has_its_true_similarity(library: Library, stub: "Stub") -> None:
    limited = library.create("limited", approved_source_prefixes=("https://docs.example/",))
    library.put(_BAD, [f"alpha alpha {number}" for number in range(40)], collection=limited)
    library.put(
        _GOOD, ["alpha and some words more", "alpha among quite a few other words of this text"], collection=limited
    )
    lexical = await _search(stub, "limited", mode=search_mode_pb2.SEARCH_MODE_LEXICAL, top_k=2)
    nearest = await _search(stub, "limited", mode=search_mode_pb2.SEARCH_MODE_VECTOR, top_k=2)
    similarities = [
        {hit.chunk.content: round(hit.similarity, 5) for hit in response.results} for response in (lexical, nearest)
    ]
    assert len(similarities[0]) == 2
    assert similarities[0] == similarities[1]


@pytest.mark.requirement("S3-34")
async def test_the_list_of_the_server_holds_for_every_collection(guarded: Library) -> None:
    bad = guarded.put(_BAD, ["alpha bad"])
    guarded.put(_GOOD, ["alpha good"])
    async with serving(guarded) as stub:
        response = await _search(stub)
        assert contents(response) == ["alpha good"]
        assert response.report.quality.rejected_count == 1
        reference = ChunkReference(chunk_id=f"{bad.document_id}#chunk_000")
        request = pb.ExpandRequest(collection="docs", chunks=[reference], mode=pb.EXPAND_MODE_PARENT)
        _, info, _ = await refused(stub.Expand(request))
        assert info.reason == "CHUNK_NOT_FOUND", "expanding shows no more than searching"


@pytest.mark.requirement("S3-34")
async def test_a_source_has_to_be_on_the_list_of_the_server_and_on_that_of_the_collection(guarded: Library) -> None:
    others = ("https://docs.example/team", "https://elsewhere.example")
    team = guarded.create("team", approved_source_prefixes=others)
    of_both, of_server = "https://docs.example/team/a", "https://docs.example/b"
    stored = [guarded.put(source, ["alpha"], collection=team) for source in (of_both, of_server, _BAD)]
    async with serving(guarded) as stub:
        for strategy in (search_mode_pb2.RETRIEVAL_STRATEGY_DIRECT, search_mode_pb2.RETRIEVAL_STRATEGY_TOP_DOWN):
            response = await _search(stub, "team", strategy=strategy)
            assert [hit.chunk.source_uri for hit in response.results] == [of_both]
            assert {section.document_id for section in response.report.chosen_sections} <= {stored[0].document_id}
        mode = pb.EXPAND_MODE_PARENT
        requests = [
            pb.ExpandRequest(
                collection="team", chunks=[ChunkReference(chunk_id=f"{each.document_id}#chunk_000")], mode=mode
            )
            for each in stored
        ]
        assert [passage.content for passage in (await stub.Expand(requests[0])).passages] == ["alpha"]
        for request in requests[1:]:
            _, info, _ = await refused(stub.Expand(request))
            assert info.reason == "CHUNK_NOT_FOUND"


@pytest.mark.requirement("S3-36")
@pytest.mark.requirement("S3-19")
async def test_a_chunk_without_required_metadata_is_withheld_and_counted(
    library: Library, stub: "Stub", tmp_path: Path
) -> None:
    library.put("a.txt", ["alpha one", "alpha two"])
    connection = pysqlite3.connect(str(tmp_path / "catalog.db"))
    connection.execute(
        "UPDATE chunks SET section_heading = '', chapter = '', hierarchy_path = '[]' WHERE sequence_num = 0"
    )
    connection.commit()
    connection.close()
    response = await _search(stub)
    assert contents(response) == ["alpha two"]
    assert response.report.quality.incomplete_count == 1
    for hit in response.results:
        assert hit.chunk.source_uri
        assert hit.chunk.section_heading
        assert hit.chunk.sequence_num == 1


@pytest.mark.requirement("S3-36")
async def test_what_is_withheld_raises_no_neighbour(library: Library, stub: "Stub", tmp_path: Path) -> None:
    small = library.create("small", profile=ProfileName.GENERAL)
    library.put("a.txt", ["alpha beta gamma", "other words here"], collection=small)
    library.put("b.txt", ["nothing of it", "alpha one two"], collection=small)

    async def relevance() -> float:
        request = pb.RetrieveRequest(collection="small", query="alpha beta gamma")
        found = {hit.chunk.content: hit.relevance_score for hit in (await stub.Retrieve(request)).results}
        return found["other words here"]

    raised = await relevance()
    connection = pysqlite3.connect(str(tmp_path / "catalog.db"))
    with connection:
        connection.execute(
            "UPDATE chunks SET section_heading = '', chapter = '', hierarchy_path = '[]' WHERE content = ?",
            ("alpha beta gamma",),
        )
    connection.close()
    library.put("c.txt", ["more"], collection=small)  # what was read before is read anew
    assert await relevance() < raised - 0.1


@pytest.mark.parametrize(
    ("source", "prefixes", "expected"),
    [
        ("anything", (), True),
        ("docs/a.md", ("docs/",), True),
        ("docsecret/a.md", ("docs/",), False),
        ("https://docs.example/a", ("https://docs.example",), True),
        ("https://docs.example", ("https://docs.example",), True),
        ("https://docs.example.evil.org/a", ("https://docs.example",), False),
        ("https://docs.example:8443/a", ("https://docs.example",), False),
        ("https://docs.example/team/a", ("https://docs.example/team",), True),
        ("b/x", ("a/", "b/"), True),
        ("HTTPS://docs.example/a", ("https://docs.example",), False),
    ],
)
@pytest.mark.requirement("C30")
def test_a_prefix_approves_what_begins_with_it_and_no_other_host(
    source: str, prefixes: tuple[str, ...], expected: bool
) -> None:
    assert is_approved(source, prefixes) is expected
