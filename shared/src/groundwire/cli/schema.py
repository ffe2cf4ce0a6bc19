"""`groundwire schema`: show which metadata each kind of record takes."""

import json
from typing import Any

import click

from groundwire.cli.options import address_option, connect, json_option
from groundwire.cli.output import print_json, print_line, print_table

KINDS = "persona, faq, memory, turn, summary, document or chunk"


@click.command()
@click.argument("kind", default="", help=f"Kind of metadata: {KINDS}; all in short if not given.")
@address_option
@json_option
def schema(kind: str, address: str, as_json: bool) -> None:
    """Show the schema of a kind of metadata; `--json` prints it as JSON Schema."""
    with connect(address) as client:
        entries = client.schema(document_type=kind).schemas
    found = [
        {
            "document_type": entry.document_type,
            "fields": list(entry.fields),
            "required_fields": list(entry.required_fields),
            "schema": json.loads(entry.schema_json),
            "example": json.loads(entry.example_json),
        }
        for entry in entries
    ]
    if as_json:
        print_json(found)
    elif kind:
        for entry in found:
            _show(entry)
    else:
        rows = [(entry["document_type"], ", ".join(entry["fields"])) for entry in found]
        print_table(("kind", "fields"), rows, "no schemas")


def _show(entry: dict[str, Any]) -> None:
    whole = entry["schema"]
    properties = {name: whole.get("properties", {}).get(name, {}) for name in entry["fields"]}
    rows = [
        (
            name,
            "required" if name in entry["required_fields"] else "",
            f"{_type_of(field, whole)} · {field.get('description', '')}",
        )
        for name, field in properties.items()
    ]
    print_table(("field", "", "type and meaning"), rows, "no fields")
    print_line()
    print_line("example")
    print_json(entry["example"])


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
