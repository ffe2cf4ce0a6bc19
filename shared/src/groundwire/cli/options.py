"""Options that several commands share, and the connection they open."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from groundwire.client import GroundwireClient

DEFAULT_ADDRESS = "127.0.0.1:50051"

AddressOption = Annotated[
    str, typer.Option("--address", envvar="GROUNDWIRE_ADDRESS", help="Server to talk to.", show_default=True)
]
CollectionOption = Annotated[str, typer.Option("--collection", "-c", help="Collection to use.")]
DocumentArgument = Annotated[str, typer.Argument(help="Id or source of the document.", metavar="DOCUMENT")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def connect(address: str) -> "GroundwireClient":
    """Open a client; use it as a context manager."""
    from groundwire.client import GroundwireClient  # noqa: PLC0415 - gRPC costs time that --help should not pay

    return GroundwireClient(address)
