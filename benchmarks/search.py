"""Searches through gRPC beside bare engines, frameworks and a bare gRPC server: time, ratio and recall in one table.

    python -m benchmarks.search [--engines qdrant-edge] [--chunks 10000] [--parts P7 P12]
        [--peers langchain llamaindex haystack] [--peers-folder FOLDER] [--rounds 5] [--queries 100]
        [--docs FOLDER] [--embedder URL] [--json FILE]

Without options it takes some minutes. Everything, which takes an hour and more texts than the documentation has:

    python -m benchmarks.search --engines qdrant-edge chroma --chunks 10000 100000 --parts P7 P8 P12 P11 --docs FOLDER

P7: Retrieve with 1, 8 and 32 clients, beside the same engine in process with a ready vector, and beside the retrievers
of frameworks. P8: the same under filters. P12: responses that were given before, beside a server that only echoes. P11:
queries while the index of a collection is built anew and files are ingested, beside the same queries in quiet.

Server, clients, bare engine and each framework are processes of their own, and only one of them works at a time. All
are asked the same in turns; a ratio is the median of the ratios of the rounds. Recall is against an exact comparison
with every chunk that matches. The corpus is described in benchmarks/synthetic.py.
"""

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.make_peers import DEFAULT_FOLDER, PEERS, interpreter
from benchmarks.search_cells import Bench, compare_cached, compare_filtered, compare_plain
from benchmarks.search_load import fill_server
from benchmarks.search_mixed import compare_mixed
from benchmarks.search_processes import own_process, peer, wait_until_quiet
from benchmarks.search_raw import RAW, fill_raw
from benchmarks.search_table import Row, as_json, print_table
from benchmarks.served import server_process
from benchmarks.synthetic import Corpus, Words, make_corpus

DOCS = Path(__file__).parents[1] / "docs"
COMPARISONS = {"P7": compare_plain, "P8": compare_filtered, "P12": compare_cached}


def main() -> int:
    options = _parser().parse_args()
    most = max([*options.chunks, options.mixed_chunks if "P11" in options.parts else 0])
    if "P7" in options.parts:
        lacking = [name for name in options.peers if not interpreter(name, options.peers_folder).exists()]
        if lacking:
            _say(f"not installed, so not beside ours: {', '.join(lacking)} (python benchmarks/make_peers.py)")
    corpus = make_corpus(Words(options.docs), most, options.embedder, options.cache)
    rows: list[Row] = []
    for engine in options.engines:
        for chunks in options.chunks:
            rows += _shown(_compare(options, engine, corpus.first(chunks)))
        if "P11" in options.parts:
            rows += _shown(compare_mixed(options, engine, corpus.first(options.mixed_chunks)))
    print()
    print_table(rows)
    if options.json:
        options.json.write_text(json.dumps(as_json(rows), indent=1))
    return 1 if any(row.met is False for row in rows) else 0


def _compare(options: argparse.Namespace, engine: str, corpus: Corpus) -> Iterator[Row]:
    parts = [part for part in options.parts if part in COMPARISONS]
    if not parts:
        return
    with tempfile.TemporaryDirectory(prefix="groundwire-search-") as folder, ExitStack() as stack:
        scratch = Path(folder)
        load, raw = stack.enter_context(own_process()), stack.enter_context(own_process())
        arguments = ["--vectors", f"{engine}:", "--embedder", options.embedder]
        address, process_id = stack.enter_context(server_process(scratch, arguments))
        seconds = load(fill_server, address, corpus)
        _say(f"{engine}, {len(corpus.texts)} chunks: stored in {seconds:.1f} s")
        if {"P7", "P8"} & {*parts}:
            raw(fill_raw, engine, scratch / "raw", corpus)
        peers = [
            stack.enter_context(peer(name, options.peers_folder, scratch, corpus))
            for name in options.peers
            if "P7" in parts and interpreter(name, options.peers_folder).exists()
        ]
        wait_until_quiet(process_id)
        counter = itertools.count(1)
        bench = Bench(engine, corpus, address, process_id, load, raw, peers, options.rounds, options.queries, counter)
        for part in parts:
            yield from COMPARISONS[part](bench)


def _shown(rows: Iterator[Row]) -> Iterator[Row]:
    for row in rows:
        _say("  ".join(cell for cell in row.cells() if cell))
        yield row


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", default=["qdrant-edge"], choices=[*RAW])
    parser.add_argument("--chunks", nargs="+", type=int, default=[10_000])
    parser.add_argument("--parts", nargs="+", default=["P7", "P12"], choices=["P7", "P8", "P11", "P12"])
    parser.add_argument("--peers", nargs="*", default=[*PEERS], choices=PEERS, help="those that make_peers.py has made")
    parser.add_argument("--peers-folder", type=Path, default=DEFAULT_FOLDER)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=100, help="of each system in a round")
    parser.add_argument("--mixed-chunks", type=int, default=60_000, help="of the collection of P11")
    parser.add_argument("--mixed-seconds", type=float, default=30.0, help="of P11, quiet and busy each")
    parser.add_argument("--docs", type=Path, default=DOCS, help="texts that passages and ingested files are cut from")
    parser.add_argument("--embedder", default="sentence-transformers:all-MiniLM-L6-v2")
    parser.add_argument("--cache", type=Path, default=DEFAULT_FOLDER.parent, help="where vectors and models are kept")
    parser.add_argument("--json", type=Path)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
