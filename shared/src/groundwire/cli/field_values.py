"""Reads the values of a message's fields and of metadata from what people write."""

import json
import re
from typing import Any, NoReturn

from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from groundwire.api.common.v1.metadata_value_pb2 import MetadataValue
from groundwire.client.values import value_message
from groundwire.kernel.errors import InvalidRequestError

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST_SECONDS = 315_576_000_000
"""What a duration of the contract can hold."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}


def read_value(field: Any, text: str, place: str) -> Any:
    """Return the value of a field that holds one.

    Texts stay as they are. Enum values have the names people write (`sentence`), durations a unit (`90s`, `12h`,
    `30d`), times are ISO 8601 with an offset or a plain date, which is its first moment in UTC.

    Raises:
        InvalidRequestError: naming `place`, the field cannot have such a value.
    """
    try:
        return _value(field, text)
    except (ValueError, OverflowError) as error:
        raise InvalidRequestError.of(place, str(error)) from error


def read_list(field: Any, text: str, place: str) -> list[Any]:
    """Return elements of a field that holds several: those of a JSON list, else the one that the text is.

    Tags may also be joined by commas, which they never contain.

    Raises:
        InvalidRequestError: naming `place`, the field cannot have such an element.
    """
    if text.startswith("["):
        return _json_list(field, text, place)
    if field.message_type:
        raise InvalidRequestError.of(place, "must be a JSON list of objects")
    parts = text.split(",") if field.name == "tags" else [text]
    return [read_value(field, part.strip(), place) for part in parts]


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


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _value(field: Any, text: str) -> Any:
    if field.message_type:
        return _duration(text) if field.message_type.full_name == Duration.DESCRIPTOR.full_name else _time(text)
    if field.enum_type:
        return _enum_value(field.enum_type, text)
    match field.cpp_type:
        case field.CPPTYPE_STRING:
            return text
        case field.CPPTYPE_BOOL:
            if text.lower() not in _TRUTH:
                raise ValueError(f"must be true or false, not {text!r}")
            return _TRUTH[text.lower()]
        case field.CPPTYPE_DOUBLE | field.CPPTYPE_FLOAT:
            return _number(text)
        case _:
            return _whole_number(field, text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"must be a number, not {text!r}") from None


def _whole_number(field: Any, text: str) -> int:
    if not re.fullmatch(r"-?\d+", text):
        raise ValueError(f"must be a whole number, not {text!r}")
    is_unsigned = field.cpp_type in {field.CPPTYPE_UINT32, field.CPPTYPE_UINT64}
    bits = 32 if field.cpp_type in {field.CPPTYPE_UINT32, field.CPPTYPE_INT32} else 64
    lowest, highest = (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not lowest <= int(text) <= highest:
        raise ValueError(f"must be between {lowest} and {highest}")
    return int(text)


def _enum_value(kind: EnumDescriptor, text: str) -> int:
    prefix = kind.values[0].name.removesuffix("UNSPECIFIED")
    found = kind.values_by_name.get(prefix + text.upper().replace("-", "_"))
    if found is None or found.number == 0:
        names = [value.name.removeprefix(prefix).lower().replace("_", "-") for value in kind.values[1:]]
        raise ValueError(f"must be one of {', '.join(names)}, not {text!r}")
    number: int = found.number
    return number


def _duration(text: str) -> Duration:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"must be a number with a unit, such as 90s, 15m, 12h or 30d, not {text!r}")
    seconds = float(found[1]) * _UNIT_SECONDS[found[2]]
    if seconds > _LONGEST_SECONDS:
        raise ValueError(f"must be at most 10,000 years, not {text!r}")
    message = Duration()
    message.FromNanoseconds(round(seconds * 1e9))
    return message


def _time(text: str) -> Timestamp:
    message = Timestamp()
    try:
        message.FromJsonString(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)
    except ValueError:
        raise ValueError(
            f"must be a date or a time with an offset, such as 2026-02-10T12:00:00Z, not {text!r}"
        ) from None
    return message


def _json_list(field: Any, text: str, place: str) -> list[Any]:
    try:
        items = json.loads(text)
        if not field.message_type:
            return [read_value(field, item if isinstance(item, str) else json.dumps(item), place) for item in items]
        return [_object(field, item) for item in items]
    except (ValueError, json_format.ParseError) as error:
        raise InvalidRequestError.of(place, f"is no list of its elements: {' '.join(str(error).split())}") from error


def _object(field: Any, item: Any) -> Any:
    """Return the message of a JSON object, with enum values as people write them."""
    if not isinstance(item, dict):
        raise ValueError(f"an element must be an object, not {item!r}")  # noqa: TRY004 - is reported as a wrong value
    known = field.message_type.fields_by_name
    unknown = [name for name in item if name not in known]
    if unknown:
        raise ValueError(f"an element has no {unknown[0]!r}; there are {', '.join(known)}")
    kinds = {name: inner.enum_type for name, inner in known.items() if inner.enum_type}
    named = {
        name: _enum_value(kinds[name], value) if name in kinds and isinstance(value, str) else value
        for name, value in item.items()
    }
    return json_format.ParseDict(named, GetMessageClass(field.message_type)())
