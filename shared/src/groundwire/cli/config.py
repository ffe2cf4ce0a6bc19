"""`groundwire config show`: the settings a server started here would use."""

import typer

from groundwire.cli.options import JsonOption
from groundwire.cli.output import print_json

_UNSET = {"None": "", "()": ""}
"""What a setting without a value looks like to people."""

app = typer.Typer(help="Show the configuration.", no_args_is_help=True)


@app.callback()
def config() -> None:
    """Show the configuration."""


@app.command("show")
def show(as_json: JsonOption = False) -> None:
    """Print every setting with its value; secrets are blanked."""
    from groundwire.standalone.settings import load_settings  # noqa: PLC0415 - pydantic costs time

    shown = load_settings().shown()
    if as_json:
        print_json(shown)
        return
    for name, value in shown.items():
        typer.echo(f"{name}={_UNSET.get(value, value)}")
