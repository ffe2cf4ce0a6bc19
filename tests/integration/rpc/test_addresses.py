"""Addresses of a client: one for all services, or one for each; what is none is refused before anything is sent."""

import asyncio

import pytest

from groundwire.client import AsyncGroundwireClient, GroundwireClient
from groundwire.kernel.errors import DocumentNotFoundError, InvalidRequestError
from tests.integration.rpc.fake_ingest import fake_ingest, serving


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("", "without http://"),
        (" ", "without http://"),
        ("http://localhost:50051", "without http://"),
        ("HTTPS://localhost:50051", "without http://"),
        ("ingest=a:1,retrieve=https://b:1", "without http://"),
        ("a:1,retrieve=b:1", "names each service once"),
        ("ingest=,retrieve=b:1", "names each service once"),
        ("ingest=a:1,ingest=b:1", "names each service once"),
        ("localhost", "needs a port, such as localhost:50051"),
        ("[::1]", r"needs a port, such as \[::1\]:50051"),
        ("ingest=a:1,retrieve=b", "needs a port, such as b:50051"),
    ],
)
def test_what_is_no_address_is_refused(address: str, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"^address: .*{problem}"):
        GroundwireClient(address)


async def test_each_service_is_called_at_its_own_address() -> None:
    first, second = fake_ingest(), fake_ingest()
    async with serving(first) as (_, ingest), serving(second) as (_, retrieve):
        address = f"ingest=127.0.0.1:{ingest},retrieve=127.0.0.1:{retrieve}"
        async with AsyncGroundwireClient(address) as client:
            await client.ingest_document(collection="fine", text="t")
            assert (len(first.seen), len(second.seen)) == (1, 0)
            await client.get_document(collection="fine")
            assert (len(first.seen), len(second.seen)) == (1, 1)
            with pytest.raises(InvalidRequestError, match="address: names no server for answer"):
                await client.create_session(collection="fine")
    with pytest.raises(DocumentNotFoundError):
        async with serving(fake_ingest()) as (_, port), AsyncGroundwireClient(f"127.0.0.1:{port}") as client:
            await client.get_document(collection="missing")


@pytest.mark.parametrize(
    "metadata", [{"x": "tok\x7f"}, {"x": "tok\u00e9"}, {"x/y": "tok"}, {"x": "tok\x00"}, {"\u00e9": "tok"}]
)
async def test_metadata_that_http_cannot_carry_are_refused_by_both_clients(metadata: dict[str, str]) -> None:
    with GroundwireClient("127.0.0.1:1", metadata=lambda: metadata) as blocking:
        with pytest.raises(InvalidRequestError, match="cannot be sent") as refused:
            await asyncio.to_thread(blocking.list_collections)
        assert "tok" not in refused.value.message
    async with AsyncGroundwireClient("127.0.0.1:1", metadata=metadata) as waiting:
        with pytest.raises(InvalidRequestError, match="cannot be sent"):
            await waiting.list_collections()
