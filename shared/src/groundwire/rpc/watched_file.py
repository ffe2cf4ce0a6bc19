"""Files that are read again when they change, such as keys and certificates."""

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Generic, TypeVar

from groundwire.kernel.errors import InvalidRequestError

ValueT = TypeVar("ValueT")

# A change counts once two looks in a row see the same, and is to be in force within a second.
_LOOK_S: Final = 0.3
# A path that leads to a device or to a log must not fill the memory.
_MAX_BYTES: Final = 16 << 20

# The standard logger, because the client watches files too and does not install structlog.
_LOG = logging.getLogger(__name__)


class WatchedFiles(Generic[ValueT]):
    """The value that some files hold together, read again within a second after one of them changes.

    Files that cannot be read or understood any more leave the last value in force, and the log says so: a file that
    is half written must not lock everybody out, and an empty list of keys is how to do that on purpose. A file that is
    still being written is left alone: half of it may make sense, such as a key before the line that limits it.

    A symbolic link counts as changed when it points elsewhere. `parse` makes the value of the contents, in the order of
    the paths, or raises InvalidRequestError. `setting` names them in errors.

    Raises:
        InvalidRequestError: the files cannot be read or understood at the start.
    """

    def __init__(self, paths: list[Path], parse: Callable[[list[bytes]], ValueT], setting: str) -> None:
        self._paths = paths
        self._parse = parse
        self._setting = setting
        self._seen = self._marks()
        self.value = read_files(self._paths, self._parse, self._setting)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"watch-{setting}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking; idempotent."""
        self._closing.set()
        self._thread.join()

    def _watch(self) -> None:
        before = self._seen
        while not self._closing.wait(_LOOK_S):
            # Taken before the files are read, so that a change in between is noticed the next time.
            marks = self._marks()
            is_still, before = marks == before, marks
            if marks == self._seen or not is_still:
                continue
            self._seen = marks
            try:
                self.value = read_files(self._paths, self._parse, self._setting)
            except InvalidRequestError as error:
                # With its time, because the log leaves out what repeats: each change is news, if only to its author.
                changed = datetime.now(UTC).isoformat(timespec="milliseconds")
                told = "a file that was changed by %s was not taken over; what it said before is in force: %s"
                _LOG.error(told, changed, error.message)
            except Exception:  # noqa: BLE001 - or no key could be revoked any more
                _LOG.exception("the files of %s were not taken over; what they said before is in force", self._setting)
            else:
                _LOG.info("the files of %s were read again", self._setting)

    def _marks(self) -> list[tuple[int, int, int] | None]:
        marks: list[tuple[int, int, int] | None] = []
        for path in self._paths:
            try:
                status = path.stat()
            except OSError:
                marks.append(None)
            else:
                # The inode too: a file that replaces another may have its time and size. And the time of the last
                # change of any kind: the content may change without its own, and so may who may read it.
                marks.append((status.st_ino, status.st_ctime_ns, status.st_size))
        return marks


def read_files(paths: list[Path], parse: Callable[[list[bytes]], ValueT], setting: str) -> ValueT:
    """Return what files say together, as `WatchedFiles` does.

    Raises:
        InvalidRequestError: they cannot be read or understood.
    """
    contents: list[bytes] = []
    try:
        for path in paths:
            with path.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)  # not by its size: a pipe or device says 0
            if len(content) > _MAX_BYTES:
                raise InvalidRequestError.of(
                    setting, f"{str(path)!r} cannot be read: is larger than {_MAX_BYTES} bytes"
                )
            contents.append(content)
    except OSError as error:
        raise InvalidRequestError.of(setting, f"{error.filename!r} cannot be read: {error.strerror}") from error
    return parse(contents)
