"""`groundwire config show`: the settings a server started here would use."""

from typing import Any

import click

from groundwire.cli.options import json_option, server_packages
from groundwire.cli.output import print_json, print_line

app = click.Group("config", help="Show the configuration.")


@app.command("show")
@json_option
def show(as_json: bool) -> None:
    """Print every setting with its value, as variables or with their types as JSON; secrets are blanked."""
    with server_packages("config show"):
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
