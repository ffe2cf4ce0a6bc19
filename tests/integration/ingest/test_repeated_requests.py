"""A changing call that is sent again has one effect and one answer, whatever happened in between."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, closing
from inspect import isasyncgen
from typing import Any

import pytest
from google.longrunning import operations_pb2
from google.protobuf.message import Message

from groundwire.api.common.v1 import chunk_pb2, document_pb2, filter_pb2
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1 import maintenance_service_pb2 as maintenance_pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.kernel.errors import RequestIdReusedError
from groundwire.rpc.methods import is_read
from tests.integration.ingest.harness import Harness
from tests.integration.ingest.test_long_work import ended
from tests.stubs import METHOD_PATHS, by_id, by_source, put_chunks_messages

REQUEST_ID = "0d6c1f6e-5f0e-4a34-9a7c-3f3c1d2b4a5e"
TEXT = "The moon pulls the tide, and the tide pulls the sand of the beach. " * 20
NAMED = document_pb2.DocumentFields(title="Named")


def settings(top_k: int) -> collection_pb2.CollectionSettings:
    made = collection_pb2.CollectionSettings()
    made.retrieval.top_k = top_k
    return made


def upload(source: str) -> list[pb.UploadDocumentRequest]:
    content = f"An upload of {source}. {TEXT}".encode()
    header = pb.UploadHeader(collection="docs", source_uri=source, total_bytes=len(content), request_id=REQUEST_ID)
    part = pb.UploadPart(offset=0, data=content)
    return [pb.UploadDocumentRequest(header=header), pb.UploadDocumentRequest(part=part)]


def chunks(content: str) -> list[pb.PutChunksRequest]:
    header = pb.PutChunksHeader(collection="docs", source_uri="put.md", request_id=REQUEST_ID)
    return list(put_chunks_messages(header, [pb.ReadyChunk(content=content)], 1))


def batch(*sources: str) -> pb.BatchIngestDocumentsRequest:
    items = [pb.IngestDocumentRequest(source_uri=source, text=f"Of {source}. {TEXT}") for source in sources]
    return pb.BatchIngestDocumentsRequest(collection="docs", requests=items)


def chunk_of(tag: str) -> chunk_pb2.Chunk:
    return chunk_pb2.Chunk(chunk_id="one#chunk_000", tags=[tag])


REQUESTS: dict[str, tuple[Any, Any]] = {
    "IngestDocument": (
        pb.IngestDocumentRequest(collection="docs", source_uri="new.md", text=TEXT),
        pb.IngestDocumentRequest(collection="docs", source_uri="new.md", text="Another text."),
    ),
    "BatchIngestDocuments": (batch("new.md", "newer.md"), batch("new.md", "other.md")),
    "UploadDocument": (upload("new.md"), upload("other.md")),
    "PutChunks": (chunks("The moon pulls the sea."), chunks("The wind moves the sea.")),
    "UpdateDocument": (
        pb.UpdateDocumentRequest(
            collection="docs", reference=by_id("one"), document=document_pb2.Document(fields=NAMED)
        ),
        pb.UpdateDocumentRequest(collection="docs", reference=by_id("one"), remove_metadata=["*"]),
    ),
    "DeleteDocument": (
        pb.DeleteDocumentRequest(collection="docs", reference=by_source("one.md")),
        pb.DeleteDocumentRequest(collection="docs", reference=by_id("one"), purge=True),
    ),
    "RestoreDocument": (
        pb.RestoreDocumentRequest(collection="docs", reference=by_source("hidden.md")),
        pb.RestoreDocumentRequest(collection="docs", reference=by_id("hidden")),
    ),
    "UpdateChunk": (
        pb.UpdateChunkRequest(collection="docs", chunk=chunk_of("first")),
        pb.UpdateChunkRequest(collection="docs", chunk=chunk_of("second")),
    ),
    "CreateCollection": (
        collections_pb.CreateCollectionRequest(collection="new"),
        collections_pb.CreateCollectionRequest(collection="other"),
    ),
    "UpdateCollection": (
        collections_pb.UpdateCollectionRequest(collection=collection_pb2.Collection(name="docs", settings=settings(7))),
        collections_pb.UpdateCollectionRequest(collection=collection_pb2.Collection(name="docs", settings=settings(8))),
    ),
    "DeleteCollection": (
        collections_pb.DeleteCollectionRequest(collection="spare", force=True),
        collections_pb.DeleteCollectionRequest(collection="docs", force=True),
    ),
    "PurgeDocuments": (
        pb.PurgeDocumentsRequest(collection="docs", filter=filter_pb2.Filter(json='{"title": "Named"}'), force=True),
        pb.PurgeDocumentsRequest(collection="docs", filter=filter_pb2.Filter(json="*"), force=True),
    ),
    "Reindex": (maintenance_pb.ReindexRequest(collection="docs"), maintenance_pb.ReindexRequest(collection="spare")),
    "Reembed": (maintenance_pb.ReembedRequest(collection="docs"), maintenance_pb.ReembedRequest(collection="spare")),
    "CheckStore": (
        maintenance_pb.CheckStoreRequest(collection="docs"),
        maintenance_pb.CheckStoreRequest(collection="docs", repair=True),
    ),
}
"""For each changing call a request and another one."""


def send(harness: Harness, method: str, request: Any) -> Any:
    """Return the answer without what is of the moment: the token of a write, and how far an operation is."""
    service = harness.service
    servicers = (service.servicer, service.collection_servicer, service.maintenance_servicer)
    call = next(getattr(each, method) for each in servicers if method in vars(type(each)))
    if isinstance(request, list):
        return asyncio.run(_last_of(call, request)).result.document
    request.request_id = REQUEST_ID
    answer: Message = asyncio.run(call(request, None))
    if isinstance(answer, operations_pb2.Operation):
        return ended(harness, answer.name).name
    for holder in (answer, getattr(answer, "result", None)):
        if holder is not None and "consistency_token" in holder.DESCRIPTOR.fields_by_name:
            holder.ClearField("consistency_token")
    return answer


async def _last_of(call: Any, messages: list[Any]) -> Any:
    async def sent() -> AsyncIterator[Any]:
        for message in messages:
            yield message

    made = call(sent(), None)
    return [event async for event in made][-1] if isasyncgen(made) else await made


def stored(harness: Harness) -> list[Any]:
    """Return everything that calls can change, as readers see it."""
    listed = harness.collection_calls.list(collections_pb.ListCollectionsRequest())
    names = [collection.name for collection in listed.collections]
    of = [library_pb.ListDocumentsRequest(collection=name, include_deleted=True) for name in names]
    chunks = [library_pb.ListChunksRequest(collection=name, page_size=1000) for name in names]
    return [
        listed.collections,
        *(harness.library.list_documents(each).documents for each in of),
        *(harness.library.list_chunks(each).chunks for each in chunks),
    ]


def fill(harness: Harness) -> Harness:
    for name in ("docs", "spare"):
        harness.create(name)
    for document_id in ("one", "hidden"):
        harness.ingest("docs", f"{document_id}.md", f"{document_id}. {TEXT}", document_id=document_id, fields=NAMED)
    harness.calls.delete_document(pb.DeleteDocumentRequest(collection="docs", reference=by_id("hidden")))
    return harness


def test_every_changing_call_has_a_row() -> None:
    paths = [path for path in METHOD_PATHS.values() if path.startswith("/groundwire.api.ingest.v1.")]
    assert set(REQUESTS) == {path.rpartition("/")[2] for path in paths if not is_read(path)}


@pytest.mark.parametrize("between", ["nothing", "pruning", "restart", "death"])
@pytest.mark.parametrize("method", REQUESTS)
def test_a_repeated_request_has_one_effect_and_one_answer(
    process: Callable[..., Harness], tmp_path_factory: pytest.TempPathFactory, method: str, between: str
) -> None:
    harness, (request, other) = fill(process()), REQUESTS[method]
    first = send(harness, method, request)
    with ExitStack() as opened:
        if between == "pruning":
            harness.forget()
        elif between == "restart":
            harness = process(harness.vectors)
        elif between == "death":
            # What the files hold while the process runs is what a kill leaves of it.
            left = tmp_path_factory.mktemp("left") / "data"
            shutil.copytree(harness.folder, left)
            harness = opened.enter_context(closing(Harness(left, harness.vectors).without_housekeeping()))
            harness.service.recover()
        before = stored(harness)
        assert send(harness, method, request) == first
        assert stored(harness) == before
        with pytest.raises(RequestIdReusedError):
            send(harness, method, other)
        assert stored(harness) == before
