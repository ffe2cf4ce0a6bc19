"""The one table between errors and gRPC status codes, used in both directions.

A status carries exactly one `google.rpc.ErrorInfo` (domain `groundwire`, reason = the class's reason), and
`BadRequest`, `ResourceInfo` and `RetryInfo` where they say something. Details travel in trailers, which peers
limit, so that everything together stays below 4 kB on the wire.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from groundwire.kernel import document_errors, errors
from groundwire.kernel.errors import (
    AlreadyExistsError,
    CallCancelledError,
    ConflictError,
    DataLossError,
    DeadlineError,
    ExhaustedError,
    FieldViolation,
    GroundwireError,
    InternalError,
    InvalidRequestError,
    NotAvailableError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    QuotaExceededError,
    UnauthenticatedError,
    UnavailableError,
)

DOMAIN: Final = "groundwire"

CODES: Final[dict[type[GroundwireError], grpc.StatusCode]] = {
    InvalidRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    NotFoundError: grpc.StatusCode.NOT_FOUND,
    AlreadyExistsError: grpc.StatusCode.ALREADY_EXISTS,
    UnauthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    PermissionDeniedError: grpc.StatusCode.PERMISSION_DENIED,
    PreconditionError: grpc.StatusCode.FAILED_PRECONDITION,
    ConflictError: grpc.StatusCode.ABORTED,
    ExhaustedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    UnavailableError: grpc.StatusCode.UNAVAILABLE,
    CallCancelledError: grpc.StatusCode.CANCELLED,
    DeadlineError: grpc.StatusCode.DEADLINE_EXCEEDED,
    NotAvailableError: grpc.StatusCode.UNIMPLEMENTED,
    DataLossError: grpc.StatusCode.DATA_LOSS,
    InternalError: grpc.StatusCode.INTERNAL,
}
"""Code of each class and, unless it is named itself, of its subclasses."""

# Paths of at least two parts, unlike "and/or" and "/", and outside of URLs.
# In quotes it may have spaces.
_PATH: Final = re.compile(r"""(?<=')/[^'\n]+(?=')|(?<=")/[^"\n]+(?=")|(?<![\w/:.])/[^\s/'"]+(?:/[^\s/'"]+)+/?""")
_DETAILS_KEY: Final = "grpc-status-details-bin"
_MAX_MESSAGE_BYTES: Final = 300
_MAX_VALUE_BYTES: Final = 200
# Trailers carry the details in base64 (4/3 of the size) and the message percent-encoded (up to 3 times the size):
# 2,100 * 4/3 + 300 * 3 leaves 300 bytes of the 4 kB for keys, the request id and the retry hint.
_MAX_STATUS_BYTES: Final = 2100

_KINDS_BY_REASON: Final[dict[str, type[GroundwireError]]] = {
    kind.reason: kind
    for kind in (*vars(errors).values(), *vars(document_errors).values())
    if isinstance(kind, type) and issubclass(kind, GroundwireError) and kind is not GroundwireError
}
# Our servers do not send OUT_OF_RANGE, but proxies and libraries do; every other foreign code means a defect.
_KINDS_BY_CODE: Final[dict[grpc.StatusCode, type[GroundwireError]]] = {
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequestError,
    **{code: kind for kind, code in CODES.items()},
}


def code_of(kind: type[GroundwireError]) -> grpc.StatusCode:
    """Return the code of an error class: its own, or that of its nearest ancestor in the table."""
    return next(CODES[ancestor] for ancestor in kind.__mro__ if ancestor in CODES)


def to_status(error: GroundwireError) -> status_pb2.Status:
    """Turn an error into a rich status of bounded size.

    Long values are cut, and field violations that do not fit are replaced by their number.
    """
    message = public_text(error, error.message)
    status = status_pb2.Status(code=code_of(type(error)).value[0], message=_cut(message, _MAX_MESSAGE_BYTES))
    metadata = {key: _cut(public_text(error, value), _MAX_VALUE_BYTES) for key, value in error.metadata.items()}
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata))
    if isinstance(error, NotFoundError):
        name = _cut(error.name, _MAX_VALUE_BYTES)
        resource = error_details_pb2.ResourceInfo(resource_type=error.resource_type, resource_name=name)
        status.details.add().Pack(resource)
    if isinstance(error, QuotaExceededError):
        quota = error_details_pb2.QuotaFailure()
        quota.violations.add(subject=metadata.get("quota", ""), description=_cut(error.message, _MAX_VALUE_BYTES))
        status.details.add().Pack(quota)
    if error.retry_after_s is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(int(error.retry_after_s * 1e9))
        status.details.add().Pack(retry)
    # Last, because the violations get whatever room the other details leave.
    if isinstance(error, InvalidRequestError):
        bad_request = error_details_pb2.BadRequest()
        room = _MAX_STATUS_BYTES - status.ByteSize() - 2 * _MAX_VALUE_BYTES
        for added, violation in enumerate(error.violations):
            field, description = _cut(violation.field, _MAX_VALUE_BYTES), _cut(violation.description, _MAX_VALUE_BYTES)
            bad_request.field_violations.add(field=field, description=description)
            if bad_request.ByteSize() > room:
                del bad_request.field_violations[-1]
                bad_request.field_violations.add(description=f"and {len(error.violations) - added} more")
                break
        status.details.add().Pack(bad_request)
    return status


def public_text(error: GroundwireError, text: str) -> str:
    """Return an error text without paths of the server, which libraries put into their messages.

    What the caller itself sent, in an invalid request or as the name of something missing, is repeated as it is.
    """
    if isinstance(error, (InvalidRequestError, NotFoundError, AlreadyExistsError, ConflictError)):
        return text
    return _PATH.sub("…", text)


def from_rpc_error(error: grpc.RpcError) -> GroundwireError:
    """Turn the error of a call into the error that the server raised.

    The reason decides the class. Without a reason that we know (another version, a proxy, a broken
    connection) the code decides.
    """
    call: Any = error  # the library raises subclasses that are calls as well; its types do not say so
    return error_of(call.code(), call.details() or "", call.trailing_metadata() or ())


def error_of(
    code: grpc.StatusCode, message: str, trailing_metadata: Iterable[tuple[str, str | bytes]]
) -> GroundwireError:
    """Turn the parts of a failed call into the error that the server raised; see `from_rpc_error`."""
    raw = next((value for key, value in trailing_metadata if key == _DETAILS_KEY), b"")
    try:
        details = list(status_pb2.Status.FromString(raw).details)
    except DecodeError:  # details in another format, from a proxy perhaps
        details = []
    return _error_of(code, message, details)


def from_status(status: status_pb2.Status) -> GroundwireError:
    """Turn the status of one item of a batch into the error that a call for this item would have raised."""
    code = next((known for known in grpc.StatusCode if known.value[0] == status.code), grpc.StatusCode.UNKNOWN)
    return _error_of(code, status.message, list(status.details))


def _error_of(code: grpc.StatusCode, message: str, details: list[Any]) -> GroundwireError:
    info = _unpacked(details, error_details_pb2.ErrorInfo)
    kind_of_code = _KINDS_BY_CODE.get(code, InternalError)
    # Reasons of other domains, such as those of a proxy, may have the names of ours.
    if info is None or info.domain != DOMAIN:
        return _rebuilt(kind_of_code, message or code.name, {}, details)
    return _rebuilt(_KINDS_BY_REASON.get(info.reason, kind_of_code), message, dict(info.metadata), details)


def to_trailer(status: status_pb2.Status) -> tuple[str, bytes]:
    """Return the metadata entry in which a rich status travels."""
    return _DETAILS_KEY, status.SerializeToString()


def _cut(text: str, limit_bytes: int) -> str:
    """Return the text as valid UTF-8 of at most `limit_bytes`, with an ellipsis when something is missing."""
    utf8 = text.encode("utf-8", "replace")
    if len(utf8) <= limit_bytes:
        return utf8.decode()
    return utf8[: limit_bytes - 3].decode("utf-8", "ignore") + "…"


def _unpacked(details: list[Any], kind: Any) -> Any:
    for detail in details:
        message = kind()
        if detail.Unpack(message):
            return message
    return None


def _rebuilt(
    kind: type[GroundwireError], message: str, metadata: dict[str, str], details: list[Any]
) -> GroundwireError:
    """Make an error without its constructor, because keys from the wire could collide with argument names."""
    error = kind.__new__(kind)
    GroundwireError.__init__(error, message)
    error.metadata = metadata
    retry = _unpacked(details, error_details_pb2.RetryInfo)
    if retry is not None:
        error.retry_after_s = retry.retry_delay.ToNanoseconds() / 1e9
    elif details and kind.retry_after_s is not None:
        error.retry_after_s = None  # our server says that waiting is useless; errors of the library have no details
    if isinstance(error, NotFoundError):
        resource = _unpacked(details, error_details_pb2.ResourceInfo)
        error.name = metadata.get("resource") or (resource.resource_name if resource else "")
    if isinstance(error, InvalidRequestError):
        bad_request = _unpacked(details, error_details_pb2.BadRequest)
        listed = bad_request.field_violations if bad_request else ()
        error.violations = tuple(FieldViolation(item.field, item.description) for item in listed)
    return error
