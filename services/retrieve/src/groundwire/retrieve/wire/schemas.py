"""Translate schemas, and metadata that is to be checked against them.

Imported by the calls that use it: making the models takes a tenth of a second, which no start should wait for.
"""

import json
from collections.abc import Mapping
from typing import Any

from groundwire.api.common.v1.metadata_value_pb2 import MetadataValue
from groundwire.api.retrieve.v1 import schema_pb2
from groundwire.kernel.errors import InvalidRequestError, NotFoundError
from groundwire.rpc.value_messages import parse_timestamp, to_metadata
from groundwire.schemas import MODELS, OWN_KEYS, check_metadata, schema_of

_PREFIX = f"{OWN_KEYS}."


def schema_entries(document_type: str) -> list[schema_pb2.SchemaEntry]:
    """Return the schema of one kind, or of all when it is empty.

    Raises:
        NotFoundError: no such kind.
    """
    schemas = [schema_of(kind) for kind in ([document_type] if document_type else MODELS)]
    return [
        schema_pb2.SchemaEntry(
            document_type=schema.document_type,
            schema_json=json.dumps(schema.json_schema, ensure_ascii=False),
            fields=schema.fields,
            required_fields=schema.required_fields,
            example_json=json.dumps(schema.example, ensure_ascii=False),
        )
        for schema in schemas
    ]


def checked_metadata(document_type: str, metadata: Mapping[str, MetadataValue]) -> dict[str, MetadataValue]:
    """Return metadata with defaults filled in; empty lists are left out.

    Raises:
        InvalidRequestError: naming everything that is wrong.
    """
    try:
        parsed: dict[str, Any] = {}
        for key in sorted(metadata):
            message = metadata[key]
            kind = message.WhichOneof("value")
            place = f"metadata[{key!r}]"
            if kind is None:
                raise InvalidRequestError.of(place, "must have a value")
            if kind == "timestamp_value":
                value: Any = parse_timestamp(message.timestamp_value, place)
            else:
                held = getattr(message, kind)
                value = list(held.values) if kind.endswith("_list") else held
            if key.startswith(_PREFIX):
                parsed.setdefault(OWN_KEYS, {})[key.removeprefix(_PREFIX)] = value
            else:
                parsed[key] = value
        checked = check_metadata(document_type, parsed)
    except NotFoundError as error:
        known = ", ".join(MODELS)
        raise InvalidRequestError.of("document_type", f"must be one of {known}, not {document_type!r}") from error
    own = {_PREFIX + key: value for key, value in checked.pop(OWN_KEYS, {}).items()}
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in (checked | own).items()}
    return to_metadata({key: value for key, value in values.items() if value != ()})
