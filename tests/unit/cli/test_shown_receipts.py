"""What is printed of a deletion whose traces are still in files."""

import pytest

from groundwire.api.ingest.v1 import deletion_pb2, maintenance_service_pb2
from groundwire.cli.docs import show_receipt
from groundwire.cli.monitoring import show_housekeeping


def receipt(*, complete: bool) -> deletion_pb2.DeletionReceipt:
    made = deletion_pb2.DeletionReceipt(receipt_id="r", purged=True, document_count=1, chunk_count=2)
    made.hide_time.FromSeconds(1_800_000_000)
    if complete:
        made.complete_time.FromSeconds(1_800_000_001)
    return made


@pytest.mark.parametrize("complete", [False, True])
def test_a_receipt_says_whether_files_still_hold_something(
    capsys: pytest.CaptureFixture[str], *, complete: bool
) -> None:
    show_receipt("doc", receipt(complete=complete))
    shown = capsys.readouterr().out
    assert "deleted doc for good: 1 document, 2 chunks" in shown
    assert ("groundwire health" in shown) is not complete


def test_health_counts_the_deletions_that_are_not_complete(capsys: pytest.CaptureFixture[str]) -> None:
    show_housekeeping(maintenance_service_pb2.GetHousekeepingResponse())
    assert capsys.readouterr().out == ""
    receipts = [receipt(complete=False), receipt(complete=False)]
    show_housekeeping(maintenance_service_pb2.GetHousekeepingResponse(incomplete_deletions=receipts))
    assert "CLEANING     traces of 2 deletions since 2027-01-15 08:00:00 UTC" in capsys.readouterr().out
