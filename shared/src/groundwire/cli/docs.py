"""`groundwire docs`: look at the documents of a collection, change, delete and restore them."""

from typing import TYPE_CHECKING

import click

from groundwire.cli import document_changes, document_purge
from groundwire.cli.options import address_option, collection_option, connect, document_argument, json_option
from groundwire.cli.output import print_exactly, print_fields, print_json, print_table
from groundwire.cli.retrieval import filter_option

if TYPE_CHECKING:
    from groundwire.api.common.v1 import document_pb2

COLUMNS = ("document", "chunks", "characters", "source")

app = click.Group("docs", help="List, show, change, delete and restore documents.")


@app.command("list")
@collection_option
@filter_option
@click.option("--prefix", default="", help="Only documents whose source starts with this.")
@click.option("--deleted", is_flag=True, help="Also documents that were deleted softly.")
@address_option
@json_option
def list_documents(
    collection: str, filter_json: str | None, prefix: str, deleted: bool, address: str, as_json: bool
) -> None:
    """List the documents in the order of their sources; with a filter those that have a chunk it matches."""
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    with connect(address) as client:
        listed = client.collection(collection).documents(
            filter=filter_json, source_prefix=prefix, include_deleted=deleted
        )
        documents = [document.message for document in listed]
    if as_json:
        print_json([message_json(document) for document in documents])
    else:
        columns = ("state", *COLUMNS) if deleted else COLUMNS
        print_table(columns, [_row(document)[-len(columns) :] for document in documents], "no documents")


@app.command("get")
@document_argument
@collection_option
@address_option
@json_option
def get_document(document: str, collection: str, address: str, as_json: bool) -> None:
    """Show what is known about a document."""
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    with connect(address) as client:
        found = client.collection(collection).document(document).message
    if as_json:
        print_json(message_json(found))
    else:
        print_fields(message_json(found, short_names=True))


@app.command("text")
@document_argument
@collection_option
@click.option("--generation", type=click.IntRange(min=0), default=0, help="Generation; 0 is the live one.")
@address_option
@json_option
def document_text(document: str, collection: str, generation: int, address: str, as_json: bool) -> None:
    """Print the canonical text: the text that citations point into, exactly unless it goes to a terminal."""
    from groundwire.api.common.v1.document_pb2 import DocumentReference  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.document_reference import find_document  # noqa: PLC0415 - the same

    with connect(address) as client:
        document_id = find_document(client, collection, document).document_id
        reference = DocumentReference(document_id=document_id)
        parts = client.document_text(collection=collection, reference=reference, generation=generation)
        if as_json:
            print_json({"document_id": document_id, "text": "".join(part.text for part in parts)})
        else:
            print_exactly(part.text for part in parts)


def _row(document: "document_pb2.Document") -> tuple[str | int, ...]:
    state = "deleted" if document.HasField("delete_time") else "live"
    return state, document.document_id, document.chunk_count, document.total_chars, document.source_uri


app.add_command(document_changes.update_document)
app.add_command(document_changes.delete_document)
app.add_command(document_changes.restore_document)
app.add_command(document_purge.purge_documents)
