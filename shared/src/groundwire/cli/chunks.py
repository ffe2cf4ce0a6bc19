"""`groundwire chunks`: look at the chunks of a document."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from groundwire.cli.options import AddressOption, CollectionOption, JsonOption, connect
from groundwire.cli.paging import PAGE_SIZE, all_items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groundwire.api.common.v1 import chunk_pb2

app = typer.Typer(help="List and show chunks.", no_args_is_help=True)
EXCERPT_CHARS = 60


@app.command("list")
def list_chunks(
    document_id: Annotated[str, typer.Argument(help="Document id.")],
    collection: CollectionOption,
    address: AddressOption = "127.0.0.1:50051",
    as_json: JsonOption = False,
) -> None:
    """List the chunks of a document in the order of the text."""
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    with connect(address) as client:

        def fetch(token: str) -> "tuple[Sequence[chunk_pb2.Chunk], str]":
            page = client.list_chunks(
                collection=collection, document_id=document_id, page_size=PAGE_SIZE, page_token=token
            )
            return page.chunks, page.next_page_token

        chunks = list(all_items(fetch))
    if as_json:
        typer.echo(json.dumps([message_json(chunk) for chunk in chunks], ensure_ascii=False, indent=2))
        return
    for chunk in chunks:
        excerpt = " ".join(chunk.content.split())[:EXCERPT_CHARS]
        span = f"{chunk.span.start:>8}–{chunk.span.end:<8}"
        typer.echo(f"{chunk.chunk_id}  {span} {chunk.token_count:>5} tokens  {chunk.section_heading} · {excerpt}")


@app.command("get")
def get_chunk(
    chunk_id: Annotated[str, typer.Argument(help="Chunk id, or chunk number.", metavar="ID")],
    collection: CollectionOption,
    address: AddressOption = "127.0.0.1:50051",
    as_json: JsonOption = False,
) -> None:
    """Show a chunk with its place and its text."""
    from groundwire.api.ingest.v1 import ingest_service_pb2 as pb  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - the same

    request = pb.GetChunkRequest(collection=collection)
    if chunk_id.isdecimal():
        request.chunk_number = int(chunk_id)
    else:
        request.chunk_id = chunk_id
    with connect(address) as client:
        found = message_json(client.get_chunk.send(request).chunk)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=2))
        return
    content = found.pop("content")
    for name, value in found.items():
        typer.echo(f"{name}: {json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value}")
    typer.echo(f"\n{content}")
