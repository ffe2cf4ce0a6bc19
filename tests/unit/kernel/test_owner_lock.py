"""One process owns a folder or a file."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from groundwire.kernel.errors import StoreOwnedError
from groundwire.kernel.files import OwnerLock

HOLD = """
import sys, time
from pathlib import Path
from groundwire.kernel.files import OwnerLock
folder = Path(sys.argv[1])
lock = OwnerLock(folder, folder / "LOCK", "a folder of vectors")
print("held", flush=True)
time.sleep(60)
"""


def lock_of(folder: Path, wait_s: float = 10.0) -> OwnerLock:
    folder.mkdir(parents=True, exist_ok=True)
    return OwnerLock(folder, folder / "LOCK", "a folder of vectors", wait_s=wait_s)


def test_the_second_opener_learns_who_the_owner_is(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    started = time.monotonic()
    with pytest.raises(StoreOwnedError) as refused:
        lock_of(tmp_path)
    assert time.monotonic() - started < 20, "it does not wait for the owner, who holds it for a minute"
    assert refused.value.message.endswith("one process owns a folder of vectors: stop it, or name another")
    assert refused.value.metadata == {"path": str(tmp_path), "owner": str(holder.pid)}
    holder.kill()
    holder.wait()
    holder.stdout.close()
    lock_of(tmp_path).release()


def test_a_released_folder_can_be_owned_again_and_names_the_new_owner(tmp_path: Path) -> None:
    lock = lock_of(tmp_path / "new" / "folder")
    lock.release()
    lock.release()
    (tmp_path / "new" / "folder" / "LOCK").write_text("123456789012345")
    again = lock_of(tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder" / "LOCK").read_text() == f"{os.getpid()}\n"
    again.release()


def test_helpers_of_a_dead_owner_are_waited_for(tmp_path: Path) -> None:
    lock = lock_of(tmp_path)
    helper = subprocess.Popen(["sleep", "0.4"], pass_fds=(lock.descriptor,))
    lock.release()
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / "LOCK").write_text(f"{ended.pid}\n")
    with pytest.raises(StoreOwnedError):
        lock_of(tmp_path, wait_s=0.05)
    lock_of(tmp_path, wait_s=20).release()
    assert helper.wait() == 0
