"""Translate what the use cases return into the messages of the contract."""

from collections.abc import Mapping

from groundwire.api.common.v1 import chunk_pb2, document_format_pb2, record_pb2
from groundwire.api.ingest.v1 import deletion_pb2, document_pb2, progress_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.catalog.deletions import Deletion
from groundwire.ingest.domain.ingesting import IngestOutcome, IngestResult, Progress
from groundwire.ingest.domain.reading import ChunkWithVector, TextSlice
from groundwire.ingest.domain.source_text import SourceWarning
from groundwire.ingest.wire.fields import to_fields_message
from groundwire.kernel.document import Document
from groundwire.rpc.chunk_messages import to_span, to_text_of_chunk
from groundwire.rpc.metadata_messages import to_metadata
from groundwire.rpc.times import to_timestamp

_WARNINGS = {
    "CHUNK_UNDERSIZED": "chunks are shorter than the minimum and could not be merged",
    "CHUNK_BEYOND_MODEL": "the model does not read the end of these chunks",
    SourceWarning.PAGE_WITHOUT_TEXT.value: "pages have no text layer and cannot be searched",
    SourceWarning.PROPERTY_IGNORED.value: "values that the source says about itself break a rule: left out or cut",
}


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
        ingestion_time=to_timestamp(document.ingestion_time),
        last_modified_time=to_timestamp(document.last_modified_time),
        display_title=document.display_title,
        record_type=record_pb2.RECORD_TYPE_DOCUMENT,
        delete_time=None if document.delete_time is None else to_timestamp(document.delete_time),
    )


def to_ingest_result(result: IngestResult) -> document_pb2.IngestResult:
    """Return the message of what an ingest did."""
    wrote = result.outcome in {IngestOutcome.CREATED, IngestOutcome.REPLACED}
    return document_pb2.IngestResult(
        document=to_document_message(result.document),
        outcome=document_pb2.IngestOutcome.Value(f"INGEST_OUTCOME_{result.outcome.name}"),
        counts=document_pb2.IngestCounts(
            chunk_count=result.document.chunk_count,
            embedded_count=result.embedded,
            reused_embedding_count=result.reused if wrote else result.document.chunk_count,
            skipped_duplicate_count=result.skipped,
        ),
        warnings=to_warnings(result.undersized, result.beyond_model, result.warnings),
    )


def to_warnings(
    undersized: int, beyond_model: int, of_source: Mapping[SourceWarning, int]
) -> list[document_pb2.IngestWarning]:
    """Return the messages of what the caller should know; the counts are those of an `IngestResult`."""
    counts = {
        "CHUNK_UNDERSIZED": undersized,
        "CHUNK_BEYOND_MODEL": beyond_model,
        **{warning.value: count for warning, count in of_source.items()},
    }
    return [
        document_pb2.IngestWarning(
            kind=document_pb2.IngestWarningKind.Value(f"INGEST_WARNING_KIND_{kind}"),
            message=_WARNINGS[kind],
            occurrence_count=count,
        )
        for kind, count in counts.items()
        if count
    ]


def to_progress(progress: Progress) -> progress_pb2.Progress:
    """Return the message of how far a call is."""
    return progress_pb2.Progress(
        stage=progress_pb2.ProgressStage.Value(f"PROGRESS_STAGE_{progress.stage.name}"),
        done_count=progress.done,
        total_count=progress.total,
    )


def to_text_message(part: TextSlice) -> pb.GetDocumentTextResponse:
    """Return the message of a part of a text."""
    return pb.GetDocumentTextResponse(
        text=part.text, span=to_span(part.span), generation=part.generation, total_chars=part.total_chars
    )


def to_chunk_message(found: ChunkWithVector) -> chunk_pb2.Chunk:
    """Return the message of a chunk."""
    stored, document = found.stored, found.stored.document
    message = to_text_of_chunk(stored.chunk)
    message.MergeFrom(
        chunk_pb2.Chunk(
            chunk_id=stored.chunk_id,
            chunk_number=stored.chunk_number,
            document_id=document.document_id,
            generation=stored.generation,
            source_uri=document.source_uri,
            tokenizer=document.tokenizer,
            prev_chunk_id=stored.links.previous or "",
            next_chunk_id=stored.links.following or "",
            parent_chunk_id=stored.links.parent or "",
            grandparent_chunk_id=stored.links.grandparent or "",
            tags=stored.tags,
            metadata=to_metadata(stored.metadata),
            record_type=record_pb2.RECORD_TYPE_DOCUMENT,
            embedding_model=document.embedding_model,
            embedding_time=to_timestamp(stored.embedding_time),
            created_time=to_timestamp(stored.ingestion_time),
            embedding=() if found.vector is None else found.vector.tolist(),
        )
    )
    return message


def to_deletion_receipt(deletion: Deletion) -> deletion_pb2.DeletionReceipt:
    """Return the receipt of a deletion."""
    completed = deletion.complete_time
    return deletion_pb2.DeletionReceipt(
        receipt_id=deletion.deletion_id,
        state=deletion_pb2.DELETION_STATE_HIDDEN if completed is None else deletion_pb2.DELETION_STATE_COMPLETE,
        permanent=deletion.permanent,
        document_count=deletion.documents,
        chunk_count=deletion.chunks,
        stores=[
            deletion_pb2.StoreDeletion(
                store=each.store,
                removed_count=each.removed,
                leftover_count=each.left,
                complete=each.left == 0,
            )
            for each in deletion.stores
        ],
        hidden_time=to_timestamp(deletion.hidden_time),
        completed_time=None if completed is None else to_timestamp(completed),
    )
