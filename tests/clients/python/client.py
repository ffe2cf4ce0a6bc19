"""A client on bare stubs: `python client.py ADDRESS SERVICE_CONFIG FILE` uploads, searches, asks, verifies, decodes."""

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from groundwire.api.answer.v1 import answer_service_pb2 as answer
from groundwire.api.answer.v1 import answer_service_pb2_grpc as answer_grpc
from groundwire.api.common.v1 import document_pb2, filter_pb2, metadata_value_pb2, retrieval_options_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collection
from groundwire.api.ingest.v1 import collection_service_pb2_grpc as collection_grpc
from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest
from groundwire.api.ingest.v1 import ingest_service_pb2_grpc as ingest_grpc
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as retrieve
from groundwire.api.retrieve.v1 import retrieve_service_pb2_grpc as retrieve_grpc

address, config, file = sys.argv[1:]
channel = grpc.insecure_channel(address, options=[("grpc.service_config", Path(config).read_text("utf-8"))])
searches = retrieve_grpc.RetrieveServiceStub(channel)
answers = answer_grpc.AnswerServiceStub(channel)


def upload(header: ingest.UploadHeader, content: bytes) -> int:
    """Send a document in parts of 1 MiB, from where the server says; return the number of its chunks."""
    offsets = SimpleQueue[int]()

    def messages() -> Iterator[ingest.UploadDocumentRequest]:
        yield ingest.UploadDocumentRequest(header=header)
        for offset in range(offsets.get(), len(content), 1 << 20):
            part = ingest.UploadPart(offset=offset, data=content[offset : offset + (1 << 20)])
            yield ingest.UploadDocumentRequest(part=part)

    for event in ingest_grpc.IngestServiceStub(channel).UploadDocument(messages()):
        if event.HasField("accepted"):
            offsets.put(event.accepted.durable_offset)
    return event.result.counts.chunk_count


def ask(question: str) -> answer.AskRequest:
    return answer.AskRequest(session_id=session.session_id, message_id=str(uuid.uuid4()), question=question)


create = collection.CreateCollectionRequest(collection="tides", request_id=str(uuid.uuid4()))
collection_grpc.CollectionServiceStub(channel).CreateCollection(create)
fields = document_pb2.DocumentFields(metadata={"year": metadata_value_pb2.MetadataValue(int64_value=2024)})
header = ingest.UploadHeader(collection="tides", source_uri="tides.md", fields=fields, request_id=str(uuid.uuid4()))
header.total_bytes = Path(file).stat().st_size
print("chunks:", upload(header, Path(file).read_bytes()))

options = retrieval_options_pb2.RetrievalOptions(filter=filter_pb2.Filter(json='{"year": {"$gte": 2020}}'))
search = retrieve.RetrieveRequest(collection="tides", query="What causes tides?", options=options)
print("found:", searches.Retrieve(search).results[0].chunk.source_uri)

start = answer.CreateSessionRequest(collection="tides", request_id=str(uuid.uuid4()))
session = answers.CreateSession(start).session
first = answers.Ask(ask("What causes the tides of the sea?")).answer
print("answer:", first.content)
for response in answers.AskStream(answer.AskStreamRequest(ask=ask("When is a spring tide?"))):
    if response.event.HasField("text_delta"):
        print("delta:", response.event.text_delta.text)

checks = answer.VerifyCitationsRequest(citations=first.citations)
print("verified:", str(answers.VerifyCitations(checks).all_verified).lower())

try:
    searches.Retrieve(retrieve.RetrieveRequest(collection="tides"))
except grpc.RpcError as error:
    info, request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    for detail in rpc_status.from_call(error).details:
        if detail.Unpack(info):
            print("reason:", info.reason)
        if detail.Unpack(request):
            print("fields:", [each.field for each in request.field_violations])
