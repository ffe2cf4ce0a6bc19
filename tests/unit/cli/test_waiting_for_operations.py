"""What a command does with the operation that it has begun."""

from typing import Any

import click
import pytest
from google.longrunning import operations_pb2

from groundwire.api.ingest.v1.maintenance_service_pb2 import IndexBuildResult
from groundwire.cli.operations import finished
from groundwire.kernel.errors import CallCancelledError, DrainingError, StoreUnavailableError, UnavailableError
from groundwire.rpc.error_status import to_status

_NAME = "operations/6f0f9d3e-4c7b-4b4e-9a5e-0f7f3f7c5a11"


class Server:
    """Answers each wait with the next of its outcomes, and notes what is cancelled."""

    def __init__(self, *outcomes: operations_pb2.Operation | BaseException) -> None:
        self._outcomes = iter(outcomes)
        self.cancelled: list[str] = []

    def wait_operation(self, *, name: str, timeout: Any) -> operations_pb2.Operation:
        assert (name, timeout.ToTimedelta().total_seconds() > 0) == (_NAME, True)
        outcome = next(self._outcomes)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def cancel_operation(self, *, name: str) -> None:
        self.cancelled.append(name)

    def finish(self, *, no_wait: bool = False) -> IndexBuildResult | None:
        client: Any = self
        return finished(client, _operation(), IndexBuildResult, no_wait=no_wait)


def _operation(**fields: Any) -> operations_pb2.Operation:
    return operations_pb2.Operation(name=_NAME, **fields)


def test_it_waits_for_the_end() -> None:
    done = _operation(done=True)
    done.response.Pack(IndexBuildResult(vector_count=7))
    server = Server(_operation(), _operation(), done)
    assert server.finish() == IndexBuildResult(vector_count=7)
    assert server.cancelled == []


def test_a_failure_is_that_of_the_operation() -> None:
    server = Server(_operation(done=True, error=to_status(CallCancelledError("it was cancelled"))))
    with pytest.raises(CallCancelledError):
        server.finish()
    assert server.cancelled == []


def test_an_interrupted_command_cancels_it() -> None:
    server = Server(_operation(), KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        server.finish()
    assert server.cancelled == [_NAME]


@pytest.mark.parametrize("lost", [UnavailableError("gone"), DrainingError("the server is stopping")])
def test_a_command_that_loses_its_server_leaves_it_alone_and_says_how_to_go_on(
    lost: UnavailableError, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(_operation(), lost)
    with pytest.raises(UnavailableError) as raised:
        server.finish()
    assert server.cancelled == []
    assert raised.value.metadata == {"operation": _NAME}
    said = capsys.readouterr().err
    assert said == f"a server that starts again goes on with it; see `groundwire operations get {_NAME}`\n"


def test_in_json_the_error_alone_says_which_operation_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with click.Context(click.Command("reindex")) as context:
        context.meta["groundwire.as_json"] = True
        with pytest.raises(UnavailableError) as raised:
            Server(_operation(), UnavailableError("gone")).finish()
    assert raised.value.metadata == {"operation": _NAME}
    assert capsys.readouterr().err == ""


def test_an_operation_that_failed_for_a_store_does_not_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    server = Server(_operation(done=True, error=to_status(StoreUnavailableError("it is down"))))
    with pytest.raises(StoreUnavailableError):
        server.finish()
    assert capsys.readouterr().err == ""


def test_nobody_has_to_wait(capsys: pytest.CaptureFixture[str]) -> None:
    assert Server().finish(no_wait=True) is None
    assert capsys.readouterr().out == f"{_NAME}\n"
