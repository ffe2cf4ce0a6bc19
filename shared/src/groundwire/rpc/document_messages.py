"""Documents and embeddings as messages, for every service that returns them."""

from groundwire.api.common.v1 import document_format_pb2, document_pb2, embedding_pb2
from groundwire.kernel.document import Document, DocumentFields, DocumentReference
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.identifiers import parse_source_uri
from groundwire.rpc.metadata_messages import to_metadata
from groundwire.rpc.times import to_timestamp


def parse_reference(message: document_pb2.DocumentReference) -> DocumentReference:
    """Return which document is meant.

    Raises:
        InvalidRequestError: neither id nor source is given, or the source cannot be one.
    """
    match message.WhichOneof("reference"):
        case "document_id" if message.document_id:
            return DocumentReference(document_id=message.document_id)
        case "source_uri":
            return DocumentReference(source_uri=parse_source_uri(message.source_uri, "reference.source_uri"))
        case _:
            raise InvalidRequestError.of("reference", "must be given: either document_id or source_uri")


def to_document_message(document: Document) -> document_pb2.Document:
    """Return the message of a document."""
    return document_pb2.Document(
        document_id=document.document_id,
        collection=document.collection,
        source_uri=document.source_uri,
        format=document_format_pb2.DocumentFormat.Value(f"DOCUMENT_FORMAT_{document.format.name}"),
        source_hash=document.source_hash,
        fields=to_fields_message(document.fields),
        generation=document.generation,
        chunk_count=document.chunk_count,
        total_chars=document.total_chars,
        total_bytes=document.total_bytes,
        encoding=document.encoding,
        embedding_model=document.embedding_model,
        ingest_time=to_timestamp(document.ingest_time),
        update_time=to_timestamp(document.update_time),
        display_title=document.display_title,
        alias_uris=document.alias_uris,
        alias_count=document.alias_count,
        source_version=document.source_version,
        delete_time=None if document.delete_time is None else to_timestamp(document.delete_time),
        etag=document.etag,
    )


def to_fields_message(fields: DocumentFields) -> document_pb2.DocumentFields:
    """Return the message of the fields; absent values are left out."""
    return document_pb2.DocumentFields(
        title=fields.title or "",
        creators=fields.creators,
        subjects=fields.subjects,
        description=fields.description or "",
        date_created=to_timestamp(fields.date_created) if fields.date_created else None,
        language=fields.language,
        category=fields.category or "",
        tags=fields.tags,
        project=fields.project or "",
        metadata=to_metadata(fields.metadata),
    )


def to_identity_message(identity: EmbeddingIdentity) -> embedding_pb2.EmbeddingIdentity:
    """Return the message of an embedding identity."""
    return embedding_pb2.EmbeddingIdentity(
        provider=identity.provider,
        model_name=identity.model_name,
        revision=identity.revision,
        dimensions=identity.dimensions,
        max_sequence_tokens=identity.max_tokens,
        normalized=identity.normalized,
        probe_digest=identity.probe_digest,
    )
