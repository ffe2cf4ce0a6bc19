"""Translate what the use cases return into the messages of the contract."""

from collections.abc import Mapping, Sequence

from groundwire.api.ingest.v1 import deletion_pb2, ingest_result_pb2, progress_pb2
from groundwire.catalog.deletions import Deletion
from groundwire.ingest.domain.ingesting import IngestOutcome, IngestResult, Progress
from groundwire.ingest.domain.source_text import SourceWarning
from groundwire.rpc.document_messages import to_document_message
from groundwire.rpc.times import to_timestamp

_WARNINGS = {
    "CHUNK_UNDERSIZED": "chunks are shorter than the minimum and could not be merged",
    "CHUNK_BEYOND_MODEL": "the model does not read the end of these chunks",
    SourceWarning.PAGE_WITHOUT_TEXT.value: "pages have no text layer and cannot be searched",
    SourceWarning.PROPERTY_IGNORED.value: "values that the source says about itself break a rule: left out or cut",
}


def to_ingest_result(result: IngestResult) -> ingest_result_pb2.IngestResult:
    """Return the message of what an ingest did."""
    wrote = result.outcome in {IngestOutcome.CREATED, IngestOutcome.REPLACED}
    return ingest_result_pb2.IngestResult(
        document=to_document_message(result.document),
        outcome=ingest_result_pb2.IngestOutcome.Value(f"INGEST_OUTCOME_{result.outcome.name}"),
        counts=ingest_result_pb2.IngestCounts(
            chunk_count=result.document.chunk_count,
            embedded_count=result.embedded,
            reused_embedding_count=result.reused if wrote else result.document.chunk_count,
            skipped_duplicate_count=result.skipped,
        ),
        warnings=to_warnings(result.undersized, result.beyond_model, result.warnings, result.ignored),
    )


def to_warnings(
    undersized: int, beyond_model: int, of_source: Mapping[SourceWarning, int], ignored: Sequence[str]
) -> list[ingest_result_pb2.IngestWarning]:
    """Return the messages of what the caller should know; the counts are those of an `IngestResult`."""
    counts = {
        "CHUNK_UNDERSIZED": undersized,
        "CHUNK_BEYOND_MODEL": beyond_model,
        **{warning.value: count for warning, count in of_source.items()},
        "FIELD_IGNORED": len(ignored),
    }
    said = _WARNINGS | {"FIELD_IGNORED": f"the source is an alias now, so these have no effect: {', '.join(ignored)}"}
    return [
        ingest_result_pb2.IngestWarning(
            kind=ingest_result_pb2.IngestWarningKind.Value(f"INGEST_WARNING_KIND_{kind}"),
            message=said[kind],
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


def to_deletion_receipt(deletion: Deletion) -> deletion_pb2.DeletionReceipt:
    """Return the receipt of a deletion."""
    completed = deletion.complete_time
    return deletion_pb2.DeletionReceipt(
        receipt_id=deletion.deletion_id,
        state=deletion_pb2.DELETION_STATE_HIDDEN if completed is None else deletion_pb2.DELETION_STATE_COMPLETE,
        purged=deletion.permanent,
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
        hide_time=to_timestamp(deletion.hide_time),
        complete_time=None if completed is None else to_timestamp(completed),
    )
