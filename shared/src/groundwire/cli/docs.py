"""`groundwire docs` and `chunks`: look at documents and chunks, change, delete and restore them."""

import shlex

import click

from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.api.ingest.v1 import deletion_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.cli.connection import connect
from groundwire.cli.fields import assign_fields, changed_names
from groundwire.cli.operations import finished, no_wait_option
from groundwire.cli.options import (
    WholeNumber,
    check_consent,
    collection_option,
    etag_option,
    filter_option,
    is_json,
    server_options,
    set_option,
    text_option,
    unset_option,
    yes_option,
)
from groundwire.cli.output import (
    confirm,
    counted,
    excerpt,
    print_exactly,
    print_json,
    print_line,
    print_list,
    print_message,
    printed_as_json,
)
from groundwire.client.contract import Contract
from groundwire.client.transport import all_items, on_document
from groundwire.client.values import filter_message, purge_filter
from groundwire.kernel.errors import FieldViolation, InvalidRequestError, refuse

app = click.Group("docs", help="List, show, change, delete and restore documents.")
_COLUMNS = ("document", "chunks", "characters", "source")
# Sources that are shown before a purge.
_SAMPLE = 10

document_argument = click.argument("document", metavar="DOCUMENT", help="Id or source of the document.")


@app.command("list")
@collection_option
@filter_option
@text_option("--prefix", help="Only documents whose source starts with this.")
@click.option("--deleted", is_flag=True, help="Include documents that were deleted but can be restored.")
@server_options
def list_documents(collection: str, filter_json: str | None, prefix: str, deleted: bool) -> None:
    """List the documents in the order of their sources; with a filter those that have a chunk it matches."""
    with connect() as client:
        listed = client.collection(collection).documents(
            filter=filter_json, source_prefix=prefix, include_deleted=deleted
        )
        documents = [document.message for document in listed]
    columns = ("state", *_COLUMNS) if deleted else _COLUMNS
    rows = []
    for document in documents:
        state = "deleted" if document.HasField("delete_time") else "live"
        row = (state, document.document_id, document.chunk_count, document.total_chars, document.source_uri)
        rows.append(row[-len(columns) :])
    print_list(documents, columns, rows, "no documents")


@app.command("get")
@document_argument
@collection_option
@server_options
def get_document(document: str, collection: str) -> None:
    """Show what is known about a document."""
    with connect() as client:
        message = client.collection(collection).document(document).message
    print_message(message)


@app.command("text")
@document_argument
@collection_option
@click.option("--generation", type=WholeNumber(32, least=0), default=0, help="Generation; 0 is the live one.")
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
    with connect() as client:
        changed = on_document.blocking(client, Contract.update_document, request, document).document
    if not printed_as_json(changed):
        print_line(f"updated {changed.source_uri}: {changed_names(request)}")


@app.command("delete")
@document_argument
@collection_option
@click.option("--purge", is_flag=True, help="Delete permanently: it cannot be restored.")
@etag_option
@server_options
def delete_document(document: str, collection: str, purge: bool, etag: str) -> None:
    """Delete a document, which can be restored; with --purge for good, and print what each store removed."""
    request = pb.DeleteDocumentRequest(collection=collection, purge=purge, etag=etag)
    with connect() as client:
        receipt = on_document.blocking(client, Contract.delete_document, request, document).receipt
    if printed_as_json(receipt):
        return
    if receipt.purged:
        show_receipt(document, receipt)
    elif receipt.document_count:
        restore = shlex.join(["groundwire", "docs", "restore", document, "-c", collection])
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
    request = pb.RestoreDocumentRequest(collection=collection, etag=etag)
    with connect() as client:
        restored = on_document.blocking(client, Contract.restore_document, request, document).document
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
        # Counted first, so that the question says how much would be gone.
        if not yes:
            matching = client.collection(collection).purge(filter_json)
            count = counted(matching.document_count, "document")
            print_line(f"found {count} in {collection!r}", err=True)
            for source in matching.sample[:_SAMPLE]:
                print_line(f"  {source}", err=True)
            if matching.document_count > _SAMPLE:
                print_line("  …", err=True)
            if not matching.document_count:
                printed_as_json(pb.PurgeDocumentsResponse())
                return
            check_consent("docs purge", given=False)
            confirm(f"Delete {count} for good?", abort=True)
        operation = client.purge_documents(collection=collection, filter=purge_filter(filter_json), force=True)
        purged = finished(client, operation, pb.PurgeDocumentsResponse, no_wait=no_wait)
    if purged is None:
        return
    if not printed_as_json(purged):
        print_line(f"deleted {counted(purged.purge_count, 'document')} for good")


chunks_app = click.Group("chunks", help="List, show and change chunks.")
_CHUNK_COLUMNS = ("chunk", "characters", "heading and text")
_EXCERPT_CHARS = 60
# Chunk numbers stay below 2^53, so that JavaScript numbers hold them.
_MAX_CHUNK_NUMBER = 2**53 - 1
# Python reads no number of more than a few thousand digits.
_MOST_DIGITS = 1000


@chunks_app.command("list")
@collection_option
@click.argument("document", default="", help="Id or source of a document; all chunks of the collection if not given.")
@filter_option
@server_options
def list_chunks(collection: str, document: str, filter_json: str | None) -> None:
    """List the chunks of a document in the order of the text, or those of a collection by number."""
    condition = filter_message(filter_json)
    with connect() as client:
        reference = None
        if document:
            reference = DocumentReference(document_id=client.collection(collection).document(document).document_id)
        pages = all_items.blocking(
            client, Contract.list_chunks, "chunks", collection=collection, reference=reference, filter=condition
        )
        chunks = list(pages)
    rows = []
    for chunk in chunks:
        text = f"{chunk.section_heading} · {excerpt(chunk.content, _EXCERPT_CHARS)}"
        rows.append((chunk.chunk_id, f"{chunk.span.start:,}–{chunk.span.end:,}", text))
    print_list(chunks, _CHUNK_COLUMNS, rows, "no chunks", is_excerpt=True)


@chunks_app.command("get")
@click.argument("chunk", metavar="CHUNK", help="Chunk id, or chunk number.")
@collection_option
@server_options
def get_chunk(chunk: str, collection: str) -> None:
    """Show a chunk with its place and its text."""
    request = library_pb.GetChunkRequest(collection=collection)
    if not chunk.isdecimal():
        request.reference.chunk_id = chunk
    elif len(chunk) < _MOST_DIGITS and int(chunk) <= _MAX_CHUNK_NUMBER:
        request.reference.chunk_number = int(chunk)
    else:
        raise InvalidRequestError.of("CHUNK", f"must be at most {_MAX_CHUNK_NUMBER} as a number")
    with connect() as client:
        message = client.get_chunk.send(request).chunk
    print_message(message, text="content")


@chunks_app.command("update")
@click.argument("chunk_id", metavar="ID", help="Chunk id.")
@collection_option
@set_option
@unset_option
@etag_option
@server_options
def update_chunk(
    chunk_id: str, collection: str, assignments: tuple[str, ...], cleared: tuple[str, ...], etag: str
) -> None:
    """Change the tags and metadata of a chunk itself; nothing is embedded again."""
    # The message of a chunk has many more fields, and `assign_fields` would take them all.
    names = [text.partition("=")[0] for text in (*assignments, *cleared)]
    refuse(
        FieldViolation(name, "is not a field to set; there are tags, metadata.KEY")
        for name in names
        if name.partition(".")[0] not in {"tags", "metadata"}
    )
    request = pb.UpdateChunkRequest(collection=collection)
    request.chunk.chunk_id, request.chunk.etag = chunk_id, etag
    assign_fields(request, request.chunk, assignments, cleared)
    with connect() as client:
        changed = client.update_chunk.send(request).chunk
    if not printed_as_json(changed):
        print_line(f"updated {changed.chunk_id}: {changed_names(request)}")
