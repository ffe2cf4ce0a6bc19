"""Both services on one catalog: what ingest stores, retrieve reads."""

from pathlib import Path
from typing import Any

from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as ingest_pb
from groundwire.kernel.vector_store import VectorStore
from groundwire.retrieve.bootstrap import RetrieveService, build
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.workers import Workers
from tests.integration.ingest.harness import DIMENSIONS, CountingEmbedder, Harness


class ReadingRoom:
    """An ingest harness and a retrieve service beside it; `service` can be served."""

    def __init__(
        self,
        folder: Path,
        settings: RetrieveSettings | None = None,
        dimensions: int = DIMENSIONS,
        vectors: VectorStore | None = None,
    ) -> None:
        self.ingest = Harness(folder, vectors, CountingEmbedder(dimensions)).without_housekeeping()
        self.lookups = Workers(2)
        self.service: RetrieveService = build(
            database=self.ingest.catalog,
            vectors=self.ingest.vectors,
            embedder=self.ingest.embedder,
            settings=settings or RetrieveSettings(),
            workers=self.ingest.workers,
            lookups=self.lookups,
        )

    def create(self, collection: str, settings: collection_pb2.CollectionSettings | None = None, **fields: Any) -> None:
        given = {"profile": collection_pb2.PROFILE_DOCUMENTS, **fields}
        request = ingest_pb.CreateCollectionRequest(collection=collection, settings=settings, **given)
        self.ingest.calls.create_collection(request)

    def put(self, collection: str, source: str, text: str, **fields: Any) -> str:
        """Ingest a text and return the id of its document."""
        return self.ingest.ingest(collection, source, text, **fields).document.document_id

    def close(self) -> None:
        self.service.close()
        self.ingest.close()
        self.lookups.close()
