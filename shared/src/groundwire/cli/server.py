"""`groundwire serve` and `groundwire config show`, which need the packages of a server.

Imports neither the client nor the contract: what this process serves loads them in its own order.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from groundwire.cli.app import uninterrupted
from groundwire.cli.options import INT32, json_option
from groundwire.cli.output import is_terminal, print_line, printed_as_json
from groundwire.kernel.errors import InvalidRequestError, MissingExtraError

config = click.Group("config", help="Show the configuration.")


def _read_variables(_context: click.Context, _option: click.Parameter, file: Path | None) -> None:
    """Set the variables of a file that the environment does not have; they are for the processes of a server, too."""
    if file is not None:
        with server_packages("serve"):
            from dotenv.parser import parse_stream  # noqa: PLC0415 - may not be installed

        try:
            with file.open(encoding="utf-8-sig") as text:
                found = list(parse_stream(text))
        except UnicodeDecodeError:
            raise InvalidRequestError.of("--env-file", f"{str(file)!r} is not UTF-8 text") from None
        variables: dict[str, str] = {}
        for each in found:
            if each.error or "\0" in each.original.string or (each.key is not None and each.value is None):
                # Not the line itself, which may be a secret.
                raise InvalidRequestError.of(
                    "--env-file", f"line {each.original.line} of {str(file)!r} is no NAME=value"
                )
            if each.key is not None:
                variables[each.key] = each.value or ""
        for name, value in variables.items():
            os.environ.setdefault(name, value)


env_file_option = click.option(
    "--env-file",
    envvar="GROUNDWIRE_ENV_FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    expose_value=False,
    callback=_read_variables,
    help="File with variables, one NAME=value a line; the environment takes precedence.",
)


@click.command()
@click.argument(
    "service",
    type=click.Choice(["all", "ingest", "retrieve", "answer"]),
    default="all",
    help="Which services this process runs.",
)
@env_file_option
@click.option("--listen", help="HOST:PORT to listen on; port 0 picks a free one.")
@click.option("--metrics", help="HOST:PORT to serve Prometheus metrics on, such as 127.0.0.1:9464.")
@click.option("--keys", type=click.Path(path_type=Path), help="File of API keys; see `groundwire keys`.")
@click.option("--insecure", is_flag=True, default=None, help="Accept calls from the network without credentials.")
@click.option("--data", type=click.Path(), help="Folder for all data.")
@click.option("--vectors", help="Vector store: qdrant-edge:DIR, chroma:DIR, memory: or a server.")
@click.option("--catalog", help="Catalog: sqlite:FILE or postgresql://USER@HOST/DATABASE.")
@click.option("--retrieve", help="For `answer`: where retrieve is, such as dns:///retrieve:50051.")
@click.option("--ingest", help="For `answer`: where ingest is, which records conversations.")
@click.option("--sessions", help="For `answer`: sqlite:FILE, postgresql://… or memory:.")
@click.option("--processes", type=INT32, help="For `retrieve` and `answer`: processes behind the port.")
@click.option(
    "--embedder", help="Embedder: sentence-transformers:NAME_OR_DIR or an endpoint, openai+http://HOST/v1#MODEL."
)
@click.option("--generator", help="Generator: extractive: or a chat model, openai+http://HOST/v1#MODEL.")
def serve(service: str, **flags: Any) -> None:
    """Run the services until SIGTERM or Ctrl-C.

    Prints "listening on HOST:PORT" once it can serve, and on a terminal what it waits for until then. Each option has
    a variable GROUNDWIRE_<OPTION>; further settings, such as those of TLS, have variables only, and `groundwire
    config show` prints them all.
    """
    # Nothing that is made until the process serves is garbage; `run` enables it then.
    gc.disable()
    with server_packages("serve"):
        with uninterrupted():
            from groundwire.standalone.process import run  # noqa: PLC0415 - may not be installed
            from groundwire.standalone.settings import ServiceName, load_settings  # noqa: PLC0415 - the same

        settings = load_settings(**flags)
        run(ServiceName(service), settings, announce)


def announce(what: str) -> None:
    """Say on a terminal what is waited for."""
    if is_terminal(err=True):
        print_line((f"{what} …", "dim"), err=True)


@config.command("show")
@env_file_option
@json_option
def show_config() -> None:
    """Print every setting with its value, as variables or with their types as JSON; secrets are blanked.

    Settings that are not set are comments, so that `--env-file` takes what is printed.
    """
    with server_packages("config show"):
        from groundwire.standalone.settings import load_settings  # noqa: PLC0415 - may not be installed

        shown = load_settings().shown()
    if printed_as_json(shown):
        return
    for name, value in shown.items():
        print_line(f"{'# ' if value is None else ''}{name}={as_variable(value)}")


def as_variable(value: Any) -> str:
    """Return a value as the variable takes it; empty for one that is not set."""
    if value is None:
        return ""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def server_packages(command: str) -> Iterator[None]:
    """Import and run what only servers need.

    Raises:
        MissingExtraError: a package of the servers is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        message = f"`groundwire {command}` needs the packages of a server: pip install 'groundwire[standalone]'"
        raise MissingExtraError(message, extra="standalone") from error
