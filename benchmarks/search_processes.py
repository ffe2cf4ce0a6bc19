"""Processes of a comparison: one for the clients, one for the bare engine, one for each framework, and the server."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from benchmarks.make_peers import SCRIPTS, interpreter
from benchmarks.search_raw import Query, Run
from benchmarks.served import cpu_s
from benchmarks.synthetic import Corpus
from groundwire.embedders.model_files import find_model

Params = ParamSpec("Params")
ResultT = TypeVar("ResultT")

_QUIET_S = 3.0
_QUIET_SHARE = 0.1
_OFFLINE = {"HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False", "HAYSTACK_TELEMETRY_ENABLED": "False"}


class OwnProcess:
    """Runs functions in one other process, one after the other."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def __call__(self, work: Callable[Params, ResultT], *args: Params.args, **kwargs: Params.kwargs) -> ResultT:
        return self.start(work, *args, **kwargs).result()

    def start(self, work: Callable[Params, ResultT], *args: Params.args, **kwargs: Params.kwargs) -> "Future[ResultT]":
        """Begin and return what will have the result."""
        return self._pool.submit(work, *args, **kwargs)


@contextmanager
def own_process() -> Iterator[OwnProcess]:
    """Give a process that starts with nothing and ends with the block."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield OwnProcess(pool)


def wait_until_quiet(process_id: int) -> None:
    """Return when a server and its children have nothing left to do in the background, such as to build an index."""
    while True:
        before = cpu_s(process_id)
        time.sleep(_QUIET_S)
        if cpu_s(process_id) - before < _QUIET_SHARE * _QUIET_S:
            return


class Peer:
    """The retriever of a framework over its own persistent Chroma, asked in its own process."""

    def __init__(self, name: str, process: "subprocess.Popen[str]") -> None:
        self.name = name
        self._process = process

    def ask(self, queries: Sequence[Query], limit: int, clients: int) -> Run:
        """Ask by as many threads."""
        told = self.tell({"queries": [query.text for query in queries], "limit": limit, "clients": clients})
        return Run(told["seconds"], told["ms"], [])

    def tell(self, message: dict[str, Any]) -> dict[str, Any]:
        if self._process.stdin is None or self._process.stdout is None:
            raise SystemExit(f"{self.name} has no pipes")
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):  # some libraries print on their own
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise SystemExit(f"{self.name} ended")


@contextmanager
def peer(name: str, peers_folder: Path, scratch: Path, corpus: Corpus) -> Iterator[Peer]:
    """Give a framework that has stored the corpus, with ready vectors, the way it stores documents."""
    folder = scratch / f"peer-{name}"
    folder.mkdir()
    np.save(folder / "vectors.npy", corpus.vectors)
    with (folder / "passages.jsonl").open("w") as lines:
        for text, fields in zip(corpus.texts, corpus.fields, strict=True):
            lines.write(json.dumps({"text": text, "fields": fields}) + "\n")
    command = [str(interpreter(name, peers_folder)), str(SCRIPTS / f"{name}_search.py")]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr, text=True, env=os.environ | _OFFLINE
    )
    try:
        made = Peer(name, process)
        made.tell({"folder": str(folder), "model": str(find_model("all-MiniLM-L6-v2").folder)})
        yield made
    finally:
        process.kill()
        process.wait()
