"""Finds the documents of a collection whose files are gone, and deletes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.cli.source_files import SourceFile, find_source_files, shown_path
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import DocumentNotFoundError, FieldViolation, InvalidRequestError


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A document whose file is gone."""

    source: str
    document_id: str
    chunks: int


def check_roots(paths: Sequence[Path]) -> list[Path]:
    """Return the folders among the paths, below which files may be missing.

    Raises:
        InvalidRequestError: there is none, or one of them has no file: more likely a wrong path or an empty mount than
            the wish to delete everything.
    """
    roots = [path for path in paths if path.is_dir()]
    if not roots:
        raise InvalidRequestError.of("--delete-missing", "needs a folder to compare the collection with")
    empty = [
        FieldViolation(shown_path(root), "has no files to ingest")
        for root in roots
        if not find_source_files([root]).files
    ]
    if empty:
        raise InvalidRequestError(empty)
    return roots


def find_missing(
    client: GroundwireClient, collection: str, roots: Sequence[Path], files: Sequence[SourceFile]
) -> list[MissingFile]:
    """Return the documents that came from below the roots and have no file there any more, in the order of sources.

    Sources are paths below a root, so that any relative path may be one of them. What has a scheme or is absolute came
    from somewhere else.
    """
    known = {file.source_uri for file in files}
    return [
        MissingFile(document.source, document.document_id, document.chunk_count)
        for document in client.collection(collection).documents()
        if document.source not in known
        and is_below_a_root(document.source)
        and all(_is_gone(root / document.source) for root in roots)
    ]


def _is_gone(path: Path) -> bool:
    """Tell whether nothing is at a path; a folder that cannot be read may hold anything."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def is_below_a_root(source: str) -> bool:
    """Tell whether a source looks like the path of a file below an ingested folder."""
    first = source.split("/", 1)[0]
    return first not in {"", "~"} and ":" not in first and "\\" not in source


def delete_missing(client: GroundwireClient, collection: str, missing: Sequence[MissingFile]) -> None:
    """Delete what was ingested from these files; what is gone already is fine.

    By source, so that a document with other sources stays with those. It can be restored.
    """
    for each in missing:
        try:
            reference = DocumentReference(source_uri=each.source)
            client.delete_document(collection=collection, reference=reference)
        except DocumentNotFoundError:
            continue


def as_list(missing: Sequence[MissingFile]) -> list[dict[str, Any]]:
    """Return the documents as `--json` prints them."""
    return [{"source": each.source, "document_id": each.document_id, "chunks": each.chunks} for each in missing]
