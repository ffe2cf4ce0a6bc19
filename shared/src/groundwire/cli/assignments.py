"""`--set NAME=VALUE` and `--unset NAME`: fills a message by the paths of its fields.

The names are those that field masks have in the contract, such as `retrieval.top_k` or `metadata.department`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.filter_fields import ALIASES

if TYPE_CHECKING:
    from google.protobuf.field_mask_pb2 import FieldMask
    from google.protobuf.message import Message

_METADATA = "metadata"

set_option = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="New value of a field; may be given several times.",
)
unset_option = click.option(
    "--unset", "cleared", multiple=True, metavar="NAME", help="Field to clear; may be given several times."
)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A field that can be set: the message that holds it, its descriptor, and the key when it is a map."""

    holder: Any
    field: Any
    key: str = ""


def assign(
    message: "Message", assignments: Sequence[str], cleared: Sequence[str], aliases: Mapping[str, str] | None = None
) -> "FieldMask":
    """Put the values of `NAME=VALUE` into a message and return the mask of all that is to change.

    A list grows with every value, or takes a JSON list whole. `aliases` are other names of fields.

    Raises:
        InvalidRequestError: nothing is given; or naming each that has no value, an unknown name, or a value that the
            field cannot have.
    """
    from google.protobuf.field_mask_pb2 import FieldMask  # noqa: PLC0415 - --help stays fast

    if not assignments and not cleared:
        raise InvalidRequestError.of("command line", "lacks --set NAME=VALUE or --unset NAME")
    known = aliases or {}
    paths: list[str] = []
    violations: list[FieldViolation] = []
    for text in assignments:
        name, equals, value = text.partition("=")
        path = known.get(name, name)
        if equals:
            violations += _attempt(message, path, value, is_first=path not in paths)
        else:
            violations.append(FieldViolation("--set", f"must be NAME=VALUE, not {text!r}"))
        paths.append(path)
    for path in (known.get(name, name) for name in cleared):
        violations += _unknown(message, path)
        if path in paths:
            violations.append(FieldViolation(path, "is set and unset at once"))
        paths.append(path)
    if violations:
        raise InvalidRequestError(violations)
    return FieldMask(paths=dict.fromkeys(paths))


def assign_fields(
    request: Any, fields: "Message", assignments: Sequence[str], cleared: Sequence[str], prefix: str = ""
) -> None:
    """Fill an update of a document or chunk: `fields` is the part of it that has metadata, `prefix` the path to that.

    Metadata goes to `set_metadata` and `remove_metadata` of the request, all else to its mask.

    Raises:
        InvalidRequestError: as `assign` does.
    """
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


def field_paths(message: "Message") -> list[str]:
    """Return the paths that can be set, in the order of the contract."""
    return [path for field in message.DESCRIPTOR.fields for path in _paths(field)]


def _paths(field: Any) -> list[str]:
    if _is_map(field):
        return [f"{field.name}.KEY"]
    if field.is_repeated or not _has_fields_of_its_own(field):
        return [field.name]
    return [f"{field.name}.{path}" for inner in field.message_type.fields for path in _paths(inner)]


def _leaf(message: Any, path: str) -> _Leaf:
    holder = message
    first, *rest = path.split(".")
    while True:
        field = holder.DESCRIPTOR.fields_by_name.get(first)
        if field is None:
            break
        if _is_map(field) and rest:
            return _Leaf(holder, field, ".".join(rest))
        if not rest and (field.is_repeated or not _has_fields_of_its_own(field)) and not _is_map(field):
            return _Leaf(holder, field)
        if not rest or field.is_repeated or not _has_fields_of_its_own(field):
            break
        holder, (first, *rest) = getattr(holder, first), rest
    raise InvalidRequestError.of(path, f"is no name to set; there are {', '.join(field_paths(message))}")


def _attempt(message: Any, path: str, text: str, *, is_first: bool) -> Sequence[FieldViolation]:
    """Put a value into the message and return what is wrong with it."""
    try:
        _put(_leaf(message, path), path, text, is_first=is_first)
    except InvalidRequestError as error:
        return error.violations
    return ()


def _unknown(message: Any, path: str) -> Sequence[FieldViolation]:
    """Return what is wrong with a path to clear, which may also be a whole group of fields."""
    if path in message.DESCRIPTOR.fields_by_name:
        return ()
    copy = type(message)()
    try:
        _leaf(copy, path)
    except InvalidRequestError as error:
        return error.violations
    return ()


def _put(leaf: _Leaf, path: str, text: str, *, is_first: bool) -> None:
    from groundwire.cli.field_values import parse_value, read_list, read_value  # noqa: PLC0415 - --help stays fast

    if not is_first and not leaf.field.is_repeated:
        raise InvalidRequestError.of(path, "is set twice")
    if leaf.key:
        getattr(leaf.holder, leaf.field.name)[leaf.key].CopyFrom(parse_value(text, path))
    elif leaf.field.is_repeated:
        getattr(leaf.holder, leaf.field.name).extend(read_list(leaf.field, text, path))
    elif leaf.field.message_type:
        getattr(leaf.holder, leaf.field.name).CopyFrom(read_value(leaf.field, text, path))
    else:
        setattr(leaf.holder, leaf.field.name, read_value(leaf.field, text, path))


def _is_map(field: Any) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def _has_fields_of_its_own(field: Any) -> bool:
    return bool(field.message_type) and not field.message_type.full_name.startswith("google.protobuf.")
