"""Copies files without writing zeros: an empty shard is 600 kB of data in 200 MB of mapped files."""

import os
from collections.abc import Iterator

_BLOCK_BYTES = 4096


def copy_sparse(source: str, target: str) -> str:
    """Copy a file's data and length, leaving holes for blocks of zeros; fits `shutil.copytree`."""
    with open(source, "rb") as reading, open(target, "wb") as writing:  # noqa: PTH123 - the form copytree calls
        length = os.fstat(reading.fileno()).st_size
        writing.truncate(length)
        for offset in _data_offsets(reading.fileno(), length):
            block = os.pread(reading.fileno(), _BLOCK_BYTES, offset)
            if block.count(0) < len(block):
                os.pwrite(writing.fileno(), block, offset)
    return target


def _data_offsets(descriptor: int, length: int) -> Iterator[int]:
    """Yield the offsets of all blocks that the file system says hold data."""
    end = 0
    while end < length:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError:
            return  # nothing but a hole up to the end
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield from range(start, end, _BLOCK_BYTES)
