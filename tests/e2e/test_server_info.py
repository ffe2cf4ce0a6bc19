"""What a server tells of itself is what it does."""

import uuid
from importlib.metadata import version
from pathlib import Path

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2_grpc

from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.ingest.v1.collection_service_pb2 import ListCollectionsRequest
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as retrieve_pb
from groundwire.client import GroundwireClient
from groundwire.kernel.document_errors import DocumentTooLargeError
from groundwire.kernel.errors import ExhaustedError, InvalidRequestError
from tests.e2e.server import ServerProcess
from tests.stubs import SERVICES, Stubs

MEMORY = ("--embedder", "hashing:64", "--vectors", "memory:")


@pytest.mark.requirement("S4-43")
def test_version_services_and_engines_are_told(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", MEMORY)
    try:
        with GroundwireClient(server.address) as client:
            info = client.server_info()
            created = client.create_collection(collection="c").collection
    finally:
        server.stop()
    assert info.version == version("groundwire")
    ours = {service.full_name for service in SERVICES.values()}
    assert set(info.services) == {*ours, "google.longrunning.Operations"}
    assert info.embedder == created.embedding
    assert (info.embedder.dimensions, info.vector_engine) == (64, "memory")
    assert info.features == ["answers", "document_formats", "query_logs"]
    assert (list(info.generators), list(info.rerankers)) == (["extractive"], [])


def test_what_is_switched_off_is_not_there(tmp_path: Path) -> None:
    off = {
        "GROUNDWIRE_ANSWER_RAG_ENABLED": "false",
        "GROUNDWIRE_REFLECTION": "false",
        "GROUNDWIRE_RETRIEVE_QUERY_LOG": "off",
    }
    with ServerProcess(tmp_path / "data", MEMORY, **off) as server:
        with GroundwireClient(server.address) as client:
            assert client.server_info().features == ["document_formats"]
        with grpc.insecure_channel(server.address) as channel, pytest.raises(grpc.RpcError) as caught:
            list(reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter(())))
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_call_has_the_time_that_the_setting_says(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data", MEMORY, GROUNDWIRE_DEFAULT_DEADLINE_S="0.0001") as server,
        grpc.insecure_channel(server.address) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        Stubs(channel).ListCollections(ListCollectionsRequest())
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_the_limits_are_those_at_which_requests_are_refused(tmp_path: Path) -> None:
    variables = {
        "GROUNDWIRE_RETRIEVE_MAX_TOP_K": "7",
        "GROUNDWIRE_RETRIEVE_MAX_QUERY_CHARS": "90",
        "GROUNDWIRE_ANSWER_MAX_QUESTION_CHARS": "80",
        "GROUNDWIRE_INGEST_MAX_DOCUMENT_BYTES": "1000",
        "GROUNDWIRE_DEFAULT_DEADLINE_S": "12.5",
    }
    server = ServerProcess(tmp_path / "data", MEMORY, **variables)
    try:
        with GroundwireClient(server.address) as client:
            limits = client.server_info().limits
            client.create_collection(collection="c")
            check_searches(client, limits.max_top_k, limits.max_query_chars, limits.max_batch_requests)
            check_documents(client, limits.max_document_bytes, limits.max_request_bytes)
            client.ask(collection="c", question="q" * limits.max_question_chars)
            with pytest.raises(InvalidRequestError):
                client.ask(collection="c", question="q" * (limits.max_question_chars + 1))
            assert len(client.list_documents(collection="c", page_size=limits.max_page_size + 1).documents) == 1
    finally:
        server.stop()
    assert (limits.max_top_k, limits.max_query_chars, limits.max_question_chars) == (7, 90, 80)
    assert (limits.max_document_bytes, limits.default_time_limit.ToMilliseconds()) == (1000, 12_500)


def check_searches(client: GroundwireClient, top_k: int, query_chars: int, requests: int) -> None:
    client.retrieve(collection="c", query="q" * query_chars, options=RetrievalOptions(top_k=top_k))
    with pytest.raises(InvalidRequestError):
        client.retrieve(collection="c", query="q", options=RetrievalOptions(top_k=top_k + 1))
    with pytest.raises(InvalidRequestError):
        client.retrieve(collection="c", query="q" * (query_chars + 1))
    search = retrieve_pb.RetrieveRequest(collection="c", query="q")
    client.batch_retrieve(requests=[search] * requests)
    with pytest.raises(InvalidRequestError):
        client.batch_retrieve(requests=[search] * (requests + 1))


def check_documents(client: GroundwireClient, document_bytes: int, request_bytes: int) -> None:
    client.ingest_document(collection="c", source_uri="a.md", text="x" * document_bytes)
    with pytest.raises(DocumentTooLargeError):
        client.ingest_document(collection="c", source_uri="b.md", text="x" * (document_bytes + 1))
    fitting = ingest_pb.IngestDocumentRequest(collection="c", source_uri="b.md", request_id=str(uuid.uuid4()))
    fitting.text = "x" * (request_bytes - fitting.ByteSize() - 5)  # a tag and a length of four bytes
    assert fitting.ByteSize() == request_bytes
    with pytest.raises(DocumentTooLargeError):  # refused by its size as a document, not as a message
        client.ingest_document.send(fitting)
    fitting.text += "x"
    with pytest.raises(ExhaustedError):
        client.ingest_document.send(fitting)
