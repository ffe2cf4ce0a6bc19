"""Documents that are ingested, changed, deleted and searched: two services on one catalog."""

import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groundwire.api.common.v1 import chunk_pb2, document_pb2, hit_pb2, metadata_value_pb2
from groundwire.api.common.v1.chunk_pb2 import ChunkReference
from groundwire.api.ingest.v1 import collection_pb2, deletion_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.retrieve.bootstrap import RetrieveService, build
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.vectorstores.factory import open_vector_store
from tests.integration.ingest.harness import Calls, Harness
from tests.stubs import by_id

_SETTINGS = RetrieveSettings()
WORDS = "tide moon harbour granite yeast comet lantern orchard compass glacier meadow anvil".split()  # noqa: SIM905 - easier to read


class Store:
    """One process with one collection `docs`."""

    def __init__(self, folder: Path, vectors_url: str = "memory:", **settings: Any) -> None:
        self.vectors = open_vector_store(vectors_url, data_dir=folder)
        self.harness = Harness(folder, self.vectors, **settings).without_housekeeping()
        self.searching: RetrieveService = build(
            database=self.harness.catalog,
            vectors=self.vectors,
            embedder=self.harness.embedder,
            settings=_SETTINGS,
            workers=self.harness.workers,
            lookups=self.harness.workers,
        )

    @property
    def changes(self) -> Calls:
        return self.harness.calls

    def create(self, **settings: Any) -> "Store":
        given = {"profile": collection_pb2.PROFILE_DOCUMENTS, **settings}
        self.harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection="docs", **given))
        return self

    def ingest(self, source: str, text: str, **fields: Any) -> document_pb2.Document:
        stated = document_pb2.DocumentFields(**fields) if fields else None
        return self.harness.ingest("docs", source, text, fields=stated).document

    def update(
        self,
        document_id: str,
        *paths: str,
        set_metadata: Mapping[str, metadata_value_pb2.MetadataValue] | None = None,
        remove_metadata: Sequence[str] = (),
        etag: str = "",
        request_id: str = "",
        **fields: Any,
    ) -> document_pb2.Document:
        request = pb.UpdateDocumentRequest(
            collection="docs",
            reference=by_id(document_id),
            document=document_pb2.Document(fields=document_pb2.DocumentFields(**fields), etag=etag),
            set_metadata=set_metadata,
            remove_metadata=remove_metadata,
            request_id=request_id,
        )
        request.update_mask.paths.extend(paths)
        return self.changes.update_document(request).document

    def update_chunk(
        self, chunk_id: str, *paths: str, tags: Sequence[str] = (), etag: str = "", **changes: Any
    ) -> chunk_pb2.Chunk:
        request = pb.UpdateChunkRequest(
            collection="docs", chunk=chunk_pb2.Chunk(chunk_id=chunk_id, tags=tags, etag=etag), **changes
        )
        request.update_mask.paths.extend(paths)
        return self.changes.update_chunk(request).chunk

    def delete(self, document_id: str, *, purge: bool = True, request_id: str = "") -> deletion_pb2.DeletionReceipt:
        request = pb.DeleteDocumentRequest(
            collection="docs", reference=by_id(document_id), purge=purge, request_id=request_id
        )
        return self.harness.calls.delete_document(request).receipt

    def restore(self, document_id: str, request_id: str = "", *, etag: str = "") -> document_pb2.Document:
        request = pb.RestoreDocumentRequest(
            collection="docs", reference=by_id(document_id), request_id=request_id, etag=etag
        )
        return self.changes.restore_document(request).document

    def get(self, document_id: str) -> document_pb2.Document:
        return self.harness.library.get_document(
            library_pb.GetDocumentRequest(collection="docs", reference=by_id(document_id))
        ).document

    def chunk(self, chunk_id: str, *, include_embedding: bool = False) -> chunk_pb2.Chunk:
        request = library_pb.GetChunkRequest(
            collection="docs", reference=ChunkReference(chunk_id=chunk_id), include_embedding=include_embedding
        )
        return self.harness.library.get_chunk(request).chunk

    def chunks(
        self, document: str | document_pb2.DocumentReference | None = None, **query: Any
    ) -> list[chunk_pb2.Chunk]:
        reference = by_id(document) if isinstance(document, str) else document
        request = library_pb.ListChunksRequest(collection="docs", reference=reference, page_size=1000, **query)
        return list(self.harness.library.list_chunks(request).chunks)

    def documents(self, **query: Any) -> list[document_pb2.Document]:
        request = library_pb.ListDocumentsRequest(collection="docs", page_size=1000, **query)
        return list(self.harness.library.list_documents(request).documents)

    def search(self, query: str, where: Mapping[str, Any] | None = None, **options: Any) -> list[hit_pb2.Hit]:
        request = retrieve_service_pb2.RetrieveRequest(collection="docs", query=query)
        request.options.top_k = options.pop("top_k", 20)
        for name, value in options.items():
            setattr(request.options, name, value)
        if where is not None:
            request.options.filter.CopyFrom(to_filter_message(parse_filter(dict(where))))
        return list(self.searching.servicer.retrieve(request, time.perf_counter()).message().results)

    def points(self) -> list[int]:
        return self.harness.points("docs")

    def close(self) -> None:
        self.searching.close()
        self.harness.close()
        self.vectors.close()


def text(value: str) -> metadata_value_pb2.MetadataValue:
    return metadata_value_pb2.MetadataValue(string_value=value)


def number(value: int) -> metadata_value_pb2.MetadataValue:
    return metadata_value_pb2.MetadataValue(int64_value=value)


def story(chance: random.Random, sections: int = 3) -> str:
    """Return a Markdown document with a heading for each section, long enough for a chunk each."""
    parts = [f"## Part {index}\n\n" + _sentences(chance) for index in range(sections)]
    return "# Story\n\n" + "\n\n".join(parts) + "\n"


def _sentences(chance: random.Random) -> str:
    return " ".join(" ".join(chance.choices(WORDS, k=9)).capitalize() + "." for _ in range(20))
