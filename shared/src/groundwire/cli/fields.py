"""Fills messages from what people write: `--set NAME=VALUE`, `--unset NAME`, and a file of metadata.

The names are the paths of field masks in the contract, such as `retrieval.top_k` or `metadata.department`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from google.api import field_behavior_pb2
from google.protobuf import json_format
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from groundwire.api.common.v1.document_pb2 import DocumentFields
from groundwire.client.values import enum_value, value_message
from groundwire.kernel.errors import FieldViolation, InvalidRequestError, collected, refuse
from groundwire.kernel.filters import ALIASES

FILES = "files"
"""Key of a metadata file under which files have fields of their own, by their sources."""
_METADATA = "metadata"
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
# What a duration of the contract can hold.
_LONGEST_SECONDS = 315_576_000_000
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}
_LISTS: Final = frozenset[Literal["creators", "subjects", "tags"]]({"creators", "subjects", "tags"})


# Assignments


def assign(
    message: Message, assignments: Sequence[str], cleared: Sequence[str], aliases: Mapping[str, str] | None = None
) -> FieldMask:
    """Put the values of `NAME=VALUE` into a message and return the mask of all that is to change.

    A list grows with every value, or takes a JSON list whole. `aliases` are other names of fields.

    Raises:
        InvalidRequestError: nothing is given; or naming each that has no value, an unknown name, or a value that the
            field cannot have.
    """
    if not assignments and not cleared:
        raise InvalidRequestError.of("command line", "lacks --set NAME=VALUE or --unset NAME")
    known = aliases or {}
    paths: list[str] = []
    violations: list[FieldViolation] = []
    for text in assignments:
        name, equals, value = text.partition("=")
        path = known.get(name, name)
        if equals:
            with collected(violations):
                holder, field, key = _holder_of(message, path)
                if path in paths and not field.is_repeated:
                    raise InvalidRequestError.of(path, "is set twice")
                if key:
                    # JSON where it is a number, truth value, list or quoted text, else a text as it is.
                    plain: Any = value
                    with suppress(ValueError, RecursionError):
                        plain = json.loads(value, parse_constant=int)  # which refuses NaN: JSON has none
                    getattr(holder, field.name)[key].CopyFrom(value_message(plain, path))
                else:
                    _put(holder, field, [value], path)
        else:
            violations.append(FieldViolation("--set", f"must be NAME=VALUE, not {text!r}"))
        paths.append(path)
    for path in (known.get(name, name) for name in cleared):
        if path not in message.DESCRIPTOR.fields_by_name:  # a whole group of fields can be cleared, but not set
            with collected(violations):
                _holder_of(type(message)(), path)
        if path in paths:
            violations.append(FieldViolation(path, "is set and unset at once"))
        paths.append(path)
    refuse(violations)
    return FieldMask(paths=dict.fromkeys(paths))


def assign_fields(
    request: Any, fields: Message, assignments: Sequence[str], cleared: Sequence[str], prefix: str = ""
) -> None:
    """Fill an update of a document or chunk: `fields` is the part of it that has metadata, `prefix` the path to that.

    Metadata goes to `set_metadata` and `remove_metadata` of the request, all else to its mask.

    Raises:
        InvalidRequestError: as `assign` does.
    """
    # A mask names whole fields; keys of metadata change one by one and would otherwise replace all the others.
    mask, metadata = assign(fields, assignments, cleared, ALIASES), getattr(fields, _METADATA)
    for path in mask.paths:
        name, _, key = path.partition(".")
        if name != _METADATA:
            request.update_mask.paths.append(f"{prefix}{path}")
        elif key in metadata:
            request.set_metadata[key].CopyFrom(metadata[key])
        else:
            request.remove_metadata.append(key or "*")
    fields.ClearField(_METADATA)


def changed_names(request: Any) -> str:
    """Return what an update of a document or chunk changes, under the names that `--set` and `--unset` take."""
    fields = [path.removeprefix("fields.") for path in request.update_mask.paths]
    keys = [*sorted(request.set_metadata), *request.remove_metadata]  # a map has no order of its own
    return ", ".join([*fields, *(f"{_METADATA}.{key}" for key in keys)])


def field_paths(message: Message) -> list[str]:
    """Return the paths that can be set, in the order of the contract; of a choice that is made, those of its member."""
    return [
        path
        for field in message.DESCRIPTOR.fields
        if not field.containing_oneof or message.WhichOneof(field.containing_oneof.name) in {None, field.name}
        for path in _paths(field)
    ]


def _paths(field: Any) -> list[str]:
    if _is_set_by_server(field):
        return []
    if _is_map(field):
        return [f"{field.name}.KEY"]
    if _is_leaf(field):
        return [field.name]
    return [f"{field.name}.{path}" for inner in field.message_type.fields for path in _paths(inner)]


def _holder_of(message: Any, path: str) -> tuple[Any, Any, str]:
    """Return the message that holds the field of a path, its descriptor, and the key where the field is a map."""
    holder, names = message, path.split(".")
    while names:
        field = holder.DESCRIPTOR.fields_by_name.get(names.pop(0))
        has_no_key = field is not None and _is_map(field) and not any(names)
        if field is None or has_no_key or (_is_leaf(field) and names) or _is_set_by_server(field):
            break
        if _is_map(field):
            return holder, field, ".".join(names)
        if _is_leaf(field):
            return holder, field, ""
        holder = getattr(holder, field.name)
    raise InvalidRequestError.of(path, f"is not a field to set; there are {', '.join(field_paths(message))}")


def _is_set_by_server(field: Any) -> bool:
    # The metadata of a chunk are read only in the message itself, because a request sets them key by key beside it.
    is_output = field_behavior_pb2.OUTPUT_ONLY in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    return is_output and not _is_map(field)


def _is_map(field: Any) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def _is_leaf(field: Any) -> bool:
    """Tell whether a field is set as a whole: a value, a list, or a message of the library such as a time."""
    if _is_map(field):
        return False
    kind = field.message_type
    return bool(field.is_repeated or kind is None or kind.full_name.startswith("google.protobuf."))


# A metadata file


def read_metadata_file(path: Path) -> tuple[DocumentFields, dict[str, DocumentFields]]:
    """Return the fields that a metadata file gives to all documents, and those of single ones by their sources.

    The file holds a mapping in JSON or YAML. A name that `--set` takes stands for that field, `files` for a mapping of
    sources to mappings of the same kind, and every other name is a key of the document's metadata.

    Raises:
        InvalidRequestError: naming the file, or each name whose value its field cannot have.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        document = json.loads(text) if path.suffix.lower() == ".json" else yaml.load(text, _Loader)  # noqa: S506 - a safe one
    except OSError as error:
        raise InvalidRequestError.of(str(path), f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise InvalidRequestError.of(str(path), f"is neither JSON nor YAML: {' '.join(str(error).split())}") from error
    of_all = dict(_mapping(document, str(path)))  # a copy, because `files` is removed from it
    files = _mapping(of_all.pop(FILES, {}), FILES)
    violations: list[FieldViolation] = []
    fields = _fields(of_all, str(path), violations)
    by_source = {str(source): _fields(each, f"{FILES}[{source!r}]", violations) for source, each in files.items()}
    refuse(violations)
    return fields, by_source


def merged_fields(*layers: DocumentFields) -> DocumentFields:
    """Return fields over which those of later layers go; a list replaces a list, and keys of metadata are added."""
    fields = DocumentFields()
    for layer in layers:
        for name in _LISTS & {each.name for each, _ in layer.ListFields()}:
            fields.ClearField(name)
        fields.MergeFrom(layer)
    return fields


class _Loader(yaml.SafeLoader):
    """Reads dates as texts, as JSON does: fields and filters take them in that form."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _fields(given: object, place: str, violations: list[FieldViolation]) -> DocumentFields:
    """Return the message of a mapping; what is wrong with it is added to the violations."""
    fields = DocumentFields()
    known = DocumentFields.DESCRIPTOR.fields_by_name
    with collected(violations):
        for name, value in _mapping(given, place).items():
            field_name = ALIASES.get(str(name), str(name))
            if field_name == _METADATA:
                for key, each in _mapping(value, f"{place}.metadata").items():
                    fields.metadata[str(key)].CopyFrom(value_message(each, f"{place}.metadata.{key}"))
            elif field_name in known:
                items = value if isinstance(value, list) else [value]
                if any(isinstance(each, bool) or not isinstance(each, str | int | float) for each in items):
                    raise InvalidRequestError.of(f"{place}.{name}", "must be a text or a list of texts")
                if isinstance(value, list) and not known[field_name].is_repeated:
                    raise InvalidRequestError.of(f"{place}.{name}", "must be one value, not a list")
                _put(fields, known[field_name], list(map(str, items)), f"{place}.{name}")
            else:
                fields.metadata[str(name)].CopyFrom(value_message(value, f"{place}.{name}"))
    return fields


def _mapping(value: object, place: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InvalidRequestError.of(place, "must be a mapping of names to values")
    return value


# Values of fields


def _put(holder: Any, field: Any, texts: Sequence[str], place: str) -> None:
    """Add elements to a list, or set a field to its only text."""
    if field.is_repeated:
        getattr(holder, field.name).extend(each for text in texts for each in read_list(field, text, place))
    elif field.message_type:
        getattr(holder, field.name).CopyFrom(read_value(field, texts[0], place))
    else:
        setattr(holder, field.name, read_value(field, texts[0], place))


def read_list(field: Any, text: str, place: str) -> list[Any]:
    """Return elements of a field that holds several: those of a JSON list, else the one that the text is.

    Tags may also be joined by commas, which they never contain.

    Raises:
        InvalidRequestError: naming `place`, the field cannot have such an element.
    """
    if text.startswith("["):
        try:
            items = json.loads(text)
            if field.message_type:
                return [_element(field, item) for item in items]
            texts = [item if isinstance(item, str) else json.dumps(item) for item in items]
        except (ValueError, RecursionError, json_format.ParseError) as error:
            reason = " ".join(str(error).split())
            raise InvalidRequestError.of(place, f"is not a list of its elements: {reason}") from error
        return [read_value(field, item, place) for item in texts]
    if field.message_type:
        raise InvalidRequestError.of(place, "must be a JSON list of objects")
    # Names of people have commas: `Doe, Jane` is one creator.
    parts = text.split(",") if field.name == "tags" else [text]
    return [read_value(field, part.strip(), place) for part in parts]


def read_value(field: Any, text: str, place: str) -> Any:
    """Return the value of a field that holds one.

    Texts stay as they are. Enum values have the names people write (`sentence`), durations a unit (`90s`, `12h`,
    `30d`), times are ISO 8601 with an offset or a plain date, which is its first moment in UTC.

    Raises:
        InvalidRequestError: naming `place`, the field cannot have such a value.
    """
    problem = f"must be a whole number, not {text!r}"
    try:
        match field.cpp_type:
            case field.CPPTYPE_MESSAGE if field.message_type.full_name == Duration.DESCRIPTOR.full_name:
                return _duration(text)
            case field.CPPTYPE_MESSAGE:
                problem = f"must be a date or a time with an offset, such as 2026-02-10T12:00:00Z, not {text!r}"
                with suppress(ValueError):
                    moment = Timestamp()
                    moment.FromJsonString(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)
                    return moment
            case field.CPPTYPE_ENUM:
                return enum_value(field.enum_type, text)
            case field.CPPTYPE_STRING:
                return text
            case field.CPPTYPE_BOOL:
                problem = f"must be true or false, not {text!r}"
                if text.lower() in _TRUTH:
                    return _TRUTH[text.lower()]
            case field.CPPTYPE_DOUBLE | field.CPPTYPE_FLOAT:
                problem = f"must be a number, not {text!r}"
                with suppress(ValueError):
                    return float(text)
            case _ if re.fullmatch(r"-?\d+", text):
                is_unsigned = field.cpp_type in {field.CPPTYPE_UINT32, field.CPPTYPE_UINT64}
                bits = 32 if field.cpp_type in {field.CPPTYPE_UINT32, field.CPPTYPE_INT32} else 64
                lowest, highest = (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
                if lowest <= int(text) <= highest:
                    return int(text)
                problem = f"must be between {lowest} and {highest}"
    except (ValueError, OverflowError) as error:
        problem = str(error)
    raise InvalidRequestError.of(place, problem)


def duration_message(text: str, option: str) -> Duration:
    """Return the duration of an option, such as 90s, 15m, 12h or 30d.

    Raises:
        InvalidRequestError: it is not a duration, or too long for a message.
    """
    try:
        return _duration(text)
    except ValueError as error:
        raise InvalidRequestError.of(option, str(error)) from error


def _duration(text: str) -> Duration:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"must be a number with a unit, such as 90s, 15m, 12h or 30d, not {text!r}")
    seconds = float(match[1]) * _UNIT_SECONDS[match[2]]
    if seconds > _LONGEST_SECONDS:
        raise ValueError(f"must be at most 10,000 years, not {text!r}")
    message = Duration()
    message.FromNanoseconds(round(seconds * 1e9))  # a timedelta would lose what is below a microsecond
    return message


def _element(field: Any, item: Any) -> Any:
    """Return the message of a JSON object, with enum values as people write them."""
    if not isinstance(item, dict):
        raise ValueError(f"an element must be an object, not {item!r}")  # noqa: TRY004 - is reported as a wrong value
    known = field.message_type.fields_by_name
    unknown = [name for name in item if name not in known]
    if unknown:
        raise ValueError(f"an element has no {unknown[0]!r}; there are {', '.join(known)}")
    kinds = {name: inner.enum_type for name, inner in known.items() if inner.enum_type}
    named = {
        name: enum_value(kinds[name], value) if name in kinds and isinstance(value, str) else value
        for name, value in item.items()
    }
    return json_format.ParseDict(named, GetMessageClass(field.message_type)())
