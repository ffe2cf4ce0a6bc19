"""Give a repeated call the answer of the first one (design D3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from groundwire.catalog.idempotency import Ledger, Receipt
from groundwire.ingest.domain.ingesting import IngestResult
from groundwire.kernel.errors import ConflictError
from groundwire.kernel.identifiers import RequestKey

T = TypeVar("T")
MakeReceipt: TypeAlias = Callable[[T], Receipt]


@dataclass(frozen=True, slots=True)
class RememberRequest:
    """Runs a call once for each request key and returns the same bytes for every repetition."""

    ledger: Ledger

    def find(self, tenant: str, key: RequestKey | None) -> bytes | None:
        """Return the answer of an earlier call, or None.

        Raises:
            RequestIdReusedError: the id was used for another method or body.
        """
        if key is None:
            return None
        return self.ledger.find(tenant, key.request_id, key.method, key.body_digest)

    def __call__(
        self,
        tenant: str,
        key: RequestKey | None,
        work: Callable[[MakeReceipt[T] | None], T],
        encode: Callable[[T], bytes],
    ) -> bytes:
        """Return the encoded result of `work`, or the answer of an earlier call.

        `work` gets what makes the receipt, to be stored in the transaction of its effect; None without a key. An
        answer it did not store is stored afterwards, which is right only if it changed nothing.
        """
        earlier = self.find(tenant, key)
        if earlier is not None or key is None:
            return earlier if earlier is not None else encode(work(None))
        made: list[Receipt] = []

        def receipt_of(result: T) -> Receipt:
            made.append(Receipt(key.request_id, key.method, key.body_digest, encode(result)))
            return made[-1]

        try:
            result = work(receipt_of)
        except ConflictError:
            # The same call may have finished in another thread while this one ran.
            earlier = self.find(tenant, key)
            if earlier is None:
                raise
            return earlier
        if made:
            return made[-1].response
        document_id = result.document.document_id if isinstance(result, IngestResult) else ""
        return self.ledger.record(tenant, receipt_of(result), document_id)
