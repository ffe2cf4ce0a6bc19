"""Errors survive the way to a status and back, whatever they hold."""

import math
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel import errors
from groundwire.kernel.errors import (
    ConflictError,
    DeadlineError,
    ExhaustedError,
    FieldViolation,
    GroundwireError,
    InternalError,
    InvalidFilterError,
    InvalidRequestError,
    NotAvailableError,
    NotFoundError,
    PreconditionError,
    QuotaExceededError,
    StartError,
    StoreUnavailableError,
    UnauthenticatedError,
    UnavailableError,
)
from groundwire.rpc.error_status import code_of, error_of, from_rpc_error, from_status, to_status, to_trailer


def all_errors(kind: type[GroundwireError] = GroundwireError) -> Iterator[type[GroundwireError]]:
    """Yield the errors of the contract; refinements of other packages travel as what they refine."""
    for child in kind.__subclasses__():
        if child.__module__.startswith("groundwire.kernel.") and child is not StartError:
            yield child
            yield from all_errors(child)


KINDS = sorted(all_errors(), key=str)


def make(kind: type[GroundwireError]) -> GroundwireError:
    if issubclass(kind, InvalidRequestError):
        return kind([FieldViolation("a.b", "is bad"), FieldViolation("c", "is worse")], limit=3)
    return kind("the name") if issubclass(kind, NotFoundError) else kind("what happened", fact="x")


def there_and_back(error: GroundwireError) -> GroundwireError:
    status = to_status(error)
    return error_of(code_of(type(error)), status.message, [("x-request-id", "1"), to_trailer(status)])


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_comes_back_as_itself(kind: type[GroundwireError]) -> None:
    error = make(kind)
    back = there_and_back(error)

    assert type(back) is kind
    assert str(back) == str(error)
    assert vars(back) == vars(error) | ({"retry_after_s": error.retry_after_s} if error.retry_after_s else {})


def test_a_server_that_cannot_be_reached_may_be_tried_again_in_a_second() -> None:
    assert error_of(grpc.StatusCode.UNAVAILABLE, "refused", ()).retry_after_s == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_of_an_item_is_the_error_that_it_alone_would_be(kind: type[GroundwireError]) -> None:
    error = make(kind)
    assert vars(from_status(to_status(error))) == vars(there_and_back(error))


def test_the_code_decides_for_an_item_without_a_reason() -> None:
    assert type(from_status(status_pb2.Status(code=5, message="no"))) is NotFoundError
    assert type(from_status(status_pb2.Status(code=99))) is InternalError


@pytest.mark.parametrize("kind", KINDS)
def test_every_status_holds_one_error_info_and_the_details_of_its_kind(kind: type[GroundwireError]) -> None:
    error = make(kind)
    details = [detail.TypeName().rpartition(".")[2] for detail in to_status(error).details]

    assert details.count("ErrorInfo") == 1
    assert ("BadRequest" in details) == issubclass(kind, InvalidRequestError)
    assert ("ResourceInfo" in details) == issubclass(kind, NotFoundError)
    assert ("RetryInfo" in details) == (error.retry_after_s is not None)
    assert ("QuotaFailure" in details) == issubclass(kind, QuotaExceededError)


def test_the_quota_that_is_used_up_is_named() -> None:
    status, failure = to_status(QuotaExceededError("too many", quota="documents")), error_details_pb2.QuotaFailure()
    assert any(detail.Unpack(failure) for detail in status.details)
    assert [(each.subject, each.description) for each in failure.violations] == [("documents", "too many")]


@given(
    st.lists(st.tuples(st.text(max_size=3000), st.text(max_size=3000)), min_size=1, max_size=40),
    st.dictionaries(st.sampled_from(["a", "b", "message"]), st.text(max_size=3000)),
)
def test_trailers_stay_below_four_kilobytes(violations: list[tuple[str, str]], metadata: dict[str, str]) -> None:
    error = InvalidFilterError([FieldViolation(*violation) for violation in violations])
    error.metadata = metadata
    status = to_status(error)
    key, value = to_trailer(status)

    on_the_wire = len(quote(status.message)) + len(key) + math.ceil(len(value) / 3) * 4
    assert on_the_wire + len("grpc-messagegrpc-statusx-request-id") + 128 + 3 * 32 < 4096
    back = there_and_back(error)
    assert isinstance(back, InvalidFilterError)
    assert len(back.violations) >= 1


def test_violations_that_do_not_fit_are_counted() -> None:
    error = InvalidRequestError([FieldViolation(f"field_{number}", "x" * 90) for number in range(100)])
    back = there_and_back(error)

    assert isinstance(back, InvalidRequestError)
    *kept, last = back.violations
    assert kept == list(error.violations[: len(kept)])
    assert len(kept) > 5
    assert last == FieldViolation("", f"and {100 - len(kept)} more")


def test_text_that_is_not_unicode_cannot_break_a_status() -> None:
    assert there_and_back(ConflictError("lone \ud800", key="\udfff")).metadata == {"key": "?"}


def test_metadata_from_the_wire_cannot_collide_with_argument_names() -> None:
    info = error_details_pb2.ErrorInfo(reason="CONFLICT", domain="groundwire", metadata={"message": "m", "self": "s"})
    status = status_pb2.Status(code=10)
    status.details.add().Pack(info)

    back = error_of(grpc.StatusCode.ABORTED, "text", [to_trailer(status)])
    assert (type(back), str(back), back.metadata) == (ConflictError, "text", {"message": "m", "self": "s"})


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, InvalidRequestError),
        (grpc.StatusCode.OUT_OF_RANGE, InvalidRequestError),
        (grpc.StatusCode.UNAUTHENTICATED, UnauthenticatedError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ExhaustedError),
        (grpc.StatusCode.UNAVAILABLE, UnavailableError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, DeadlineError),
        (grpc.StatusCode.UNIMPLEMENTED, NotAvailableError),
        (grpc.StatusCode.UNKNOWN, InternalError),
    ],
)
@pytest.mark.parametrize("trailers", [[], [("grpc-status-details-bin", b"\xff\xff")]])
def test_without_a_reason_the_code_decides(
    code: grpc.StatusCode, kind: type[GroundwireError], trailers: list[tuple[str, bytes]]
) -> None:
    assert type(error_of(code, "", trailers)) is kind


@pytest.mark.parametrize(("reason", "domain"), [("FROM_THE_FUTURE", "groundwire"), ("CONFLICT", "example.com")])
def test_an_unknown_reason_falls_back_to_its_code(reason: str, domain: str) -> None:
    status = status_pb2.Status(code=9)
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason, domain=domain))

    assert type(error_of(grpc.StatusCode.FAILED_PRECONDITION, "m", [to_trailer(status)])) is PreconditionError


def test_an_error_of_the_library_is_read_through_its_call_interface() -> None:
    class Failed(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.UNAVAILABLE

        def details(self) -> str | None:
            return None

        def trailing_metadata(self) -> Any:
            return None

    assert str(from_rpc_error(Failed())) == "UNAVAILABLE"


def test_reasons_are_unique() -> None:
    reasons = [kind.reason for kind in all_errors() if kind.__module__ == errors.__name__]

    assert len(reasons) == len(set(reasons))


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("the engine failed: /srv/data/vectors/ab12/wal: No space left", "the engine failed: … No space left"),
        ("cannot open '/srv/data/catalog.db'", "cannot open '…'"),
        ("cannot open '/srv/data/it.db\nso it isn't there", "cannot open '…\nso it isn't there"),
        ("no space is left on the disk of '/srv/my data/it.db'", "no space is left on the disk of '…'"),
        ('no space is left on the disk of "/ada\'s data/it.db"', 'no space is left on the disk of "…"'),
        ("http://qdrant:6333/collections does not answer", "http://qdrant:6333/collections does not answer"),
        ("12 of 20/s and/or 3", "12 of 20/s and/or 3"),
    ],
)
def test_paths_of_the_server_stay_there(message: str, told: str) -> None:
    error = StoreUnavailableError(message, engine="qdrant-edge", where=message)
    status = to_status(error)
    assert status.message == told
    assert "/srv/data" not in str(status)


def test_paths_that_the_caller_named_come_back() -> None:
    error = InvalidRequestError.of("source_uri", "/home/ada/notes/a.md must not contain spaces")
    assert "/home/ada/notes/a.md" in to_status(error).message
