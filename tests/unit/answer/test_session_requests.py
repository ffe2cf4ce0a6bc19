"""What a request for a session may say."""

from datetime import timedelta

import pytest
from google.protobuf.duration_pb2 import Duration

from groundwire.answer.messages import parse_create_request
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.kernel.errors import InvalidRequestError


@pytest.mark.parametrize("seconds", [-(2**63), -1, 0, 30 * 86_400 + 1, 2**53, 2**62, 2**63 - 1])
def test_an_idle_timeout_outside_of_its_range_is_refused(seconds: int) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_create_request(pb.CreateSessionRequest(collection="rust", idle_timeout=Duration(seconds=seconds)))
    assert caught.value.message == "idle_timeout: must be 1 second to 30 days"


def test_the_longest_idle_timeout_is_thirty_days() -> None:
    request = pb.CreateSessionRequest(collection="rust", idle_timeout=Duration(seconds=30 * 86_400))
    assert parse_create_request(request).idle_timeout == timedelta(days=30)
