"""The files of an engine: synced, and sealed when they are closed, so that damage is found before it is served.

Engines check little of what they read: a garbled file of vectors gives wrong results, a missing one none at all, and
a truncated file ends the process. A sealed folder that still looks the same need not be examined.
"""

import json
import os
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

from groundwire.kernel.files import sync

_PIECE_BYTES = 1 << 20
# Larger files are never changed by an engine once they are written; smaller ones change through maps, which some file
# systems (tmpfs) do not count as a change of the time.
_LARGE_BYTES = 64 << 20


def sync_tree(folder: Path) -> None:
    """Sync a folder with all that is in it; takes a few seconds for 300 files on a busy disk."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def seal_of(folder: Path) -> Path:
    """Return where the seal of a folder is: beside it, as it is missing while the folder is open."""
    return folder.with_name(f"{folder.name}.seal")


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A file as it was: `checksum` is a CRC-32 of its content."""

    size: int
    mtime_ns: int
    checksum: int


class Seal:
    """The files of a folder, by path relative to it."""

    def __init__(self, files: dict[str, SealedFile]) -> None:
        self.files = files

    @classmethod
    def of(cls, folder: Path, earlier: "Seal | None" = None) -> "Seal":
        """Checksum every file; large ones with the size and time of an earlier seal are not read again."""
        known = {} if earlier is None else earlier.files
        files = {}
        for path in (each for each in folder.rglob("*") if each.is_file()):
            name, status = str(path.relative_to(folder)), path.stat()
            before = known.get(name)
            is_same = before is not None and (before.size, before.mtime_ns) == (status.st_size, status.st_mtime_ns)
            if before is not None and is_same and status.st_size > _LARGE_BYTES:
                files[name] = before
            else:
                files[name] = SealedFile(status.st_size, status.st_mtime_ns, _checksum(path))
        return cls(files)

    @classmethod
    def read(cls, path: Path) -> "Seal | None":
        """Read a seal; None when there is none, or only part of one."""
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            return cls({name: SealedFile(**facts) for name, facts in stored.items()})
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def write(self, path: Path) -> None:
        """Store the seal, unsynced: losing it in a power cut only means that the files are examined."""
        draft = path.with_name(f"{path.name}.new")
        draft.write_text(json.dumps({name: asdict(file) for name, file in self.files.items()}), encoding="utf-8")
        draft.replace(path)

    def broken(self, folder: Path) -> list[str]:
        """Return the files that are missing or have another content.

        A file of the same size and time is taken for the same; one that was copied is compared by its content.
        """
        broken = []
        for name, sealed in self.files.items():
            try:
                status = (folder / name).stat()
                is_whole = status.st_size == sealed.size and (
                    status.st_mtime_ns == sealed.mtime_ns or _checksum(folder / name) == sealed.checksum
                )
            except OSError:
                is_whole = False
            if not is_whole:
                broken.append(name)
        return broken


def _checksum(path: Path) -> int:
    """Return a CRC-32 of the pieces that are not all zeros, and of their places: files of engines are mostly holes."""
    checksum = 0
    with path.open("rb", buffering=0) as file:
        length = os.fstat(file.fileno()).st_size
        offset = 0
        while offset < length:
            try:
                offset = os.lseek(file.fileno(), offset, os.SEEK_DATA) // _PIECE_BYTES * _PIECE_BYTES
            except OSError:
                break  # nothing but a hole up to the end
            piece = os.pread(file.fileno(), _PIECE_BYTES, offset)
            if piece.count(0) < len(piece):
                checksum = zlib.crc32(piece, zlib.crc32(offset.to_bytes(8, "little"), checksum))
            offset += _PIECE_BYTES
    return checksum
