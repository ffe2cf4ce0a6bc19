"""What servers of tests find done in the process that forks them: calls, whose statements are then compiled.

A server compiles a statement when it first runs it, which takes longer than most calls. `tests/e2e/test_starting.py`
looks at servers that do it themselves.
"""

import asyncio
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from groundwire.answer.bootstrap import build as build_answer
from groundwire.answer.settings import AnswerSettings
from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.common.v1 import record_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import record_service_pb2 as records_pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.kernel import latencies
from groundwire.rpc.in_process import InProcessStub
from tests.integration.documents.store import Store

_RULE = "The moon causes the tides of the sea."


def rehearse() -> None:
    """Make the usual calls of each service, without a network or a thread that stays: this process is to fork."""
    with TemporaryDirectory() as folder:
        store = Store(Path(folder)).create()
        store.harness.service.recover()
        store.ingest("tides.txt", _RULE)
        document = store.ingest("tides.txt", f"{_RULE} So does the sun.")
        store.get(document.document_id)
        store.documents()
        store.chunks(document.document_id, include_embedding=True)
        store.search("tides", {"format": "text"})
        asyncio.run(_converse(store))
        store.update(document.document_id, "fields.title", title="Tides")
        store.delete(document.document_id)
        store.changes.delete_collection(collections_pb.DeleteCollectionRequest(collection="docs", force=True))
        store.close()
    latencies._steps.clear()  # what a server counts begins with it
    assert threading.active_count() == 1


async def _converse(store: Store) -> None:
    service, searching = store.harness.service, store.searching
    library, records = InProcessStub(searching.library_servicer), InProcessStub(service.records)
    answering = build_answer(
        retrieve=InProcessStub(searching.servicer),
        library=library,
        records=records,
        sessions=store.harness.catalog,
        settings=AnswerSettings(),
        workers=store.harness.workers,
    )
    await InProcessStub(service.collections).ListCollections(collections_pb.ListCollectionsRequest())
    await library.ListStats(library_pb.ListStatsRequest(collection="docs"))
    answer = InProcessStub(answering.servicer)
    asked = answer_pb.AskRequest(question="What causes the tides?", collection="docs")
    await answer.Ask(asked)
    session = (await answer.CreateSession(answer_pb.CreateSessionRequest(collection="docs"))).session
    asked = answer_pb.AskRequest(question=asked.question, session_id=session.session_id, message_id=str(uuid4()))
    await answer.Ask(asked)
    await answer.GetSession(answer_pb.GetSessionRequest(session_id=session.session_id))
    memory = record_pb2.Record(record_type=record_pb2.RECORD_TYPE_MEMORY, text=_RULE)
    memory.timestamp.GetCurrentTime()
    await records.BatchUpsertRecords(records_pb.BatchUpsertRecordsRequest(collection="docs", records=[memory]))
    await records.ListRecords(records_pb.ListRecordsRequest(collection="docs"))
    answering.close()
