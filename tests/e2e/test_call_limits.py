"""How many calls run at a time, as the settings of a server say it: of each kind, and of each credential."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as retrieve_pb
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import GroundwireError, OverloadedError, QuotaExceededError
from groundwire.kernel.identity import Right
from groundwire.rpc.error_status import from_rpc_error
from groundwire.rpc.methods import Work
from tests.credentials import Metadata, bearer, make_key
from tests.e2e.server import ServerProcess
from tests.embedding_endpoint import embedding_endpoint
from tests.stubs import METHOD_PATHS, by_source

DOCS = "docs"
LARGE = "The moon pulls the sea. " * 10_000
"""More than a client takes that does not read."""
CONVERSE = answer_pb.ConverseRequest(
    opening=answer_pb.ConverseOpening(create=answer_pb.CreateSessionRequest(collection=DOCS))
)
CALLS: dict[Work, tuple[str, Message]] = {
    Work.SEARCH: ("Retrieve", retrieve_pb.RetrieveRequest(collection=DOCS, query="tides")),
    Work.READ: (
        "GetDocument",
        library_pb.GetDocumentRequest(collection=DOCS, reference=by_source("large"), include_text=True),
    ),
    Work.WRITE: ("IngestDocument", ingest_pb.IngestDocumentRequest(collection=DOCS, source_uri="new", text="Tides.")),
    Work.UPLOAD: (
        "UploadDocument",
        ingest_pb.UploadDocumentRequest(header=ingest_pb.UploadHeader(collection=DOCS, source_uri="up", total_bytes=9)),
    ),
    Work.STREAM: ("AskStream", answer_pb.AskStreamRequest(ask=answer_pb.AskRequest(collection=DOCS, question="Why?"))),
    Work.CONVERSATION: ("Converse", CONVERSE),
}
"""A call of each kind that lasts: for want of a model, or because its client neither reads nor sends any more."""


async def refusal(address: str, limit: int, method: str, message: Message, metadata: Metadata = ()) -> GroundwireError:
    """Return how one of `limit` + 1 calls is refused that would all last."""

    async def sent() -> AsyncIterator[bytes]:
        yield message.SerializeToString()
        await asyncio.Event().wait()

    options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_535)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        # As a stream of bytes, whatever shape the method has.
        send: Any = channel.stream_stream(METHOD_PATHS[method])
        calls = {
            asyncio.create_task(call.code()): call
            for call in (send(sent(), metadata=metadata) for _ in range(limit + 1))
        }
        ended, _ = await asyncio.wait(calls, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        assert ended, f"none of {limit + 1} calls is refused"
        try:
            await calls[ended.pop()].read()
        except grpc.aio.AioRpcError as error:
            return from_rpc_error(error)
    raise AssertionError("a call has a response")


def test_each_kind_of_work_has_the_limit_of_its_setting(tmp_path: Path) -> None:
    limits = {work: number for number, work in enumerate(CALLS, start=1)}
    settings = {f"GROUNDWIRE_MAX_{work.upper()}_CALLS": str(limit) for work, limit in limits.items()}
    with embedding_endpoint(dimensions=64) as endpoint:
        arguments = ("--embedder", f"{endpoint.url}#tiny", "--vectors", "memory:")
        with ServerProcess(tmp_path / "data", arguments, **settings) as server:
            with GroundwireClient(server.address) as client:
                client.create_collection(collection=DOCS)
                client.ingest_document(collection=DOCS, source_uri="large", text=LARGE)
            endpoint.hangs.set()
            refused = {work: asyncio.run(refusal(server.address, limits[work], *call)) for work, call in CALLS.items()}
            endpoint.ended.set()
    assert {type(each) for each in refused.values()} == {OverloadedError}
    told = {work: each.metadata for work, each in refused.items()}
    assert told == {work: {"work": work, "limit": str(limit)} for work, limit in limits.items()}


def test_a_credential_has_as_many_calls_at_a_time_as_the_setting_says(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    token = bearer(make_key(keys, "ada", Right.ADMIN))
    arguments = ("--embedder", "hashing:64", "--vectors", "memory:", "--keys", str(keys))
    with ServerProcess(tmp_path / "data", arguments, GROUNDWIRE_CALLER_CALLS="3") as server:
        with GroundwireClient(server.address, metadata=dict(token)) as client:
            client.create_collection(collection=DOCS)
        refused = asyncio.run(refusal(server.address, 3, *CALLS[Work.CONVERSATION], token))
    assert isinstance(refused, QuotaExceededError)
    assert refused.metadata == {"quota": "calls_at_a_time", "limit": "3"}
