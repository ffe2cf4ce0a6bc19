"""A server with collections for records, one for all tests of a module."""

from collections.abc import Iterator

import pytest

from groundwire.api.ingest.v1 import collection_pb2
from groundwire.client import GroundwireClient
from tests.e2e.server import ServerProcess
from tests.integration.records.keeping import Keeping


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path_factory.mktemp("records") / "data")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[GroundwireClient]:
    with GroundwireClient(server.address) as connected:
        yield connected


@pytest.fixture
def keeping(client: GroundwireClient) -> Keeping:
    """Records of a collection of its own, so that tests do not meet one another's."""
    return Keeping(client, collection_pb2.PROFILE_CONVERSATIONS)
