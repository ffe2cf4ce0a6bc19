"""Every service of the contract: descriptors, paths of methods, and the generated stubs as one."""

from collections.abc import Iterator, Sequence
from typing import Any

from google.longrunning import operations_pb2_grpc

from groundwire.api.answer.v1 import answer_service_pb2, answer_service_pb2_grpc
from groundwire.api.common.v1 import document_pb2
from groundwire.api.ingest.v1 import (
    collection_service_pb2,
    collection_service_pb2_grpc,
    ingest_service_pb2,
    ingest_service_pb2_grpc,
    maintenance_service_pb2,
    maintenance_service_pb2_grpc,
    record_service_pb2,
    record_service_pb2_grpc,
)
from groundwire.api.retrieve.v1 import (
    library_service_pb2,
    library_service_pb2_grpc,
    retrieve_service_pb2,
    retrieve_service_pb2_grpc,
)
from groundwire.api.server.v1 import server_service_pb2, server_service_pb2_grpc

SERVICES = {
    service.name: service
    for file in (
        ingest_service_pb2,
        collection_service_pb2,
        maintenance_service_pb2,
        record_service_pb2,
        retrieve_service_pb2,
        library_service_pb2,
        answer_service_pb2,
        server_service_pb2,
    )
    for service in file.DESCRIPTOR.services_by_name.values()
}
"""By name, without the package."""

METHOD_PATHS = {
    method.name: f"/{service.full_name}/{method.name}" for service in SERVICES.values() for method in service.methods
}
"""The path of each method by its name, which is unique in the contract."""


class Stubs:
    """Every call of the contract under its own name, on one channel."""

    def __init__(self, channel: Any) -> None:
        for stub in (
            ingest_service_pb2_grpc.IngestServiceStub,
            collection_service_pb2_grpc.CollectionServiceStub,
            maintenance_service_pb2_grpc.MaintenanceServiceStub,
            record_service_pb2_grpc.RecordServiceStub,
            retrieve_service_pb2_grpc.RetrieveServiceStub,
            library_service_pb2_grpc.LibraryServiceStub,
            answer_service_pb2_grpc.AnswerServiceStub,
            operations_pb2_grpc.OperationsStub,
            server_service_pb2_grpc.ServerServiceStub,
        ):
            vars(self).update(vars(stub(channel)))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the contract has no call {name}")


def put_chunks_messages(
    header: ingest_service_pb2.PutChunksHeader, chunks: Sequence[ingest_service_pb2.ReadyChunk], each: int
) -> Iterator[ingest_service_pb2.PutChunksRequest]:
    """Yield the messages of PutChunks, with so many chunks in each."""
    yield ingest_service_pb2.PutChunksRequest(header=header)
    for first in range(0, len(chunks), each):
        part = ingest_service_pb2.PutChunksPart(chunks=chunks[first : first + each])
        yield ingest_service_pb2.PutChunksRequest(part=part)


def by_id(document_id: str) -> document_pb2.DocumentReference:
    return document_pb2.DocumentReference(document_id=document_id)


def by_source(source_uri: str) -> document_pb2.DocumentReference:
    return document_pb2.DocumentReference(source_uri=source_uri)
