"""Apply a field mask to the settings of a collection."""

from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from groundwire.api.ingest.v1 import collection_pb2 as pb
from groundwire.kernel.errors import FieldViolation, InvalidRequestError

_PREFIX = "settings."
_WHOLE = frozenset({"*", "settings"})
_GROUPS = frozenset({"chunking", "retrieval", "limits"})


def masked_settings(
    current: pb.CollectionSettings, wanted: pb.CollectionSettings, mask: FieldMask
) -> pb.CollectionSettings:
    """Return the current settings with those of `wanted` that the mask names; named ones that are unset are cleared.

    Paths begin with `settings.`. No path means all that `wanted` holds, `*` or `settings` all.

    Raises:
        InvalidRequestError: naming the unknown paths.
    """
    unknown = [
        FieldViolation(f"update_mask.paths[{number}]", f"unknown path {path!r}")
        for number, path in enumerate(mask.paths)
        if path not in _WHOLE and not (path.startswith(_PREFIX) and _exists(path.removeprefix(_PREFIX)))
    ]
    if unknown:
        raise InvalidRequestError(unknown)
    if _WHOLE.intersection(mask.paths):
        return wanted
    changed = pb.CollectionSettings()
    changed.CopyFrom(current)
    named = [path.removeprefix(_PREFIX) for path in mask.paths]
    for path in named or _present(wanted):
        _copy(changed, wanted, path)
    return changed


def _exists(path: str) -> bool:
    group, _, name = path.partition(".")
    descriptor: Descriptor = pb.CollectionSettings.DESCRIPTOR
    if not name:
        return "." not in path and group in descriptor.fields_by_name
    inner: Descriptor | None = descriptor.fields_by_name[group].message_type if group in _GROUPS else None
    return inner is not None and name in inner.fields_by_name


def _present(wanted: pb.CollectionSettings) -> Iterator[str]:
    for field, value in wanted.ListFields():
        if field.name in _GROUPS:
            yield from (f"{field.name}.{each.name}" for each, _ in value.ListFields())
        else:
            yield field.name


def _copy(changed: Message, wanted: Message, path: str) -> None:
    group, _, name = path.partition(".")
    if name:
        _copy(getattr(changed, group), getattr(wanted, group), name)
        return
    changed.ClearField(group)
    part = type(wanted)()
    part.CopyFrom(wanted)
    for field, _ in wanted.ListFields():
        if field.name != group:
            part.ClearField(field.name)
    changed.MergeFrom(part)
