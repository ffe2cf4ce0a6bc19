"""BatchIngestDocuments: several documents at the same time, so that the model embeds their texts together."""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.documents import DocumentIngest
from groundwire.ingest.servicer.calls import CallParts, ingest_alone
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CallCancelledError, DeadlineError, InvalidRequestError
from groundwire.kernel.identifiers import RequestKey, parse_collection_name
from groundwire.rpc import request_context
from groundwire.rpc.calls import as_groundwire_error
from groundwire.rpc.error_status import to_status
from groundwire.rpc.pagination import MAX_PAGE_BYTES
from groundwire.rpc.request_context import request_key

MAX_DOCUMENTS = 100
# Most threads of one batch, so that others get some too; as many documents are written at a time.
_AT_A_TIME = 8


@dataclass(frozen=True, slots=True)
class BatchIngest:
    """Ingests each document of a batch in a thread of its own, as a call of its own would.

    The request id of the batch stands for one of each document, so that a batch that is sent again goes on where it was
    cut off, and no answer holds what is said about several documents: the deletion of one takes its words away.
    """

    documents: DocumentIngest
    parts: CallParts

    async def ingest(self, request: pb.BatchIngestDocumentsRequest) -> pb.BatchIngestDocumentsResponse:
        """Return what became of each document.

        Raises:
            InvalidRequestError: the batch as a whole breaks a rule.
            RequestIdReusedError: the request id was used with another body.
            DeadlineError: the time is used up; what is ingested stays, and the same request ingests the rest.
        """
        budget = request_context.current().budget
        collection, key = parse_collection_name(request.collection), request_key("BatchIngestDocuments", request)
        if not 1 <= len(request.requests) <= MAX_DOCUMENTS:
            raise InvalidRequestError.of("requests", f"must be 1 to {MAX_DOCUMENTS} documents")
        sources: dict[str, int] = {}
        ids: dict[str, int] = {}
        for number, item in enumerate(request.requests):
            place = f"requests[{number}]"
            if item.collection not in {"", request.collection}:
                raise InvalidRequestError.of(f"{place}.collection", "must be unset or that of the batch")
            if item.request_id:
                raise InvalidRequestError.of(f"{place}.request_id", "must be unset: the batch has one")
            if item.run_async:
                raise InvalidRequestError.of(f"{place}.run_async", "must be unset")
            if item.source_uri and (first := sources.setdefault(item.source_uri, number)) != number:
                raise InvalidRequestError.of(f"{place}.source_uri", f"is already that of requests[{first}]")
            if item.document_id and (first := ids.setdefault(item.document_id, number)) != number:
                raise InvalidRequestError.of(f"{place}.document_id", f"is already that of requests[{first}]")
        # Refuses a reused request id before any document is ingested.
        tenant, get = request_context.current().tenant, self.parts.catalog.collections.get
        begin, changes = self.parts.run_once, self.parts.pools.changes
        await changes.run(budget, begin, tenant, key, lambda _: get(tenant, collection), lambda _: b"begun")
        outcomes = await self._outcomes(request, key, budget)
        # From where the response would be too large, leave out what can be read elsewhere.
        total = 0
        for outcome in outcomes:
            if total + outcome.ByteSize() > MAX_PAGE_BYTES and outcome.HasField("result"):
                outcome.result.document.ClearField("fields")
                outcome.result.document.ClearField("alias_uris")
            total += outcome.ByteSize()
        response = pb.BatchIngestDocumentsResponse(outcomes=outcomes)
        return await self.parts.pools.reads.run(budget, self.parts.with_token, response, collection)

    async def _outcomes(
        self, request: pb.BatchIngestDocumentsRequest, key: RequestKey | None, budget: Budget
    ) -> list[pb.BatchIngestDocumentsOutcome]:
        items = request.requests
        outcomes = [pb.BatchIngestDocumentsOutcome()] * len(items)
        free = asyncio.Semaphore(_AT_A_TIME)

        async def ingest(numbers: Iterable[int]) -> None:
            async with free:
                for number in numbers:
                    own = key and replace(key, request_id=f"{key.request_id}#{number}")
                    workers = self.parts.pools.of_document(items[number].ByteSize())
                    outcomes[number] = await workers.run(budget, self._ingest, request.collection, items[number], own)

        # The first of several equal documents must be stored before the others.
        groups: defaultdict[bytes, list[int]] = defaultdict(list)
        for number, item in enumerate(items):
            groups[hashlib.sha256(item.content or item.text.encode()).digest()].append(number)
        tasks = [asyncio.create_task(ingest(numbers)) for numbers in groups.values()]
        try:
            await asyncio.gather(*tasks)
        finally:
            # When one raised, the others must not go on after the call has ended.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return outcomes

    def _ingest(
        self, collection: str, item: pb.IngestDocumentRequest, key: RequestKey | None
    ) -> pb.BatchIngestDocumentsOutcome:
        # As a single call would: fields in errors are named relative to the document, not to the batch.
        alone = pb.IngestDocumentRequest()
        alone.CopyFrom(item)
        alone.collection = collection
        try:
            return pb.BatchIngestDocumentsOutcome(result=ingest_alone(self.parts, self.documents, alone, key))
        except (CallCancelledError, DeadlineError):
            raise
        except Exception as error:  # noqa: BLE001 - as_groundwire_error logs what is not ours
            return pb.BatchIngestDocumentsOutcome(error=to_status(as_groundwire_error(error, "BatchIngestDocuments")))
