"""Long work on stores as operations: begun by a call, done in threads of their own, watched by whoever likes."""

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import structlog
from google.longrunning import operations_pb2
from google.protobuf.message import Message

from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb
from groundwire.catalog import operations as stored
from groundwire.catalog.generations import Receipt
from groundwire.ingest.domain.ingesting import Progress
from groundwire.ingest.domain.operating import CheckEvent
from groundwire.ingest.operations import Operations
from groundwire.ingest.remember_request import RememberRequest
from groundwire.ingest.wire.operations import (
    MAX_FINDINGS,
    operation_id_of,
    operation_name,
    to_index_build_result,
    to_operation,
    to_report_message,
)
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CallCancelledError, GroundwireError, InternalError
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.kernel.store_findings import StoreFinding
from groundwire.rpc import request_context
from groundwire.rpc.error_status import to_status
from groundwire.rpc.request_keys import request_key

_STOP_LIMIT_S = 10.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Run:
    """Work that goes on in this process; `progress` is None before it has begun."""

    budget: Budget = field(default_factory=Budget)
    progress: Progress | None = None
    ended: Future[None] = field(default_factory=Future)


class OperationCalls:
    """Begins, watches and ends operations. Operations beyond `at_a_time` wait for their turn."""

    def __init__(
        self, use: Operations, operations: stored.Operations, remember: RememberRequest, at_a_time: int
    ) -> None:
        self.use = use
        self._operations = operations
        self._remember = remember
        # Threads of a pool have no context of a call, so the work has no deadline but its own.
        self._pool = ThreadPoolExecutor(at_a_time, "operation")
        self._runs: dict[str, _Run] = {}
        self._lock = threading.Lock()
        self._closing = False

    def resume(self) -> None:
        """Go on with what the process before this one left unfinished; all of it can be done again."""
        for operation in self._operations.unfinished():
            _log.info("going on with an operation", method=operation.method, collection=operation.collection)
            self._submit(operation)

    def close(self) -> None:
        """Stop what is going on; the next start goes on with it."""
        with self._lock:
            self._closing = True
            runs = list(self._runs.values())
        for run in runs:
            run.budget.cancel()
        self.use.runs.close()
        self._pool.shutdown(cancel_futures=True)

    def reindex(self, request: pb.ReindexRequest) -> operations_pb2.Operation:
        """Begin to build the indexes of a collection anew."""
        return self._begin("Reindex", request)

    def reembed(self, request: pb.ReembedRequest) -> operations_pb2.Operation:
        """Begin to embed a collection anew."""
        return self._begin("Reembed", request)

    def check(self, request: pb.CheckStoreRequest) -> operations_pb2.Operation:
        """Begin to compare the stores with the catalog."""
        return self._begin("CheckStore", request)

    def get(self, name: str) -> operations_pb2.Operation:
        """Return an operation as it is now.

        Raises:
            OperationNotFoundError: there is none of this name.
        """
        return self._message(self._operations.get(request_context.current().tenant, operation_id_of(name)))

    def page(self, before: int | None, limit: int) -> tuple[list[operations_pb2.Operation], int | None]:
        """Return a page of operations, newest first, and where the next page begins, None on the last."""
        found = self._operations.page(request_context.current().tenant, before, limit + 1)
        more = found[limit - 1].place if len(found) > limit else None
        return [self._message(operation) for operation in found[:limit]], more

    def cancel(self, name: str) -> None:
        """Tell an operation to stop; one that has ended stays as it is."""
        operation_id = operation_id_of(name)
        self._operations.request_cancel(request_context.current().tenant, operation_id)
        with self._lock:
            run = self._runs.get(operation_id)
        if run is not None:
            run.budget.cancel()

    def delete(self, name: str) -> None:
        """Forget an operation that has ended."""
        self._operations.delete(request_context.current().tenant, operation_id_of(name))

    def end_of(self, name: str) -> Future[None] | None:
        """Return what is done when an operation has ended, None when it does not go on; asks no store."""
        run = self._runs.get(operation_id_of(name))
        return None if run is None else run.ended

    def _begin(
        self, method: str, request: pb.ReindexRequest | pb.ReembedRequest | pb.CheckStoreRequest
    ) -> operations_pb2.Operation:
        tenant = request_context.current().tenant
        if request.collection or method != "CheckStore":
            self.use.check.collections.get(tenant, parse_collection_name(request.collection))
        begun: list[stored.Operation] = []

        def work(receipt: Callable[[stored.Operation], Receipt] | None) -> stored.Operation:
            operation_id, body = str(uuid.uuid4()), request.SerializeToString(deterministic=True)
            begun.append(self._operations.begin(tenant, operation_id, method, request.collection, body, receipt))
            return begun[-1]

        name = self._remember(
            tenant, request_key(method, request), work, lambda made: operation_name(made).encode()
        ).decode()
        for operation in begun:
            self._submit(operation)
        return self.get(name)

    def _message(self, operation: stored.Operation) -> operations_pb2.Operation:
        run = self._runs.get(operation.operation_id)
        return to_operation(operation, run.progress if run is not None else None)

    def _submit(self, operation: stored.Operation) -> None:
        with self._lock:
            if self._closing:
                return  # the next start takes it up
            run = self._runs[operation.operation_id] = _Run()
            self._pool.submit(self._run, operation, run)

    def _run(self, operation: stored.Operation, run: _Run) -> None:
        outcome = operations_pb2.Operation(name=operation_name(operation), done=True)
        try:
            outcome.response.Pack(self._do(operation, run))
        except GroundwireError as error:
            outcome.error.CopyFrom(to_status(error))
        except Exception:  # noqa: BLE001 - whoever watches must hear of the end
            _log.exception("an operation failed", method=operation.method, collection=operation.collection)
            outcome.error.CopyFrom(to_status(InternalError("an unexpected error; the log of the server has it")))
        try:
            # What the end of the process cut off is not over: the next start goes on with it.
            if not self._closing or outcome.HasField("response"):
                self._operations.finish(operation.tenant, operation.operation_id, outcome.SerializeToString())
        except GroundwireError as error:
            _log.warning("the end of an operation was not stored; the next start repeats it", error=error.message)
        finally:
            with self._lock:
                del self._runs[operation.operation_id]
            run.ended.set_result(None)

    def _do(self, operation: stored.Operation, run: _Run) -> Message:
        """Return the response of an operation.

        Raises:
            CallCancelledError: it was cancelled, or the process is closing.
            GroundwireError: whatever the work raises.
        """
        tenant, name = operation.tenant, operation.collection
        if operation.cancel_requested:
            raise CallCancelledError("the operation was cancelled")

        def note(progress: Progress) -> None:
            run.progress = progress

        match operation.method:
            case "Reindex":
                return to_index_build_result(self.use.reindex(tenant, name, run.budget, note))
            case "Reembed":
                return to_index_build_result(self.use.reembed(tenant, name, run.budget, note))
            case _:
                findings: list[StoreFinding] = []

                def hear(event: CheckEvent) -> None:
                    if isinstance(event, Progress):
                        run.progress = event
                    elif len(findings) < MAX_FINDINGS:
                        findings.append(event)

                repair = pb.CheckStoreRequest.FromString(operation.request).repair
                return to_report_message(self.use.check(tenant, name, run.budget, hear, repair=repair), findings)
