"""Metadata values between what people write, JSON, and the contract's messages."""

import json
from typing import Any, NoReturn

from groundwire.api.common.v1.metadata_value_pb2 import MetadataValue
from groundwire.kernel.errors import InvalidRequestError

_LISTS = ((bool, "bool_list"), (int, "int64_list"), (float, "double_list"), (str, "string_list"))


def parse_value(text: str, place: str) -> MetadataValue:
    """Return the value a text stands for: JSON where it is a number, truth value, list or quoted text, else the text.

    Raises:
        InvalidRequestError: naming `place`, the value is of no kind that metadata may have.
    """
    try:
        value = json.loads(text, parse_constant=_refuse)
    except ValueError:
        value = text
    return value_message(value, place)


def value_message(value: Any, place: str) -> MetadataValue:
    """Return the message of a decoded JSON value.

    Raises:
        InvalidRequestError: naming `place`, it is null, an object, a list of several kinds or a number too large.
    """
    try:
        match value:
            case bool():
                return MetadataValue(bool_value=value)
            case int():
                return MetadataValue(int64_value=value)
            case float():
                return MetadataValue(double_value=value)
            case str():
                return MetadataValue(string_value=value)
            case [*items]:
                return _list_message(items, place)
    except ValueError as error:
        raise InvalidRequestError.of(place, f"cannot be stored: {error}") from error
    raise InvalidRequestError.of(place, "must be a text, a number, true, false, or a list of one kind of these")


def plain_value(message: MetadataValue) -> Any:
    """Return the value as JSON holds it; times as ISO 8601 texts."""
    kind = message.WhichOneof("value")
    if kind is None:
        return None
    if kind == "timestamp_value":
        return message.timestamp_value.ToJsonString()
    held: Any = getattr(message, kind)
    return list(held.values) if kind.endswith("_list") else held


def _list_message(items: list[Any], place: str) -> MetadataValue:
    kinds = {type(item) for item in items}
    if kinds == {int, float}:
        kinds = {float}
    for kind, name in _LISTS:
        if kinds == {kind}:
            message = MetadataValue()
            getattr(message, name).values.extend(items)
            return message
    raise InvalidRequestError.of(place, "must be a list of texts, of numbers, or of truth values, and not empty")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
