"""Bulk ingest through gRPC: cold, unchanged, a few documents changed, and the same of three frameworks.

    python -m benchmarks.ingest [--corpora rust_book,peps,chunking_evaluation,squad] [--files N] [--peers langchain,…]
        [--chunks defaults|equal|both] [--runs 3] [--copies 10] [--cores 0,1] [--json FILE]

Ours is a server process with a durable catalog, called by this process; a file counts when its call is acknowledged,
which is when it is durable and searchable. A peer is one process in its own virtual environment (make_peers.py), with
the same weights and a persistent Chroma. Models are loaded before the clock starts. Everything runs on the same cores.

`--chunks defaults` leaves every system its own sizes, `equal` gives all about 240 tokens without overlap. Of longer
chunks the frameworks read the first 254 tokens only and ignore the rest, ours reads all: the column `read` says how
many tokens went through the model, and `per token` compares the rates at which that happened. Runs are interleaved and
the median is printed.

`--copies N` measures memory: peak of the server with its children for the corpus once, and for N copies of it with
words of their own.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.ingest_corpora import FOLDERS, corpus
from benchmarks.make_peers import DEFAULT_FOLDER, PEERS, SCRIPTS, interpreter
from benchmarks.served import memory_mib, server_process, with_children
from groundwire.api.common.v1 import document_pb2
from groundwire.api.ingest.v1 import collection_pb2, ingest_result_pb2
from groundwire.cli.ingest import DEFAULT_JOBS
from groundwire.client import GroundwireClient
from groundwire.client.contract import Contract
from groundwire.client.transport import all_items
from groundwire.embedders.model_files import find_model

EQUAL_TOKENS = 240
SEED = 20260101


@dataclass(frozen=True)
class Figures:
    """What one run cost; `read` counts the tokens that went through the model."""

    system: str
    seconds: float
    chunks: int
    read: int
    peak_rss_mib: float


def main() -> None:
    options = _parser().parse_args()
    if options.cores:
        os.sched_setaffinity(0, {int(core) for core in options.cores.split(",")})
    with tempfile.TemporaryDirectory(prefix="groundwire-corpus-") as scratch:
        names = options.corpora.split(",")
        run(options, corpus(options.data, names, options.files, Path(scratch)))


def run(options: argparse.Namespace, files: Sequence[Path]) -> None:
    size = sum(path.stat().st_size for path in files)
    print(f"{len(files)} files, {size / 1e6:.2f} MB, cores {sorted(os.sched_getaffinity(0))}, seed {SEED}")
    report: dict[str, Any] = {"files": len(files), "bytes": size, "chunks": {}}
    for chunks in ("defaults", "equal") if options.chunks == "both" else (options.chunks,):
        report["chunks"][chunks] = compare(options, files, equal_chunks=chunks == "equal")
    report["again"] = again(options, files)
    if options.copies:
        report["memory"] = memory(options, files)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2))


def _parser() -> argparse.ArgumentParser:
    data = Path(os.environ.get("GROUNDWIRE_TEST_DATA", Path(__file__).parents[1].parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data)
    parser.add_argument("--corpora", default=",".join(FOLDERS), help="or squad: small documents")
    parser.add_argument("--files", type=int, default=0, help="take only the first N files of each corpus")
    parser.add_argument("--peers", default=",".join(PEERS), help="empty for none")
    parser.add_argument("--peers-folder", type=Path, default=DEFAULT_FOLDER)
    parser.add_argument("--chunks", choices=("defaults", "equal", "both"), default="both")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--changed", type=float, default=0.01, help="share of documents that change")
    parser.add_argument("--copies", type=int, default=0, help="measure memory with N copies of the corpus")
    parser.add_argument("--cores", default="", help="such as 0,1; all if not given")
    parser.add_argument("--vectors", default="qdrant-edge:")
    parser.add_argument("--embedder", default="sentence-transformers:all-MiniLM-L6-v2")
    parser.add_argument("--json", type=Path)
    return parser


def compare(options: argparse.Namespace, files: Sequence[Path], *, equal_chunks: bool) -> dict[str, Any]:
    """Measure cold ingests of every system, `runs` times each in turn, and print them beside ours."""
    peers = [name for name in options.peers.split(",") if name]
    runs: dict[str, list[Figures]] = {}
    for _ in range(options.runs):
        for system in ("groundwire", *peers):
            with tempfile.TemporaryDirectory(prefix="groundwire-ingest-") as scratch:
                if system == "groundwire":
                    figures = ours(options, files, Path(scratch), equal_chunks=equal_chunks)
                else:
                    figures = theirs(options, system, files, Path(scratch), equal_chunks=equal_chunks)
            runs.setdefault(system, []).append(figures)
    medians = {name: sorted(each, key=lambda run: run.seconds)[len(each) // 2] for name, each in runs.items()}
    print(f"\ncold ingest, {'equal' if equal_chunks else 'default'} chunks, median of {options.runs}")
    _print_table(medians)
    return {name: [asdict(run) for run in each] for name, each in runs.items()}


def _print_table(medians: dict[str, Figures]) -> None:
    """Print figures, and three ratios to ours that are above 1 where ours is faster."""
    own = medians["groundwire"]
    print(f"{'system':<12}{'s':>9}{'chunks':>8}{'read':>9}{'read/s':>8}{'MiB':>7}", end="")
    print(f"{'faster by time':>16}{'per chunk':>11}{'per token':>11}")
    for name, each in medians.items():
        by_time = each.seconds / own.seconds
        per_chunk, per_token = by_time * own.chunks / each.chunks, by_time * own.read / each.read
        rate = each.read / each.seconds
        print(
            f"{name:<12}{each.seconds:>9.2f}{each.chunks:>8}{each.read:>9}{rate:>8.0f}{each.peak_rss_mib:>7.0f}", end=""
        )
        print(f"{by_time:>15.2f}x{per_chunk:>10.2f}x{per_token:>10.2f}x")


def ours(options: argparse.Namespace, files: Sequence[Path], scratch: Path, *, equal_chunks: bool) -> Figures:
    with _served(options, scratch) as (client, process_id):
        _create(client, equal_chunks=equal_chunks)
        started = time.perf_counter()
        results = ingest(client, {str(path): path.read_bytes() for path in files})
        seconds = time.perf_counter() - started
        chunks = sum(result.counts.chunk_count for result in results)
        return Figures("groundwire", seconds, chunks, _tokens(client, results), peak_rss_mib(process_id))


def theirs(
    options: argparse.Namespace, name: str, files: Sequence[Path], scratch: Path, *, equal_chunks: bool
) -> Figures:
    job = {
        "files": [str(path) for path in files],
        "store": str(scratch / "store"),
        "model": str(find_model("all-MiniLM-L6-v2").folder),
    }
    command = [str(interpreter(name, options.peers_folder)), str(SCRIPTS / f"{name}_peer.py")]
    offline = {"HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False", "HAYSTACK_TELEMETRY_ENABLED": "False"}
    done = subprocess.run(
        command,
        input=json.dumps(job | {"equal_chunks": equal_chunks}),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | offline,
    )
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-4000:]}")
    told = json.loads(done.stdout.strip().splitlines()[-1])
    return Figures(name, told["seconds"], told["chunks"], told["tokens_read"], told["peak_rss_mib"])


def again(options: argparse.Namespace, files: Sequence[Path]) -> dict[str, float]:
    """Measure the same corpus cold, unchanged, and with a few documents changed."""
    contents = {str(path): path.read_bytes() for path in files}
    chance = random.Random(SEED)
    changed = dict(contents)
    count = max(1, round(len(files) * options.changed))
    for name in chance.sample(sorted(contents), count):
        changed[name] = _with_other_words(contents[name], chance)
    with (
        tempfile.TemporaryDirectory(prefix="groundwire-ingest-") as scratch,
        _served(options, Path(scratch)) as (client, _),
    ):
        _create(client, equal_chunks=False)
        cold, chunks = _timed(client, contents)
        unchanged, none = min(_timed(client, contents) for _ in range(3))
        partly, few = _timed(client, changed)
    print(f"\nagain: cold {cold:.2f} s, {chunks} chunks embedded")
    print(f"unchanged {unchanged:.3f} s, {none} embedded: {cold / unchanged:.0f}x faster")
    print(f"{count} of {len(files)} changed {partly:.3f} s, {few} embedded: {cold / partly:.0f}x faster")
    return {"cold": cold, "unchanged": unchanged, "changed": partly, "embedded_of_changed": few}


def memory(options: argparse.Namespace, files: Sequence[Path]) -> dict[str, float]:
    """Measure the peak memory of the server for the corpus once and for many copies with words of their own."""
    peaks = {}
    for copies in (1, options.copies):
        with tempfile.TemporaryDirectory(prefix="groundwire-ingest-") as scratch:
            with _served(options, Path(scratch)) as (client, process_id):
                _create(client, equal_chunks=False)
                for copy in range(copies):
                    ingest(client, {f"{copy}/{path}": _salted(path.read_bytes(), copy) for path in files})
                peaks[str(copies)] = peak_rss_mib(process_id)
            print(f"memory, {copies}x the corpus: {peaks[str(copies)]:.0f} MiB at its peak")
    return peaks


@contextmanager
def _served(options: argparse.Namespace, scratch: Path) -> Iterator[tuple[GroundwireClient, int]]:
    arguments = ["--vectors", options.vectors, "--embedder", options.embedder]
    with server_process(scratch, arguments) as (address, process_id), GroundwireClient(address) as client:
        client.create_collection(collection="warm-up")
        client.ingest_document(collection="warm-up", source_uri="a.md", text="The model is loaded and ready.")
        yield client, process_id


def _create(client: GroundwireClient, *, equal_chunks: bool) -> None:
    settings = collection_pb2.CollectionSettings()
    if equal_chunks:
        chunking = settings.chunking
        chunking.target_size, chunking.maximum_size, chunking.minimum_size = EQUAL_TOKENS, EQUAL_TOKENS, 1
        chunking.overlap_ratio = 0.0
    client.create_collection(collection="bench", settings=settings)


def ingest(client: GroundwireClient, contents: dict[str, bytes]) -> list[ingest_result_pb2.IngestResult]:
    """Send files as `groundwire ingest` does, a few at a time."""

    def send(item: tuple[str, bytes]) -> ingest_result_pb2.IngestResult:
        name, content = item
        return client.ingest_document(collection="bench", source_uri=name.lstrip("/"), content=content).result

    with ThreadPoolExecutor(DEFAULT_JOBS) as pool:
        return list(pool.map(send, contents.items()))


def _timed(client: GroundwireClient, contents: dict[str, bytes]) -> tuple[float, int]:
    """Return the seconds of an ingest and how many chunks went through the model."""
    started = time.perf_counter()
    results = ingest(client, contents)
    return time.perf_counter() - started, sum(result.counts.embedded_count for result in results)


def _tokens(client: GroundwireClient, results: Sequence[ingest_result_pb2.IngestResult]) -> int:
    """Count the tokens of all chunks; the headings that are embedded with them are left out."""
    documents = (document_pb2.DocumentReference(document_id=each.document.document_id) for each in results)
    return sum(
        chunk.token_count
        for reference in documents
        for chunk in all_items.blocking(
            client, Contract.list_chunks, "chunks", collection="bench", reference=reference, page_size=1000
        )
    )


def _with_other_words(content: bytes, chance: random.Random) -> bytes:
    """Change a word in one line of many, as an edit does."""
    lines = content.decode().splitlines(keepends=True)
    numbers = [number for number, line in enumerate(lines) if len(line.split()) > 5] or [0]
    number = chance.choice(numbers)
    lines[number] = lines[number].rstrip("\n") + f" Revised {chance.random()}.\n"
    return "".join(lines).encode()


def _salted(content: bytes, copy: int) -> bytes:
    """Make the paragraphs of a copy unlike those of all others, so that no vector is known already."""
    return content.decode().replace("\n\n", f"\n\nCopy{copy} ").encode() if copy else content


def peak_rss_mib(process_id: int) -> float:
    """Return the sum of the peaks of a process and its descendants that are still there, in MiB."""
    return sum(memory_mib(process, "VmHWM") for process in with_children(process_id))


if __name__ == "__main__":
    main()
