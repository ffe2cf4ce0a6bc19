"""CollectionService: parses requests, runs the use case, answers."""
# ruff: noqa: N802 - names of the methods are the contract's

from dataclasses import dataclass

from groundwire.api.ingest.v1 import collection_service_pb2 as pb
from groundwire.api.ingest.v1 import collection_service_pb2_grpc as pb_grpc
from groundwire.catalog.deletions import Deletion
from groundwire.ingest.collections import CollectionFigures, CollectionUpkeep
from groundwire.ingest.servicer.calls import CallParts, change, exactly_once, read, with_current_receipt
from groundwire.ingest.wire.collections import (
    changed_settings,
    parse_create_collection,
    to_collection_message,
)
from groundwire.ingest.wire.documents import to_deletion_receipt
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.rpc import request_context
from groundwire.rpc.pagination import PageTokens, page_size


@dataclass(frozen=True)
class CollectionServicer(pb_grpc.CollectionServiceServicer):
    """Reads and changes do not wait for each other."""

    parts: CallParts
    collections: CollectionUpkeep
    tokens: PageTokens

    @change
    @exactly_once(pb.CreateCollectionResponse, collection=to_collection_message)
    def CreateCollection(
        self, request: pb.CreateCollectionRequest, receipt: Receipt[CollectionFigures] | None
    ) -> CollectionFigures:
        current = request_context.current()
        new = parse_create_collection(
            request, current.tenant, self.collections.max_document_bytes, self.collections.find
        )
        return self.collections.create(new, current.budget, receipt)

    @read
    def GetCollection(self, request: pb.GetCollectionRequest) -> pb.GetCollectionResponse:
        figures = self.collections.get(request_context.current().tenant, parse_collection_name(request.collection))
        return pb.GetCollectionResponse(collection=to_collection_message(figures))

    @read
    def ListCollections(self, request: pb.ListCollectionsRequest) -> pb.ListCollectionsResponse:
        tenant = request_context.current().tenant
        after = self.tokens.read(request.page_token, tenant=tenant, request=request)
        page, last = self.collections.page(tenant, str(after[0]) if after else "", page_size(request.page_size))
        messages = ((to_collection_message(each), (each.collection.name,)) for each in page)
        listed, token = self.tokens.fill(messages, None if last is None else (last,), tenant=tenant, request=request)
        return pb.ListCollectionsResponse(collections=listed, next_page_token=token)

    @change
    @exactly_once(pb.UpdateCollectionResponse, collection=to_collection_message)
    def UpdateCollection(
        self, request: pb.UpdateCollectionRequest, receipt: Receipt[CollectionFigures] | None
    ) -> CollectionFigures:
        return self.collections.update(
            request_context.current().tenant,
            parse_collection_name(request.collection.name, "collection.name"),
            lambda current: changed_settings(request, current, self.collections.max_document_bytes),
            request.collection.etag,
            receipt,
        )

    @change
    @with_current_receipt
    @exactly_once(pb.DeleteCollectionResponse, receipt=to_deletion_receipt)
    def DeleteCollection(self, request: pb.DeleteCollectionRequest, receipt: Receipt[Deletion] | None) -> Deletion:
        current, name = request_context.current(), parse_collection_name(request.collection)
        return self.collections.delete(
            current.tenant, name, current.budget, receipt, force=request.force, etag=request.etag
        )
