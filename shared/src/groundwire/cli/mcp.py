"""`groundwire mcp`: lets agents search, ask and remember over the Model Context Protocol."""

import asyncio
import ipaddress
import signal
import socket
import sys

import click

from groundwire.cli.connection import connection
from groundwire.cli.options import option_value, server_options
from groundwire.cli.output import print_line
from groundwire.kernel.errors import InvalidRequestError, MissingExtraError

_MOST_PORT = 65_535


@click.command()
@click.option("--allow-writes", is_flag=True, help="Also offer the tools that ingest, delete and remember.")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Serve HTTP at http://HOST:PORT/mcp instead of standard input and output; port 0 takes any that is free.",
)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="With --listen: host that agents address besides localhost, such as a proxy's; may be given several times.",
)
@click.option("--insecure", is_flag=True, help="With --listen: accept requests from the network, in plain HTTP.")
@server_options
def mcp(allow_writes: bool, listen: str | None, names: tuple[str, ...], insecure: bool) -> None:
    """Let agents search, ask and remember over the Model Context Protocol.

    An agent starts this command itself and talks to it over standard input and output. With --listen it serves many
    agents, and passes the Authorization header of each on to the server as its credential.
    """
    try:
        from groundwire.agents import serving  # noqa: PLC0415 - may not be installed
    except ModuleNotFoundError as error:
        message = "`groundwire mcp` needs more packages: pip install 'groundwire[mcp]'"
        raise MissingExtraError(message, extra="mcp") from error

    if listen is None:
        if names or insecure:
            raise click.UsageError("--allow-host and --insecure can only be given with --listen")
        if sys.stdin.isatty():
            print_line("waiting for an agent; agents start this command themselves", err=True)
        # Ctrl-C ends the process at once: it holds nothing, and its read of standard input cannot be interrupted.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        asyncio.run(serving.serve_stdio(connection(), allow_writes=allow_writes))
        return
    if option_value("token_file") is not None:
        # Whoever reaches the port would act with the rights of this token.
        raise click.UsageError("--token-file cannot be given with --listen: each agent sends its own credential")
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _MOST_PORT:
        raise InvalidRequestError.of("--listen", f"must be HOST:PORT, not {listen!r}")
    address = host.strip("[]")
    try:
        listener = socket.create_server(
            (address, int(port)), family=socket.AF_INET6 if ":" in address else socket.AF_INET
        )
    except OSError as error:
        raise InvalidRequestError.of("--listen", f"cannot listen on {listen}: {error.strerror}") from error
    with listener:
        bound = ipaddress.ip_address(listener.getsockname()[0].partition("%")[0])
        if not (bound.is_loopback or insecure):
            # A server without credentials takes calls from its own machine only, where this process may run.
            raise click.UsageError(
                f"--listen {listen} accepts requests from the network, in plain HTTP: listen on 127.0.0.1 behind a "
                "proxy with TLS, or add --insecure where a proxy or the network decides who may call"
            )
        print_line(f"listening on http://{host}:{listener.getsockname()[1]}/mcp")
        serving_agents = serving.serve_http(connection(), listener, names=[host, *names], allow_writes=allow_writes)
        asyncio.run(serving_agents)
