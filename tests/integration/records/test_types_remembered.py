"""What type of record a chunk is, remembered by searches while records come and go."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import record_service_pb2 as pb
from groundwire.catalog.search_view import SearchViews
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.rpc.filter_messages import to_filter_message
from tests.integration.ingest.harness import Harness, blocking
from tests.integration.records.keeping import FAQ, record


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    opened = Harness(tmp_path).without_housekeeping()
    yield opened
    opened.close()


def test_a_record_that_is_restored_is_of_its_type_whatever_was_seen_while_it_was_deleted(harness: Harness) -> None:
    harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection="docs"))
    records, text = harness.service.records, "Q: When?\nA: At noon."
    written = blocking(records.BatchUpsertRecords)(
        pb.BatchUpsertRecordsRequest(collection="docs", records=[record(FAQ, text)])
    )
    record_ids = [written.outcomes[0].result.record_id]
    views = SearchViews(harness.catalog, cache_bytes=1 << 20)
    (number,) = views.open(DEFAULT_TENANT, "docs").matching(None).tolist()
    every_one = to_filter_message(parse_filter({"type": "faq"}))
    blocking(records.DeleteRecords)(pb.DeleteRecordsRequest(collection="docs", filter=every_one))
    during = views.open(DEFAULT_TENANT, "docs")
    # What is written behind the view makes it read what there was, and an engine may bring the chunk still.
    blocking(records.BatchUpsertRecords)(
        pb.BatchUpsertRecordsRequest(collection="docs", records=[record(FAQ, "Q: Where?\nA: Here.")])
    )
    assert during.types_of_records([number]) == [""]
    blocking(records.RestoreRecords)(pb.RestoreRecordsRequest(collection="docs", record_ids=record_ids))
    view = views.open(DEFAULT_TENANT, "docs")
    assert view.types_of_records([number]) == ["faq"]
    assert view.records([number])[number].record_type == "faq"
