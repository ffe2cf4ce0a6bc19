from pathlib import Path

import pytest

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.client.uploads import Upload
from groundwire.kernel.document_errors import BinaryDocumentError
from groundwire.kernel.errors import FieldViolation, GroundwireError, InternalError, UnavailableError


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


@pytest.mark.parametrize(
    "error", [InternalError("internal error"), BinaryDocumentError([FieldViolation("content", "is binary")])]
)
def test_an_answer_of_the_server_is_final(error: GroundwireError) -> None:
    upload = _upload()
    upload.first_message()
    assert upload.pause_s(error) is None
