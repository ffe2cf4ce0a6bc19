"""Ingests many files: small ones in batches, each large one as an upload."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from groundwire.api.common.v1 import document_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.client.contract import Contract
from groundwire.client.results import IngestResult
from groundwire.client.transport import Transport
from groundwire.client.upload import upload
from groundwire.kernel.errors import AlreadyExistsError, ConflictError, GroundwireError, InvalidRequestError
from groundwire.rpc.error_status import from_status

UNARY_BYTES: Final = 1024 * 1024
"""Larger files are uploaded as a stream, which goes on after a broken connection."""
_BATCH_BYTES: Final = 2 * 1024 * 1024
"""A batch that has so much is sent; with the last document it stays below the 4 MiB that servers take."""
_BATCH_DOCUMENTS: Final = 100


async def ingest_files(
    transport: Transport,
    collection: str,
    files: Iterable[tuple[str, Path]],
    fields: document_pb2.DocumentFields | None,
) -> list[IngestResult | GroundwireError]:
    """Return what became of each file, given with its source, in their order."""
    outcomes: list[IngestResult | GroundwireError] = []
    batch = pb.BatchIngestDocumentsRequest(collection=collection)
    for source, path in files:
        size = (await transport.off_loop(path.stat)).st_size
        if size > UNARY_BYTES:
            outcomes += await _send(transport, batch)
            header = pb.UploadHeader(collection=collection, source_uri=source, fields=fields)
            outcomes.append(await _upload(transport, path, header))
            continue
        content = await transport.off_loop(path.read_bytes)
        batch.requests.add(source_uri=source, content=content, fields=fields)
        if batch.ByteSize() >= _BATCH_BYTES or len(batch.requests) == _BATCH_DOCUMENTS:
            outcomes += await _send(transport, batch)
    return outcomes + await _send(transport, batch)


async def _send(transport: Transport, batch: pb.BatchIngestDocumentsRequest) -> list[IngestResult | GroundwireError]:
    """Send what there is and empty the batch."""
    if not batch.requests:
        return []
    response = await transport.send(Contract.batch_ingest_documents, batch)
    batch.ClearField("requests")
    return [
        from_status(outcome.error) if outcome.HasField("error") else IngestResult.of(outcome.result)
        for outcome in response.outcomes
    ]


async def _upload(transport: Transport, path: Path, header: pb.UploadHeader) -> IngestResult | GroundwireError:
    """Return what became of a document; what concerns more than the document is raised."""
    try:
        return IngestResult.of((await upload(transport, path, header, None)).result)
    except (InvalidRequestError, AlreadyExistsError, ConflictError) as error:
        return error
