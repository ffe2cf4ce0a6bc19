"""`groundwire bench load` measures what users would feel, and says which limits are exceeded."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pool, json_format, message_factory

from groundwire.cli.__main__ import _run
from groundwire.client import GroundwireClient
from groundwire.client.collection import AsyncCollection
from groundwire.kernel.errors import DeadlineError
from tests.conformance.processes import freeze
from tests.e2e.server import ServerProcess, groundwire

COLLECTION = "loaded"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("load") / "data.log"


@pytest.fixture(scope="module")
def server(log: Path) -> Iterator[ServerProcess]:
    running = ServerProcess(log.with_suffix(""))
    with GroundwireClient(running.address) as client:
        client.collection(COLLECTION).create()
        client.collection(COLLECTION).ingest_text("The moon causes the tides of the sea.", source="tides.txt")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("queries") / "queries.txt"
    file.write_text("What causes the tides?\n\nWhat does the moon do?\n", encoding="utf-8")
    return str(file)


def measured(server: ServerProcess, queries: str, *options: str) -> tuple[int, dict[str, Any]]:
    arguments = ("bench", "load", "-c", COLLECTION, "--queries", queries, "--json", *options)
    done = groundwire(*arguments, address=server.address)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_each_kind_is_called_as_often_as_the_mix_says_and_leaves_nothing(
    server: ServerProcess, queries: str, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    options = ("--rate", "30", "--duration", "3", "--mix", "search=4,ask=1,ingest=1", "--html", str(page))
    code, report = measured(server, queries, *options)
    assert (code, report["breaches"]) == (0, [])
    figures = report["figures"]
    calls = {kind: own["calls"] for kind, own in figures.items()}
    # 90 on average; these are what the seed gives, whatever the server does.
    assert sum(calls.values()) == pytest.approx(90, abs=30)
    assert calls["search"] > calls["ask"] + calls["ingest"]
    assert min(calls.values()) > 3
    assert {kind: own["failed"] for kind, own in figures.items()} == {"search": 0, "ask": 0, "ingest": 0}
    for own in figures.values():
        assert 0 < own["p50_ms"] <= own["p90_ms"] <= own["p99_ms"] <= own["max_ms"]
    with GroundwireClient(server.address) as client:
        assert [document.source for document in client.collection(COLLECTION).documents()] == ["tides.txt"]
    text = page.read_text(encoding="utf-8")
    parser = HTMLParser()
    parser.feed(text)
    assert text.count("<polyline") == 2 * len(figures)
    assert "http" not in text


def test_a_document_that_is_stored_although_its_call_failed_is_deleted_too(
    server: ServerProcess, queries: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Any = AsyncCollection.ingest_text

    async def lose_response(self: AsyncCollection, text: str, **fields: Any) -> None:
        await store(self, text, **fields)
        raise DeadlineError("the deadline of the call has passed")

    monkeypatch.setattr(AsyncCollection, "ingest_text", lose_response)
    options = ("--rate", "10", "--duration", "1", "--mix", "ingest=1", "--address", server.address)
    assert _run(["bench", "load", "-c", COLLECTION, "--queries", queries, *options]) == 0
    with GroundwireClient(server.address) as client:
        assert [document.source for document in client.collection(COLLECTION).documents()] == ["tides.txt"]


def test_a_stall_counts_for_everybody_who_would_have_met_it(server: ServerProcess, queries: str, log: Path) -> None:
    def calls() -> int:
        return log.read_text(encoding="utf-8").count("RetrieveService/Retrieve")

    def stall() -> None:
        # Once the measurement has begun, however long the command takes to start.
        while calls() < before + 10:
            time.sleep(0.02)
        freeze(server.process.pid)
        time.sleep(1.5)
        os.kill(server.process.pid, signal.SIGCONT)

    before = calls()
    stalling = threading.Thread(target=stall)
    stalling.start()
    _, report = measured(server, queries, "--rate", "40", "--duration", "4", "--mix", "search=1")
    stalling.join()
    figures = report["figures"]["search"]
    assert figures["max_ms"] > 1000
    # Of someone who asks after the answer only, one call in hundreds would have been slow.
    assert figures["p90_ms"] > 300


def test_a_limit_that_is_exceeded_is_named_and_fails(server: ServerProcess, queries: str, tmp_path: Path) -> None:
    slo = tmp_path / "slo.yaml"
    slo.write_text("search: {p99_ms: 0.001, failed_share: 0}\nask: {max_ms: 60000}\n", encoding="utf-8")
    options = ("--rate", "10", "--duration", "1", "--mix", "search=1", "--slo", str(slo))
    code, report = measured(server, queries, *options)
    assert code == 1
    assert [breach.partition(":")[0] for breach in report["breaches"]] == ["search p99_ms", "ask max_ms"]
    arguments = ("bench", "load", "-c", COLLECTION, "--queries", queries, *options)
    shown = groundwire(*arguments, address=server.address).stdout.splitlines()
    assert [line.partition(":")[0] for line in shown[-2:]] == ["breached search p99_ms", "breached ask max_ms"]
    slo.write_text("search: {p99_ms: 60000, failed_share: 0}\n", encoding="utf-8")
    assert measured(server, queries, *options)[0] == 0


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--mix", "search=0", "mix"),
        ("--mix", "write=1", "mix"),
        ("--mix", "search=" + "9" * 5000, "mix"),
        ("--slo", "search: {p98_ms: 1}", "slo"),
        ("--slo", "[", "slo"),
        ("--slo", "search: {p99_ms: fast}", "slo"),
        ("--slo", "search: {p99_ms: 2027-13-01}", "slo"),
    ],
)
def test_what_cannot_be_measured_is_refused(queries: str, tmp_path: Path, option: str, value: str, reason: str) -> None:
    if option == "--slo":
        (tmp_path / "slo.yaml").write_text(value, encoding="utf-8")
        value = str(tmp_path / "slo.yaml")
    done = groundwire("bench", "load", "-c", COLLECTION, "--queries", queries, option, value, address="127.0.0.1:1")
    assert (done.returncode, done.stderr.startswith(f"error INVALID_FIELD: {reason}: ")) == (2, True), done.stderr


@pytest.mark.parametrize("option", ["--queries", "--slo"])
def test_a_file_that_is_no_text_is_named(queries: str, tmp_path: Path, option: str) -> None:
    file = tmp_path / "latin"
    file.write_bytes(b"caf\xe9\n")
    arguments = ("bench", "load", "-c", COLLECTION, "--queries", queries, option, str(file))
    done = groundwire(*arguments, address="127.0.0.1:1")
    assert (done.returncode, done.stderr) == (2, f"error INVALID_FIELD: {file}: is not UTF-8\n")


def test_the_requests_for_other_tools_are_those_of_the_contract() -> None:
    folder = Path(__file__).resolve().parents[2] / "benchmarks" / "load"
    requests = json.loads((folder / "requests.json").read_text("utf-8"))
    ghz = json.loads((folder / "search.ghz.json").read_text("utf-8"))
    assert requests[ghz["call"]] == ghz["data"]
    assert len(requests) == 3
    for name, body in requests.items():
        service, _, method = name.partition("/")
        described = descriptor_pool.Default().FindServiceByName(service).methods_by_name[method]
        json_format.ParseDict(body, message_factory.GetMessageClass(described.input_type)())
