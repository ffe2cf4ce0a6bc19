"""`groundwire docs`: look at the documents of a collection, change, delete and restore them."""

import click

from groundwire.api.common.v1.document_pb2 import Document, DocumentReference
from groundwire.api.ingest.v1 import deletion_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.cli.connection import by_id_or_source, connect
from groundwire.cli.fields import assign_fields, changed_names
from groundwire.cli.messages import message_json
from groundwire.cli.operations import finished, no_wait_option
from groundwire.cli.options import (
    MOST,
    check_consent,
    collection_option,
    etag_option,
    filter_option,
    is_json,
    server_options,
    set_option,
    unset_option,
    yes_option,
)
from groundwire.cli.output import (
    confirm,
    counted,
    print_exactly,
    print_fields,
    print_json,
    print_line,
    print_table,
    printed_as_json,
)
from groundwire.client.values import purge_filter

app = click.Group("docs", help="List, show, change, delete and restore documents.")
_COLUMNS = ("document", "chunks", "characters", "source")
_SAMPLE = 10
"""Sources that are shown before a purge."""

document_argument = click.argument("document", metavar="DOCUMENT", help="Id or source of the document.")


@app.command("list")
@collection_option
@filter_option
@click.option("--prefix", default="", help="Only documents whose source starts with this.")
@click.option("--deleted", is_flag=True, help="Also documents that were deleted softly.")
@server_options
def list_documents(collection: str, filter_json: str | None, prefix: str, deleted: bool) -> None:
    """List the documents in the order of their sources; with a filter those that have a chunk it matches."""
    with connect() as client:
        listed = client.collection(collection).documents(
            filter=filter_json, source_prefix=prefix, include_deleted=deleted
        )
        documents = [document.message for document in listed]
    if not printed_as_json(documents):
        columns = ("state", *_COLUMNS) if deleted else _COLUMNS
        print_table(columns, [_row(document)[-len(columns) :] for document in documents], "no documents")


def _row(document: Document) -> tuple[str | int, ...]:
    state = "deleted" if document.HasField("delete_time") else "live"
    return state, document.document_id, document.chunk_count, document.total_chars, document.source_uri


@app.command("get")
@document_argument
@collection_option
@server_options
def get_document(document: str, collection: str) -> None:
    """Show what is known about a document."""
    with connect() as client:
        message = client.collection(collection).document(document).message
    if not printed_as_json(message):
        print_fields(message_json(message, short_names=True))


@app.command("text")
@document_argument
@collection_option
@click.option("--generation", type=click.IntRange(0, MOST), default=0, help="Generation; 0 is the live one.")
@server_options
def document_text(document: str, collection: str, generation: int) -> None:
    """Print the canonical text: the text that citations point into, exactly unless it goes to a terminal."""
    with connect() as client:
        document_id = client.collection(collection).document(document).document_id
        reference = DocumentReference(document_id=document_id)
        parts = client.document_text(collection=collection, reference=reference, generation=generation)
        if is_json():
            print_json({"document_id": document_id, "text": "".join(part.text for part in parts)})
        else:
            print_exactly(part.text for part in parts)


@app.command("update")
@document_argument
@collection_option
@set_option
@unset_option
@etag_option
@server_options
def update_document(
    document: str, collection: str, assignments: tuple[str, ...], cleared: tuple[str, ...], etag: str
) -> None:
    """Change title, creators, tags, metadata and the like, on all chunks; nothing is embedded again."""
    request = pb.UpdateDocumentRequest(collection=collection)
    request.document.etag = etag
    assign_fields(request, request.document.fields, assignments, cleared, "fields.")

    def update(reference: DocumentReference) -> Document:
        request.reference.CopyFrom(reference)
        return client.update_document.send(request).document

    with connect() as client:
        changed = by_id_or_source(document, update)
    if not printed_as_json(changed):
        print_line(f"updated {changed.source_uri}: {changed_names(request)}")


@app.command("delete")
@document_argument
@collection_option
@click.option("--purge", is_flag=True, help="For good: it cannot be restored.")
@etag_option
@server_options
def delete_document(document: str, collection: str, purge: bool, etag: str) -> None:
    """Delete a document, which can be restored; with --purge for good, and print what each store removed."""

    def delete(reference: DocumentReference) -> deletion_pb2.DeletionReceipt:
        return client.delete_document(collection=collection, reference=reference, purge=purge, etag=etag).receipt

    with connect() as client:
        receipt = by_id_or_source(document, delete)
    if printed_as_json(receipt):
        return
    if receipt.purged:
        show_receipt(document, receipt)
    elif receipt.document_count:
        restore = f"groundwire docs restore {document} -c {collection}"
        print_line(f"deleted {document} with {counted(receipt.chunk_count, 'chunk')}; bring it back with: {restore}")
    else:
        print_line(f"deleted {document}; its document stays, with its other sources")


def show_receipt(name: str, receipt: deletion_pb2.DeletionReceipt) -> None:
    """Print what was deleted for good, and what each store removed."""
    documents, chunks = counted(receipt.document_count, "document"), counted(receipt.chunk_count, "chunk")
    print_line(f"deleted {name} for good: {documents}, {chunks}")
    for store in receipt.stores:
        state = "complete" if store.complete else f"{store.leftover_count} to go"
        print_line(f"  {store.store}: {store.removed_count} removed, {state}")
    if not receipt.HasField("complete_time"):
        print_line("nothing finds it any more; files hold traces of it for a while: see `groundwire health`")


@app.command("restore")
@document_argument
@collection_option
@etag_option
@server_options
def restore_document(document: str, collection: str, etag: str) -> None:
    """Bring back a document that was deleted softly; `docs list --deleted` shows which were."""

    def restore(reference: DocumentReference) -> Document:
        return client.restore_document(collection=collection, reference=reference, etag=etag).document

    with connect() as client:
        restored = by_id_or_source(document, restore)
    if not printed_as_json(restored):
        print_line(f"restored {restored.source_uri}: {counted(restored.chunk_count, 'chunk')}")


@app.command("purge")
@collection_option
@click.option(
    "--filter",
    "filter_json",
    required=True,
    help='Which documents: a filter as JSON, such as {"project": "old"}; * for all.',
)
@yes_option
@no_wait_option
@server_options
def purge_documents(collection: str, filter_json: str, yes: bool, no_wait: bool) -> None:
    """Delete the documents that have a chunk which a filter matches, for good; asks first, or needs --yes.

    Documents that were deleted softly go as well.
    """
    with connect() as client:
        if not yes:
            matching = client.collection(collection).purge(filter_json)
            count = counted(matching.document_count, "document")
            print_line(f"found {count} in {collection!r}", err=True)
            for source in matching.sample[:_SAMPLE]:
                print_line(f"  {source}", err=True)
            if matching.document_count > _SAMPLE:
                print_line("  …", err=True)
            if not matching.document_count:
                return
            check_consent("docs purge", given=False)
            if not confirm(f"Delete {count} for good?"):
                raise click.Abort
        operation = client.purge_documents(collection=collection, filter=purge_filter(filter_json), force=True)
        purged = finished(client, operation, pb.PurgeDocumentsResponse, no_wait=no_wait)
    if purged is None:
        return
    if not printed_as_json(purged):
        print_line(f"deleted {counted(purged.purge_count, 'document')} for good")
