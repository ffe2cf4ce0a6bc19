"""How results, filters and refusals are put into words."""

import click
import pytest

from groundwire.api.answer.v1.answer_pb2 import GENERATION_FAILURE_TIMEOUT, Answer, GenerationReport
from groundwire.api.common.v1.degraded_stage_pb2 import (
    DEGRADED_STAGE_GENERATION,
    DEGRADED_STAGE_RERANK,
    DEGRADED_STAGE_SELF_QUERY,
)
from groundwire.api.common.v1.document_pb2 import Document
from groundwire.api.ingest.v1 import maintenance_service_pb2 as maintenance_pb
from groundwire.api.ingest.v1.collection_pb2 import CHUNKER_FIXED
from groundwire.api.retrieve.v1.retrieve_report_pb2 import RetrieveReport
from groundwire.api.retrieve.v1.retrieve_service_pb2 import RetrieveResponse
from groundwire.cli.ingest import (
    PLAN_COUNTS,
    FileOutcome,
    chunking_policy,
    reason_of,
    run_json,
    show_plan,
)
from groundwire.cli.messages import applied_json
from groundwire.cli.operations import show_report
from groundwire.cli.output import page_place
from groundwire.cli.search import show_generation
from groundwire.client.values import filter_message
from groundwire.kernel.document_errors import EmptyDocumentError
from groundwire.kernel.errors import FieldViolation, InvalidRequestError, NotFoundError


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ('{"date_created": {"$gte": 1719792000000}}', {"date_created": {"$gte": "2024-07-01T00:00:00Z"}}),
        ('{"$not": {"ingested_at": {"$lt": 1}}}', {"$not": {"ingested_at": {"$lt": "1970-01-01T00:00:00.001Z"}}}),
        ('{"date_created": {"$in": [0]}}', {"date_created": {"$in": ["1970-01-01T00:00:00Z"]}}),
        ('{"date_created": {"$lt": 9223372036854775807}}', {"date_created": {"$lt": 9223372036854775807}}),
        ('{"page": {"$gte": 5}}', {"page": {"$gte": 5}}),
        ('{"date_created": {"$exists": true}}', {"date_created": {"$exists": True}}),
    ],
)
def test_times_of_an_applied_filter_are_readable_and_mean_the_same(given: str, shown: object) -> None:
    response = RetrieveResponse(report=RetrieveReport(applied_filter=filter_message(given)))
    assert applied_json(response)["filter"] == shown


def test_pages_are_part_of_a_place() -> None:
    assert [page_place(pages) for pages in ([], [3], [3, 4, 5])] == ["", " · page 3", " · pages 3–5"]


def test_a_refused_file_is_told_without_the_field_its_content_went_into() -> None:
    for field in ("content", "part.data", "header.total_bytes"):
        assert reason_of(EmptyDocumentError.of(field, "is empty")) == "is empty"
    for field in ("source_uri", "header.source_uri"):
        both = [FieldViolation("content", "is empty"), FieldViolation(field, "has ..")]
        assert reason_of(InvalidRequestError(both)) == "is empty; source_uri: has .."
    assert reason_of(NotFoundError("x")) == "resource 'x' does not exist"


def test_only_the_rules_that_are_given_are_sent() -> None:
    assert chunking_policy() is None
    message = chunking_policy(chunker="fixed", minimum_size=5)
    assert message is not None
    assert (message.chunker, message.minimum_size, message.HasField("target_size")) == (CHUNKER_FIXED, 5, False)


def test_the_sums_of_a_plan_are_those_of_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    missing = [Document(source_uri="gone.md", document_id="doc_x", chunk_count=3)]
    counts = {"added": 1, "kept": 5, "removed": 1, "embedded": 1, "tokens": 1140}
    show_plan(run_json([FileOutcome("a.md", "replaced", counts)], [], missing, PLAN_COUNTS))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["file", "added", "kept", "removed", "embedded", "tokens", "outcome"],
        ["a.md", "1", "5", "1", "1", "1,140", "replaced"],
        ["gone.md", "0", "0", "3", "0", "0", "deleted"],
        ["1", "file", "1", "5", "4", "1", "1,140", "0", "as", "they", "are"],
    ]


def test_findings_of_one_kind_leave_room_for_others(capsys: pytest.CaptureFixture[str]) -> None:
    missing = maintenance_pb.STORE_FINDING_KIND_VECTOR_MISSING
    findings = [
        maintenance_pb.StoreFinding(kind=missing, collection=name, subject=f"chunk-{number}", message="no vector")
        for name, count in (("big", 1200), ("small", 5))
        for number in range(count)
    ]
    overdue = maintenance_pb.StoreFinding(kind=maintenance_pb.STORE_FINDING_KIND_OUTBOX_OVERDUE, message="a task waits")
    report = maintenance_pb.StoreReport(
        checked_count=2000, findings=[*findings, overdue], finding_count=1300, repaired_count=0, consistent=False
    )
    with pytest.raises(click.exceptions.Exit):
        show_report(report)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=2)[2] for line in lines if line.startswith("found")] == [
        *(f"big chunk-{number}: no vector" for number in range(5)),
        "big: and 1,195 like these",
        *(f"small chunk-{number}: no vector" for number in range(5)),
        "a task waits",
    ]
    assert lines[-2:] == ["and 94 findings more", "2,000 chunks compared: 0 findings repaired, 1,300 left"]


def test_a_search_that_left_something_out_says_so_in_json() -> None:
    assert applied_json(RetrieveResponse(degraded_stages=[DEGRADED_STAGE_RERANK]))["degraded"] == ["rerank"]


def test_an_answer_names_the_parts_of_its_search_that_were_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    report = GenerationReport(model="tiny", failure=GENERATION_FAILURE_TIMEOUT)
    stages = [DEGRADED_STAGE_SELF_QUERY, DEGRADED_STAGE_RERANK, DEGRADED_STAGE_GENERATION]
    show_generation(Answer(degraded_stages=stages, generation=report, generator="extractive"))
    told = "left out: self-query, rerank\ntiny failed (timeout): the answer is quoted\n"
    assert capsys.readouterr().err == told
