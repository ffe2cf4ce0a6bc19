"""What runs below a process, as Linux tells it."""

from pathlib import Path


def descendants(pid: int) -> set[int]:
    """Return the ids of all processes below one."""
    found: set[int] = set()
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, listing.read_text().split()):
            found |= {child} | descendants(child)
    return found


def engine_pids(owner: int, folder: Path = Path("/")) -> list[int]:
    """Return the processes that run the engines of an owner in a folder, without those that watch over them."""

    def is_engine(pid: int) -> bool:
        return b"engine_server" in Path(f"/proc/{pid}/cmdline").read_bytes() and not descendants(pid)

    def is_in_folder(pid: int) -> bool:
        files = (each.readlink() for each in Path(f"/proc/{pid}/fd").iterdir())
        return any(file.is_relative_to(folder.resolve()) for file in files)

    return [pid for pid in descendants(owner) if is_engine(pid) and is_in_folder(pid)]


def is_running(pid: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
