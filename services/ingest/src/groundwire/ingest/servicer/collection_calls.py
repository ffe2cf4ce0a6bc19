"""The calls on collections: message in, message out, blocking."""

from dataclasses import dataclass

from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as pb
from groundwire.catalog.deletions import Deletions
from groundwire.ingest.create_collection import CreateCollection
from groundwire.ingest.delete_collection import DeleteCollection
from groundwire.ingest.read_collections import CollectionFigures, GetCollection, ListCollections
from groundwire.ingest.remember_request import RememberRequest
from groundwire.ingest.servicer.calls import answered_once, bring_up_to_date
from groundwire.ingest.update_collection import UpdateCollection
from groundwire.ingest.wire.collections import (
    SettingsReader,
    changed_settings,
    parse_create_collection,
    to_collection_message,
)
from groundwire.ingest.wire.documents import to_deletion_receipt
from groundwire.kernel.collection import Collection, CollectionSettings
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.rpc import request_context
from groundwire.rpc.pagination import PageTokens, page_size


@dataclass(frozen=True, slots=True)
class CollectionUseCases:
    """What the calls on collections use."""

    create: CreateCollection
    get: GetCollection
    list: ListCollections
    update: UpdateCollection
    delete: DeleteCollection
    deletions: Deletions
    remember: RememberRequest


@dataclass(frozen=True, slots=True)
class CollectionCalls:
    """Checks, runs and answers; the tenant is that of the current call. `vector_engine` is the name of the store."""

    use: CollectionUseCases
    tokens: PageTokens
    read_settings: SettingsReader
    vector_engine: str

    def create(self, request: pb.CreateCollectionRequest) -> pb.CreateCollectionResponse:
        """Create a collection."""
        current = request_context.current()
        wanted = parse_create_collection(request, current.tenant, self.read_settings)

        return answered_once(
            self.use.remember,
            request,
            pb.CreateCollectionResponse,
            lambda receipt: self.use.create(wanted, current.budget, receipt),
            lambda found: pb.CreateCollectionResponse(collection=self._message(found)),
        )

    def get(self, request: pb.GetCollectionRequest) -> pb.GetCollectionResponse:
        """Return a collection."""
        found = self.use.get(request_context.current().tenant, parse_collection_name(request.collection))
        return pb.GetCollectionResponse(collection=self._message(found))

    def list(self, request: pb.ListCollectionsRequest) -> pb.ListCollectionsResponse:
        """Return a page of collections."""
        tenant = request_context.current().tenant
        after = self.tokens.read(request.page_token, tenant=tenant, request=request)
        page = self.use.list(tenant, str(after[0]) if after else "", page_size(request.page_size))
        messages = ((self._message(found), (found.collection.name,)) for found in page.items)
        collections, token = self.tokens.fill(messages, page.next_position, tenant=tenant, request=request)
        return pb.ListCollectionsResponse(collections=collections, next_page_token=token)

    def update(self, request: pb.UpdateCollectionRequest) -> pb.UpdateCollectionResponse:
        """Change settings of a collection."""
        tenant, name = (
            request_context.current().tenant,
            parse_collection_name(request.collection.name, "collection.name"),
        )

        def change(current: Collection) -> CollectionSettings:
            return changed_settings(request, current, self.read_settings)

        return answered_once(
            self.use.remember,
            request,
            pb.UpdateCollectionResponse,
            lambda receipt: self.use.update(tenant, name, change, request.collection.etag, receipt),
            lambda found: pb.UpdateCollectionResponse(collection=self._message(found)),
        )

    def delete(self, request: pb.DeleteCollectionRequest) -> pb.DeleteCollectionResponse:
        """Delete a collection."""
        current, name = request_context.current(), parse_collection_name(request.collection)

        answer = answered_once(
            self.use.remember,
            request,
            pb.DeleteCollectionResponse,
            lambda receipt: self.use.delete(
                current.tenant, name, current.budget, receipt, force=request.force, etag=request.etag
            ),
            lambda deletion: pb.DeleteCollectionResponse(receipt=to_deletion_receipt(deletion)),
        )
        bring_up_to_date(answer.receipt, self.use.deletions)
        return answer

    def _message(self, found: CollectionFigures) -> collection_pb2.Collection:
        return to_collection_message(found, self.vector_engine, self.read_settings.max_document_bytes)
