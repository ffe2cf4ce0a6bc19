"""Decorators that run a call in a thread for its kind of work, once per request id, and add a consistency token.

Each is one line above a servicer method, which itself parses the request and runs a use case.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol, TypeAlias, TypeVar

from google.protobuf.message import Message

from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.catalog.catalog import Catalog
from groundwire.catalog.consistency_tokens import ConsistencyTokens
from groundwire.catalog.idempotency import document_told_of
from groundwire.ingest.documents import DocumentIngest
from groundwire.ingest.ingesting import IngestResult
from groundwire.ingest.wire.documents import parse_ingest_document, to_deletion_receipt, to_ingest_result
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.kernel.exactly_once import Receipt, answered_once
from groundwire.kernel.identifiers import RequestKey
from groundwire.rpc import request_context
from groundwire.rpc.request_context import request_key
from groundwire.rpc.workers import Workers

LARGE_BYTES = 1 << 20
# They wait for locks and for the engine far more than they compute.
_CHANGES = 32
_SMALL_PER_WRITER = 4


@dataclass(frozen=True, slots=True)
class Pools:
    """The threads of calls, separated by what they may wait for.

    Reads wait for the catalog alone, changes for the lock of a document, documents for a parser and the model. Threads
    of documents wait more than they work: how many write at a time is bounded elsewhere. A document above LARGE_BYTES
    has threads of its own, so that few are in memory at once and none keeps small ones out.
    """

    reads: Workers
    changes: Workers
    small_documents: Workers
    large_documents: Workers

    @classmethod
    def beside(cls, reads: Workers, writers: int) -> "Pools":
        """Create the other pools, for that many concurrent documents."""
        return cls(
            reads,
            Workers(_CHANGES, "change"),
            Workers(writers * _SMALL_PER_WRITER, "ingest"),
            Workers(writers, "ingest-large"),
        )

    def of_document(self, size_bytes: int) -> Workers:
        return self.large_documents if size_bytes > LARGE_BYTES else self.small_documents

    def close(self) -> None:
        """Stop the threads except those for reads, which belong to the caller."""
        for workers in (self.changes, self.small_documents, self.large_documents):
            workers.close()


T = TypeVar("T")
MessageT = TypeVar("MessageT", bound=Message)


@dataclass(frozen=True, slots=True)
class CallParts:
    """What every call needs to run; shared by all servicers."""

    pools: Pools
    catalog: Catalog
    tokens: ConsistencyTokens

    def run_once(
        self, tenant: str, key: RequestKey | None, work: Callable[[Receipt[T] | None], T], encode: Callable[[T], bytes]
    ) -> bytes:
        """Return the encoded result of `work`, or the bytes of an earlier call with the same request key (design D3).

        An answer that `work` did not store with its effect is stored afterwards, which is right only if it changed
        nothing.

        Raises:
            RequestIdReusedError: the id was used for another method or body.
        """
        if key is None:
            return encode(work(None))
        ledger = self.catalog.ledger

        def work_and_store() -> bytes:
            stored: list[bytes] = []

            def encode_once(result: T) -> bytes:
                stored.append(encode(result))
                return stored[-1]

            result = work(Receipt(key, encode_once))
            # The stored bytes: encoding the result again could give others.
            return stored[-1] if stored else ledger.record(tenant, key, encode(result), document_told_of(result))

        return answered_once(lambda: ledger.find(tenant, key), work_and_store)

    def answer_once(
        self,
        kind: type[MessageT],
        tenant: str,
        key: RequestKey | None,
        work: Callable[[Receipt[T] | None], T],
        to_message: Callable[[T], MessageT],
    ) -> MessageT:
        """Return the message of the result of `work`, or of an earlier call with the same key; see `run_once`."""
        if key is None:
            return to_message(work(None))
        encoded = self.run_once(
            tenant, key, work, lambda result: to_message(result).SerializeToString(deterministic=True)
        )
        return kind.FromString(encoded)

    def ingest_once(
        self, tenant: str, key: RequestKey | None, work: Callable[[Receipt[IngestResult] | None], IngestResult]
    ) -> ingest_result_pb2.IngestResult:
        """Return the message of what an ingest did, or the one before it with the same key; see `run_once`."""
        return self.answer_once(ingest_result_pb2.IngestResult, tenant, key, work, to_ingest_result)

    def with_token(self, answer: MessageT, collection: str, tenant: str = "") -> MessageT:
        """Return the answer of a write with a consistency token of the current position, in it or in its `result`.

        There is none when the collection is gone by now. Work that belongs to no call names its `tenant`.
        """
        tenant = tenant or request_context.current().tenant
        try:
            # At or after the position of the write, also where its answer is an earlier one.
            now = self.catalog.collections.position(tenant, collection)
        except CollectionNotFoundError:
            return answer
        token = self.tokens.issue(now.position, tenant=tenant, collection_uid=now.uid)
        holder: Any = answer
        (holder if "consistency_token" in answer.DESCRIPTOR.fields_by_name else holder.result).consistency_token = token
        return answer


def ingest_alone(
    parts: CallParts, documents: DocumentIngest, request: ingest_pb.IngestDocumentRequest, key: RequestKey | None
) -> ingest_result_pb2.IngestResult:
    """Ingest a document in this thread, once for each key.

    Raises:
        GroundwireError: whatever parsing the request and `DocumentIngest.ingest` raise.
    """
    current = request_context.current()
    parsed, original = parse_ingest_document(request, current.tenant)
    return parts.ingest_once(
        current.tenant,
        key,
        lambda receipt: documents.ingest(parsed, original, current.budget, lambda _: None, receipt),
    )


class Servicer(Protocol):
    """A servicer with calls to run."""

    @property
    def parts(self) -> CallParts: ...


ServicerT = TypeVar("ServicerT", bound=Servicer)
RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)
Blocking: TypeAlias = Callable[[ServicerT, RequestT], ResponseT]
Method: TypeAlias = Callable[[ServicerT, RequestT, Any], Coroutine[Any, Any, ResponseT]]


def read(call: Blocking[ServicerT, RequestT, ResponseT]) -> Method[ServicerT, RequestT, ResponseT]:
    """Run a reading call in a thread for reads, within its budget."""
    return _in_thread(call, lambda pools, _request: pools.reads)


def change(call: Blocking[ServicerT, RequestT, ResponseT]) -> Method[ServicerT, RequestT, ResponseT]:
    """Run a changing call in a thread for changes, within its budget."""
    return _in_thread(call, lambda pools, _request: pools.changes)


def document(call: Blocking[ServicerT, RequestT, ResponseT]) -> Method[ServicerT, RequestT, ResponseT]:
    """Run a call with a document in a thread for documents of its size, within its budget."""
    return _in_thread(call, lambda pools, request: pools.of_document(request.ByteSize()))


def exactly_once(
    kind: type[ResponseT], **field: Callable[[T], Message | Sequence[Message]]
) -> Callable[[Callable[[ServicerT, RequestT, Receipt[T] | None], T]], Blocking[ServicerT, RequestT, ResponseT]]:
    """Let a call with a `request_id` take effect once, and answer every repetition with the first response.

    The method parses the request and returns the result of a use case, to which it hands the receipt that it gets: the
    response is stored in the transaction of the effect. Its one `field` holds the message of the result,
    or its messages.
    """
    method = kind.DESCRIPTOR.name.removesuffix("Response")
    ((name, to_message),) = field.items()

    def decorate(
        work: Callable[[ServicerT, RequestT, Receipt[T] | None], T],
    ) -> Blocking[ServicerT, RequestT, ResponseT]:
        @wraps(work)
        def call(self: ServicerT, request: RequestT) -> ResponseT:
            return self.parts.answer_once(
                kind,
                request_context.current().tenant,
                request_key(method, request),
                lambda receipt: work(self, request, receipt),
                lambda result: kind(**{name: to_message(result)}),
            )

        return call

    return decorate


def with_write_token(call: Blocking[ServicerT, RequestT, ResponseT]) -> Blocking[ServicerT, RequestT, ResponseT]:
    """Add the consistency token for later searches to the response, even to that of an earlier call."""

    @wraps(call)
    def with_token(self: ServicerT, request: RequestT) -> ResponseT:
        collection: str = getattr(request, "collection")  # noqa: B009 - the type knows no fields
        return self.parts.with_token(call(self, request), collection)

    return with_token


def with_current_receipt(call: Blocking[ServicerT, RequestT, ResponseT]) -> Blocking[ServicerT, RequestT, ResponseT]:
    """Update the receipt in a response, which may be that of an earlier call, to the current state of the deletion."""

    @wraps(call)
    def up_to_date(self: ServicerT, request: RequestT) -> ResponseT:
        response: Any = call(self, request)
        deletion = self.parts.catalog.deletions.find(request_context.current().tenant, response.receipt.receipt_id)
        if deletion is not None:
            response.receipt.CopyFrom(to_deletion_receipt(deletion))
        answered: ResponseT = response
        return answered

    return up_to_date


def _in_thread(
    call: Blocking[ServicerT, RequestT, ResponseT], workers: Callable[[Pools, RequestT], Workers]
) -> Method[ServicerT, RequestT, ResponseT]:
    @wraps(call)
    async def run(self: ServicerT, request: RequestT, _context: Any) -> ResponseT:
        pool = workers(self.parts.pools, request)
        return await pool.run(request_context.current().budget, call, self, request)

    return run
