"""A folder in memory where the system has one: qdrant-edge syncs hundreds of files when it closes."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder in it is made by tempfile


@contextmanager
def memory_folder() -> Iterator[Path]:
    """Make an empty folder and remove it at the end."""
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as folder:
        yield Path(folder)
