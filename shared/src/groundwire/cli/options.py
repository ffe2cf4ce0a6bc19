"""Options and arguments that several commands share, and what stands behind some of them; imports nothing heavy."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from groundwire.kernel.errors import InvalidRequestError

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

PROFILES = ("general", "documents", "conversations", "memory", "web", "book")


class WholeNumber(click.types.IntParamType):
    """A whole number that a message can hold, of at least `least`; the server says which of them it takes.

    Unlike those of `click.IntRange`, its bounds are not in the help, where 2147483647 would only puzzle.
    """

    def __init__(self, bits: int, least: int | None = None) -> None:
        self._least, self._most = -(2 ** (bits - 1)) if least is None else least, 2 ** (bits - 1) - 1

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number: int = super().convert(value, param, ctx)
        if not self._least <= number <= self._most:
            self.fail(f"{number} is {'too large' if number > 0 else f'below {self._least}'}", param, ctx)
        return number


INT32, INT64, COUNT = WholeNumber(32), WholeNumber(64), WholeNumber(32, least=1)
collection_option = click.option(
    "--collection", "-c", envvar="GROUNDWIRE_COLLECTION", required=True, help="Collection to use."
)
# The help names no default where it is an empty text.
text_option = partial(click.option, default="", show_default=False)
etag_option = text_option("--etag", help="Change it only if it still has this etag.")
filter_option = click.option(
    "--filter", "filter_json", help='Filter as JSON, such as {"chapter": "Traits"}; see docs/reference/filters.md.'
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Delete without asking.")
set_option = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="New value of a field; may be given several times.",
)
unset_option = click.option(
    "--unset", "cleared", multiple=True, metavar="NAME", help="Field to clear; may be given several times."
)


def _context_option(*names: str, **options: Any) -> Callable[[CommandT], CommandT]:
    """Make an option that is read from the context with `option_value`, so that no command has to pass it on."""

    def store(context: click.Context, option: click.Parameter, value: Any) -> None:
        context.meta[f"groundwire.{option.name}"] = value

    return click.option(*names, expose_value=False, callback=store, **options)


def option_value(name: str) -> Any:
    """Return the value of an option that every command has, such as `address`; None outside of a command."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(f"groundwire.{name}")


def is_json() -> bool:
    """Tell whether the command is to print JSON instead of text."""
    return bool(option_value("as_json"))


_FILE = click.Path(path_type=Path)
json_option = _context_option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
# The last one first, because each is put before those that a command has already.
_SERVER_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    json_option,
    _context_option(
        "--tls-client-key",
        envvar="GROUNDWIRE_TLS_CLIENT_KEY",
        type=_FILE,
        help="Private key of the client certificate.",
    ),
    _context_option(
        "--tls-client-certificate",
        envvar="GROUNDWIRE_TLS_CLIENT_CERTIFICATE",
        type=_FILE,
        help="Client certificate, if the server requires one.",
    ),
    _context_option(
        "--tls-ca",
        envvar="GROUNDWIRE_TLS_CA",
        type=_FILE,
        help="Authority that signed the server's certificate; implies --tls.",
    ),
    _context_option("--tls", envvar="GROUNDWIRE_TLS", is_flag=True, help="Connect with TLS."),
    _context_option(
        "--token-file", envvar="GROUNDWIRE_TOKEN_FILE", type=_FILE, help="File with an API key or a token."
    ),
    _context_option(
        "--address",
        envvar="GROUNDWIRE_ADDRESS",
        default="127.0.0.1:50051",
        help="Server to connect to, or one for each service: ingest=HOST:PORT,retrieve=HOST:PORT,answer=HOST:PORT.",
    ),
)


def server_options(command: CommandT) -> CommandT:
    """Add what every command that talks to a server takes: where it is, how to connect to it, and `--json`."""
    for option in _SERVER_OPTIONS:
        command = option(command)
    return command


def input_argument(name: str, description: str) -> Callable[[CommandT], CommandT]:
    """Make an argument that names a file, or `-` for standard input, to be read with `read_json` or `read_text`."""
    kind = click.Path(path_type=Path, allow_dash=True)
    return click.argument(name, type=kind, help=f"{description}; - reads standard input.")


class Interrupted(Exception):  # noqa: N818 - it is what somebody wanted
    """Ctrl-C ended a command that can say how far it was."""


def check_consent(option: str, *, given: bool) -> None:
    """Return if deletion is confirmed already or can be asked for at a terminal.

    Raises:
        InvalidRequestError: neither; a script has to pass --yes.
    """
    if not given and not sys.stdin.isatty():
        raise InvalidRequestError.of(option, "asks before it deletes, and there is no terminal to ask at: add --yes")


def read_json(path: Path) -> Any:
    """Return what a file holds as JSON; `-` is standard input.

    Raises:
        InvalidRequestError: it cannot be read, or is not JSON.
    """
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError.of(str(path), f"is not JSON: {error}") from error


def read_text(path: Path) -> str:
    """Return what a file holds; `-` is standard input.

    Raises:
        InvalidRequestError: it cannot be read, or is not UTF-8.
    """
    try:
        with click.open_file(str(path), encoding="utf-8-sig") as file:  # the mark that Windows puts first is no text
            text: str = file.read()
            return text
    except OSError as error:
        raise InvalidRequestError.of(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequestError.of(str(path), "is not UTF-8") from error
