"""`groundwire health`: ask a server whether it can serve."""

from typing import TYPE_CHECKING

import click

from groundwire.cli.options import address_option, connect, json_option
from groundwire.cli.output import counted, print_json, print_line

if TYPE_CHECKING:
    from groundwire.api.ingest.v1 import maintenance_service_pb2
    from groundwire.client import GroundwireClient

SERVICES = (
    "groundwire.api.ingest.v1.IngestService",
    "groundwire.api.ingest.v1.CollectionService",
    "groundwire.api.ingest.v1.MaintenanceService",
    "groundwire.api.retrieve.v1.RetrieveService",
    "groundwire.api.retrieve.v1.LibraryService",
    "groundwire.api.answer.v1.AnswerService",
    "liveness",
)


@click.command()
@click.option("--service", help="Ask for one service only.")
@address_option
@json_option
def health(service: str | None, address: str, as_json: bool) -> None:
    """Print the state of each service and what fails behind the calls; exits with 1 unless all are serving."""
    with connect(address) as client:
        states = {name: _state(client, name) for name in ([service] if service else SERVICES)}
        behind = None if service else housekeeping(client)
    if as_json:
        print_json(states | ({} if behind is None else _shown(behind)))
    else:
        for name, state in states.items():
            print_line(f"{state:<12} {name}")
        show_housekeeping(behind)
    if set(states.values()) != {"SERVING"}:
        raise click.exceptions.Exit(1)


def housekeeping(client: "GroundwireClient") -> "maintenance_service_pb2.GetHousekeepingResponse | None":
    """Return what goes on behind the calls; None when the server cannot say."""
    from groundwire.kernel.errors import GroundwireError  # noqa: PLC0415 - --help stays fast

    try:
        return client.housekeeping()
    except GroundwireError:
        return None


def show_housekeeping(behind: "maintenance_service_pb2.GetHousekeepingResponse | None") -> None:
    """Print a line for each failure and one for deletions that are not complete; nothing when all is done."""
    if behind is None:
        return
    for each in behind.failures:
        where = f" of {each.collection}" if each.collection else ""
        since = each.start_time.ToDatetime().isoformat(sep=" ", timespec="seconds")
        print_line(f"FAILING      {each.job}{where}, {each.failure_count} times since {since} UTC: {each.message}")
    if behind.incomplete_deletions:
        since = behind.incomplete_deletions[0].hide_time.ToDatetime().isoformat(sep=" ", timespec="seconds")
        count = counted(len(behind.incomplete_deletions), "deletion")
        print_line(f"CLEANING     traces of {count} since {since} UTC, which nothing finds any more")


def _shown(behind: "maintenance_service_pb2.GetHousekeepingResponse") -> dict[str, object]:
    """Return what is not as it should be, by its name in the JSON."""
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    failures = [message_json(each) for each in behind.failures]
    receipts = [message_json(each) for each in behind.incomplete_deletions]
    shown: dict[str, object] = {"housekeeping": failures, "incomplete_deletions": receipts}
    return {name: part for name, part in shown.items() if part}


def _state(client: "GroundwireClient", service: str) -> str:
    from grpc_health.v1.health_pb2 import HealthCheckResponse  # noqa: PLC0415 - --help stays fast

    from groundwire.kernel.errors import NotFoundError, UnavailableError  # noqa: PLC0415 - the same

    try:
        state: str = HealthCheckResponse.ServingStatus.Name(client.health(service=service).status)
    except NotFoundError:
        return "UNKNOWN"
    except UnavailableError:
        return "UNREACHABLE"
    return state
