"""A section that the server has switched off is missing from contexts, whatever a request asks for."""

from pathlib import Path
from typing import Any

import pytest

from groundwire.api.common.v1 import record_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.document import DocumentFields
from groundwire.retrieve.settings import RetrieveSettings
from tests.integration.retrieve.library import Library

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
        response = library.service.servicer.context(request)
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


@pytest.mark.requirement("S0-62")
def test_without_retrieval_there_is_no_section(folder: Path) -> None:
    request = pb.RetrieveContextRequest(collection="docs", query="harbour")
    assert sections(folder, RetrieveSettings(rag_enabled=False), request) == {}
