"""`groundwire operations`, `reindex`, `reembed` and `fsck`: long work, and how commands wait for it."""

from contextlib import suppress
from typing import Any, TypeVar

import click
from google.longrunning import operations_pb2
from google.protobuf.message import Message

from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb
from groundwire.cli.connection import connect
from groundwire.cli.messages import message_json
from groundwire.cli.options import collection_option, is_json, server_options, text_option
from groundwire.cli.output import ProgressBar, counted, print_fields, print_line, print_list, printed_as_json
from groundwire.client import GroundwireClient
from groundwire.client.contract import Contract
from groundwire.client.long_running import metadata_of, wait_for
from groundwire.client.transport import all_items
from groundwire.kernel.errors import DrainingError, GroundwireError, UnavailableError
from groundwire.rpc.error_status import from_status

ResponseT = TypeVar("ResponseT", bound=Message)

app = click.Group("operations", help="List, show and cancel long-running operations.")
_SHOWN_ALIKE = 5
_COLUMNS = ("operation", "call", "collection", "state", "since")

name_argument = click.argument("name", metavar="NAME", help="Name of the operation.")
no_wait_option = click.option(
    "--no-wait", is_flag=True, help="Print the name of the operation instead of waiting for it."
)


def finished(
    client: GroundwireClient,
    operation: operations_pb2.Operation,
    kind: type[ResponseT],
    *,
    no_wait: bool,
) -> ResponseT | None:
    """Return the response of an operation at its end, showing how far it is; None with `no_wait`.

    Interrupting the command cancels the operation; losing the connection to the server does not.
    """
    if no_wait:
        if not printed_as_json({"name": operation.name}):
            print_line(operation.name)
        return None
    try:
        with ProgressBar("starting", quiet=is_json()) as display:
            return wait_for(client, operation, kind, lambda metadata: display.show(metadata.progress))
    except GroundwireError as error:
        # The operation itself failed, or no server is there to cancel it.
        if type(error) in {UnavailableError, DrainingError}:
            error.metadata["operation"] = operation.name
            if not is_json():
                shown = f"`groundwire operations get {operation.name}`"
                print_line(f"a server that starts again goes on with it; see {shown}", err=True)
        raise
    except BaseException:  # Ctrl-C above all
        with suppress(GroundwireError):
            client.cancel_operation(name=operation.name)
        raise


@app.command("list")
@server_options
def list_operations() -> None:
    """List operations, newest first."""
    with connect() as client:
        pages = all_items.blocking(client, Contract.list_operations, "operations", name="operations")
        operations = [_operation_json(operation) for operation in pages]
    rows = [
        (each["name"], each["method"], each["collection"] or "all", each["state"], each["create_time"])
        for each in operations
    ]
    print_list(operations, _COLUMNS, rows, "no operations")


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
    """Cancel an operation; one that has ended stays as it is."""
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


@click.command()
@collection_option
@no_wait_option
@server_options
def reindex(collection: str, no_wait: bool) -> None:
    """Rebuild the indexes of a collection from the catalog; the old ones serve until the new ones are complete.

    Stopping it changes nothing.
    """
    _build("reindex", collection, no_wait=no_wait)


@click.command()
@collection_option
@no_wait_option
@server_options
def reembed(collection: str, no_wait: bool) -> None:
    """Embed a collection again with the server's model and switch to it when complete.

    Stopping it changes nothing; the vectors made so far are kept for the next run.
    """
    _build("reembed", collection, no_wait=no_wait)


def _build(method: str, collection: str, *, no_wait: bool) -> None:
    with connect() as client:
        operation = getattr(client, method)(collection=collection)
        result = finished(client, operation, pb.IndexBuildResult, no_wait=no_wait)
    if result is None or printed_as_json(result):
        return
    model = f"{result.embedding.model_name}, {result.embedding.dimensions} dimensions"
    counts = f"{counted(result.vector_count, 'vector')} of {model}; {counted(result.embedded_count, 'text')} embedded"
    print_line(f"{collection}: {counts}")


@click.command()
@text_option("--collection", "-c", help="Collection to check; all and what they share if not given.")
@click.option("--repair", is_flag=True, help="Repair vectors and indexes from the catalog.")
@no_wait_option
@server_options
def fsck(collection: str, repair: bool, no_wait: bool) -> None:
    """Check the stores of a running server; exits with 1 if problems remain."""
    report = check_store(collection, repair=repair, no_wait=no_wait)
    if report is not None:
        show_report(report)


def check_store(collection: str, *, repair: bool, no_wait: bool = False) -> pb.StoreReport | None:
    """Return what a check of the tenant of the command's credential finds; None with `no_wait`."""
    with connect() as client:
        operation = client.check_store(collection=collection, repair=repair)
        return finished(client, operation, pb.StoreReport, no_wait=no_wait)


def show_report(report: pb.StoreReport) -> None:
    """Print a report, and end the command with 1 if problems remain."""
    findings: list[dict[str, Any]] = [
        {
            "kind": pb.StoreFindingKind.Name(finding.kind).removeprefix("STORE_FINDING_KIND_"),
            "collection": finding.collection,
            "subject": finding.subject,
            "message": finding.message,
            "repaired": finding.repaired,
        }
        for finding in report.findings
    ]
    unrepaired = report.finding_count - report.repaired_count
    totals = {"checked": report.checked_count, "repaired": report.repaired_count, "left": unrepaired}
    if not printed_as_json({"consistent": report.consistent, **totals, "findings": findings}):
        alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for finding in findings:
            alike.setdefault((finding["repaired"], finding["kind"], finding["collection"]), []).append(finding)
        # An index that is lost or stale is a finding for each chunk, among which the others would not be seen.
        for (is_repaired, kind, collection), group in alike.items():
            start = f"{'repaired' if is_repaired else 'found':<8} {kind:<24} "
            for finding in group[:_SHOWN_ALIKE]:
                where = " ".join(part for part in (collection, finding["subject"]) if part)
                print_line(f"{start}{where}{': ' if where else ''}{finding['message']}")
            if len(group) > _SHOWN_ALIKE:
                print_line(
                    f"{start}{collection}{': ' if collection else ''}and {len(group) - _SHOWN_ALIKE:,} like these"
                )
        if report.finding_count > len(findings):
            print_line(f"and {counted(report.finding_count - len(findings), 'finding')} more")
        repaired = f"{counted(report.repaired_count, 'finding')} repaired, {unrepaired:,} left"
        print_line(f"{counted(report.checked_count, 'chunk')} compared: {repaired if findings else 'nothing is wrong'}")
    if not report.consistent:
        raise click.exceptions.Exit(1)
