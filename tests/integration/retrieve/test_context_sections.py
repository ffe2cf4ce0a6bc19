"""A section that the server has switched off is missing from contexts, whatever a request asks for."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groundwire.api.common.v1 import record_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.vector_store import ScoredPoint
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.vectorstores.memory import MemoryVectorStore
from tests.integration.retrieve.library import Library, contents

_TYPES: dict[str, dict[str, Any]] = {
    "persona": {"version": "1"},
    "faq": {},
    "memory": {"importance": 3},
    "turn": {"conversation_id": "conv-a", "role": "user", "turn_index": 1},
    "summary": {"conversation_id": "conv-a", "summary_index": 1},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where a library with a record of each type lies."""
    folder = tmp_path_factory.mktemp("records")
    library = Library(folder)
    for kind, more in _TYPES.items():
        record = {"type": kind, "scope": "global", "source": "system", "timestamp": "2026-01-01T00:00:00+00:00", **more}
        library.put(f"record:{kind}", [f"harbour {kind}"], fields=DocumentFields(record=record))
    library.close()
    return folder


def sections(folder: Path, settings: RetrieveSettings, request: pb.RetrieveContextRequest) -> dict[str, list[str]]:
    library = Library(folder, settings=settings)
    try:
        # The vectors of the reference engine are gone with the first library; the catalog has them too.
        response = asyncio.run(library.service.servicer.RetrieveContext(request, None))
    finally:
        library.close()
    return {
        record_pb2.RecordType.Name(each.record_type).removeprefix("RECORD_TYPE_").lower(): [
            entry.record.text for entry in each.entries
        ]
        for each in response.sections
    }


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("persona", marks=pytest.mark.requirement("S0-63")),
        pytest.param("faq", marks=pytest.mark.requirement("S0-64")),
        pytest.param("memory", marks=pytest.mark.requirement("S0-65")),
        pytest.param("turn", marks=pytest.mark.requirement("S0-66")),
        pytest.param("summary", marks=pytest.mark.requirement("S0-67")),
    ],
)
def test_a_section_that_is_switched_off_is_missing(folder: Path, kind: str) -> None:
    request = pb.RetrieveContextRequest(collection="docs", query="harbour", conversation_id="conv-a")
    found = sections(folder, RetrieveSettings(), request)
    assert found == {each: [f"harbour {each}"] for each in _TYPES}
    without = RetrieveSettings.model_validate({f"rag_enable_{kind}": False})
    request.sections.add(record_type=record_pb2.RecordType.Value(f"RECORD_TYPE_{kind.upper()}"))
    assert sections(folder, without, request) == {}
    del request.sections[:]
    assert sections(folder, without, request) == {each: texts for each, texts in found.items() if each != kind}


def test_a_part_of_the_persona_is_as_relevant_as_the_server_asks(folder: Path) -> None:
    request = pb.RetrieveContextRequest(collection="docs", query="harbour")
    for least, shown in ((0.1, ["harbour persona"]), (0.99, [])):
        assert sections(folder, RetrieveSettings(rag_persona_min_relevance=least), request)["persona"] == shown


@pytest.mark.requirement("S0-62")
def test_without_retrieval_there_is_no_section(folder: Path) -> None:
    request = pb.RetrieveContextRequest(collection="docs", query="harbour")
    assert sections(folder, RetrieveSettings(rag_enabled=False), request) == {}


class _CountingEngine(MemoryVectorStore):
    """Counts its searches."""

    searches = 0

    def search(self, *given: Any, **more: Any) -> list[ScoredPoint]:
        self.searches += 1
        return super().search(*given, **more)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Library, _CountingEngine]]:
    """Many FAQs and memories, a few parts of a persona, and documents that fit worse than all of these."""
    engine = _CountingEngine()
    library = Library(tmp_path_factory.mktemp("crowded"), engine=engine)
    for number in range(120):
        kind = "faq" if number % 2 else "memory"
        library.put(
            f"record:{kind}-{number}",
            [f"harbour word{number % 7} word{number % 11} {kind}"],
            fields=DocumentFields(record=_record_of(kind)),
        )
    for number in range(3):
        fields = DocumentFields(record=_record_of("persona"))
        library.put(f"record:persona-{number}", [f"tone{number} of my own voice"], fields=fields)
    library.put("crane.txt", ["a crane stands at the quay of the harbour"])
    yield library, engine
    library.close()


def _record_of(kind: str) -> dict[str, Any]:
    at = "2026-01-01T00:00:00+00:00"
    return {"type": kind, "scope": "global", "source": "system", "timestamp": at, **_TYPES[kind]}


def _context(library: Library, query: str, **options: Any) -> pb.RetrieveContextResponse:
    request = pb.RetrieveContextRequest(collection="docs", query=query)
    request.options.min_relevance = 0.0
    for name, value in options.items():
        setattr(request.options, name, value)
    return asyncio.run(library.service.servicer.RetrieveContext(request, None))


def test_sections_of_common_types_share_one_search_of_the_engine(crowded: tuple[Library, _CountingEngine]) -> None:
    library, engine = crowded
    before = engine.searches
    found = _context(library, "harbour word3 word5")
    # One for all sections; what is rare is compared one by one, with vectors of the catalog.
    assert engine.searches - before == 1
    kinds = {each.record_type: [entry.record.text for entry in each.entries] for each in found.sections}
    assert len(kinds[record_pb2.RECORD_TYPE_FAQ]) == 2
    assert len(kinds[record_pb2.RECORD_TYPE_MEMORY]) == 3
    assert [hit.chunk.content for hit in found.document_results] == ["a crane stands at the quay of the harbour"]


def test_the_latest_turns_need_no_engine_and_other_sections_share_one_search_beside_them(
    crowded: tuple[Library, _CountingEngine],
) -> None:
    library, engine = crowded
    for kinds, searches in (([record_pb2.RECORD_TYPE_TURN], 0), ([], 1)):
        request = pb.RetrieveContextRequest(collection="docs", query="harbour word3 word5", conversation_id="conv-1")
        request.sections.extend(pb.SectionLimit(record_type=kind) for kind in kinds)
        request.without_documents = bool(kinds)
        before = engine.searches
        asyncio.run(library.service.servicer.RetrieveContext(request, None))
        assert engine.searches - before == searches


@pytest.mark.parametrize("query", ["harbour word3 word5", "word6 faq", "memory word2", "my own voice tone1"])
def test_a_section_has_what_a_search_for_its_type_alone_finds(
    crowded: tuple[Library, _CountingEngine], query: str
) -> None:
    library, _ = crowded
    sections = {each.record_type: each for each in _context(library, query).sections}
    alone = to_filter_message(parse_filter({"record_type": "faq"}))
    searched = library.retrieve(query, filter=alone, top_k=2, min_relevance=0.0)
    faqs = sections[record_pb2.RECORD_TYPE_FAQ].entries
    assert [entry.record.text for entry in faqs] == contents(searched)
    of_tone = [entry.record.text for entry in sections[record_pb2.RECORD_TYPE_PERSONA].entries]
    assert of_tone[:1] == (["tone1 of my own voice"] if "voice" in query else [])
