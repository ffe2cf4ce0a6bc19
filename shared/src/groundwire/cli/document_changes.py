"""`groundwire docs update`, `docs delete` and `docs restore`."""

from typing import TYPE_CHECKING

import click

from groundwire.cli.assignments import assign_fields, changed_names, set_option, unset_option
from groundwire.cli.options import (
    address_option,
    collection_option,
    connect,
    document_argument,
    etag_option,
    json_option,
)
from groundwire.cli.output import counted, print_json, print_line

if TYPE_CHECKING:
    from groundwire.api.common.v1 import document_pb2
    from groundwire.api.ingest.v1 import deletion_pb2


@click.command("update")
@document_argument
@collection_option
@set_option
@unset_option
@etag_option
@address_option
@json_option
def update_document(
    document: str,
    collection: str,
    assignments: tuple[str, ...],
    cleared: tuple[str, ...],
    etag: str,
    address: str,
    as_json: bool,
) -> None:
    """Change title, creators, tags, metadata and the like, on all chunks; nothing is embedded again."""
    from groundwire.api.ingest.v1 import ingest_service_pb2 as pb  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.document_reference import by_id_or_source  # noqa: PLC0415 - the same
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - the same

    request = pb.UpdateDocumentRequest(collection=collection)
    request.document.etag = etag
    assign_fields(request, request.document.fields, assignments, cleared, "fields.")

    def update(reference: "document_pb2.DocumentReference") -> "document_pb2.Document":
        request.reference.CopyFrom(reference)
        return client.update_document.send(request).document

    with connect(address) as client:
        changed = by_id_or_source(document, update)
    if as_json:
        print_json(message_json(changed))
    else:
        print_line(f"updated {changed.source_uri}: {changed_names(request)}")


@click.command("delete")
@document_argument
@collection_option
@click.option("--purge", is_flag=True, help="For good: it cannot be restored.")
@etag_option
@address_option
@json_option
def delete_document(document: str, collection: str, purge: bool, etag: str, address: str, as_json: bool) -> None:
    """Delete a document, which can be restored; with --purge for good, and print what each store removed."""
    from groundwire.cli.document_reference import by_id_or_source  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - the same

    def delete(reference: "document_pb2.DocumentReference") -> "deletion_pb2.DeletionReceipt":
        return client.delete_document(collection=collection, reference=reference, purge=purge, etag=etag).receipt

    with connect(address) as client:
        receipt = by_id_or_source(document, delete)
    if as_json:
        print_json(message_json(receipt))
    elif receipt.purged:
        show_receipt(document, receipt)
    elif receipt.document_count:
        restore = f"groundwire docs restore {document} -c {collection}"
        print_line(f"deleted {document} with {counted(receipt.chunk_count, 'chunk')}; bring it back with: {restore}")
    else:
        print_line(f"deleted {document}; its document stays, with its other sources")


@click.command("restore")
@document_argument
@collection_option
@etag_option
@address_option
@json_option
def restore_document(document: str, collection: str, etag: str, address: str, as_json: bool) -> None:
    """Bring back a document that was deleted softly; `docs list --deleted` shows which were."""
    from groundwire.cli.document_reference import by_id_or_source  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - the same

    def restore(reference: "document_pb2.DocumentReference") -> "document_pb2.Document":
        return client.restore_document(collection=collection, reference=reference, etag=etag).document

    with connect(address) as client:
        restored = by_id_or_source(document, restore)
    if as_json:
        print_json(message_json(restored))
    else:
        print_line(f"restored {restored.source_uri}: {counted(restored.chunk_count, 'chunk')}")


def show_receipt(name: str, receipt: "deletion_pb2.DeletionReceipt") -> None:
    """Print what was deleted for good, and what each store removed."""
    documents, chunks = counted(receipt.document_count, "document"), counted(receipt.chunk_count, "chunk")
    print_line(f"deleted {name} for good: {documents}, {chunks}")
    for store in receipt.stores:
        state = "complete" if store.complete else f"{store.leftover_count} to go"
        print_line(f"  {store.store}: {store.removed_count} removed, {state}")
    if not receipt.HasField("complete_time"):
        print_line("nothing finds it any more; files hold traces of it for a while: see `groundwire health`")
