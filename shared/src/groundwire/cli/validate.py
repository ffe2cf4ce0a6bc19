"""`groundwire validate`: check metadata against the schema of its kind."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groundwire.cli.options import address_option, connect, json_option, read_json
from groundwire.cli.output import print_fields, print_json, print_line
from groundwire.cli.schema import KINDS
from groundwire.kernel.errors import FieldViolation, InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

PLACE = "metadata"


@click.command()
@click.argument("kind", help=f"Kind of metadata: {KINDS}.")
@click.argument(
    "metadata", type=click.Path(path_type=Path, allow_dash=True), help="JSON object in a file; - reads standard input."
)
@address_option
@json_option
def validate(kind: str, metadata: Path, address: str, as_json: bool) -> None:
    """Check metadata and show it with defaults filled in; nothing is stored.

    Exits with 1 if it breaks a rule, naming every field that does.
    """
    from groundwire.client.values import plain_value, value_message  # noqa: PLC0415 - --help stays fast

    given = _read(metadata)
    with connect(address) as client:
        try:
            values = {key: value_message(value, f"{PLACE}[{key!r}]") for key, value in given.items()}
            found = client.validate_metadata(document_type=kind, metadata=values).metadata
        except InvalidRequestError as error:
            if not all(each.field.startswith(PLACE) for each in error.violations):
                raise
            _refuse(error.violations, as_json=as_json)
    complete = {key: plain_value(value) for key, value in sorted(found.items())}
    if as_json:
        print_json({"valid": True, "metadata": complete, "violations": []})
    else:
        print_line("valid")
        print_fields(complete)


def _refuse(violations: "Sequence[FieldViolation]", *, as_json: bool) -> None:
    named = [{"field": each.field, "description": each.description} for each in violations]
    if as_json:
        print_json({"valid": False, "metadata": None, "violations": named})
    else:
        for each in violations:
            print_line(f"{each.field}: {each.description}", err=True)
    raise click.exceptions.Exit(1)


def _read(path: Path) -> dict[str, Any]:
    document = read_json(path)
    if not isinstance(document, dict):
        raise InvalidRequestError.of(str(path), "is no JSON object")
    return document
