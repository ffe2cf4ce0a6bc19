"""Options that several commands share, and the connection they open."""

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groundwire.kernel.errors import DeadlineError, InvalidRequestError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groundwire.client import GroundwireClient

_PROBE_S = 1.0

AddressOption = Annotated[
    str, typer.Option("--address", envvar="GROUNDWIRE_ADDRESS", help="Server to talk to.", show_default=True)
]
CollectionOption = Annotated[str, typer.Option("--collection", "-c", help="Collection to use.")]
DocumentArgument = Annotated[str, typer.Argument(help="Id or source of the document.", metavar="DOCUMENT")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


class Interrupted(Exception):  # noqa: N818 - it is what somebody wanted
    """Ctrl-C ended a command that can say how far it was."""


@contextmanager
def connect(address: str) -> "Iterator[GroundwireClient]":
    """Open a client for the time of a command.

    Raises:
        UnavailableError: nothing answers at the address, said so that people know what to do.
    """
    from groundwire.client import GroundwireClient  # noqa: PLC0415 - gRPC costs time that --help should not pay

    with GroundwireClient(address) as client:
        try:
            yield client
        except UnavailableError as error:
            if type(error) is UnavailableError and not answers(address):
                said = f"no server answers at {address}; start one with `groundwire serve`, or name one with --address"
                raise UnavailableError(said) from error
            raise


def check_consent(option: str, *, given: bool) -> None:
    """Return if something may be deleted or somebody can be asked.

    Raises:
        InvalidRequestError: neither; a script has to say what it wants.
    """
    if not given and not sys.stdin.isatty():
        raise InvalidRequestError.of(option, "deletes for good, and nobody is at a terminal to be asked: add --yes")


def read_json(path: Path) -> Any:
    """Return what a file holds as JSON; `-` is standard input.

    Raises:
        InvalidRequestError: it cannot be read, or is no JSON.
    """
    try:
        text = typer.get_text_stream("stdin").read() if str(path) == "-" else path.read_text(encoding="utf-8")
        return json.loads(text)
    except OSError as error:
        raise InvalidRequestError.of(str(path), f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError.of(str(path), f"is no JSON: {error}") from error


def answers(address: str) -> bool:
    """Tell whether a server can be reached at all, which is one that says anything about its health."""
    from groundwire.client import GroundwireClient  # noqa: PLC0415 - the same

    with GroundwireClient(address, timeout_s=_PROBE_S) as client:
        try:
            client.health(service="liveness")
        except (UnavailableError, DeadlineError):
            return False
    return True
