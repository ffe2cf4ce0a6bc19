"""Give a repeated call the answer of the first one (design D3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from groundwire.catalog.idempotency import Ledger, Receipt
from groundwire.ingest.ingesting import IngestResult
from groundwire.kernel.document import Document
from groundwire.kernel.exactly_once import answered_once
from groundwire.kernel.identifiers import RequestKey

T = TypeVar("T")
MakeReceipt: TypeAlias = Callable[[T], Receipt] | None
"""Makes the receipt of a call from its result, in the transaction of its effect; None for a call without a key."""


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """Runs a call once for each request key and returns the same bytes for every repetition."""

    ledger: Ledger

    def find(self, tenant: str, key: RequestKey) -> bytes | None:
        """Return the answer of an earlier call, or None.

        Raises:
            RequestIdReusedError: the id was used for another method or body.
        """
        return self.ledger.find(tenant, key.request_id, key.method, key.body_digest)

    def run(
        self, tenant: str, key: RequestKey | None, work: Callable[[MakeReceipt[T]], T], encode: Callable[[T], bytes]
    ) -> bytes:
        """Return the encoded result of `work`, or the answer of an earlier call with the same key.

        An answer that `work` did not store with its effect is stored afterwards, which is right only if it changed
        nothing.
        """
        if key is None:
            return encode(work(None))

        def work_and_store() -> bytes:
            made: list[Receipt] = []

            def make_receipt(result: T) -> Receipt:
                made.append(Receipt(key.request_id, key.method, key.body_digest, encode(result)))
                return made[-1]

            result = work(make_receipt)
            if made:
                return made[-1].response
            # An answer that tells of a document names it, so that a permanent deletion takes its words away.
            document: object = result.document if isinstance(result, IngestResult) else result
            document_id = document.document_id if isinstance(document, Document) else ""
            return self.ledger.record(tenant, make_receipt(result), document_id)

        return answered_once(lambda: self.find(tenant, key), work_and_store)
