"""JSON Schemas of all kinds, and their examples."""

import json

import pytest
from pydantic import ValidationError

from groundwire.kernel.errors import NotFoundError
from groundwire.schemas import MODELS, get_all_schemas, schema_of, validate_metadata
from groundwire.schemas.registry import DIALECT


@pytest.mark.parametrize("kind", MODELS)
def test_the_example_of_a_schema_is_valid_and_stays_as_it_is(kind: str) -> None:
    example = schema_of(kind).example
    found = validate_metadata(kind, example)
    assert {key: found[key] for key in example} == example
    assert set(found) <= set(schema_of(kind).fields)


@pytest.mark.parametrize("kind", MODELS)
def test_what_json_schema_requires_is_refused_when_missing_and_nothing_else_is(kind: str) -> None:
    schema = schema_of(kind)
    assert set(schema.json_schema["required"]) <= set(schema.required_fields) <= set(schema.fields)
    for field in schema.example:
        given = {key: value for key, value in schema.example.items() if key != field}
        if field in schema.json_schema["required"]:
            with pytest.raises(ValidationError):
                validate_metadata(kind, given)
        else:
            validate_metadata(kind, given)


def test_the_fields_of_a_memory_are_those_of_the_source_design() -> None:
    schema = schema_of("memory")
    assert schema.required_fields == ("type", "timestamp", "importance")
    assert schema.json_schema["required"] == ["type", "timestamp"]
    assert schema.fields[:4] == ("type", "timestamp", "source", "scope")
    importance = schema.json_schema["properties"]["importance"]
    assert (importance["type"], importance["minimum"], importance["maximum"]) == ("integer", 1, 5)


@pytest.mark.parametrize("kind", MODELS)
def test_schemas_are_json_of_the_stated_dialect_and_describe_every_field(kind: str) -> None:
    schema = json.loads(json.dumps(get_all_schemas()[kind]))
    assert schema["$schema"] == DIALECT
    assert schema["additionalProperties"] is False
    assert schema["examples"] == [schema_of(kind).example]
    assert all(field.get("description") for field in schema["properties"].values())


def test_an_unknown_kind_has_no_schema() -> None:
    with pytest.raises(NotFoundError):
        schema_of("dream")
