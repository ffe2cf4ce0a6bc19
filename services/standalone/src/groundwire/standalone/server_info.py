"""GetServerInfo: version, limits and engines, collected once at the start."""

from collections.abc import Iterable
from datetime import timedelta
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from groundwire.answer.settings import EXTRACTIVE, parse_generator
from groundwire.api.server.v1 import server_service_pb2 as pb
from groundwire.api.server.v1 import server_service_pb2_grpc as pb_grpc
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.query_log import QueryLogMode
from groundwire.kernel.vector_store import VectorStore
from groundwire.rpc.messages import to_identity_message
from groundwire.rpc.pagination import MAX_PAGE_BYTES, MAX_PAGE_SIZE
from groundwire.rpc.server import MAX_METADATA_BYTES, MAX_RECEIVE_BYTES, Service
from groundwire.standalone.settings import ProcessSettings

_INGEST, _RETRIEVE, _ANSWER = "IngestService", "RetrieveService", "AnswerService"
SERVER = "groundwire.api.server.v1.ServerService"
# One library of the extra `formats` for each format that needs one.
_FORMAT_LIBRARIES = ("docutils", "docx", "pypdfium2", "selectolax")


class ServerServicer(pb_grpc.ServerServiceServicer):
    """Answers with the facts collected at the start."""

    def __init__(self, info: pb.GetServerInfoResponse) -> None:
        self._info = info

    async def GetServerInfo(  # noqa: N802 - the contract's name
        self, _request: pb.GetServerInfoRequest, _context: Any
    ) -> pb.GetServerInfoResponse:
        return self._info


def server_service(
    settings: ProcessSettings,
    services: Iterable[Service],
    vectors: VectorStore | None = None,
    embedder: Embedder | None = None,
) -> Service:
    """Return the service that describes this process and its other services.

    What belongs to services of other processes is left empty.
    """
    names = {service.name.rpartition(".")[2] for service in services}
    limits = pb.ServerLimits(
        max_request_bytes=MAX_RECEIVE_BYTES,
        max_metadata_bytes=MAX_METADATA_BYTES,
        max_page_size=MAX_PAGE_SIZE,
        max_page_bytes=MAX_PAGE_BYTES,
    )
    # Each service is imported where it runs: others need packages that are not installed beside it.
    if _INGEST in names:
        from groundwire.ingest.servicer.put_chunks import MAX_CHUNKS, MAX_PARTS_BYTES  # noqa: PLC0415
        from groundwire.ingest.uploads import MAX_PART_BYTES  # noqa: PLC0415

        limits.max_part_bytes = MAX_PART_BYTES
        limits.max_put_chunks_count = MAX_CHUNKS
        limits.max_put_chunks_bytes = MAX_PARTS_BYTES
        limits.max_document_bytes = settings.ingest.max_document_bytes
    if _RETRIEVE in names:
        from groundwire.retrieve.servicers import MAX_REQUESTS  # noqa: PLC0415

        limits.max_query_chars = settings.retrieve.max_query_chars
        limits.max_top_k = settings.retrieve.max_top_k
        limits.max_batch_requests = MAX_REQUESTS
    if _ANSWER in names:
        longest = settings.answer.max_question_chars
        limits.max_question_chars = min(longest, settings.retrieve.max_query_chars) if _RETRIEVE in names else longest
    limits.default_time_limit.FromTimedelta(timedelta(seconds=settings.server.default_deadline_s))
    answer, retrieve = settings.answer, settings.retrieve
    features = {
        "answers": _ANSWER in names and answer.rag_enabled,
        "document_formats": _INGEST in names and all(find_spec(library) for library in _FORMAT_LIBRARIES),
        "query_logs": _RETRIEVE in names and retrieve.query_log is not QueryLogMode.OFF,
        "self_query_model": _RETRIEVE in names and not retrieve.self_query.startswith("rules:"),
    }
    info = pb.GetServerInfoResponse(
        version=version("groundwire"),
        services=[*(service.name for service in services), SERVER],
        features=sorted(name for name, is_on in features.items() if is_on),
        limits=limits,
        embedder=None if embedder is None else to_identity_message(embedder.identity),
    )
    if vectors is not None:
        from groundwire.vectorstores.factory import engine_name  # noqa: PLC0415 - where there is an engine

        info.vector_engine = engine_name(vectors)
    if _ANSWER in names:
        # Only the names that answers may carry: the address of a model is private.
        model = parse_generator(settings.server.generator)
        info.generators.extend([*([model.name] if model else []), EXTRACTIVE.removesuffix(":")])
    if _RETRIEVE in names and settings.retrieve.reranker:
        # Only the name of the folder: its path is private.
        info.rerankers.append(Path(settings.retrieve.reranker.partition(":")[2]).name)
    return Service(SERVER, ServerServicer(info), pb_grpc.add_ServerServiceServicer_to_server)
