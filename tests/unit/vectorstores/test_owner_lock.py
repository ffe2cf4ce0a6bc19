"""One process owns a folder of vectors."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from groundwire.kernel.errors import StoreOwnedError
from groundwire.vectorstores.engine_store import OwnerLock

HOLD = """
import sys, time
from pathlib import Path
from groundwire.vectorstores.engine_store import OwnerLock
lock = OwnerLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


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
        OwnerLock(tmp_path)
    assert time.monotonic() - started < 20, "it does not wait for the owner, who holds it for a minute"
    assert refused.value.metadata == {"path": str(tmp_path), "owner": str(holder.pid)}
    holder.kill()
    holder.wait()
    holder.stdout.close()
    OwnerLock(tmp_path).release()


def test_a_released_folder_can_be_owned_again_and_names_the_new_owner(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path / "new" / "folder")
    lock.release()
    lock.release()
    (tmp_path / "new" / "folder" / "LOCK").write_text("123456789012345")
    again = OwnerLock(tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder" / "LOCK").read_text() == f"{os.getpid()}\n"
    again.release()


def test_helpers_of_a_dead_owner_are_waited_for(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path)
    helper = subprocess.Popen(["sleep", "0.4"], pass_fds=(lock.descriptor,))
    lock.release()
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / "LOCK").write_text(f"{ended.pid}\n")
    with pytest.raises(StoreOwnedError):
        OwnerLock(tmp_path, wait_s=0.05)
    OwnerLock(tmp_path, wait_s=20).release()
    assert helper.wait() == 0
