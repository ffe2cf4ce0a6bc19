"""`groundwire config show`: the settings a server started here would use."""

from typing import Any

import typer

from groundwire.cli.options import JsonOption
from groundwire.cli.output import print_json, print_line

app = typer.Typer(help="Show the configuration.", no_args_is_help=True)


@app.callback()
def config() -> None:
    """Show the configuration."""


@app.command("show")
def show(as_json: JsonOption = False) -> None:
    """Print every setting with its value, as variables or with their types as JSON; secrets are blanked."""
    from groundwire.standalone.settings import load_settings  # noqa: PLC0415 - pydantic costs time

    shown = load_settings().shown()
    if as_json:
        print_json(shown)
        return
    for name, value in shown.items():
        print_line(f"{name}={as_variable(value)}")


def as_variable(value: Any) -> str:
    """Return a value as the variable takes it; empty for one that is not set."""
    if value is None:
        return ""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
