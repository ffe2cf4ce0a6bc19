"""`groundwire collections`: list, show, create, change and delete collections."""

import click

from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as pb
from groundwire.cli.connection import connect
from groundwire.cli.docs import show_receipt
from groundwire.cli.fields import assign
from groundwire.cli.messages import message_json, shown_name
from groundwire.cli.options import (
    PROFILES,
    check_consent,
    etag_option,
    server_options,
    set_option,
    unset_option,
    yes_option,
)
from groundwire.cli.output import confirm, counted, print_fields, print_line, print_list, printed_as_json
from groundwire.kernel.errors import PreconditionError

_COLUMNS = ("collection", "profile", "documents", "records", "chunks", "characters", "model")

app = click.Group("collections", help="List, show, create, change and delete collections.")
name_argument = click.argument("name", metavar="NAME", help="Name of the collection.")


@app.command("list")
@server_options
def list_collections() -> None:
    """List the collections by name."""
    with connect() as client:
        collections = [info.message for info in client.collections()]
    rows = [
        (
            each.name,
            shown_name(each, "profile"),
            each.document_count - each.record_count,
            each.record_count,
            each.chunk_count,
            each.total_chars,
            each.embedding.model_name.rpartition("/")[2],  # without who published it
        )
        for each in collections
    ]
    print_list(collections, _COLUMNS, rows, "no collections")


@app.command("get")
@name_argument
@server_options
def get_collection(name: str) -> None:
    """Show a collection with every setting in force, under the names that `--set` takes."""
    with connect() as client:
        collection = client.get_collection(collection=name).collection
    _show(collection)


@app.command("create")
@name_argument
@click.option("--profile", type=click.Choice(PROFILES), help="Profile to start from; `general` if not given.")
@set_option
@server_options
def create_collection(name: str, profile: str | None, assignments: tuple[str, ...]) -> None:
    """Create a collection; one of this name with the same settings is left as it is."""
    request = pb.CreateCollectionRequest(collection=name)
    if profile is not None:
        request.profile = collection_pb2.Profile.Value(f"PROFILE_{profile.upper()}")
    if assignments:
        assign(request.settings, assignments, ())
    with connect() as client:
        created = client.create_collection.send(request).collection
    _show(created)


@app.command("update")
@name_argument
@set_option
@unset_option
@etag_option
@server_options
def update_collection(name: str, assignments: tuple[str, ...], cleared: tuple[str, ...], etag: str) -> None:
    """Change settings; what is unset goes back to the profile's value. Rules of chunking hold for later ingests."""
    request = pb.UpdateCollectionRequest()
    request.collection.name, request.collection.etag = name, etag
    paths = assign(request.collection.settings, assignments, cleared).paths
    request.update_mask.paths.extend(f"settings.{path}" for path in paths)
    with connect() as client:
        changed = client.update_collection.send(request).collection
    _show(changed)


def _show(collection: collection_pb2.Collection) -> None:
    if printed_as_json(collection):
        return
    fields = message_json(collection, short_names=True)
    fields["document_count"] -= fields["record_count"]
    settings = fields.pop("settings")
    # That a profile has no model of its own says nothing, and "no" would read as if another embedder was used.
    if not collection.uses_default_embedder:
        fields.pop("uses_default_embedder", None)
    print_fields(fields)
    print_line()
    print_line("settings")
    print_fields(settings)


@app.command("delete")
@name_argument
@click.option("--force", is_flag=True, help="Delete its documents too; required when there are any.")
@yes_option
@server_options
def delete_collection(name: str, force: bool, yes: bool) -> None:
    """Delete a collection, for good, and print the receipt; asks first, or needs --yes."""
    check_consent("collections delete", given=yes)
    with connect() as client:
        if not yes:
            found = client.get_collection(collection=name).collection
            what = counted(found.document_count - found.record_count, "document")
            what += f" and {counted(found.record_count, 'record')}" if found.record_count else ""
            confirm(f"Delete {name!r} with {what} for good?", abort=True)
        try:
            receipt = client.delete_collection(collection=name, force=force).receipt
        except PreconditionError as refusal:
            raise PreconditionError(f"{refusal.message}: use --force", **refusal.metadata) from refusal
    if not printed_as_json(receipt):
        show_receipt(name, receipt)
