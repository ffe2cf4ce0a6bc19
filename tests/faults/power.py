"""A disk of its own whose power can be cut: ext4 in a file, mounted as root, stopped by the shutdown ioctl.

The ioctl drops everything the file system has not written yet, the journal's buffers included, and refuses all further
work, as a machine without power would.
"""

import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2
_TOOLS = ("mkfs.ext4", "e2fsck", "mount", "umount")


class CutDisk:
    """A mounted file system; `cut` ends its power, `restore` gives it back.

    Args:
        folder: where its file and its mount point are made.
        mib: its size; the file is sparse.

    Raises:
        OSError: this machine cannot do that; `reason` of `unavailable` says why.
    """

    def __init__(self, folder: Path, mib: int = 2048) -> None:
        self._file = folder / "disk"
        self.mount_point = folder / "mounted"
        self.mount_point.mkdir()
        with self._file.open("wb") as file:
            file.truncate(mib << 20)
        # The journal commits only when it is asked to, so that nothing is saved by a timer.
        _run("mkfs.ext4", "-q", "-F", str(self._file))
        self._mount()

    def cut(self) -> None:
        """Lose all that is not on the disk."""
        descriptor = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def restore(self) -> None:
        """Mount it again after a cut, when every process that used it has ended."""
        self.unmount()
        checked = subprocess.run(["e2fsck", "-p", "-f", str(self._file)], capture_output=True, check=False)
        if checked.returncode > 1:  # 1: the journal was replayed
            raise OSError(f"e2fsck: {checked.stdout!r}")
        self._mount()

    def unmount(self) -> None:
        """Take it away."""
        for _ in range(100):
            if subprocess.run(["umount", str(self.mount_point)], capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise OSError("the disk is in use")

    def _mount(self) -> None:
        _run("mount", "-o", "loop,commit=300", str(self._file), str(self.mount_point))


def unavailable(folder: Path) -> str:
    """Return why this machine cannot cut the power of a disk; empty when it can."""
    if os.geteuid() != 0:
        return "only root may mount a disk"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} is not installed"
    try:
        disk = CutDisk(folder, mib=16)
    except OSError as error:
        return f"no disk can be mounted: {error}"
    try:
        disk.cut()
    except OSError as error:
        return f"the file system cannot be stopped: {error}"
    finally:
        disk.unmount()
    return ""


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{command[0]}: {done.stderr.strip()}")
