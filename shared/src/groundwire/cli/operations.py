"""`groundwire operations`: look at long work and stop it; and how other commands wait for theirs."""

from contextlib import suppress
from typing import Any, TypeVar

import click
from google.longrunning import operations_pb2
from google.protobuf.message import Message

from groundwire.cli.connection import all_items, connect
from groundwire.cli.messages import message_json
from groundwire.cli.options import is_json, server_options
from groundwire.cli.output import print_fields, print_line, print_table, printed_as_json
from groundwire.cli.progress import ProgressBar
from groundwire.client import GroundwireClient
from groundwire.client.long_running import metadata_of, wait_for
from groundwire.kernel.errors import GroundwireError
from groundwire.rpc.error_status import from_status

ResponseT = TypeVar("ResponseT", bound=Message)

app = click.Group("operations", help="List, show and cancel long work.")
_COLUMNS = ("operation", "call", "collection", "state", "since")

name_argument = click.argument("name", metavar="NAME", help="Name of the operation.")
no_wait_option = click.option("--no-wait", is_flag=True, help="Print the name of the operation and leave it alone.")


def finished(
    client: GroundwireClient,
    operation: operations_pb2.Operation,
    kind: type[ResponseT],
    *,
    no_wait: bool,
) -> ResponseT | None:
    """Return the response of an operation at its end, showing how far it is; None with `no_wait`.

    Who interrupts the command cancels the operation. One whose command loses its server goes on.
    """
    if no_wait:
        if not printed_as_json({"name": operation.name}):
            print_line(operation.name)
        return None
    try:
        with ProgressBar("starting", quiet=is_json()) as display:
            return wait_for(client, operation, kind, lambda metadata: display.show(metadata.progress))
    except GroundwireError:
        raise  # the operation failed itself, or the server is gone and nobody can tell it anything
    except BaseException:  # Ctrl-C above all
        with suppress(GroundwireError):
            client.cancel_operation(name=operation.name)
        raise


@app.command("list")
@server_options
def list_operations() -> None:
    """List operations, newest first."""
    with connect() as client:
        pages = all_items(client.list_operations, "operations", name="operations")
        operations = [_operation_json(operation) for operation in pages]
    if printed_as_json(operations):
        return
    rows = [
        (each["name"], each["method"], each["collection"] or "all", each["state"], each["create_time"])
        for each in operations
    ]
    print_table(_COLUMNS, rows, "no operations")


@app.command("get")
@name_argument
@server_options
def get_operation(name: str) -> None:
    """Show an operation."""
    with connect() as client:
        operation = _operation_json(client.get_operation(name=name))
    if not printed_as_json(operation):
        print_fields(operation)


@app.command("cancel")
@name_argument
@server_options
def cancel_operation(name: str) -> None:
    """Tell an operation to stop; one that has ended stays as it is."""
    with connect() as client:
        client.cancel_operation(name=name)
    if not printed_as_json({"name": name}):
        print_line(f"{name} was told to stop")


def _operation_json(operation: operations_pb2.Operation) -> dict[str, Any]:
    """Return an operation with `state`: `running`, `done` or the reason why it failed."""
    state = "done" if operation.done else "running"
    if operation.HasField("error"):
        error = from_status(operation.error)
        state = f"{error.reason}: {error.message}"
    return {"name": operation.name, "state": state, **message_json(metadata_of(operation), short_names=True)}
