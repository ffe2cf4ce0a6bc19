"""`groundwire health`: ask a server whether it can serve."""

from typing import TYPE_CHECKING, Annotated

import typer

from groundwire.cli.options import AddressOption, JsonOption, connect
from groundwire.cli.output import print_json, print_line

if TYPE_CHECKING:
    from groundwire.client import GroundwireClient

SERVICES = (
    "groundwire.api.ingest.v1.IngestService",
    "groundwire.api.retrieve.v1.RetrieveService",
    "groundwire.api.answer.v1.AnswerService",
    "liveness",
)


def health(
    service: Annotated[str | None, typer.Option(help="Ask for one service only.")] = None,
    address: AddressOption = "127.0.0.1:50051",
    as_json: JsonOption = False,
) -> None:
    """Print the state of each service; exits with 1 unless all are serving."""
    with connect(address) as client:
        states = {name: _state(client, name) for name in ([service] if service else SERVICES)}
    if as_json:
        print_json(states)
    else:
        for name, state in states.items():
            print_line(f"{state:<12} {name}")
    if set(states.values()) != {"SERVING"}:
        raise typer.Exit(1)


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
