"""A folder of memories: one file each by month, an archive of deleted ones, three indexes (rows S2-20 to S2-39).

    <root>/chunks/2026-02/chunk-2026-02-10-a1b2c3d4.json
    <root>/archive/chunk-2026-02-09-p4q5r6s7.json            deleted, and can be restored
    <root>/index/metadata_index.json  tag_index.json  link_graph.json
    <root>/.lock

The chunk files are the truth. The indexes are for other programs: they are written after every change from what the
files say, so that a lost or stale one is made good by the next change or by `check(repair=True)`. Threads and processes
may share a folder: every operation holds the lock of the folder for as long as it takes.
"""

import fcntl
import logging
import os
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from pydantic_core import to_json

from groundwire.kernel.errors import (
    AlreadyExistsError,
    ChunkNotFoundError,
    DataLossError,
    DeadlineError,
    FieldViolation,
    InvalidRequestError,
    refuse,
)
from groundwire.kernel.files import replace_file, sync
from groundwire.kernel.records import (
    FOLLOWS_WINDOW,
    MAX_TOKENS,
    MEMORY,
    MIN_STRICT_TOKENS,
    most_related,
    new_record_id,
    predecessor,
)
from groundwire.schemas.kinds import with_z
from groundwire.vault.chunk import (
    MANUAL_LINK_TYPES,
    SCHEMA_VERSION,
    Chunk,
    checked_chunk,
    parse_chunk_id,
)

_IN_METADATA = ("conversation_id", "source", "confidence")
_CHANGEABLE = ("content", "tokens", "type", "tags", *_IN_METADATA)
_LOCK_RETRY_S = 0.005
_log = logging.getLogger("groundwire.vault")


@dataclass(frozen=True, slots=True)
class VaultReport:
    """What a check found: files that cannot be read with the reason, by path in the vault, and wrong indexes by name.

    `repaired` says that the indexes have been rewritten. Corrupt files stay as they are, for a person to inspect.
    """

    chunk_count: int
    archived_count: int
    corrupt: Mapping[str, str]
    wrong_indexes: Sequence[str]
    repaired: bool

    @property
    def consistent(self) -> bool:
        """Tell whether no problem is left."""
        return not self.corrupt and (self.repaired or not self.wrong_indexes)


State: TypeAlias = tuple[int, int, int]
"""Time, size and inode of a file: other processes write here too, and reading a whole vault each time would be slow."""


@dataclass(slots=True)
class _Folder:
    """What was read of one folder, by file: the state that it had, and its chunk or the reason why it has none."""

    read: dict[Path, tuple[State, Chunk | str]] = field(default_factory=dict)

    @property
    def chunks(self) -> dict[str, Chunk]:
        """Return the chunks by id."""
        return {chunk.id: chunk for _, chunk in self.read.values() if isinstance(chunk, Chunk)}

    @property
    def corrupt(self) -> dict[Path, str]:
        """Return the reasons why files cannot be read."""
        return {path: reason for path, (_, reason) in self.read.items() if isinstance(reason, str)}


class ChunkStore:
    """Memories in a folder, which is made if it is not there.

    Every operation leaves one audit record in the logger `groundwire.vault`, with `operation`, `chunk_id` and `outcome`
    as attributes. Errors are those of `groundwire.kernel.errors`.

    Args:
        root: the folder.
        strict_tokens: refuse new chunks of fewer than 100 tokens.
        now: tells the time, aware; for tests.
        lock_timeout_s: how long an operation waits for others on the same folder before it raises DeadlineError.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = "brain/memory",
        *,
        strict_tokens: bool = False,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        lock_timeout_s: float = 30.0,
    ) -> None:
        self.root = Path(root)
        self._chunks, self._index, self._archive = (self.root / name for name in ("chunks", "index", "archive"))
        self._min_tokens = MIN_STRICT_TOKENS if strict_tokens else 1
        self._now = now
        self._lock_timeout_s = lock_timeout_s
        self._live, self._archived = _Folder(), _Folder()
        for folder in (self._chunks, self._index, self._archive):
            folder.mkdir(parents=True, exist_ok=True)
            _refuse_link(folder)

    def create_chunk(
        self,
        content: str,
        chunk_type: str,
        conversation_id: str | None,
        tokens: int,
        tags: Sequence[str] = (),
        confidence: float = 1.0,
        *,
        source: str = "interaction",
    ) -> Chunk:
        """Store a memory, link it to those it belongs with, and return it.

        Raises:
            InvalidRequestError: naming every field that breaks a rule.
        """
        with self._audited("create") as audit:
            created = self._now()
            audit.chunk_id = new_record_id(MEMORY, created)
            chunk = checked_chunk(
                {
                    "id": audit.chunk_id,
                    "content": content,
                    "tokens": tokens,
                    "type": chunk_type,
                    "metadata": {
                        "created": created,
                        "conversation_id": conversation_id,
                        "source": source,
                        "confidence": confidence,
                    },
                    "tags": _listed(tags),
                }
            )
            self._check_tokens(chunk)
            # The end of an id is random, so that two memories of one day may get the same.
            if any(self._path(chunk.id, folder).exists() for folder in (self._month(chunk.id), self._archive)):
                raise AlreadyExistsError(f"chunk {chunk.id!r} exists; try again", chunk_id=chunk.id)
            return self._settle(chunk)

    def get_chunk(self, chunk_id: str) -> Chunk | None:
        """Return a memory and count the access; None if there is none, or its file cannot be read.

        Raises:
            InvalidRequestError: the id has another form than that of chunks; no file has been touched.
        """
        with self._audited("read", chunk_id) as audit:
            month = self._month(chunk_id)
            try:
                chunk = _read_file(month / f"{chunk_id}.json")
            except FileNotFoundError:
                audit.outcome = "missing"
                return None
            except DataLossError as error:
                audit.outcome = "corrupt"
                _log.warning("%r is corrupt: %s", f"{chunk_id}.json", error.message)
                return None
            counted = {"access_count": chunk.metadata.access_count + 1, "last_accessed": self._now()}
            read = chunk.changed(metadata={**chunk.metadata.model_dump(), **counted})
            self._write(read, month)
            return read

    def update_chunk(self, chunk_id: str, **fields: Any) -> Chunk:
        """Change content, tokens, type, tags, conversation_id, source or confidence, and return the new chunk.

        Raises:
            ChunkNotFoundError: there is none, or it is in the archive.
            InvalidRequestError: naming every field that breaks a rule, or that cannot be changed.
        """
        with self._audited("update", chunk_id):
            if "chunk_type" in fields:
                fields["type"] = fields.pop("chunk_type")
            refuse(FieldViolation(name, "is not a field to change") for name in fields if name not in _CHANGEABLE)
            before = self._existing(chunk_id)
            metadata = {name: fields.pop(name) for name in _IN_METADATA if name in fields}
            if "tags" in fields:
                fields["tags"] = _listed(fields["tags"])
            chunk = before.changed(**fields, metadata={**before.metadata.model_dump(), **metadata})
            self._check_tokens(chunk)
            return self._settle(chunk)

    def delete_chunk(self, chunk_id: str, *, permanent: bool = False) -> None:
        """Move a memory to the archive, or remove it for good, with all links to it.

        Raises:
            ChunkNotFoundError: there is none; for good, it is not in the archive either.
        """
        with self._audited("delete permanently" if permanent else "delete", chunk_id):
            live, archived = self._path(chunk_id, self._month(chunk_id)), self._path(chunk_id, self._archive)
            if not permanent:
                _move(live, archived, chunk_id)
            elif not any([self._remove(live), self._remove(archived)]):  # a crash may have left it in both places
                raise ChunkNotFoundError(chunk_id)
            else:
                # No link to it may stay, not even in the archive, whose chunks can be restored.
                others = [(other, self._month(other.id)) for other in self._read_live().values()]
                others += [(other, self._archive) for other in self._read_archive().values()]
                for other, folder in others:
                    links = other.links.model_dump()
                    left = {kind: [each for each in targets if each != chunk_id] for kind, targets in links.items()}
                    if left != links:
                        self._write(other.changed(links=left), folder)
            # Links that people made stay through a soft deletion, so that a restored memory has them again.
            self._relink(chunk_id)
            self._write_indexes()

    def restore_chunk(self, chunk_id: str) -> Chunk:
        """Bring a memory back from the archive.

        Raises:
            ChunkNotFoundError: the archive does not have it.
            DataLossError: its file cannot be read; it stays where it is.
        """
        with self._audited("restore", chunk_id):
            archived = self._path(chunk_id, self._archive)
            try:
                chunk = _read_file(archived)
            except FileNotFoundError:
                raise ChunkNotFoundError(chunk_id) from None
            # Only after it was read: a corrupt file stays in the archive, for a person to inspect.
            _move(archived, self._path(chunk_id, self._month(chunk_id)), chunk_id)
            return self._settle(chunk)

    def list_chunks(
        self, conversation_id: str | None = None, tags: Sequence[str] | None = None, *, archived: bool = False
    ) -> list[Chunk]:
        """Return the memories of a conversation that have all of the tags, or all memories; oldest first.

        Files that cannot be read are skipped, each with a warning. Listing counts as no access.
        """
        with self._audited("list"):
            with_all = set(_listed(tags or ()))
            chunks = self._read_archive() if archived else self._read_live()
            return sorted(
                (
                    chunk
                    for chunk in chunks.values()
                    if (conversation_id is None or chunk.metadata.conversation_id == conversation_id)
                    and with_all <= set(chunk.tags)
                ),
                key=lambda chunk: (chunk.metadata.created, chunk.id),
            )

    def add_link(self, chunk_id: str, link_type: str, target_id: str) -> Chunk:
        """Add a link that says that a memory supports or contradicts another; other links are automatic.

        Raises:
            ChunkNotFoundError: one of the two is not there.
            InvalidRequestError: another type, or a link to itself.
        """
        with self._audited("link", chunk_id):
            _check_manual(link_type)
            parse_chunk_id(target_id, "target_id")
            if chunk_id == target_id:
                raise InvalidRequestError.of("target_id", "must be another chunk than the one that links to it")
            self._existing(target_id)
            return self._replace_targets(chunk_id, link_type, target_id, [target_id])

    def remove_link(self, chunk_id: str, link_type: str, target_id: str) -> Chunk:
        """Remove a link of `add_link`; nothing changes where there is no such link.

        Raises:
            ChunkNotFoundError: the linking chunk is not there.
            InvalidRequestError: another type.
        """
        with self._audited("unlink", chunk_id):
            _check_manual(link_type)
            return self._replace_targets(chunk_id, link_type, target_id, [])

    def put_chunks(self, chunks: Iterable[Chunk], *, archived: bool = False) -> None:
        """Write chunks unchanged, replacing those with the same ids in either place; the indexes are written once.

        Each leaves its own audit record.
        """
        with self._locked():
            for chunk in chunks:
                month = self._month(chunk.id)
                folder, other = (self._archive, month) if archived else (month, self._archive)
                # Written before the other copy goes: a power cut may leave two files, and never none.
                self._write(chunk, folder)
                self._remove(self._path(chunk.id, other))
                _audit("archive" if archived else "put", chunk.id, "ok")
            self._write_indexes()

    def check(self, *, repair: bool = False) -> VaultReport:
        """Read every file, compare the indexes with them, and with `repair` rewrite wrong or missing indexes."""
        with self._audited("check"):
            live, archived = self._read_live(), self._read_archive()
            wrong = self._write_indexes() if repair else list(self._wrong_indexes())
            corrupt = {
                str(path.relative_to(self.root)): reason
                for folder in (self._live, self._archived)
                for path, reason in folder.corrupt.items()
            }
            return VaultReport(len(live), len(archived), corrupt, wrong, repaired=repair)

    # Files

    def _month(self, chunk_id: str) -> Path:
        """Return the folder of a live chunk, which its id names (requirement S2-26)."""
        return self._chunks / parse_chunk_id(chunk_id)[6:13]

    @staticmethod
    def _path(chunk_id: str, folder: Path) -> Path:
        return folder / f"{parse_chunk_id(chunk_id)}.json"

    def _existing(self, chunk_id: str) -> Chunk:
        chunk = self._read_live().get(parse_chunk_id(chunk_id))
        if chunk is None:
            raise ChunkNotFoundError(chunk_id)
        return chunk

    def _read_live(self) -> dict[str, Chunk]:
        months = (path for path in self._chunks.iterdir() if path.is_dir() and not path.is_symlink())
        return _read_again(self._live, months)

    def _read_archive(self) -> dict[str, Chunk]:
        return _read_again(self._archived, [self._archive])

    def _write(self, chunk: Chunk, folder: Path) -> None:
        _make_folder(folder)
        path = self._path(chunk.id, folder)
        replace_file(path, chunk.to_json())
        # Two writes within a tick of the file system's clock may look the same.
        (self._archived if folder == self._archive else self._live).read.pop(path, None)

    @staticmethod
    def _remove(path: Path) -> bool:
        """Remove a file for good; tell whether there was one."""
        _refuse_link(path.parent)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        sync(path.parent)
        return True

    def _settle(self, chunk: Chunk) -> Chunk:
        """Write a live chunk with the links and indexes that follow from it, and return the result."""
        # The indexes last: they follow from the files, so that the next write or check mends what a crash leaves.
        self._write(chunk, self._month(chunk.id))
        self._relink(chunk.id)
        self._write_indexes()
        return self._live.chunks[chunk.id]

    def _replace_targets(self, chunk_id: str, link_type: str, target_id: str, targets: list[str]) -> Chunk:
        """Replace a target by `targets` among the links of one type."""
        chunk = self._existing(chunk_id)
        # Without the target, so that a link that is added twice is stored once.
        others = [target for target in getattr(chunk.links, link_type) if target != target_id]
        linked = self._write_links(chunk, **{link_type: others + targets})
        self._write_indexes()
        return linked

    def _check_tokens(self, chunk: Chunk) -> None:
        if not self._min_tokens <= chunk.tokens <= MAX_TOKENS:
            raise InvalidRequestError.of("tokens", f"must be {self._min_tokens} to {MAX_TOKENS}")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # A file of its own for each operation: such locks are between open files, so that threads wait as well.
        descriptor = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            ends_at = time.monotonic() + self._lock_timeout_s
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > ends_at:
                        raise DeadlineError(f"{self.root} was in use for {self._lock_timeout_s:g} s") from None
                    # The library cannot wait for a lock and look at the clock.
                    time.sleep(_LOCK_RETRY_S)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def _audited(self, operation: str, chunk_id: str | None = None) -> Iterator["_Audit"]:
        """Hold the lock, and leave a record of the operation and how it ended (requirement S2-37)."""
        audit = _Audit(chunk_id or "")
        try:
            if chunk_id is not None:
                parse_chunk_id(chunk_id)  # before any file is touched
            with self._locked():
                yield audit
        except BaseException as error:
            audit.outcome = getattr(error, "reason", type(error).__name__)
            raise
        finally:
            _audit(operation, audit.chunk_id, audit.outcome)

    # Links

    def _relink(self, chunk_id: str) -> None:
        """Recompute the automatic links of a chunk that was added, changed or removed, and those of others to it.

        Called with the lock held. It reads all other chunks and writes those whose links change.
        """
        chunks = self._read_live()
        memories = {other.id: other.linked_memory() for other in chunks.values()}
        chunk, related = chunks.get(chunk_id), set[str]()
        if chunk is not None:
            best = most_related(memories[chunk_id], memories.values())
            before = predecessor(memories[chunk_id], memories.values())
            related = {other.memory_id for other in best}
            conversation = chunk.metadata.conversation_id
            self._write_links(
                chunk,
                context_of=[conversation] if conversation else [],
                follows=[before.memory_id] if before else [],
                related_to=[other.memory_id for other in best],
            )
        for other in chunks.values():
            linked = chunk_id in (*other.links.follows, *other.links.related_to)
            may_follow = (
                chunk is not None
                and chunk.metadata.conversation_id is not None
                and chunk.metadata.conversation_id == other.metadata.conversation_id
                and timedelta() <= other.metadata.created - chunk.metadata.created <= FOLLOWS_WINDOW
            )
            # Both ways (C18), but only with the best: else a common tag would rewrite every file that has it.
            if other.id == chunk_id or not (linked or other.id in related or may_follow):
                continue
            targets = {*other.links.related_to, *({chunk_id} if other.id in related else ())}
            best = most_related(memories[other.id], [memories[target] for target in targets if target in memories])
            before = predecessor(memories[other.id], memories.values())
            self._write_links(
                other,
                follows=[before.memory_id] if before else [],
                related_to=[target.memory_id for target in best],
            )

    def _write_links(self, chunk: Chunk, **targets: list[str]) -> Chunk:
        linked = chunk.changed(links={**chunk.links.model_dump(), **targets})
        if linked != chunk:
            self._write(linked, self._month(chunk.id))
        return linked

    # Indexes

    def _write_indexes(self) -> list[str]:
        """Rewrite the index files that do not match the chunk files; return their names."""
        self._read_live()
        # Only files that differ: a sync of the disk costs more than a comparison.
        wrong = self._wrong_indexes()
        for name, content in wrong.items():
            replace_file(self._index / name, content)
        return list(wrong)

    def _wrong_indexes(self) -> dict[str, str]:
        """Return the right content of the index files that differ from the live chunks as last read."""
        chunks = sorted(self._live.chunks.values(), key=lambda chunk: chunk.id)
        by_tag: dict[str, list[str]] = defaultdict(list)
        for chunk in chunks:
            for tag in chunk.tags:
                by_tag[tag].append(chunk.id)
        facts = {
            chunk.id: {
                "type": chunk.type,
                "created": with_z(chunk.metadata.created),
                "conversation_id": chunk.metadata.conversation_id,
                "source": chunk.metadata.source,
                "confidence": chunk.metadata.confidence,
                "tokens": chunk.tokens,
            }
            for chunk in chunks
        }
        contents: dict[str, Any] = {
            "metadata_index.json": {"schema_version": SCHEMA_VERSION, "chunks": facts},
            "tag_index.json": dict(sorted(by_tag.items())),
            "link_graph.json": {chunk.id: chunk.links.model_dump() for chunk in chunks},
        }
        wrong: dict[str, str] = {}
        for name, content in contents.items():
            text = to_json(content, indent=2).decode() + "\n"
            try:
                is_right = _bytes_of(self._index / name) == text.encode()
            except (FileNotFoundError, DataLossError):
                is_right = False
            if not is_right:
                wrong[name] = text
        return wrong


@dataclass(slots=True)
class _Audit:
    """What the audit record of an operation says at its end."""

    chunk_id: str
    outcome: str = "ok"


def _audit(operation: str, chunk_id: str, outcome: str) -> None:
    facts = {"operation": operation, "chunk_id": chunk_id, "outcome": outcome}
    # As Python writes it: an id that was refused may hold line ends.
    _log.info("vault %s %r: %s", operation, chunk_id, outcome, extra=facts)


def _listed(tags: Sequence[str]) -> list[str]:
    if isinstance(tags, str):  # which is a sequence of its letters
        raise InvalidRequestError.of("tags", f"must be a list of texts, not {tags!r}")
    return list(tags)


def _check_manual(link_type: str) -> None:
    if link_type not in MANUAL_LINK_TYPES:
        raise InvalidRequestError.of("link_type", f"must be one of {', '.join(MANUAL_LINK_TYPES)}, not {link_type!r}")


def _read_again(folder: _Folder, paths: Iterable[Path]) -> dict[str, Chunk]:
    """Read the files that are new or have changed since the last time, and forget those that are gone."""
    # Not by `glob`, to which a folder that cannot be read is an empty one.
    found = {path: path.lstat() for place in paths for path in place.iterdir() if path.match("chunk-*.json")}
    before, folder.read = folder.read, {}
    for path, each in found.items():
        state = (each.st_mtime_ns, each.st_size, each.st_ino)
        known = before.get(path)
        if known is None or known[0] != state:
            try:
                known = state, _read_file(path)
            except DataLossError as error:
                known = state, error.message
                _log.warning("%r is corrupt and is skipped: %s", path.name, error.message)
        folder.read[path] = known
    return folder.chunks


def _read_file(path: Path) -> Chunk:
    """Return the chunk of a file.

    Raises:
        FileNotFoundError: there is no such file.
        DataLossError: it is no chunk file, or not of this name and in this folder.
    """
    try:
        _refuse_link(path.parent)
        chunk = Chunk.of_json(_bytes_of(path))
    except InvalidRequestError as error:
        raise DataLossError(error.message, what="chunk file") from error
    if chunk.id != path.stem or path.parent.name not in {chunk.id[6:13], "archive"}:
        raise DataLossError(f"it is of chunk {chunk.id}", what="chunk file")
    return chunk


def _bytes_of(path: Path) -> bytes:
    """Return the content of a regular file, without blocking on anything else, such as a pipe.

    Raises:
        FileNotFoundError: there is no such file.
        DataLossError: it cannot be read, or is a link, a folder or the like.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise DataLossError("it is no plain file", what="chunk file")
            return file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DataLossError(f"it cannot be read: {error.strerror}", what="chunk file") from error


def _refuse_link(folder: Path) -> None:
    """Raise DataLossError for a folder that is a symbolic link: what it points at is no part of the vault."""
    if folder.is_symlink():
        raise DataLossError(f"{folder.name} is a symbolic link", what="vault folder")


def _move(source: Path, target: Path, chunk_id: str) -> None:
    """Move a file between live and archive, durably.

    Raises:
        ChunkNotFoundError: there is no such file.
    """
    _refuse_link(source.parent)
    _make_folder(target.parent)
    try:
        source.rename(target)
    except FileNotFoundError:
        raise ChunkNotFoundError(chunk_id) from None
    # The new name first: after a power cut there may be two of the file, and never none.
    sync(target.parent)
    sync(source.parent)


def _make_folder(folder: Path) -> None:
    _refuse_link(folder)
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        sync(folder.parent)
