"""What a server needs: seconds to start, chunks a second, processor time and bytes on disk for each chunk, and memory.

    python -m benchmarks.sizing FOLDER

The folder is ingested into a server with defaults, then searched a hundred times. Bytes on disk are counted after the
server has stopped, as blocks of the file system. Memory is the proportional share (PSS) of each process, which counts
what several processes share only once. Processor time depends less on what else the machine does than chunks a second.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.served import GROUNDWIRE, cpu_s, server_process, with_children
from groundwire.client import GroundwireClient

_SEARCHES = 100
_MIB = 1 << 20


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        began_at = time.monotonic()
        with server_process(Path(temporary), []) as (address, server):
            print(f"{'start':36} {time.monotonic() - began_at:8.1f} s")
            _print_memory(server, "started")
            began_at, worked = time.monotonic(), cpu_s(server)
            command = [*GROUNDWIRE, "ingest", str(folder), "-c", "sizing"]
            subprocess.run([*command, "--address", address], check=True, stdout=subprocess.DEVNULL)
            elapsed = time.monotonic() - began_at
            with GroundwireClient(address) as client:
                (stats,) = client.list_stats(collection="sizing").stats
                print(f"{'ingest':36} {stats.chunk_count / elapsed:8.1f} chunks/s, {stats.chunk_count} chunks")
                worked_ms = (cpu_s(server) - worked) / stats.chunk_count * 1000
                print(f"{'processor time of the ingest':36} {worked_ms:8.0f} ms a chunk")
                _print_memory(server, "after the ingest")
                questions = [hit.text[:60] for hit in client.collection("sizing").search("what is it for", k=_SEARCHES)]
                for question in questions:
                    client.collection("sizing").search(question)
            _print_memory(server, f"after {len(questions)} searches")
        for part in ("catalog.db", "vectors"):
            size = _blocks(Path(temporary, "data", part))
            print(f"{'on disk: ' + part:36} {size / _MIB:8.1f} MiB, {size / stats.chunk_count:.0f} bytes a chunk")
        print(f"{'characters a chunk':36} {stats.total_chars / stats.chunk_count:8.0f}")


def _print_memory(server: int, when: str) -> None:
    sizes = {process: _pss(process) for process in with_children(server)}
    print(f"{'memory ' + when:36} {sizes[server] / _MIB:8.0f} MiB, {sum(sizes.values()) / _MIB:.0f} MiB with children")


def _pss(process: int) -> int:
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    (kib,) = re.findall(r"^Pss: +(\d+) kB", rollup, flags=re.MULTILINE)
    return int(kib) << 10


def _blocks(path: Path) -> int:
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(each.stat().st_blocks * 512 for each in files)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
