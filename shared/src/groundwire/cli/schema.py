"""`groundwire schema` and `groundwire validate`: which metadata each kind of record takes."""

import json
from pathlib import Path
from typing import Any

import click

from groundwire.cli.connection import connect
from groundwire.cli.options import input_argument, read_json, server_options
from groundwire.cli.output import print_fields, print_json, print_line, print_table, printed_as_json
from groundwire.client.values import plain_metadata, value_message
from groundwire.kernel.errors import InvalidRequestError

_KINDS = "persona, faq, memory, turn, summary, document or chunk"
_METADATA = "metadata"


@click.command()
@click.argument("kind", default="", help=f"Kind of metadata: {_KINDS}; all in short if not given.")
@server_options
def schema(kind: str) -> None:
    """Show the schema of a kind of metadata; `--json` prints it as JSON Schema."""
    with connect() as client:
        entries = client.schema(document_type=kind).schemas
    schemas = [
        {
            "document_type": entry.document_type,
            "fields": list(entry.fields),
            "required_fields": list(entry.required_fields),
            "schema": json.loads(entry.schema_json),
            "example": json.loads(entry.example_json),
        }
        for entry in entries
    ]
    if printed_as_json(schemas):
        return
    if kind:
        for entry in schemas:
            whole = entry["schema"]
            rows = []
            for name in entry["fields"]:
                field = whole.get("properties", {}).get(name, {})
                required = "required" if name in entry["required_fields"] else ""
                rows.append((name, required, f"{_type_of(field, whole)} · {field.get('description', '')}"))
            print_table(("field", "", "type and meaning"), rows, "no fields")
            print_line()
            print_line("example")
            print_json(entry["example"])
    else:
        kinds = [(entry["document_type"], ", ".join(entry["fields"])) for entry in schemas]
        print_table(("kind", "fields"), kinds, "no schemas")


def _type_of(field: dict[str, Any], whole: dict[str, Any]) -> str:
    """Return the type of a property in words: its JSON types, the only values it has, or what its lists hold."""
    if "$ref" in field:
        return _type_of(whole.get("$defs", {}).get(field["$ref"].rsplit("/", 1)[-1], {}), whole)
    if "enum" in field:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in field["enum"])
    if "const" in field:
        return json.dumps(field["const"], ensure_ascii=False)
    if "anyOf" in field:
        return " | ".join(dict.fromkeys(_type_of(part, whole) for part in field["anyOf"]))
    if field.get("type") == "array":
        return f"list of {_type_of(field.get('items', {}), whole)}"
    return " ".join(part for part in (field.get("type", "any"), field.get("format", "")) if part)


@click.command()
@click.argument("kind", help=f"Kind of metadata: {_KINDS}.")
@input_argument("metadata", "JSON object in a file")
@server_options
def validate(kind: str, metadata: Path) -> None:
    """Check metadata and show it with defaults filled in; nothing is stored.

    Exits with 1 if it breaks a rule, naming every field that does.
    """
    document = read_json(metadata)
    if not isinstance(document, dict):
        raise InvalidRequestError.of(str(metadata), "is not a JSON object")
    with connect() as client:
        try:
            values = {key: value_message(value, f"{_METADATA}[{key!r}]") for key, value in document.items()}
            complete = plain_metadata(client.validate_metadata(document_type=kind, metadata=values).metadata)
        except InvalidRequestError as error:
            # A violation elsewhere, such as an unknown kind, is a wrong command and no verdict on the metadata.
            if not all(each.field.startswith(_METADATA) for each in error.violations):
                raise
            violations = [{"field": each.field, "description": each.description} for each in error.violations]
            if not printed_as_json({"valid": False, "metadata": None, "violations": violations}):
                for each in violations:
                    print_line(f"{each['field']}: {each['description']}", err=True)
            raise click.exceptions.Exit(1) from None
    if not printed_as_json({"valid": True, "metadata": complete, "violations": []}):
        print_line("valid")
        print_fields(complete)
