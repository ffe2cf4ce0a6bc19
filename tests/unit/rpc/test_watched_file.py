"""Files that are read again when they change."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from groundwire.kernel.errors import InvalidRequestError
from groundwire.rpc.watched_file import WatchedFiles


def first_line(contents: list[bytes]) -> str:
    return contents[0].splitlines()[0].decode()


def until(is_true: Callable[[], bool], within_s: float = 20.0) -> None:
    ends_at = time.monotonic() + within_s
    while not is_true():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def test_a_file_of_the_same_time_and_size_is_read_when_it_takes_the_place_of_another(tmp_path: Path) -> None:
    path, other = tmp_path / "keys", tmp_path / "other"
    path.write_text("old\n")
    other.write_text("new\n")
    watched = WatchedFiles([path], first_line, "keys")
    status = path.stat()
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)
    until(lambda: watched.value == "new")
    watched.close()


def test_a_file_is_read_when_it_was_written_over_with_its_old_time(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("old\n")
    status = path.stat()
    watched = WatchedFiles([path], first_line, "keys")
    path.write_text("new\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    until(lambda: watched.value == "new")
    watched.close()


def test_what_never_ends_is_no_file_of_keys() -> None:
    with pytest.raises(InvalidRequestError, match=r"keys: '/dev/zero' cannot be read: is larger than"):
        WatchedFiles([Path("/dev/zero")], first_line, "keys")


def test_a_file_that_cannot_even_be_refused_is_left_alone_and_the_next_one_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys"
    path.write_text("old\n")
    seen: list[bytes] = []

    def parse(contents: list[bytes]) -> str:
        seen.extend(contents)
        return first_line(contents)  # of nothing there is none

    watched = WatchedFiles([path], parse, "keys")
    path.write_bytes(b"")
    until(lambda: b"" in seen)
    assert watched.value == "old"
    path.write_text("new\n")
    until(lambda: watched.value == "new")
    assert "keys were not taken over" in caplog.text
    watched.close()


def test_changes_that_are_wrong_in_the_same_way_are_told_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys"
    path.write_text("old\n")

    def parse(contents: list[bytes]) -> bytes:
        if b"old" not in contents[0]:
            raise InvalidRequestError.of("keys", "must be old")
        return contents[0]

    watched = WatchedFiles([path], parse, "keys")
    path.write_text("new\n")
    until(lambda: len(caplog.records) == 1)
    path.write_text("newer\n")
    until(lambda: len(caplog.records) == 2)
    first, second = (record.getMessage() for record in caplog.records)
    assert first != second  # the log of a server leaves out what it has said within the last minute
    assert all(each.endswith("what it said before is in force: keys: must be old") for each in (first, second))
    assert watched.value == b"old\n"
    watched.close()
