"""The audit log names the request that changed a document: effect, answer and row are of one transaction."""

import random
import uuid

from groundwire.api.common.v1 import chunk_pb2
from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.catalog.audit import Audit
from groundwire.kernel.identifiers import DEFAULT_TENANT
from tests.integration.documents.store import Store, number, story
from tests.stubs import by_id, by_source


def test_each_change_of_a_document_is_recorded_with_its_request(store: Store) -> None:
    text, calls = story(random.Random(1)), store.changes
    document = store.ingest("a.md", text)
    store.harness.ingest("docs", "b.md", text, duplicate_policy=ingest_result_pb2.DUPLICATE_POLICY_REUSE)
    reference, chunk_id = by_id(document.document_id), store.chunks(document.document_id)[0].chunk_id
    ids = [str(uuid.uuid4()) for _ in range(5)]
    audit = Audit(store.harness.catalog)
    before = len(audit.rows(DEFAULT_TENANT, 0, 100))
    store.update(document.document_id, title="New", request_id=ids[0])
    calls.update_chunk(
        pb.UpdateChunkRequest(
            collection="docs",
            chunk=chunk_pb2.Chunk(chunk_id=chunk_id),
            set_metadata={"a": number(1)},
            request_id=ids[1],
        )
    )
    calls.delete_document(pb.DeleteDocumentRequest(collection="docs", reference=by_source("b.md"), request_id=ids[2]))
    calls.delete_document(pb.DeleteDocumentRequest(collection="docs", reference=reference, request_id=ids[3]))
    store.restore(document.document_id, ids[4])
    rows = audit.rows(DEFAULT_TENANT, 0, 100)[before:]
    assert [row.request_id for row in rows] == ids
