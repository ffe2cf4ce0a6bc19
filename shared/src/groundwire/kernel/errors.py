"""Everything that can go wrong, named by what happened and free of transport codes.

GroundwireError
├─ StartError                   a server cannot start; its operator reads it, never a client: StoreOwned…
├─ InvalidRequestError          the request is wrong whatever the state
│  ├─ InvalidFilterError        ├─ InvalidPageTokenError      ├─ DimensionMismatchError
│  ├─ ResponseTooLargeError     asked for more than one message can hold
│  └─ the refusals of documents, in groundwire.kernel.document_errors
├─ NotFoundError                Collection… Document… Chunk… Record… Session… Operation…
├─ AlreadyExistsError           RequestIdReused… DuplicateDocument…
├─ UnauthenticatedError         no credential, or one that is not accepted
├─ PermissionDeniedError        the credential does not allow the call
├─ PreconditionError            EmbeddingMismatch… UnsupportedFilter… SessionExpired…
│                               SnapshotExpired… StoreMismatch… MissingExtra…
├─ ConflictError                SessionHeadMoved… DocumentChanged… StaleSourceVersion…
├─ ExhaustedError               Overloaded… QuotaExceeded…
├─ UnavailableError             StoreUnavailable… RetrieverUnavailable… Draining…
├─ CallCancelledError           the caller left
├─ DeadlineError                the time budget is used up: StreamIdle…
├─ NotAvailableError            a call of the contract that this version does not offer
├─ DataLossError                stored data is damaged
└─ InternalError                a defect of the server

`groundwire.rpc.error_status` holds the one table from these classes to gRPC codes.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field of a request that breaks a rule.

    `field` is a path in the request as the caller spells it (`filter.and[1].field`).
    """

    field: str
    description: str


class GroundwireError(Exception):
    """Base of all errors.

    `reason` is a value name of the `ErrorReason` enum of the contract, except for start errors; `metadata` holds the
    facts of this occurrence (snake_case keys), safe to show to the caller.
    """

    reason: ClassVar[str]
    retry_after_s: float | None = None

    def __init__(self, message: str, **metadata: str | float) -> None:
        super().__init__(message)
        self.message = message
        self.metadata = {key: str(value) for key, value in metadata.items()}

    def __reduce__(self) -> Any:
        # Errors are pickled between processes, but exceptions do not keep the arguments of their subclasses.
        return Exception.__new__, (type(self), *self.args), self.__dict__


class StartError(GroundwireError):
    """A server cannot start; may name paths and processes, because no call is answered with it."""

    reason = "CANNOT_START"


class StoreOwnedError(StartError):
    """Another process owns the data folder; metadata: path, owner."""

    reason = "STORE_OWNED"


class InvalidRequestError(GroundwireError):
    """The request is wrong whatever the state of the system; carries every violation found."""

    reason = "INVALID_FIELD"

    def __init__(self, violations: Sequence[FieldViolation], **metadata: str | float) -> None:
        super().__init__("; ".join(f"{v.field}: {v.description}" for v in violations), **metadata)
        self.violations = tuple(violations)

    @classmethod
    def of(cls, field: str, description: str, **metadata: str | float) -> Self:
        return cls([FieldViolation(field, description)], **metadata)


def violations_of(check: Callable[..., object], *values: object) -> list[FieldViolation]:
    """Return the violations that a check raises, so that one error can name all of them."""
    try:
        check(*values)
    except InvalidRequestError as error:
        return list(error.violations)
    return []


@contextmanager
def collected(violations: list[FieldViolation]) -> Iterator[None]:
    """Add the violations that a block raises and go on after it, so that one error can name all of them."""
    try:
        yield
    except InvalidRequestError as error:
        violations += error.violations


@contextmanager
def fields_below(place: str, names: Container[str]) -> Iterator[None]:
    """Name the fields of a message that a block refuses as the request has them: below the field that holds it.

    `names` are those of the message; other fields are of the request itself and keep their names.
    """
    try:
        yield
    except InvalidRequestError as error:
        if error.violations:  # a peer of another kind may name none
            error.violations = tuple(
                FieldViolation(f"{place}.{each.field}", each.description)
                if each.field.partition(".")[0].partition("[")[0] in names
                else each
                for each in error.violations
            )
            error.message = "; ".join(f"{each.field}: {each.description}" for each in error.violations)
            error.args = (error.message,)
        raise


def refuse(violations: Iterable[FieldViolation]) -> None:
    """Raise InvalidRequestError naming all violations, if there are any."""
    if found := list(violations):
        raise InvalidRequestError(found)


def refuse_broken(prefix: str, rules: Iterable[tuple[str, bool]]) -> None:
    """Raise InvalidRequestError naming every rule that does not hold; a rule begins with the name of its field."""
    broken = (rule.partition(" ") for rule, holds in rules if not holds)
    refuse(FieldViolation(f"{prefix}{name}", said) for name, _, said in broken)


class InvalidFilterError(InvalidRequestError):
    """The filter names an unknown field or operator, or is malformed, too deep or too large."""

    reason = "INVALID_FILTER"


class InvalidPageTokenError(InvalidRequestError):
    """The page token was not issued by this server for these parameters."""

    reason = "INVALID_PAGE_TOKEN"


class DimensionMismatchError(InvalidRequestError):
    """A vector has another length than its collection; metadata: got, expected."""

    reason = "DIMENSION_MISMATCH"


class ResponseTooLargeError(InvalidRequestError):
    """The response would be larger than clients take; ask for less. Metadata: size_bytes, limit_bytes."""

    reason = "RESPONSE_TOO_LARGE"


class NotFoundError(GroundwireError):
    """A named thing does not exist, or not for this tenant; metadata: the id asked for."""

    reason = "NOT_FOUND"
    resource_type: ClassVar[str] = "resource"

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(message or f"{self.resource_type} {name!r} does not exist", resource=name)
        self.name = name


class CollectionNotFoundError(NotFoundError):
    """No such collection."""

    reason = "COLLECTION_NOT_FOUND"
    resource_type = "collection"


class DocumentNotFoundError(NotFoundError):
    """No such document, or no such generation of it."""

    reason = "DOCUMENT_NOT_FOUND"
    resource_type = "document"


class ChunkNotFoundError(NotFoundError):
    """No such chunk."""

    reason = "CHUNK_NOT_FOUND"
    resource_type = "chunk"


class RecordNotFoundError(NotFoundError):
    """No such record, or none that the caller may see."""

    reason = "RECORD_NOT_FOUND"
    resource_type = "record"


class SessionNotFoundError(NotFoundError):
    """No such session."""

    reason = "SESSION_NOT_FOUND"
    resource_type = "session"


class OperationNotFoundError(NotFoundError):
    """No such operation, or one that ended long ago."""

    reason = "OPERATION_NOT_FOUND"
    resource_type = "operation"


class AlreadyExistsError(GroundwireError):
    """Something with this identity exists and differs."""

    reason = "ALREADY_EXISTS"


class RequestIdReusedError(AlreadyExistsError):
    """The request id was used before with another body; metadata: request_id."""

    reason = "REQUEST_ID_REUSED"


class DuplicateDocumentError(AlreadyExistsError):
    """The same bytes are stored under another source; metadata: document_id, source_uri."""

    reason = "DOCUMENT_DUPLICATE"


class UnauthenticatedError(GroundwireError):
    """The call has no credential, or one that is not accepted; metadata: problem."""

    reason = "UNAUTHENTICATED"


class PermissionDeniedError(GroundwireError):
    """The credential does not allow the call; metadata: right, or scope."""

    reason = "PERMISSION_DENIED"


class PreconditionError(GroundwireError):
    """The system is in a state that someone has to change first."""

    reason = "FAILED_PRECONDITION"


class EmbeddingMismatchError(PreconditionError):
    """The collection was embedded by another model; metadata: expected, got."""

    reason = "EMBEDDING_MISMATCH"


class UnsupportedFilterError(PreconditionError):
    """This engine cannot evaluate this kind of clause; metadata: clause, engine."""

    reason = "UNSUPPORTED_FILTER"


class SessionExpiredError(PreconditionError):
    """The session was idle for too long or was ended; metadata: session_id."""

    reason = "SESSION_EXPIRED"


class SnapshotExpiredError(PreconditionError):
    """What was visible at a position is not all kept any more; metadata: snapshot, oldest."""

    reason = "SNAPSHOT_EXPIRED"


class StoreMismatchError(PreconditionError):
    """The store on disk was made with other settings; metadata: setting, expected, got."""

    reason = "STORE_MISMATCH"


class MissingExtraError(PreconditionError):
    """An optional package is not installed; metadata: extra."""

    reason = "MISSING_EXTRA"


class ConflictError(GroundwireError):
    """The caller lost a race; read again and repeat the whole sequence."""

    reason = "CONFLICT"


class SessionHeadMovedError(ConflictError):
    """The session has newer messages than the caller expected; metadata: expected_head, head."""

    reason = "SESSION_HEAD_MOVED"


class DocumentChangedError(ConflictError):
    """The document, or the chunk of it, was changed or deleted by someone else meanwhile; metadata: document_id."""

    reason = "DOCUMENT_CHANGED"


class StaleSourceVersionError(ConflictError):
    """The stored document is of a later version; metadata: document_id, source_version, stored_source_version."""

    reason = "SOURCE_VERSION_STALE"


class ExhaustedError(GroundwireError):
    """A quota or capacity is used up."""

    reason = "EXHAUSTED"
    retry_after_s: float | None = 1.0


class OverloadedError(ExhaustedError):
    """The server has as much work of this kind as it can take; metadata: limit, work."""

    reason = "OVERLOADED"


class QuotaExceededError(ExhaustedError):
    """A quota of the caller is used up; metadata: quota, limit."""

    reason = "QUOTA_EXCEEDED"


class UnavailableError(GroundwireError):
    """Something we depend on does not answer; retrying the call is right."""

    reason = "UNAVAILABLE"
    retry_after_s = 1.0


class StoreUnavailableError(UnavailableError):
    """The vector store or catalog failed; metadata: engine."""

    reason = "STORE_UNAVAILABLE"


class RetrieverUnavailableError(UnavailableError):
    """The retrieve service does not answer."""

    reason = "RETRIEVER_UNAVAILABLE"


class DrainingError(UnavailableError):
    """The server is stopping and takes no new calls."""

    reason = "DRAINING"


class CallCancelledError(GroundwireError):
    """The caller cancelled; nothing visible was written."""

    reason = "CANCELLED"


class DeadlineError(GroundwireError):
    """The time budget of the call is used up; for writes the outcome is unknown."""

    reason = "DEADLINE_EXCEEDED"


class StreamIdleError(DeadlineError):
    """The client neither sent nor read for longer than a stream may stall; metadata: limit_s."""

    reason = "STREAM_IDLE"


class NotAvailableError(GroundwireError):
    """The contract has this call or option, this version of the server does not; metadata: feature."""

    reason = "NOT_AVAILABLE"


class DataLossError(GroundwireError):
    """Stored data contradicts its own checksum or bounds; metadata: what."""

    reason = "DATA_LOSS"


class InternalError(GroundwireError):
    """The server has a defect; metadata: error_id, which its log repeats. Never raised on purpose."""

    reason = "INTERNAL"
