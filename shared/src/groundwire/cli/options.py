"""Options that several commands share, and the connection they open."""

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groundwire.kernel.errors import DeadlineError, InvalidRequestError, MissingExtraError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groundwire.client import GroundwireClient

_PROBE_S = 1.0

etag_option = click.option("--etag", default="", help="Only if it still has this etag.")
address_option = click.option(
    "--address", default="127.0.0.1:50051", envvar="GROUNDWIRE_ADDRESS", help="Server to talk to."
)
collection_option = click.option("--collection", "-c", required=True, help="Collection to use.")
document_argument = click.argument("document", metavar="DOCUMENT", help="Id or source of the document.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


class Interrupted(Exception):  # noqa: N818 - it is what somebody wanted
    """Ctrl-C ended a command that can say how far it was."""


@contextmanager
def server_packages(command: str) -> "Iterator[None]":
    """Import and run what only servers need.

    Raises:
        MissingExtraError: a package of the servers is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        message = f"`groundwire {command}` needs the packages of a server: pip install 'groundwire[standalone]'"
        raise MissingExtraError(message, extra="standalone") from error


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
        with click.open_file(str(path), encoding="utf-8") as file:
            return json.load(file)
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
