"""`groundwire docs update`, `docs delete` and `docs restore`."""

from typing import TYPE_CHECKING

import click

from groundwire.cli.assignments import assign, set_option, unset_option
from groundwire.cli.options import address_option, collection_option, connect, document_argument, json_option
from groundwire.cli.output import counted, print_json, print_line
from groundwire.kernel.filter_fields import ALIASES

if TYPE_CHECKING:
    from groundwire.api.ingest.v1 import deletion_pb2


@click.command("update")
@document_argument
@collection_option
@set_option
@unset_option
@click.option(
    "--generation",
    type=click.IntRange(min=0, max=2**32 - 1),
    default=0,
    help="Only if this generation is live; 0 means any.",
)
@address_option
@json_option
def update_document(
    document: str,
    collection: str,
    assignments: tuple[str, ...],
    cleared: tuple[str, ...],
    generation: int,
    address: str,
    as_json: bool,
) -> None:
    """Change title, creators, tags, metadata and the like, on all chunks; nothing is embedded again."""
    from groundwire.api.ingest.v1 import ingest_service_pb2 as pb  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.document_reference import document_id_of  # noqa: PLC0415 - the same
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - the same

    request = pb.UpdateDocumentRequest(collection=collection, expected_generation=generation)
    request.fields.SetInParent()
    request.update_mask.CopyFrom(assign(request.fields, assignments, cleared, ALIASES))
    with connect(address) as client:
        request.document_id = document_id_of(client.collection(collection), document)
        changed = client.update_document.send(request).document
    if as_json:
        print_json(message_json(changed))
    else:
        print_line(f"updated {changed.source_uri}: {', '.join(request.update_mask.paths)}")


@click.command("delete")
@document_argument
@collection_option
@click.option("--permanent/--soft", default=None, help="For good, or so that it can be restored; the profile's way.")
@address_option
@json_option
def delete_document(document: str, collection: str, permanent: bool | None, address: str, as_json: bool) -> None:
    """Delete a document and print the receipt; for good, in the memory profile softly, unless told otherwise."""
    from groundwire.cli.document_reference import document_id_of  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - the same

    with connect(address) as client:
        document_id = document_id_of(client.collection(collection), document)
        receipt = client.delete_document(collection=collection, document_id=document_id, permanent=permanent).receipt
    if as_json:
        print_json(message_json(receipt))
        return
    show_receipt(document, receipt)
    if not receipt.permanent:
        print_line(f"bring it back with: groundwire docs restore {document_id} -c {collection}")


@click.command("restore")
@document_argument
@collection_option
@address_option
@json_option
def restore_document(document: str, collection: str, address: str, as_json: bool) -> None:
    """Bring back a document that was deleted softly; `docs list --deleted` shows which were."""
    from groundwire.cli.document_reference import deleted_document_id  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - the same

    with connect(address) as client:
        document_id = deleted_document_id(client.collection(collection), document)
        restored = client.restore_document(collection=collection, document_id=document_id).document
    if as_json:
        print_json(message_json(restored))
    else:
        print_line(f"restored {restored.source_uri}: {counted(restored.chunk_count, 'chunk')}")


def show_receipt(name: str, receipt: "deletion_pb2.DeletionReceipt") -> None:
    """Print what was deleted, and what each store removed."""
    how = "for good" if receipt.permanent else "softly"
    print_line(f"deleted {name} {how}: {_counts(receipt)}")
    for store in receipt.stores:
        state = "complete" if store.complete else f"{store.leftover_count} to go"
        print_line(f"  {store.store}: {store.removed_count} removed, {state}")
    if not receipt.HasField("complete_time"):
        print_line("nothing finds it any more; files hold traces of it for a while: see `groundwire health`")


def _counts(receipt: "deletion_pb2.DeletionReceipt") -> str:
    return f"{counted(receipt.document_count, 'document')}, {counted(receipt.chunk_count, 'chunk')}"
