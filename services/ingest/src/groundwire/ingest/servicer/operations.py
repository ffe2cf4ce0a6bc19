"""Long-running operations: begun by a call, run in threads of their own, watched by any caller.

An operation is a row of the catalog from its beginning, which a request id makes unique, to a week after its end. What
a stop or a crash cuts off is done again from its start by the next process.
"""

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import InitVar, asdict, dataclass, field
from itertools import chain, repeat

import structlog
from google.longrunning import operations_pb2
from google.protobuf.message import Message

from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb
from groundwire.catalog.operations import Operation
from groundwire.catalog.uploads import UPLOAD_RETENTION
from groundwire.ingest.changes import DocumentPurge
from groundwire.ingest.documents import DocumentIngest
from groundwire.ingest.index_builds import IndexBuilder
from groundwire.ingest.ingesting import IngestRequest, Progress, Report
from groundwire.ingest.servicer.calls import CallParts
from groundwire.ingest.store_check import CheckEvent, StoreCheck
from groundwire.ingest.uploads import UploadReceiver
from groundwire.ingest.wire.documents import parse_ingest_document, parse_purge_filter, parse_staged, to_progress
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import (
    AlreadyExistsError,
    DocumentNotFoundError,
    ExhaustedError,
    GroundwireError,
    InternalError,
    InvalidRequestError,
    OperationNotFoundError,
    OverloadedError,
    UnavailableError,
)
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.identifiers import RequestKey, parse_collection_name
from groundwire.kernel.identity import CURRENT_IDENTITY, Identity, current_identity
from groundwire.rpc import request_context
from groundwire.rpc.error_status import to_status
from groundwire.rpc.messages import to_identity_message
from groundwire.rpc.pagination import Position
from groundwire.rpc.request_context import request_key
from groundwire.rpc.value_messages import to_timestamp

MAX_FINDINGS = 1000
"""Findings that the report of a check lists; it counts all of them."""
_COLLECTION_OF_OPERATIONS = "operations/"
# Operations that run at a time; others wait for their turn.
_AT_A_TIME = 16
_SMALL_AT_A_TIME = 8
# Pauses before retries: an engine or a model may be starting, and no client is there to retry.
_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)

_log = structlog.get_logger(__name__)


def operation_name(operation: Operation) -> str:
    return f"{_COLLECTION_OF_OPERATIONS}{operation.operation_id}"


def operation_id_of(name: str) -> str:
    """Return the id of the operation of this name.

    Raises:
        InvalidRequestError: it is no name of an operation.
    """
    try:
        if name.startswith(_COLLECTION_OF_OPERATIONS):
            return str(uuid.UUID(name.removeprefix(_COLLECTION_OF_OPERATIONS)))
    except ValueError:
        pass
    raise InvalidRequestError.of("name", "must be operations/ and a UUID")


@dataclass(frozen=True, slots=True)
class Work:
    """What an operation does; `drop` gets tenant and id, and removes what was prepared for it once it has ended.

    `do` reports its progress and returns the response; it can be done again from the start, by a process at which
    `is_prepared`, which gets the id, is true. Small work has threads of its own: there may be thousands of it, and it
    must not wait for what takes hours.
    """

    do: Callable[[Operation, Budget, Report], Message]
    is_prepared: Callable[[str], bool] = lambda _operation_id: True
    drop: Callable[[str, str], None] = lambda _tenant, _operation_id: None
    is_small: bool = False


@dataclass(slots=True)
class _Run:
    """Work that goes on in this process; `progress` is None before it has begun. `turn` is that of a thread.

    `identity` is that of the caller; it is not stored, so after a restart it is unknown.
    """

    operation: Operation
    identity: Identity
    turn: Future[None] | None = None
    budget: Budget = field(default_factory=Budget)
    progress: Progress | None = None
    ended: Future[None] = field(default_factory=Future)


class OperationRunner:
    """Begins, watches and ends operations; `work` is what each method does.

    A tenant has at most `max_unfinished` that wait or work: each takes memory, and a start of the server goes through
    all of them.
    """

    def __init__(self, work: Mapping[str, Work], parts: CallParts, max_unfinished: int) -> None:
        self._work = work
        self._parts = parts
        self._operations = parts.catalog.operations
        # Threads of a pool have no context of a call, so the work has no deadline but its own.
        self._pool = ThreadPoolExecutor(_AT_A_TIME, "operation")
        self._small_pool = ThreadPoolExecutor(_SMALL_AT_A_TIME, "small-operation")
        self._runs: dict[str, _Run] = {}
        self._max_unfinished = max_unfinished
        self._unfinished: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._closing = threading.Event()

    def resume(self, *, at_start: bool = True) -> int:
        """Resume the operations that crashed processes left unfinished, and return how many; all can be repeated."""
        database = self._parts.catalog.database

        def can_do(operation: Operation) -> bool:
            # What another process has staged in a folder of its own waits for its return, but not for ever.
            return (
                not database.is_shared
                or self._work[operation.method].is_prepared(operation.operation_id)
                or operation.cancel_requested
                or database.clock.now() - operation.create_time > UPLOAD_RETENTION
            )

        left = self._operations.take_over(can_do, at_start=at_start)
        for operation in left:
            _log.info("resuming an operation", method=operation.method, collection=operation.collection)
            with self._lock:
                self._unfinished[operation.tenant] += 1  # whatever the limit is now: they had already begun
            self._submit(operation)
        return len(left)

    def look_after(self) -> int:
        """Stop operations that other processes cancelled, and resume those that crashed processes left."""
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            with suppress(OperationNotFoundError):
                operation = run.operation
                if self._operations.get(operation.tenant, operation.operation_id).cancel_requested:
                    run.budget.cancel()
        return self.resume(at_start=False)

    def close(self) -> None:
        """Stop the running operations; the next start resumes them."""
        with self._lock:
            self._closing.set()
            runs = list(self._runs.values())
        for run in runs:
            run.budget.cancel()
        for pool in (self._pool, self._small_pool):
            pool.shutdown(cancel_futures=True)

    def begin(
        self,
        method: str,
        key: RequestKey | None,
        collection: str,
        prepare: Callable[[str], Message],
        operation_id: str = "",
    ) -> operations_pb2.Operation:
        """Begin the operation of a request, or return the one that the same request has begun.

        `prepare` gets the id of a new operation, refuses what cannot begin, and returns what is stored of the request.

        Raises:
            ExhaustedError: the tenant has too many operations that have not ended.
            GroundwireError: whatever `prepare` raises.
        """
        tenant, operation_id = request_context.current().tenant, operation_id or str(uuid.uuid4())
        begun: list[Operation] = []

        def work(receipt: Receipt[Operation] | None) -> Operation:
            # Before anything is prepared, which may mean writing many bytes.
            with self._lock:
                if self._unfinished[tenant] >= self._max_unfinished:
                    message = f"{self._max_unfinished} operations are unfinished; wait until some of them end"
                    raise ExhaustedError(message, limit=self._max_unfinished)
                self._unfinished[tenant] += 1
            try:
                body = prepare(operation_id).SerializeToString(deterministic=True)
                begun.append(self._operations.begin(tenant, operation_id, method, collection, body, receipt))
            except BaseException:
                self._release(tenant)
                raise
            return begun[-1]

        try:
            name = self._parts.run_once(tenant, key, work, lambda made: operation_name(made).encode()).decode()
        except AlreadyExistsError:
            self._work[method].drop(tenant, operation_id)
            raise
        if operation_id_of(name) != operation_id:  # the same request began another one before
            self._work[method].drop(tenant, operation_id)
        for operation in begun:
            self._submit(operation)
        return self.get(name)

    def get(self, name: str) -> operations_pb2.Operation:
        """Return an operation as it is now.

        Raises:
            OperationNotFoundError: there is none of this name.
        """
        return self._message(self._operations.get(request_context.current().tenant, operation_id_of(name)))

    def page(self, before: int | None, limit: int) -> list[tuple[operations_pb2.Operation, Position]]:
        """Return up to `limit` operations with their positions, newest first, those before the position `before`."""
        found = self._operations.page(request_context.current().tenant, before, limit)
        return [(self._message(operation), (operation.place,)) for operation in found]

    def cancel(self, name: str) -> None:
        """Cancel an operation; one that has ended is not changed."""
        operation_id = operation_id_of(name)
        self._operations.request_cancel(request_context.current().tenant, operation_id)
        with self._lock:
            run = self._runs.get(operation_id)
            # `cancel` succeeds again on a cancelled turn, so only the first caller may end the operation.
            is_waiting = run is not None and run.turn is not None and not run.turn.cancelled() and run.turn.cancel()
        if run is not None:
            run.budget.cancel()
            if is_waiting:
                self._run(run)  # it has not begun: it ends now, not when its turn comes

    def delete(self, name: str) -> None:
        """Forget an operation that has ended."""
        self._operations.delete(request_context.current().tenant, operation_id_of(name))

    def end_of(self, name: str) -> Future[None] | None:
        """Return a future of the operation's end, None if it does not run here; does not access the store."""
        run = self._runs.get(operation_id_of(name))
        return None if run is None else run.ended

    def _message(self, operation: Operation) -> operations_pb2.Operation:
        message = operations_pb2.Operation(name=operation_name(operation))
        if operation.outcome is not None:
            message.MergeFromString(operation.outcome)
        if operation.outcome == b"":
            message.done = True
            message.error.CopyFrom(to_status(DocumentNotFoundError(operation.resource_id)))
        run = self._runs.get(operation.operation_id)
        metadata = pb.OperationMetadata(
            method=operation.method,
            collection=operation.collection,
            progress=None if run is None or run.progress is None or message.done else to_progress(run.progress),
            cancel_requested=operation.cancel_requested,
            create_time=to_timestamp(operation.create_time),
            end_time=None if operation.end_time is None else to_timestamp(operation.end_time),
        )
        message.metadata.Pack(metadata)
        return message

    def _release(self, tenant: str) -> None:
        with self._lock:
            self._unfinished[tenant] -= 1

    def _submit(self, operation: Operation) -> None:
        with self._lock:
            if self._closing.is_set():
                return  # the next start takes it up
            run = self._runs[operation.operation_id] = _Run(operation, current_identity())
            pool = self._small_pool if self._work[operation.method].is_small else self._pool
            run.turn = pool.submit(self._run, run)

    def _run(self, run: _Run) -> None:
        operation, resource_id = run.operation, ""
        outcome = operations_pb2.Operation(name=operation_name(operation), done=True)

        def note(progress: Progress) -> None:
            run.progress = progress

        CURRENT_IDENTITY.set(run.identity)
        try:
            if operation.cancel_requested:  # requested before a restart
                run.budget.cancel()
            run.budget.check()
            response = self._work[operation.method].do(operation, run.budget, note)
            outcome.response.Pack(response)
            if isinstance(response, ingest_pb.IngestDocumentResponse):
                resource_id = response.result.document.document_id
        except GroundwireError as error:
            outcome.error.CopyFrom(to_status(error))
        except Exception:  # noqa: BLE001 - whoever watches must see the end
            _log.exception("an operation failed", method=operation.method, collection=operation.collection)
            outcome.error.CopyFrom(to_status(InternalError("an unexpected error; see the log of the server")))
        self._release(operation.tenant)  # before its end is visible, so that the caller can begin another one at once
        try:
            # Work cut off by the end of the process is not over: the next start resumes it.
            if not self._closing.is_set() or outcome.HasField("response"):
                self._finish(operation, outcome.SerializeToString(), resource_id)
        finally:
            with self._lock:
                del self._runs[operation.operation_id]
            run.ended.set_result(None)

    def _finish(self, operation: Operation, outcome: bytes, resource_id: str) -> None:
        """Store the end of an operation; while the catalog fails, which may be what ended it, try again."""
        for pause_s in chain(_PAUSES_S, repeat(_PAUSES_S[-1])):
            try:
                self._operations.finish(operation.tenant, operation.operation_id, outcome, resource_id)
                self._work[operation.method].drop(operation.tenant, operation.operation_id)
            except (UnavailableError, ExhaustedError) as error:
                # Whoever waits for the operation would wait for ever, as nobody but a next start takes it up.
                _log.warning("the end of an operation cannot be stored and is tried again", error=error.message)
                if self._closing.wait(pause_s):
                    return
            except GroundwireError as error:
                _log.warning("the end of an operation was not stored; the next start repeats it", error=error.message)
                return
            else:
                return


@dataclass
class LongWork:
    """Checks requests for long work, begins it, and does it.

    An operation that ingests has the id of its staged bytes. Of a document that a call brought nothing stays once it is
    ingested; what is known of an upload does, for a header that is repeated.
    """

    builder: IndexBuilder
    check: StoreCheck
    purge: DocumentPurge
    documents: DocumentIngest
    uploads: UploadReceiver
    parts: CallParts
    max_unfinished: InitVar[int]
    operations: OperationRunner = field(init=False)

    def __post_init__(self, max_unfinished: int) -> None:
        is_staged = self.uploads.staging.holds
        by_method = {
            "Reindex": Work(self._build_index),
            "Reembed": Work(self._build_index),
            "CheckStore": Work(self._check_store),
            "PurgeDocuments": Work(self._purge_documents),
            "IngestDocument": Work(self._ingest_staged, is_staged, drop=self.uploads.forget, is_small=True),
            "UploadDocument": Work(self._ingest_staged, is_staged, drop=self.uploads.finish, is_small=True),
        }
        self.operations = OperationRunner(by_method, self.parts, max_unfinished)

    def _build_index(self, operation: Operation, budget: Budget, report: Report) -> pb.IndexBuildResult:
        reembeds = operation.method == "Reembed"
        built = self.builder.rebuild(operation.tenant, operation.collection, budget, report, reembeds=reembeds)
        return pb.IndexBuildResult(
            vector_count=built.vectors, embedded_count=built.embedded, embedding=to_identity_message(built.identity)
        )

    def _check_store(self, operation: Operation, budget: Budget, report: Report) -> pb.StoreReport:
        findings: list[pb.StoreFinding] = []

        def receive(event: CheckEvent) -> None:
            if isinstance(event, Progress):
                report(event)
            elif len(findings) < MAX_FINDINGS:  # the report counts all of them, and has to fit into a message
                kind = pb.StoreFindingKind.Value(f"STORE_FINDING_KIND_{event.kind.value}")
                findings.append(pb.StoreFinding(**asdict(event) | {"kind": kind}))

        repair = pb.CheckStoreRequest.FromString(operation.request).repair
        checked = self.check.check(operation.tenant, operation.collection, budget, receive, repair=repair)
        return pb.StoreReport(
            checked_count=checked.checked,
            finding_count=checked.findings,
            repaired_count=checked.repaired,
            consistent=checked.repaired == checked.findings,
            findings=findings,
        )

    def _purge_documents(
        self, operation: Operation, budget: Budget, report: Report
    ) -> ingest_pb.PurgeDocumentsResponse:
        request = ingest_pb.PurgeDocumentsRequest.FromString(operation.request)
        where = parse_purge_filter(request)
        if request.force:
            return ingest_pb.PurgeDocumentsResponse(purge_count=self.purge.delete(operation, where, budget, report))
        count, sample = self.purge.count(operation, where)
        return ingest_pb.PurgeDocumentsResponse(purge_count=count, purge_sample=sample)

    def _ingest_staged(self, operation: Operation, budget: Budget, report: Report) -> ingest_pb.IngestDocumentResponse:
        kind = ingest_pb.UploadHeader if operation.method == "UploadDocument" else ingest_pb.IngestDocumentRequest
        request = parse_staged(kind.FromString(operation.request), operation.tenant)
        for pause_s in _PAUSES_S:
            try:
                return self._ingest_once(operation, request, budget, report)
            except (UnavailableError, OverloadedError) as error:
                _log.info("a staged document is tried again", pause_s=pause_s, error=error.message)
                nothing = threading.Condition()  # a pause that ends at once when the operation is cancelled
                with nothing:
                    budget.wait_for(nothing, lambda: False, pause_s)
        return self._ingest_once(operation, request, budget, report)

    def _ingest_once(
        self, operation: Operation, request: IngestRequest, budget: Budget, report: Report
    ) -> ingest_pb.IngestDocumentResponse:
        """Ingest the document, unless that was done before the process crashed: it must not be done twice."""
        key = RequestKey(f"operation:{operation.operation_id}", operation.method, "")
        with self.uploads.kept(operation.tenant, operation.operation_id) as original:
            result = self.parts.ingest_once(
                operation.tenant, key, lambda receipt: self.documents.ingest(request, original, budget, report, receipt)
            )
        response = ingest_pb.IngestDocumentResponse(result=result)
        return self.parts.with_token(response, operation.collection, operation.tenant)

    def begin_on_collection(
        self, request: pb.ReindexRequest | pb.ReembedRequest | pb.CheckStoreRequest
    ) -> operations_pb2.Operation:
        """Begin work on a collection; only a check may name none, which means all of them."""
        is_on_all = isinstance(request, pb.CheckStoreRequest) and not request.collection
        collection = "" if is_on_all else parse_collection_name(request.collection)

        def checked(_operation_id: str) -> Message:
            if collection:
                self.parts.catalog.collections.get(request_context.current().tenant, collection)
            return request

        method = request.DESCRIPTOR.name.removesuffix("Request")
        return self.operations.begin(method, request_key(method, request), collection, checked)

    def begin_purge(self, request: ingest_pb.PurgeDocumentsRequest) -> operations_pb2.Operation:
        """Begin to delete the documents that a filter matches, or to count them."""
        collection, where = parse_collection_name(request.collection), parse_purge_filter(request)

        def checked(_operation_id: str) -> ingest_pb.PurgeDocumentsRequest:
            self.purge.check(request_context.current().tenant, collection, where)
            return request

        return self.operations.begin("PurgeDocuments", request_key("PurgeDocuments", request), collection, checked)

    def begin_ingest(self, request: ingest_pb.IngestDocumentRequest) -> operations_pb2.Operation:
        """Store the bytes of a document durably and begin to ingest it."""
        tenant, collection = request_context.current().tenant, parse_collection_name(request.collection)

        def staged(operation_id: str) -> ingest_pb.IngestDocumentRequest:
            parsed, original = parse_ingest_document(request, tenant)
            self.documents.admit_bytes(parsed, original)
            self.uploads.keep(tenant, operation_id, original.read())
            described = ingest_pb.IngestDocumentRequest()
            described.CopyFrom(request)
            # The bytes are staged; an empty field remembers which one they came in, for errors that name it.
            if request.WhichOneof("body") == "text":
                described.text = ""
            else:
                described.content = b""
            return described

        return self.operations.begin("IngestDocument", request_key("IngestDocument", request), collection, staged)
