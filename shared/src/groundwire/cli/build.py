"""`groundwire reindex` and `groundwire reembed`: build the indexes of a collection anew."""

from typing import TYPE_CHECKING

import click

from groundwire.cli.operations import finished, no_wait_option
from groundwire.cli.options import address_option, collection_option, connect, json_option
from groundwire.cli.output import counted, print_json, print_line

if TYPE_CHECKING:
    from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb


@click.command()
@collection_option
@no_wait_option
@address_option
@json_option
def reindex(collection: str, no_wait: bool, address: str, as_json: bool) -> None:
    """Build the indexes of a collection anew from the catalog; the old ones serve until the new ones are complete.

    Stopping it changes nothing.
    """
    from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb  # noqa: PLC0415 - --help stays fast

    with connect(address) as client:
        begun = client.reindex(collection=collection)
        _show(finished(client, begun, pb.IndexBuildResult, no_wait=no_wait, as_json=as_json), collection, as_json)


@click.command()
@collection_option
@no_wait_option
@address_option
@json_option
def reembed(collection: str, no_wait: bool, address: str, as_json: bool) -> None:
    """Embed a collection with the server's model and move over to it when complete.

    Stopping it changes nothing; the vectors made so far are kept for the next run.
    """
    from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb  # noqa: PLC0415 - --help stays fast

    with connect(address) as client:
        begun = client.reembed(collection=collection)
        _show(finished(client, begun, pb.IndexBuildResult, no_wait=no_wait, as_json=as_json), collection, as_json)


def _show(result: "pb.IndexBuildResult | None", collection: str, as_json: bool) -> None:
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    if result is None:
        return
    if as_json:
        print_json(message_json(result))
        return
    model = f"{result.embedding.model_name}, {result.embedding.dimensions} dimensions"
    told = f"{counted(result.vector_count, 'vector')} of {model}; {counted(result.embedded_count, 'text')} embedded"
    print_line(f"{collection}: {told}")
