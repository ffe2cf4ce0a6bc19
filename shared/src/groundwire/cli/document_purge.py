"""`groundwire docs purge`."""

import click

from groundwire.cli.operations import finished, no_wait_option
from groundwire.cli.options import address_option, check_consent, collection_option, connect, json_option
from groundwire.cli.output import confirm, counted, print_json, print_line

_SHOWN = 10


@click.command("purge")
@collection_option
@click.option(
    "--filter",
    "filter_json",
    required=True,
    help='Which documents: a filter as JSON, such as {"project": "old"}; * for all.',
)
@click.option("--yes", "-y", is_flag=True, help="Delete without asking.")
@no_wait_option
@address_option
@json_option
def purge_documents(collection: str, filter_json: str, yes: bool, no_wait: bool, address: str, as_json: bool) -> None:
    """Delete the documents that have a chunk which a filter matches, for good; asks first, or needs --yes.

    Documents that were deleted softly go as well.
    """
    from groundwire.api.ingest.v1 import ingest_service_pb2 as pb  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - the same
    from groundwire.client.values import purge_filter  # noqa: PLC0415 - the same

    with connect(address) as client:
        if not yes:
            matching = client.collection(collection).purge(filter_json)
            count = counted(matching.document_count, "document")
            print_line(f"found {count} in {collection!r}", err=True)
            for source in matching.sample[:_SHOWN]:
                print_line(f"  {source}", err=True)
            if matching.document_count > _SHOWN:
                print_line("  …", err=True)
            if not matching.document_count:
                return
            check_consent("docs purge", given=False)
            if not confirm(f"Delete {count} for good?"):
                raise click.Abort
        begun = client.purge_documents(collection=collection, filter=purge_filter(filter_json), force=True)
        purged = finished(client, begun, pb.PurgeDocumentsResponse, no_wait=no_wait, as_json=as_json)
    if purged is None:
        return
    if as_json:
        print_json(message_json(purged))
    else:
        print_line(f"deleted {counted(purged.purge_count, 'document')} for good")
