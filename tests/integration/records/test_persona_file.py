"""A persona file: loaded at the start, once, and again when it changes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from groundwire.api.common.v1 import record_pb2
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import CollectionNotFoundError
from tests.e2e.server import ServerProcess
from tests.integration.records.keeping import until

FILE = "# Ada\n\n## Tone\n\nCalm and short.\n\n## Safety\n\nNever give medical advice.\n"


@contextmanager
def serving(folder: Path, collection: str = "conversations") -> Iterator[GroundwireClient]:
    variables = {"GROUNDWIRE_INGEST_PERSONA_FILE": str(folder / "persona.md")}
    if collection != "conversations":
        variables["GROUNDWIRE_INGEST_PERSONA_COLLECTION"] = collection
    server = ServerProcess(folder / "data", **variables)
    with GroundwireClient(server.address) as client:
        yield client
    assert server.stop() == 0


def personas(client: GroundwireClient, collection: str = "conversations") -> dict[str, str]:
    """Return the topics of the records, with the lower-case texts."""
    try:
        records = client.list_records(collection=collection).records
    except CollectionNotFoundError:
        return {}
    assert all(each.record_type == record_pb2.RECORD_TYPE_PERSONA and each.persona.version for each in records)
    return {each.persona.topic: each.text for each in records}


@pytest.mark.requirement("S0-13")
@pytest.mark.requirement("S0-17")
def test_a_persona_file_is_loaded_without_doubling(tmp_path: Path) -> None:
    path = tmp_path / "persona.md"
    path.write_text(FILE, encoding="utf-8")
    with serving(tmp_path) as client:
        until(lambda: {"tone", "safety"} <= personas(client).keys())
        first = client.list_records(collection="conversations").records
        assert "Calm and short." in personas(client)["tone"]
    with serving(tmp_path) as client:
        until(lambda: _has_loaded(client))
        assert client.list_records(collection="conversations").records == first
    path.write_text(FILE.replace("Calm", "Cheerful").replace("## Safety", "## Limits"), encoding="utf-8")
    os.utime(path, (2_000_000_000, 2_000_000_000))
    with serving(tmp_path) as client:
        until(lambda: "limits" in personas(client) and "safety" not in personas(client))
        assert "Cheerful and short." in personas(client)["tone"]
        assert len(personas(client)) == len(first)


def test_a_persona_file_is_loaded_into_the_collection_of_the_setting(tmp_path: Path) -> None:
    (tmp_path / "persona.md").write_text(FILE, encoding="utf-8")
    with serving(tmp_path, "talks") as client:
        until(lambda: {"tone", "safety"} <= personas(client, "talks").keys())


def _has_loaded(client: GroundwireClient) -> bool:
    jobs = client.housekeeping().jobs
    return any(job.name == "persona_file" and job.run_count for job in jobs)
