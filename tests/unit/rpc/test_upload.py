from pathlib import Path

import pytest

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.client.uploads import Upload
from groundwire.kernel.document_errors import BinaryDocumentError
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    FieldViolation,
    GroundwireError,
    InternalError,
    NotFoundError,
    UnavailableError,
)


def _upload() -> Upload:
    return Upload(Path("book.md"), pb.UploadHeader(collection="c"), None)


@pytest.mark.parametrize("error", [UnavailableError("store down"), InternalError("Internal error from Core")])
def test_a_broken_connection_is_tried_again_a_few_times(error: GroundwireError) -> None:
    upload = _upload()
    pauses = []
    for _ in range(7):
        upload.first_message()
        pauses.append(upload.pause_s(error))
    assert all(pause is not None and pause > 0 for pause in pauses[:6])
    assert pauses[6] is None
    # Together as long as a server takes to start again, and each a little longer or shorter for each client.
    assert 11 < sum(pause or 0 for pause in pauses) < 22


def test_a_server_says_when_to_come_back() -> None:
    upload, error = _upload(), UnavailableError("full")
    error.retry_after_s = 60.0
    upload.first_message()
    assert 45 <= (upload.pause_s(error) or 0) <= 75


def test_attempts_that_get_further_do_not_count() -> None:
    upload = _upload()
    for offset, goes_on in ((1, True), (2, True), (2, False)):
        for _ in range(6):
            upload.first_message()
        upload.take(pb.UploadDocumentResponse(progress=pb.UploadProgress(durable_offset=offset)))
        assert (upload.pause_s(UnavailableError("down")) is not None) is goes_on


@pytest.mark.parametrize(
    "error", [InternalError("internal error"), BinaryDocumentError([FieldViolation("content", "is binary")])]
)
def test_an_answer_of_the_server_is_final(error: GroundwireError) -> None:
    upload = _upload()
    upload.first_message()
    assert upload.pause_s(error) is None


def test_what_the_server_has_already_when_an_attempt_begins_counts_as_getting_further() -> None:
    upload = _upload()
    for _ in range(7):
        upload.first_message()
    accepted = pb.UploadAccepted(upload_id="u7", durable_offset=5)
    assert upload.take(pb.UploadDocumentResponse(accepted=accepted)) == 5
    assert upload.pause_s(UnavailableError("down")) is not None


def test_an_upload_that_the_server_forgot_begins_again_at_once_as_the_same_request() -> None:
    upload = Upload(Path("book.md"), pb.UploadHeader(collection="c", request_id="r"), None)
    upload.first_message()
    upload.take(pb.UploadDocumentResponse(accepted=pb.UploadAccepted(upload_id="u7", durable_offset=100)))
    assert upload.first_message().header.upload_id == "u7"
    assert upload.pause_s(NotFoundError("u7")) == 0.0
    header = upload.first_message().header
    assert (header.upload_id, header.request_id) == ("", "r")
    # It gets further again, though not yet as far as before.
    for _ in range(6):
        upload.first_message()
    upload.take(pb.UploadDocumentResponse(progress=pb.UploadProgress(durable_offset=50)))
    assert upload.pause_s(UnavailableError("down")) is not None


def test_what_else_is_missing_ends_an_upload() -> None:
    upload = _upload()
    upload.first_message()
    assert upload.pause_s(CollectionNotFoundError("")) is None
    upload.take(pb.UploadDocumentResponse(accepted=pb.UploadAccepted(upload_id="u7")))
    assert upload.pause_s(CollectionNotFoundError("c")) is None
