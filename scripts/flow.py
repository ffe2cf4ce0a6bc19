"""Count what one call of the server runs through: files, functions and depth of our code, and where the time goes.

    make flow, or python scripts/flow.py [--embedder URL] [--docs FOLDER] [--json] [--names]

Starts the embedded process in this interpreter and makes one Retrieve (hybrid, with a filter), one Ask and one
IngestDocument, each after some others of its kind, so that nothing is counted which happens once in the life of a
process. Functions are those of the packages in `shared` and `services` with a name of their own; generated code,
libraries, the parser and the engine (processes of their own) are left out, and so is what runs without any call, as a
while without one shows.

The share of time is that of samples of all threads, taken over further calls without the tracer: for each sample the
innermost file of ours on the stack of a thread that works for the call. A file that waits for another process, such as
the engine or the parser, has that time as well; one that waits for a thread has not.
"""

import argparse
import contextlib
import io
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import grpc

import groundwire
from groundwire.api.answer.v1 import answer_service_pb2, answer_service_pb2_grpc
from groundwire.api.common.v1 import retrieval_options_pb2
from groundwire.api.ingest.v1 import (
    collection_service_pb2,
    collection_service_pb2_grpc,
    ingest_service_pb2,
    ingest_service_pb2_grpc,
)
from groundwire.api.retrieve.v1 import retrieve_service_pb2, retrieve_service_pb2_grpc
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.standalone.process import run
from groundwire.standalone.settings import ServiceName, load_settings

DOCS = Path(__file__).resolve().parents[1] / "docs"
OURS = tuple(path + os.sep for path in groundwire.__path__)
COLLECTION = "flow"
AIMS = {"Retrieve": (30, 110), "Ask": (40, 150), "IngestDocument": (35, 110)}
"""Files and functions that a call should not exceed."""
_WARM = 5
_SAMPLED = 60
_SAMPLE_EVERY_S = 0.0005
# Longer than the pauses of most of what runs without a call.
_IDLE_S = 1.5
_SHOWN = 6


@dataclass
class Flow:
    """What one call ran through; `share_of_time` by file, of the time spent in code of ours or in what it called."""

    call: str
    files: int
    functions: int
    depth: int
    share_of_time: dict[str, float]
    names: dict[str, list[str]] = field(default_factory=dict)


class Tracer:
    """Notes the functions of ours that each thread enters while `is_on`."""

    def __init__(self) -> None:
        self.is_on = False
        self.is_done = False
        self.entered: set[tuple[str, CodeType]] = set()
        self.depth = 0

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Take an event of `sys.setprofile`."""
        if self.is_done:
            sys.setprofile(None)  # only a thread itself can be rid of its tracer
        if not self.is_on or event != "call" or not _is_ours(frame.f_code):
            return
        self.entered.add((threading.current_thread().name, frame.f_code))
        self.depth = max(self.depth, sum(1 for _ in _ours(frame)))

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Note what is entered inside the block, and nothing of before."""
        self.entered, self.depth, self.is_on = set(), 0, True
        try:
            yield
        finally:
            self.is_on = False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", default="sentence-transformers:all-MiniLM-L6-v2")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of Markdown files")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--names", action="store_true", help="print the functions as well")
    options = parser.parse_args()
    flows = measure(options.embedder, sorted(options.docs.rglob("*.md")))
    if options.json:
        print(json.dumps([asdict(flow) for flow in flows], indent=1))
    else:
        print(table(flows))
        for flow in flows if options.names else ():
            print(f"\n{flow.call}", *(f"{path}: {', '.join(names)}" for path, names in flow.names.items()), sep="\n")
    return 0


def table(flows: list[Flow]) -> str:
    lines = ["| call | files (aim) | functions (aim) | depth | where the time goes |", "|---|---|---|---|---|"]
    for flow in flows:
        files, functions = AIMS[flow.call]
        shares = ", ".join(f"{path} {share:.0%}" for path, share in [*flow.share_of_time.items()][:_SHOWN])
        lines.append(
            f"| {flow.call} | {flow.files} ({files}) | {flow.functions} ({functions}) | {flow.depth} | {shares} |"
        )
    return "\n".join(lines)


def measure(embedder: str, documents: list[Path]) -> list[Flow]:
    """Run a server in this thread, which has to be the main one, and return what each call of a client runs through."""
    tracer, flows, failures = Tracer(), list[Flow](), list[BaseException]()
    listening, log = _Listening(), io.StringIO()

    def call() -> None:
        sys.setprofile(None)  # the client is no part of what is counted
        try:
            if address := listening.wait():
                with grpc.insecure_channel(address) as channel:
                    flows.extend(_measured(tracer, _Calls(channel, documents)))
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            failures.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # the server stops as it does for an operator

    threading.setprofile(tracer)  # before any thread is started
    client = threading.Thread(target=call, daemon=True)
    client.start()
    with (
        tempfile.TemporaryDirectory(prefix="groundwire-flow-") as folder,
        contextlib.redirect_stdout(listening),
        contextlib.redirect_stderr(log),  # the server logs every call
    ):
        settings = load_settings(listen="127.0.0.1:0", data=Path(folder), embedder=embedder)
        sys.setprofile(tracer)
        try:
            run(ServiceName.ALL, settings)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            listening.end()
    client.join()
    if failures:
        sys.stderr.write(log.getvalue())
        raise failures[0]
    return flows


class _Listening(io.StringIO):
    """Takes the line that says where the server listens."""

    def __init__(self) -> None:
        super().__init__()
        self._is_said = threading.Event()
        self._address = ""

    def write(self, text: str) -> int:
        if text.startswith("listening on "):
            self._address = text.removeprefix("listening on ").strip()
            self._is_said.set()
        return len(text)

    def end(self) -> None:
        self._is_said.set()

    def wait(self) -> str:
        """Return the address, empty when the server did not start."""
        self._is_said.wait()
        return self._address


class _Calls:
    """The calls that are counted; each one asks or says something that none before it did."""

    def __init__(self, channel: grpc.Channel, documents: list[Path]) -> None:
        self._retrieve = retrieve_service_pb2_grpc.RetrieveServiceStub(channel)
        self._answer = answer_service_pb2_grpc.AnswerServiceStub(channel)
        self._ingest = ingest_service_pb2_grpc.IngestServiceStub(channel)
        self._serial = 0
        collections = collection_service_pb2_grpc.CollectionServiceStub(channel)
        collections.CreateCollection(collection_service_pb2.CreateCollectionRequest(collection=COLLECTION))
        for path in documents:
            self._ingest_one(path.name, path.read_bytes())

    def make(self, name: str) -> None:
        self._serial += 1
        number, question = self._serial, f"How does a search filter documents number {self._serial}?"
        if name == "Retrieve":
            where = to_filter_message(parse_filter({"format": "markdown"}))
            options = retrieval_options_pb2.RetrievalOptions(filter=where)
            request = retrieve_service_pb2.RetrieveRequest(collection=COLLECTION, query=question, options=options)
            self._retrieve.Retrieve(request)
        elif name == "Ask":
            self._answer.Ask(answer_service_pb2.AskRequest(collection=COLLECTION, question=question))
        else:
            text = f"# Page {number}\n\nIt has a paragraph.\n\n## Below\n\nAnd a section with number {number}.\n"
            self._ingest_one(f"page-{number}.md", text.encode())

    def _ingest_one(self, name: str, content: bytes) -> None:
        self._ingest.IngestDocument(
            ingest_service_pb2.IngestDocumentRequest(collection=COLLECTION, source_uri=name, content=content)
        )


def _measured(tracer: Tracer, calls: _Calls) -> list[Flow]:
    with tracer.recording():
        time.sleep(_IDLE_S)
    without_calls, flows = tracer.entered, []
    for name in AIMS:
        for _ in range(_WARM):
            calls.make(name)
        with tracer.recording():
            calls.make(name)
        # What has no name, such as a lambda, counts as part of the function around it.
        entered = {code for _, code in tracer.entered - without_calls if not code.co_name.startswith("<")}
        names: dict[str, list[str]] = {}
        for path, function in sorted((_shown(code), code.co_qualname) for code in entered):
            names.setdefault(path, []).append(function)
        flows.append(Flow(name, len(names), len(entered), tracer.depth, {}, names))
    tracer.is_done = True
    with _samples() as idle:
        time.sleep(_IDLE_S)
    for flow in flows:
        with _samples() as seen:
            for _ in range(_SAMPLED):
                calls.make(flow.call)
        by_file = Counter[str]()
        for stack, count in seen.items():
            if stack not in idle:
                by_file[_shown(stack[0])] += count
        total = by_file.total() or 1
        flow.share_of_time = {path: count / total for path, count in by_file.most_common()}
    return flows


@contextlib.contextmanager
def _samples() -> Iterator[Counter[tuple[CodeType, ...]]]:
    """Count the stacks of ours, innermost first, that threads are seen with during the block."""
    is_over, seen = threading.Event(), Counter[tuple[CodeType, ...]]()

    def sample() -> None:
        sys.setprofile(None)
        while not is_over.wait(_SAMPLE_EVERY_S):
            for frame in sys._current_frames().values():  # noqa: SLF001 - the only way to see other threads
                is_waiting = frame.f_code.co_filename == threading.__file__
                if not is_waiting and (stack := tuple(each.f_code for each in _ours(frame))):
                    seen[stack] += 1

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield seen
    finally:
        is_over.set()
        sampler.join()


def _ours(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of ours on a stack, innermost first."""
    while frame is not None:
        if _is_ours(frame.f_code):
            yield frame
        frame = frame.f_back


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(OURS) and "/groundwire/api/" not in code.co_filename


def _shown(code: CodeType) -> str:
    return code.co_filename.rpartition("/groundwire/")[2]


if __name__ == "__main__":
    sys.exit(main())
