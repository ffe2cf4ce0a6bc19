"""The published service configs: what a channel repeats by itself, when, and what it does not."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from importlib import resources
from typing import Any

import grpc
import pytest

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1 import ingest_service_pb2_grpc as pb_grpc
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import library_service_pb2_grpc as library_grpc
from groundwire.client import AsyncGroundwireClient
from groundwire.kernel.errors import GroundwireError, OverloadedError, StoreUnavailableError
from groundwire.rpc.channels import open_channel, service_config
from groundwire.rpc.methods import DeadlineTable
from tests.integration.rpc.fake_ingest import fake_ingest, serving
from tests.stubs import Stubs, by_id
from tests.tcp_proxy import tcp_proxy

CONFIGS = resources.files("groundwire.api").joinpath("service_config")
PUSHBACK_S = 0.5


def published(name: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(CONFIGS.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    return config


def methods(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the settings of each method by its path."""
    return {
        f"/{name['service']}/{name['method']}": {key: value for key, value in group.items() if key != "name"}
        for group in config["methodConfig"]
        for name in group["name"]
    }


class Crowded(pb_grpc.IngestServiceServicer, library_grpc.LibraryServiceServicer):
    """Refuses the first calls of each method with one error, and counts the calls."""

    def __init__(self, error: GroundwireError, refusals: int = 2) -> None:
        self.error = error
        self.refusals = refusals
        self.calls = 0

    def refuse(self) -> None:
        self.calls += 1
        if self.calls <= self.refusals:
            raise self.error

    async def GetDocument(self, request: Any, context: Any) -> Any:  # noqa: N802 - the contract's name
        self.refuse()
        return library_pb.GetDocumentResponse()

    async def IngestDocument(self, request: Any, context: Any) -> Any:  # noqa: N802 - the contract's name
        self.refuse()
        return pb.IngestDocumentResponse()

    async def UploadDocument(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - the same
        async for _ in request_iterator:
            self.refuse()
            yield pb.UploadDocumentResponse()


def overloaded() -> OverloadedError:
    error = OverloadedError("the server is full", limit=1, work="read")
    error.retry_after_s = PUSHBACK_S
    return error


def crowded(error: GroundwireError, refusals: int = 2) -> Any:
    return Crowded(error, refusals)  # type: ignore[abstract]  # the other methods are not called


def channel(port: int) -> grpc.aio.Channel:
    """Open a channel as the documentation says for other languages: with the published file, and nothing else."""
    text = CONFIGS.joinpath("all.json").read_text(encoding="utf-8")
    return grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.service_config", text)])


@pytest.mark.alone
async def test_a_full_server_is_asked_again_when_it_said() -> None:
    servicer = crowded(overloaded())
    async with serving(servicer) as (_, port), channel(port) as opened:
        started = time.monotonic()
        await Stubs(opened).GetDocument(library_pb.GetDocumentRequest())
        elapsed_s = time.monotonic() - started
    assert servicer.calls == 3
    # The back-off of the config would have been over after 0.1 and 0.2 seconds, give or take a fifth.
    assert 2 * PUSHBACK_S <= elapsed_s < 6 * PUSHBACK_S


async def test_a_full_server_is_asked_four_times_at_most() -> None:
    error = overloaded()
    error.retry_after_s = 0.01
    servicer = crowded(error, refusals=100)
    async with serving(servicer) as (_, port), channel(port) as opened:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await Stubs(opened).GetDocument(library_pb.GetDocumentRequest())
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert servicer.calls == 4


@pytest.mark.parametrize("error", [overloaded(), StoreUnavailableError("down", engine="memory")], ids=type)
async def test_the_shipped_client_repeats_what_has_a_request_id(error: GroundwireError) -> None:
    error.retry_after_s = 0.01
    servicer = crowded(error)
    async with serving(servicer) as (_, port), AsyncGroundwireClient(f"127.0.0.1:{port}") as client:
        await client.ingest_document(collection="c", source_uri="a.md", text="t")
    assert servicer.calls == 3


CROWD = 100
"""As many calls at a time as one replica may have, or nearly."""


async def test_all_calls_that_fail_together_are_repeated_as_those_of_a_replica_that_dies() -> None:
    servicer = crowded(StoreUnavailableError("down", engine="memory"), refusals=CROWD)
    async with serving(servicer) as (_, port), channel(port) as opened:
        stubs = Stubs(opened)
        await asyncio.gather(*(stubs.GetDocument(library_pb.GetDocumentRequest()) for _ in range(CROWD)))
    assert servicer.calls == 2 * CROWD


async def test_an_outage_makes_no_storm() -> None:
    servicer = crowded(StoreUnavailableError("down", engine="memory"), refusals=10 * CROWD)
    async with serving(servicer) as (_, port), channel(port) as opened:
        stubs = Stubs(opened)
        for _ in range(4):
            calls = [stubs.GetDocument(library_pb.GetDocumentRequest()) for _ in range(CROWD)]
            failed = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(each, grpc.aio.AioRpcError) for each in failed)
    assert servicer.calls < 6 * CROWD, "all calls are repeated, and not only the first"


@pytest.mark.alone
async def test_a_service_leaves_a_connection_that_became_silent_within_seconds() -> None:
    """What lies between may have forgotten it: then nobody resets it, and a new one works at once."""
    request = library_pb.GetDocumentRequest(collection="fine", reference=by_id("doc_1"))
    async with serving(fake_ingest()) as (_, port):
        with tcp_proxy(port) as link:
            async with open_channel(f"127.0.0.1:{link.port}", user_agent="answer") as opened:
                stubs = Stubs(opened)
                await stubs.GetDocument(request, timeout=10)
                link.forget()
                forgotten_at = time.monotonic()
                codes: list[grpc.StatusCode] = []
                while not codes or codes[-1] is not grpc.StatusCode.OK:
                    codes.append(await stubs.GetDocument(request, timeout=0.5).code())
                    assert time.monotonic() - forgotten_at < 10
    assert codes[0] is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_call_that_is_not_safe_to_repeat_is_made_once() -> None:
    servicer = crowded(overloaded())
    async with serving(servicer) as (_, port), channel(port) as opened:
        sent = Stubs(opened).UploadDocument(iter([pb.UploadDocumentRequest()]))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [message async for message in sent]
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert servicer.calls == 1


async def test_the_time_limit_of_a_method_comes_with_the_config() -> None:
    config = published("all")
    for group in config["methodConfig"]:
        if "timeout" in group:
            group["timeout"] = "0.2s"
    servicer = crowded(overloaded())
    async with (
        serving(servicer) as (_, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.service_config", json.dumps(config))]) as opened,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await Stubs(opened).GetDocument(library_pb.GetDocumentRequest())
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_the_limits_are_those_of_the_table() -> None:
    limits = DeadlineTable()
    listed = methods(published("all"))
    assert len(listed) > 30
    assert {path: settings.get("timeout") for path, settings in listed.items()} == {
        path: None if limits.limit_s(path) is None else f"{limits.limit_s(path):g}s" for path in listed
    }


def test_what_neither_reads_nor_has_a_request_id_is_not_repeated() -> None:
    listed = methods(published("all"))
    once = {path.rpartition("/")[2] for path in listed if "retryPolicy" not in listed[path]}
    assert once == {"Converse", "PutChunks", "UploadDocument", "CancelOperation", "DeleteOperation"}


def test_the_files_of_the_services_say_what_the_one_for_all_says() -> None:
    files = {entry.name.removesuffix(".json") for entry in CONFIGS.iterdir()} - {"all"}
    assert files
    together: dict[str, dict[str, Any]] = {}
    for name in files:
        own = methods(published(name))
        assert {path.split("/")[1] for path in own} == {name}
        together |= own
    assert together == methods(published("all"))


def test_the_shipped_client_uses_the_published_config_and_sets_its_own_limits() -> None:
    own, config = service_config(), published("all")
    assert not any("timeout" in group for group in own["methodConfig"])
    assert [group.get("retryPolicy") for group in own["methodConfig"]] == [
        group.get("retryPolicy") for group in config["methodConfig"]
    ]
    assert own["retryThrottling"] == config["retryThrottling"]
