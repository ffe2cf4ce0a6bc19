"""Files that survive a power cut whole."""

import os
from pathlib import Path


def replace_file(path: Path, content: str) -> None:
    """Write a file so that readers find the old or the new content, also after a power cut.

    Returns once the new content is on disk. One writer at a time: the draft is called `<name>.new`, and one that a
    killed process left is removed. A symbolic link at either name is replaced, never written through.
    """
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with draft.open("x", encoding="utf-8", newline="") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    # The new name is on disk only when the folder is.
    sync(path.parent)


def sync(path: Path) -> None:
    """Return once a file's content, or a folder's list of entries, is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
