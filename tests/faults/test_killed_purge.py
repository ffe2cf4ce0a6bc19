"""SIGKILL in the middle of a purge: the next process finishes it, and counts what the killed one had deleted."""

import time
from pathlib import Path

import pytest

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.client import GroundwireClient
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from tests.e2e.server import HASHING, ServerProcess

GOING, STAYING = 120, 5
LIMIT_S = 120


@pytest.mark.faults
def test_a_killed_purge_ends_like_an_uninterrupted_one(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", HASHING)
    try:
        with GroundwireClient(server.address) as client:
            harbour = client.collection("harbour")
            harbour.create()
            for number in range(GOING + STAYING):
                project = "old" if number < GOING else "new"
                harbour.ingest_text(f"Boat {number} lies at the quay.", source=f"{number}.md", project=project)
            where = to_filter_message(parse_filter({"project": "old"}))
            begun = client.purge_documents(collection="harbour", filter=where, force=True)
            deadline = time.monotonic() + LIMIT_S
            while _count(client) == GOING + STAYING:
                assert time.monotonic() < deadline
    finally:
        server.kill()
    server = ServerProcess(tmp_path / "data", HASHING)
    try:
        with GroundwireClient(server.address) as client:
            deadline = time.monotonic() + LIMIT_S
            while not (operation := client.get_operation(name=begun.name)).done:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            response = pb.PurgeDocumentsResponse()
            assert operation.response.Unpack(response)
            assert response.purge_count == GOING
            assert _count(client) == STAYING
            found = {str(hit) for hit in client.collection("harbour").search("boat quay", k=50)}
            assert len(found) == STAYING
    finally:
        server.stop()


def _count(client: GroundwireClient) -> int:
    return len(client.list_documents(collection="harbour", page_size=1000).documents)
