"""Follows operations: long work that a server continues whether or not a client watches."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from google.longrunning import operations_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb
from groundwire.client.contract import Contract
from groundwire.client.results import Progress
from groundwire.client.transport import Transport
from groundwire.rpc.error_status import from_status

ResponseT = TypeVar("ResponseT", bound=Message)

# Short, so that progress is reported and an interrupt is noticed soon.
_LOOK = Duration(nanos=300_000_000)


class BlockingClient(Protocol):
    """What `wait_for` needs of a `GroundwireClient`."""

    @property
    def wait_operation(self) -> Callable[..., operations_pb2.Operation]: ...


def metadata_of(operation: operations_pb2.Operation) -> pb.OperationMetadata:
    """Return what is known of an operation beside its outcome."""
    metadata = pb.OperationMetadata()
    operation.metadata.Unpack(metadata)
    return metadata


def response_of(operation: operations_pb2.Operation, kind: type[ResponseT]) -> ResponseT:
    """Return the response of an operation that has ended.

    Raises:
        GroundwireError: it failed or was cancelled.
    """
    if operation.HasField("error"):
        raise from_status(operation.error)
    response = kind()
    operation.response.Unpack(response)
    return response


def wait_for(
    client: BlockingClient,
    operation: operations_pb2.Operation,
    kind: type[ResponseT],
    on_progress: Callable[[pb.OperationMetadata], None] = lambda _: None,
) -> ResponseT:
    """Wait for the end of an operation, which continues even if the caller stops waiting, and return its response.

    Raises:
        GroundwireError: it failed or was cancelled, or the server does not answer.
    """
    while not operation.done:
        on_progress(metadata_of(operation))
        operation = client.wait_operation(name=operation.name, timeout=_LOOK)
    return response_of(operation, kind)


async def end_of(
    transport: Transport,
    operation: operations_pb2.Operation,
    kind: type[ResponseT],
    on_progress: Callable[[Progress], None] | None = None,
) -> ResponseT:
    """Do the same on a transport, of either client.

    Raises:
        GroundwireError: it failed or was cancelled, or the server does not answer.
    """
    while not operation.done:
        progress = metadata_of(operation)
        if on_progress is not None and progress.HasField("progress"):
            on_progress(Progress.of(progress.progress))
        look = operations_pb2.WaitOperationRequest(name=operation.name, timeout=_LOOK)
        operation = await transport.send(Contract.wait_operation, look)
    return response_of(operation, kind)
