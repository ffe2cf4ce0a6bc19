"""`groundwire reindex` and `groundwire reembed`: build the indexes of a collection anew."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from groundwire.cli.options import address_option, collection_option, connect, json_option
from groundwire.cli.output import counted, print_json, print_line

if TYPE_CHECKING:
    from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb


@click.command()
@collection_option
@address_option
@json_option
def reindex(collection: str, address: str, as_json: bool) -> None:
    """Build the indexes of a collection anew from the catalog; the old ones serve until the new ones are complete.

    Stopping it changes nothing.
    """
    with connect(address) as client:
        _follow(client.reindex(collection=collection), collection, as_json=as_json)


@click.command()
@collection_option
@address_option
@json_option
def reembed(collection: str, address: str, as_json: bool) -> None:
    """Embed a collection with the server's model and move over to it when complete.

    Stopping it changes nothing; the vectors made so far are kept for the next run.
    """
    with connect(address) as client:
        _follow(client.reembed(collection=collection), collection, as_json=as_json)


def _follow(events: "Iterable[pb.ReindexResponse | pb.ReembedResponse]", collection: str, *, as_json: bool) -> None:
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.progress import ProgressBar  # noqa: PLC0415 - the same

    with ProgressBar("starting", quiet=as_json) as display:
        for event in events:
            if event.HasField("result"):
                result = event.result
                break
            display.show(event.progress)
    if as_json:
        print_json(message_json(result))
        return
    model = f"{result.embedding.model_name}, {result.embedding.dimensions} dimensions"
    told = f"{counted(result.vector_count, 'vector')} of {model}; {counted(result.embedded_count, 'text')} embedded"
    print_line(f"{collection}: {told}")
