"""`groundwire health`: ask a server whether it can serve."""

from typing import TYPE_CHECKING

import click

from groundwire.cli.options import address_option, connect, json_option
from groundwire.cli.output import print_json, print_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groundwire.api.ingest.v1 import ingest_service_pb2
    from groundwire.client import GroundwireClient

SERVICES = (
    "groundwire.api.ingest.v1.IngestService",
    "groundwire.api.retrieve.v1.RetrieveService",
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
        failing = [] if service else failing_jobs(client)
    if as_json:
        print_json(states | ({"housekeeping": [_fields(each) for each in failing]} if failing else {}))
    else:
        for name, state in states.items():
            print_line(f"{state:<12} {name}")
        show_failing(failing)
    if set(states.values()) != {"SERVING"}:
        raise click.exceptions.Exit(1)


def failing_jobs(client: "GroundwireClient") -> "Sequence[ingest_service_pb2.HousekeepingFailure]":
    """Return what fails behind the calls; nothing when the server cannot say."""
    from groundwire.kernel.errors import GroundwireError  # noqa: PLC0415 - --help stays fast

    try:
        return client.housekeeping().failures
    except GroundwireError:
        return []


def show_failing(failures: "Sequence[ingest_service_pb2.HousekeepingFailure]") -> None:
    """Print a line for each failure; nothing when there is none."""
    for each in failures:
        where = f" of {each.collection}" if each.collection else ""
        since = each.since_time.ToDatetime().isoformat(sep=" ", timespec="seconds")
        print_line(f"FAILING      {each.job}{where}, {each.failure_count} times since {since} UTC: {each.message}")


def _fields(failure: "ingest_service_pb2.HousekeepingFailure") -> object:
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    return message_json(failure)


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
