"""What `groundwire ingest` says of the files it sends: how they are cut, and their fields."""

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from groundwire.api.common.v1.document_pb2 import DocumentFields
from groundwire.api.ingest.v1.collection_pb2 import Chunker, ChunkingPolicy
from groundwire.cli.assignments import assign
from groundwire.cli.field_values import read_list, read_value
from groundwire.client.values import value_message
from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.filter_fields import ALIASES

_LISTS: Final = frozenset[Literal["creators", "subjects", "tags"]]({"creators", "subjects", "tags"})
FILES = "files"
"""Key of a metadata file under which files have fields of their own, by their sources."""


@dataclass(frozen=True, slots=True)
class ChunkingOverrides:
    """What is given instead of the collection's rules; None is not given. Sizes are in the collection's unit."""

    chunker: str | None = None
    target_size: int | None = None
    minimum_size: int | None = None
    maximum_size: int | None = None
    overlap_ratio: float | None = None

    def message(self) -> ChunkingPolicy | None:
        """Return the message of what is given, None when nothing is."""
        if self == ChunkingOverrides():
            return None
        kind = "UNSPECIFIED" if self.chunker is None else self.chunker.upper()
        return ChunkingPolicy(
            chunker=Chunker.Value(f"CHUNKER_{kind}"),
            target_size=self.target_size,
            minimum_size=self.minimum_size,
            maximum_size=self.maximum_size,
            overlap_ratio=self.overlap_ratio,
        )


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What the requests for the files of a run say beside their content.

    `of_all` are the fields of every file, `by_source` those of single ones, which go over them, and `assigned` those of
    the command line, which go over both.
    """

    chunking: ChunkingPolicy | None = None
    of_all: DocumentFields = field(default_factory=DocumentFields)
    by_source: Mapping[str, DocumentFields] = field(default_factory=dict)
    assigned: DocumentFields = field(default_factory=DocumentFields)
    source_version: int | None = None

    def said_of(self, source: str) -> dict[str, Any]:
        """Return the fields of a request for a source; what is not said leaves what the server has."""
        said: dict[str, Any] = {"source_uri": source, "chunking": self.chunking}
        if self.source_version is not None:
            said["source_version"] = self.source_version
        fields = DocumentFields()
        for layer in (self.of_all, self.by_source.get(source, DocumentFields()), self.assigned):
            for name in _LISTS & {each.name for each, _ in layer.ListFields()}:
                fields.ClearField(name)  # a list replaces a list
            fields.MergeFrom(layer)
        return said | {"fields": fields} if fields.ListFields() else said

    def unused(self, sources: AbstractSet[str]) -> list[str]:
        """Return the sources that have fields of their own and are not among those of the run."""
        return sorted(self.by_source.keys() - sources)


def read_file_options(chunking: ChunkingPolicy | None, path: Path | None, assignments: Sequence[str]) -> FileOptions:
    """Return the options of a run from a metadata file and from what `--set` was given.

    The file holds a mapping in JSON or YAML. A name that `--set` takes stands for that field, `files` for a mapping of
    sources to mappings of the same kind, and every other name is a key of the document's metadata.

    Raises:
        InvalidRequestError: naming the file, or each name whose value its field cannot have.
    """
    assigned = DocumentFields()
    if assignments:
        assign(assigned, assignments, (), ALIASES)
    if path is None:
        return FileOptions(chunking, assigned=assigned)
    document = dict(_mapping(_read(path), str(path)))
    violations: list[FieldViolation] = []
    files = _mapping(document.pop(FILES, {}), FILES)
    of_all = _fields(document, str(path), violations)
    by_source = {str(source): _fields(each, f"{FILES}[{source!r}]", violations) for source, each in files.items()}
    if violations:
        raise InvalidRequestError(violations)
    return FileOptions(chunking, of_all, by_source, assigned)


def _fields(said: object, place: str, violations: list[FieldViolation]) -> DocumentFields:
    """Return the message of a mapping; what is wrong with it is added to the violations."""
    fields = DocumentFields()
    known = DocumentFields.DESCRIPTOR.fields_by_name
    try:
        for name, value in _mapping(said, place).items():
            field_name = ALIASES.get(str(name), str(name))
            if field_name == "metadata":
                for key, each in _mapping(value, f"{place}.metadata").items():
                    fields.metadata[str(key)].CopyFrom(value_message(each, f"{place}.metadata.{key}"))
            elif field_name in known:
                _put(fields, known[field_name], value, f"{place}.{name}")
            else:
                fields.metadata[str(name)].CopyFrom(value_message(value, f"{place}.{name}"))
    except InvalidRequestError as error:
        violations.extend(error.violations)
    return fields


def _put(fields: DocumentFields, known: Any, value: Any, place: str) -> None:
    texts = [_text(each, place) for each in (value if isinstance(value, list) else [value])]
    if known.is_repeated:
        getattr(fields, known.name).extend(each for text in texts for each in read_list(known, text, place))
    elif isinstance(value, list):
        raise InvalidRequestError.of(place, "must be one value, not a list")
    elif known.message_type:
        getattr(fields, known.name).CopyFrom(read_value(known, texts[0], place))
    else:
        setattr(fields, known.name, read_value(known, texts[0], place))


def _text(value: Any, place: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidRequestError.of(place, "must be a text or a list of texts")
    return str(value)


def _mapping(value: object, place: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InvalidRequestError.of(place, "must be a mapping of names to values")
    return value


class _Loader(yaml.SafeLoader):
    """Reads dates as the texts they are, as JSON does: fields and filters take them in that form."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _read(path: Path) -> object:
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text) if path.suffix.lower() == ".json" else yaml.load(text, _Loader)  # noqa: S506 - a safe one
    except OSError as error:
        raise InvalidRequestError.of(str(path), f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise InvalidRequestError.of(str(path), f"is neither JSON nor YAML: {' '.join(str(error).split())}") from error
