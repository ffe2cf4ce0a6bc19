"""Records in what is done to whole collections: checks, new indexes, views of the past."""

from datetime import timedelta

import pytest
from google.longrunning import operations_pb2
from google.protobuf.duration_pb2 import Duration

from groundwire.api.common.v1 import record_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1 import collection_pb2, maintenance_service_pb2
from tests.integration.records.keeping import FAQ, Keeping, memory, memory_id, record


def _ended(keeping: Keeping, begun: operations_pb2.Operation) -> operations_pb2.Operation:
    ended = keeping.client.wait_operation(name=begun.name, timeout=Duration(seconds=60))
    assert ended.done
    assert not ended.HasField("error")
    return ended


def test_a_new_index_and_a_check_know_the_fields_of_records(keeping: Keeping) -> None:
    keeping.put(
        memory("note one", importance=5, scope="entity:ann"),
        memory("note two", importance=1),
        record(FAQ, "note three", faq=record_pb2.FaqDetails(topic="api")),
    )
    _ended(keeping, keeping.client.reindex(collection=keeping.collection))
    assert keeping.found("note", {"scope": "entity:ann", "importance": 5}) == ["note one"]
    assert keeping.found("note", {"record_type": "faq", "topic": "api"}) == ["note three"]
    checked = maintenance_service_pb2.StoreReport()
    _ended(keeping, keeping.client.check_store(collection=keeping.collection)).response.Unpack(checked)
    assert (checked.checked_count, checked.finding_count) == (3, 0)


@pytest.mark.requirement("S2-31")
def test_a_record_is_read_as_it_was(keeping: Keeping) -> None:
    retention = collection_pb2.CollectionSettings()
    retention.generation_retention.FromTimedelta(timedelta(days=1))
    changed = collection_pb2.Collection(name=keeping.collection, settings=retention)
    keeping.client.update_collection(collection=changed)
    name = memory_id(1)
    keeping.put(memory("note before", record_id=name, importance=2))
    then = keeping.client.retrieve(collection=keeping.collection, query="note").snapshot
    keeping.put(memory("note after", record_id=name, importance=5))
    past = RetrievalOptions(top_k=5, min_relevance=0.0, snapshot=then)
    past.filter.json = '{"type": "memory", "importance": 2}'
    found = keeping.client.retrieve(collection=keeping.collection, query="note", options=past).results
    assert [hit.chunk.content for hit in found] == ["note before"]
    assert keeping.found("note", {"type": "memory", "importance": 2}) == []
    assert keeping.found("note", {"type": "memory", "importance": 5}) == ["note after"]
