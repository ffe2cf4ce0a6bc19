"""What GetServerInfo tells: version, limits and engines, put together once at the start."""

from collections.abc import Iterable
from datetime import timedelta
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from groundwire.answer.extractive.generator import ExtractiveGenerator
from groundwire.answer.settings import parse_generator
from groundwire.api.server.v1 import server_service_pb2 as pb
from groundwire.api.server.v1 import server_service_pb2_grpc as pb_grpc
from groundwire.ingest.servicer.chunk_stream import MAX_PARTS_BYTES
from groundwire.ingest.uploads import MAX_PART_BYTES
from groundwire.ingest.wire.ready_chunks import MAX_CHUNKS
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.query_log import QueryLogMode
from groundwire.kernel.vector_store import VectorStore
from groundwire.retrieve.servicers import MAX_REQUESTS
from groundwire.rpc.messages import to_identity_message
from groundwire.rpc.pagination import MAX_PAGE_BYTES, MAX_PAGE_SIZE
from groundwire.rpc.server import ServerOptions, Service
from groundwire.standalone.settings import ProcessSettings
from groundwire.vectorstores.factory import engine_name

SERVER = "groundwire.api.server.v1.ServerService"
# One library of the extra `formats` for each format that needs one.
_FORMAT_LIBRARIES = ("docutils", "docx", "pypdfium2", "selectolax")


class ServerServicer(pb_grpc.ServerServiceServicer):
    """Answers with what was known at the start."""

    def __init__(self, info: pb.GetServerInfoResponse) -> None:
        self._info = info

    async def GetServerInfo(  # noqa: N802 - the contract's name
        self, _request: pb.GetServerInfoRequest, _context: Any
    ) -> pb.GetServerInfoResponse:
        """Return the same response each time."""
        return self._info


def server_service(
    settings: ProcessSettings, vectors: VectorStore, embedder: Embedder, services: Iterable[Service]
) -> Service:
    """Return the service that tells about this process, which has the given services beside it."""
    info = pb.GetServerInfoResponse(
        version=version("groundwire"),
        services=[*(service.name for service in services), SERVER],
        features=sorted(_features(settings)),
        limits=_limits(settings),
        embedder=to_identity_message(embedder.identity),
        vector_engine=engine_name(vectors),
        generators=list(_generators(settings)),
        # The name of the folder: where it is, is nobody's business.
        rerankers=[Path(settings.retrieve.reranker.partition(":")[2]).name] if settings.retrieve.reranker else [],
    )
    return Service(SERVER, ServerServicer(info), pb_grpc.add_ServerServiceServicer_to_server)


def _generators(settings: ProcessSettings) -> Iterable[str]:
    """Iterate over the names that answers may carry; where a model stands is nobody's business."""
    model = parse_generator(settings.server.generator)
    if model is not None:
        yield model.name
    yield ExtractiveGenerator.name


def _features(settings: ProcessSettings) -> Iterable[str]:
    if settings.answer.rag_enabled:
        yield "answers"
    if all(find_spec(library) is not None for library in _FORMAT_LIBRARIES):
        yield "document_formats"
    if settings.retrieve.query_log is not QueryLogMode.OFF:
        yield "query_logs"
    if not settings.retrieve.self_query.startswith("rules:"):
        yield "self_query_model"


def _limits(settings: ProcessSettings) -> pb.ServerLimits:
    options = ServerOptions()
    limits = pb.ServerLimits(
        max_request_bytes=options.max_receive_bytes,
        max_metadata_bytes=options.max_metadata_bytes,
        max_part_bytes=MAX_PART_BYTES,
        max_put_chunks_count=MAX_CHUNKS,
        max_put_chunks_bytes=MAX_PARTS_BYTES,
        max_document_bytes=settings.ingest.max_document_bytes,
        max_query_chars=settings.retrieve.max_query_chars,
        max_question_chars=min(settings.answer.max_question_chars, settings.retrieve.max_query_chars),
        max_top_k=settings.retrieve.max_top_k,
        max_page_size=MAX_PAGE_SIZE,
        max_page_bytes=MAX_PAGE_BYTES,
        max_batch_requests=MAX_REQUESTS,
    )
    limits.default_time_limit.FromTimedelta(timedelta(seconds=settings.server.default_deadline_s))
    return limits
