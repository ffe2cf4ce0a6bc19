"""`groundwire chunks`: look at chunks, and change what belongs to them."""

import click

from groundwire.api.common.v1.chunk_pb2 import Chunk
from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.cli.connection import all_items, connect
from groundwire.cli.fields import assign_fields, changed_names
from groundwire.cli.messages import message_json
from groundwire.cli.options import (
    collection_option,
    etag_option,
    filter_option,
    server_options,
    set_option,
    unset_option,
)
from groundwire.cli.output import (
    excerpt,
    print_fields,
    print_line,
    print_table,
    print_text,
    printed_as_json,
)
from groundwire.client.values import filter_message
from groundwire.kernel.errors import FieldViolation, InvalidRequestError

app = click.Group("chunks", help="List, show and change chunks.")
_COLUMNS = ("chunk", "characters", "heading and text")
_EXCERPT_CHARS = 60
_MAX_CHUNK_NUMBER = 2**53 - 1


@app.command("list")
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
        pages = all_items(client.list_chunks, "chunks", collection=collection, reference=reference, filter=condition)
        chunks = list(pages)
    if not printed_as_json(chunks):
        print_table(_COLUMNS, [_row(chunk) for chunk in chunks], "no chunks", is_excerpt=True)


def _row(chunk: Chunk) -> tuple[str, str, str]:
    span = f"{chunk.span.start:,}–{chunk.span.end:,}"
    return chunk.chunk_id, span, f"{chunk.section_heading} · {excerpt(chunk.content, _EXCERPT_CHARS)}"


@app.command("get")
@click.argument("chunk", metavar="CHUNK", help="Chunk id, or chunk number.")
@collection_option
@server_options
def get_chunk(chunk: str, collection: str) -> None:
    """Show a chunk with its place and its text."""
    request = library_pb.GetChunkRequest(collection=collection)
    if not chunk.isdecimal():
        request.reference.chunk_id = chunk
    elif int(chunk) <= _MAX_CHUNK_NUMBER:
        request.reference.chunk_number = int(chunk)
    else:
        raise InvalidRequestError.of("CHUNK", f"must be at most {_MAX_CHUNK_NUMBER} as a number")
    with connect() as client:
        message = client.get_chunk.send(request).chunk
    if printed_as_json(message):
        return
    fields = message_json(message, short_names=True)
    content = fields.pop("content")
    print_fields(fields)
    print_line()
    print_text(content)


@app.command("update")
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
    unknown = [name for name in names if name != "tags" and not name.startswith("metadata")]
    if unknown:
        description = "is not a field to set; there are tags, metadata.KEY"
        raise InvalidRequestError([FieldViolation(name, description) for name in unknown])
    request = pb.UpdateChunkRequest(collection=collection)
    request.chunk.chunk_id, request.chunk.etag = chunk_id, etag
    assign_fields(request, request.chunk, assignments, cleared)
    with connect() as client:
        changed = client.update_chunk.send(request).chunk
    if not printed_as_json(changed):
        print_line(f"updated {changed.chunk_id}: {changed_names(request)}")
