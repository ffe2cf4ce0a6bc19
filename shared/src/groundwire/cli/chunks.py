"""`groundwire chunks`: look at chunks, and change what belongs to them."""

from typing import TYPE_CHECKING

import click

from groundwire.cli.assignments import assign_fields, changed_names, set_option, unset_option
from groundwire.cli.options import address_option, collection_option, connect, etag_option, json_option
from groundwire.cli.output import print_fields, print_json, print_line, print_table, print_text
from groundwire.cli.paging import PAGE_SIZE, all_items
from groundwire.cli.retrieval import filter_option
from groundwire.kernel.errors import FieldViolation, InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groundwire.api.common.v1 import chunk_pb2

app = click.Group("chunks", help="List, show and change chunks.")
COLUMNS = ("chunk", "characters", "heading and text")
EXCERPT_CHARS = 60
MAX_CHUNK_NUMBER = 2**53 - 1

chunk_argument = click.argument("chunk", metavar="CHUNK", help="Chunk id, or chunk number.")


@app.command("list")
@collection_option
@click.argument("document", default="", help="Id or source of a document; all chunks of the collection if not given.")
@filter_option
@address_option
@json_option
def list_chunks(collection: str, document: str, filter_json: str | None, address: str, as_json: bool) -> None:
    """List the chunks of a document in the order of the text, or those of a collection by number."""
    from groundwire.api.common.v1 import document_pb2  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.document_reference import find_document  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - the same
    from groundwire.client.values import filter_message  # noqa: PLC0415 - the same

    condition = filter_message(filter_json)
    with connect(address) as client:
        found = find_document(client, collection, document) if document else None
        reference = None if found is None else document_pb2.DocumentReference(document_id=found.document_id)

        def fetch(token: str) -> "tuple[Sequence[chunk_pb2.Chunk], str]":
            page = client.list_chunks(
                collection=collection,
                reference=reference,
                filter=condition,
                page_size=PAGE_SIZE,
                page_token=token,
            )
            return page.chunks, page.next_page_token

        chunks = list(all_items(fetch))
    if as_json:
        print_json([message_json(chunk) for chunk in chunks])
    else:
        print_table(COLUMNS, [_row(chunk) for chunk in chunks], "no chunks", is_excerpt=True)


@app.command("get")
@chunk_argument
@collection_option
@address_option
@json_option
def get_chunk(chunk: str, collection: str, address: str, as_json: bool) -> None:
    """Show a chunk with its place and its text."""
    from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - the same

    request = library_pb.GetChunkRequest(collection=collection)
    if chunk.isdecimal():
        request.reference.chunk_number = _number(chunk)
    else:
        request.reference.chunk_id = chunk
    with connect(address) as client:
        found = client.get_chunk.send(request).chunk
    if as_json:
        print_json(message_json(found))
        return
    fields = message_json(found, short_names=True)
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
@address_option
@json_option
def update_chunk(
    chunk_id: str,
    collection: str,
    assignments: tuple[str, ...],
    cleared: tuple[str, ...],
    etag: str,
    address: str,
    as_json: bool,
) -> None:
    """Change the tags and metadata of a chunk itself; nothing is embedded again."""
    from groundwire.api.ingest.v1 import ingest_service_pb2 as pb  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - the same

    request = pb.UpdateChunkRequest(collection=collection)
    request.chunk.chunk_id, request.chunk.etag = chunk_id, etag
    _check_names([*assignments, *cleared])
    assign_fields(request, request.chunk, assignments, cleared)
    with connect(address) as client:
        changed = client.update_chunk.send(request).chunk
    if as_json:
        print_json(message_json(changed))
    else:
        print_line(f"updated {changed.chunk_id}: {changed_names(request)}")


def _check_names(given: "Sequence[str]") -> None:
    """Refuse what cannot be changed, before it is put into a message that has many more fields."""
    names = [text.partition("=")[0] for text in given]
    unknown = [name for name in names if name != "tags" and not name.startswith("metadata")]
    if unknown:
        raise InvalidRequestError(
            [FieldViolation(name, "is no name to set; there are tags, metadata.KEY") for name in unknown]
        )


def _number(text: str) -> int:
    if int(text) > MAX_CHUNK_NUMBER:
        raise InvalidRequestError.of("CHUNK", f"must be at most {MAX_CHUNK_NUMBER} as a number")
    return int(text)


def _row(chunk: "chunk_pb2.Chunk") -> tuple[str, str, str]:
    excerpt = " ".join(chunk.content.split())
    cut = excerpt[:EXCERPT_CHARS] + ("…" if len(excerpt) > EXCERPT_CHARS else "")
    span = f"{chunk.span.start:,}–{chunk.span.end:,}"
    return chunk.chunk_id, span, f"{chunk.section_heading} · {cut}"
