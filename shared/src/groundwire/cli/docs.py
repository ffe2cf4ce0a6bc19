"""`groundwire docs`: look at the documents of a collection."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from groundwire.cli.options import AddressOption, CollectionOption, JsonOption, connect
from groundwire.cli.paging import PAGE_SIZE, all_items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groundwire.api.ingest.v1 import document_pb2

app = typer.Typer(help="List, show and delete documents.", no_args_is_help=True)

DocumentArgument = Annotated[str, typer.Argument(help="Document id.", metavar="ID")]


@app.command("list")
def list_documents(
    collection: CollectionOption, address: AddressOption = "127.0.0.1:50051", as_json: JsonOption = False
) -> None:
    """List the documents in the order of their sources."""
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    with connect(address) as client:

        def fetch(token: str) -> "tuple[Sequence[document_pb2.Document], str]":
            page = client.list_documents(collection=collection, page_size=PAGE_SIZE, page_token=token)
            return page.documents, page.next_page_token

        documents = list(all_items(fetch))
    if as_json:
        typer.echo(json.dumps([message_json(document) for document in documents], ensure_ascii=False, indent=2))
        return
    for document in documents:
        size = f"{document.chunk_count:>6} chunks  {document.total_chars:>10,} characters"
        typer.echo(f"{document.document_id}  {size}  generation {document.generation}  {document.source_uri}")


@app.command("get")
def get_document(
    document_id: DocumentArgument,
    collection: CollectionOption,
    address: AddressOption = "127.0.0.1:50051",
    as_json: JsonOption = False,
) -> None:
    """Show what is known about a document."""
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    with connect(address) as client:
        found = message_json(client.get_document(collection=collection, document_id=document_id).document)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=2))
        return
    for name, value in found.items():
        typer.echo(f"{name}: {json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value}")


@app.command("text")
def document_text(
    document_id: DocumentArgument,
    collection: CollectionOption,
    generation: Annotated[int, typer.Option(help="Generation; 0 is the live one.", min=0)] = 0,
    address: AddressOption = "127.0.0.1:50051",
    as_json: JsonOption = False,
) -> None:
    """Print the canonical text, exactly: the text that citations point into."""
    with connect(address) as client:
        parts = client.document_text(collection=collection, document_id=document_id, generation=generation)
        if as_json:
            text = "".join(part.text for part in parts)
            typer.echo(json.dumps({"document_id": document_id, "text": text}, ensure_ascii=False, indent=2))
            return
        for part in parts:
            # Bytes, so that line endings leave as they are stored.
            sys.stdout.buffer.write(part.text.encode("utf-8"))
        sys.stdout.buffer.flush()


@app.command("delete")
def delete_document(
    document_id: DocumentArgument,
    collection: CollectionOption,
    address: AddressOption = "127.0.0.1:50051",
    as_json: JsonOption = False,
) -> None:
    """Delete a document for good and print the receipt."""
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    with connect(address) as client:
        receipt = client.delete_document(collection=collection, document_id=document_id).receipt
    if as_json:
        typer.echo(json.dumps(message_json(receipt), ensure_ascii=False, indent=2))
        return
    typer.echo(f"deleted {document_id}: {receipt.chunk_count} chunks")
    for store in receipt.stores:
        state = "complete" if store.complete else f"{store.leftover_count} to go"
        typer.echo(f"  {store.store}: {store.removed_count} removed, {state}")
