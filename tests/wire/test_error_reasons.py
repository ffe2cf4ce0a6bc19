"""The enum of the contract, the classes of the kernel, the table of codes and the documentation say the same."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from groundwire.api.common.v1 import error_reason_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as pb
from groundwire.api.ingest.v1 import collection_service_pb2_grpc as collections_grpc
from groundwire.kernel import document_errors, errors
from groundwire.kernel.errors import (
    ExhaustedError,
    FieldViolation,
    GroundwireError,
    InternalError,
    InvalidRequestError,
    NotFoundError,
    PreconditionError,
    StoreOwnedError,
)
from groundwire.rpc.error_status import code_of, from_rpc_error, from_status
from groundwire.rpc.server import GrpcServer, ServerOptions, Service
from tests.stubs import Stubs

ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "protos/groundwire/api/common/v1/error_reason.proto"
PREFIX = "ERROR_REASON_"


def all_kinds(kind: type[GroundwireError] = GroundwireError) -> Iterator[type[GroundwireError]]:
    for child in kind.__subclasses__():
        if child is errors.StartError:
            continue  # never answers a call
        if child.__module__ in {errors.__name__, document_errors.__name__}:
            yield child
        yield from all_kinds(child)


KINDS = {kind.reason: kind for kind in all_kinds()}
RESERVED = {
    "CORRUPT": "NOT_FOUND",
}
"""Reasons that no version has sent yet, and their codes."""
REASONS = sorted(
    {name.removeprefix(PREFIX) for name in error_reason_pb2.ErrorReason.DESCRIPTOR.values_by_name}
    - {"UNSPECIFIED", *RESERVED}
)


def test_every_class_has_a_reason_of_the_contract_and_the_other_way_round() -> None:
    assert sorted(KINDS) == REASONS


@pytest.mark.skipif(not PROTO.exists(), reason="needs the sources")
def test_reserved_reasons_and_no_others_say_so_in_the_contract_and_in_the_documentation() -> None:
    commented = re.findall(r"// Reserved: [^\n]*\n *ERROR_REASON_(\w+) = \d+;", PROTO.read_text(encoding="utf-8"))
    assert sorted(commented) == sorted(RESERVED)
    assert sorted(row[0] for row in table() if row[-1].startswith("Reserved. ")) == sorted(RESERVED)


@pytest.mark.parametrize(("reason", "code"), RESERVED.items())
def test_a_client_of_today_takes_a_reserved_reason_by_its_code(reason: str, code: str) -> None:
    status = status_pb2.Status(code=getattr(grpc.StatusCode, code).value[0], message="no")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason, domain="groundwire"))
    expected: dict[str, type[GroundwireError]] = {"NOT_FOUND": NotFoundError, "RESOURCE_EXHAUSTED": ExhaustedError}
    assert type(from_status(status)) is expected.get(code, PreconditionError)


def make(kind: type[GroundwireError]) -> GroundwireError:
    if issubclass(kind, InvalidRequestError):
        return kind([FieldViolation("a", "is bad")], fact=1)
    return kind("name") if issubclass(kind, NotFoundError) else kind("message", fact=1)


class Failing(collections_grpc.CollectionServiceServicer):
    """Raises the error whose reason is the collection."""

    async def GetCollection(self, request: Any, context: Any) -> Any:  # noqa: N802 - the contract's name
        raise make((KINDS | {"STORE_OWNED": StoreOwnedError})[request.collection])


async def failure(reason: str) -> grpc.aio.AioRpcError:
    """Return what a client gets when a call fails with the error of that reason."""
    failing = Failing()  # type: ignore[abstract]  # the other methods are not called
    service = Service("collections", failing, collections_grpc.add_CollectionServiceServicer_to_server)
    server = GrpcServer(ServerOptions(listen="127.0.0.1:0", reflection=False, drain_notice_s=0), [service])
    port = await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = Stubs(channel)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.GetCollection(pb.GetCollectionRequest(collection=reason))
    finally:
        await server.stop(0)
    return caught.value


@pytest.mark.parametrize("reason", REASONS)
async def test_every_reason_reaches_the_client_with_its_code(reason: str) -> None:
    failed = await failure(reason)
    translated = from_rpc_error(failed)
    assert type(translated) is KINDS[reason]
    assert str(translated) == str(make(KINDS[reason]))
    assert failed.code() is code_of(KINDS[reason])


async def test_what_keeps_a_server_from_starting_answers_no_call() -> None:
    failed = await failure("STORE_OWNED")
    assert (failed.code(), failed.details()) == (grpc.StatusCode.INTERNAL, "internal error")
    translated = from_rpc_error(failed)
    assert (type(translated), list(translated.metadata)) == (InternalError, ["error_id"])


def described() -> dict[str, tuple[str, set[str]]]:
    """Return code and metadata keys of each reason as the comments of the contract say."""
    found = re.findall(r"((?: *//[^\n]*\n)+) *ERROR_REASON_(\w+) = \d+;", PROTO.read_text(encoding="utf-8"))
    comments = {reason: " ".join(line.strip(" /") for line in block.splitlines()) for block, reason in found}
    del comments["UNSPECIFIED"]
    return {
        reason: (text.partition(".")[0], set(re.findall(r"`(\w+)`", text.partition("Metadata:")[2])))
        for reason, text in comments.items()
    }


def table() -> list[list[str]]:
    """Return the rows of the documentation: reason, code, retry, metadata, meaning."""
    lines = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]
    return [[cells[0].strip("`"), *cells[1:]] for cells in rows]


@pytest.mark.skipif(not PROTO.exists(), reason="needs the sources")
def test_the_comments_of_the_contract_name_the_codes() -> None:
    assert {reason: code for reason, (code, _) in described().items()} == {
        reason: code_of(kind).name for reason, kind in KINDS.items()
    } | RESERVED


@pytest.mark.skipif(not PROTO.exists(), reason="needs the sources")
def test_the_documentation_lists_every_reason_with_code_and_metadata() -> None:
    listed = {reason: (code, set(re.findall(r"`(\w+)`", keys))) for reason, code, _, keys, _ in table()}

    assert listed == described()


@pytest.mark.skipif(not PROTO.exists(), reason="needs the sources")
def test_the_documentation_promises_a_retry_hint_exactly_where_one_is_sent() -> None:
    retried = {reason for reason, _, retry, _, _ in table() if "RetryInfo" in retry or "back-off" in retry}

    assert retried == {reason for reason, kind in KINDS.items() if kind.retry_after_s is not None}
