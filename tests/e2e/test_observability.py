"""What operators see of a running server: metrics, traces and logs. None of them tells what is in it."""

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest
import yaml
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from prometheus_client.parser import text_string_to_metric_families

from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.answer.v1 import answer_service_pb2_grpc as answer_grpc
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as retrieve_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2_grpc as retrieve_grpc
from tests.e2e.server import ServerProcess, groundwire

ROOT = Path(__file__).resolve().parents[2]
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
CANARIES = ("zymurgical", "quokkaesque", "kumquatlike", "velocipedal", "ostrobogulous")
"""Words of a document, its source and its metadata, of a question, and of a collection."""
T = TypeVar("T")


def eventually(read: Callable[[], T | None]) -> T:
    """Return what `read` returns once it is not None: lines and spans come behind the calls."""
    ends_at = time.monotonic() + 60
    while (found := read()) is None:
        assert time.monotonic() < ends_at
        time.sleep(0.05)
    return found


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Takes spans as a collector does; `address` is where."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.raw = b""
        self._server = grpc.server(ThreadPoolExecutor(2))
        add: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server  # has no types
        add(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the contract's name
        self.raw += request.SerializeToString()
        for of_resource in request.resource_spans:
            for of_scope in of_resource.scope_spans:
                self.spans += of_scope.spans
        return trace_service_pb2.ExportTraceServiceResponse()

    def stop(self) -> None:
        self._server.stop(0).wait()


class Watched:
    """A server that is watched in every way, with one document in one collection, of which one question was asked."""

    def __init__(self, folder: Path) -> None:
        self.collector = Collector()
        self.log = folder / "data.log"
        self.server = ServerProcess(
            folder / "data",
            ("--metrics", "127.0.0.1:0"),  # with the default model, which has a queue and batches
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{self.collector.address}",
            OTEL_BSP_SCHEDULE_DELAY="100",
            GROUNDWIRE_LOG_FORMAT="json",
        )
        self.metrics_address = eventually(lambda: next((e["address"] for e in self.lines("metrics")), None))
        source = folder / f"{CANARIES[1]}.txt"
        source.write_text(f"The {CANARIES[0]} machine has seven wheels and a lever.\n", encoding="utf-8")
        collection = f"c-{CANARIES[4]}"
        arguments = ("ingest", str(source), "-c", collection, "--set", f"project={CANARIES[2]}")
        done = groundwire(*arguments, address=self.server.address)
        assert done.returncode == 0, done.stderr
        self.channel = grpc.insecure_channel(self.server.address)
        self.question = f"How many wheels has the {CANARIES[0]} machine? {CANARIES[3]}"
        ask = answer_pb.AskRequest(collection=collection, question=self.question)
        answers = answer_grpc.AnswerServiceStub(self.channel)
        answers.Ask(ask, metadata=(("traceparent", TRACEPARENT), ("x-request-id", "asked-once")), timeout=60)
        searches = retrieve_grpc.RetrieveServiceStub(self.channel)
        search = retrieve_pb.RetrieveRequest(collection=collection, query=self.question)
        for _ in range(2):
            searches.Retrieve(search, timeout=60)
        with pytest.raises(grpc.RpcError):
            searches.Retrieve(retrieve_pb.RetrieveRequest(collection="no-such", query=self.question), timeout=60)
        for name in (f"/{CANARIES[0]}.Service/Call", "/groundwire.api.answer.v1.AnswerService/None"):
            unknown: Any = self.channel.unary_unary(name)
            with pytest.raises(grpc.RpcError):
                unknown(b"", timeout=60)

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Return the complete lines of the log about something."""
        whole = self.log.read_text(encoding="utf-8").rpartition("\n")[0]
        return [line for line in map(json.loads, whole.splitlines()) if line["event"] == event]

    def scrape(self) -> str:
        """Return what Prometheus reads."""
        with urllib.request.urlopen(f"http://{self.metrics_address}/metrics", timeout=60) as response:
            text: str = response.read().decode()
        return text

    def value(self, name: str, **labels: str) -> float | None:
        """Return the sample that has these labels among its own."""
        for family in text_string_to_metric_families(self.scrape()):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        return None

    def stop(self) -> None:
        self.channel.close()
        self.server.stop()
        self.collector.stop()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    server = Watched(tmp_path_factory.mktemp("watched"))
    yield server
    server.stop()


def exposed(text: str) -> set[str]:
    """Return the names of our metrics as pages and dashboards name them."""
    names = {
        family.name + ("_total" if family.type == "counter" else "") for family in text_string_to_metric_families(text)
    }
    return {name for name in names if name.startswith("groundwire_")}


def test_every_metric_is_documented_and_every_documented_one_is_there(watched: Watched) -> None:
    page = (ROOT / "docs/reference/observability.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(groundwire_\w+)`", page))
    assert exposed(watched.scrape()) == documented


def test_dashboard_and_alerts_name_only_metrics_and_labels_that_exist(watched: Watched) -> None:
    board = json.loads((ROOT / "deploy/observability/grafana-dashboard.json").read_text(encoding="utf-8"))
    rules = yaml.safe_load((ROOT / "deploy/observability/alerts.yaml").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    expressions += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    assert len(expressions) > 30
    samples: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(watched.scrape()):
        for sample in family.samples:
            samples.setdefault(sample.name, set()).update(sample.labels)
    named = {name for each in expressions for name in re.findall(r"\b(?:groundwire|process)_\w+", each)}
    assert named - set(samples) == set()
    # Nothing that is exposed stays unwatched.
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in named}
    assert exposed(watched.scrape()) - families == set()
    for expression in expressions:
        for name, own in re.findall(r"((?:groundwire|process)_\w+)\{([^}]*)\}", expression):
            labels = set(re.findall(r"(\w+)\s*[=!]~?", own))
            assert labels <= samples[name] | {"instance"}, expression


def test_the_runbook_says_what_to_do_about_every_alert() -> None:
    rules = yaml.safe_load((ROOT / "deploy/observability/alerts.yaml").read_text(encoding="utf-8"))
    alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    page = (ROOT / "docs/operating/runbook.md").read_text(encoding="utf-8")
    assert re.findall(r"^\*\*(\w+)\*\*", page, re.MULTILINE) == alerts


def test_calls_are_counted_by_method_and_code(watched: Watched) -> None:
    name = "groundwire_call_duration_seconds_count"
    eventually(lambda: watched.value(name, method="Retrieve", code="NOT_FOUND"))
    assert watched.value(name, method="Retrieve", code="OK") == 2
    assert watched.value(name, method="Ask", code="OK") == 1
    assert watched.value("groundwire_call_duration_seconds_bucket", method="Ask", code="OK", le="+Inf") == 1
    seconds = watched.value("groundwire_call_duration_seconds_sum", method="Ask", code="OK")
    assert seconds is not None
    assert 0.001 < seconds < 60


def test_steps_searches_and_caches_are_counted(watched: Watched) -> None:
    # The question was searched for, and the second of two equal searches was answered from memory.
    assert watched.value("groundwire_step_duration_seconds_count", step="answer.search") == 1
    assert watched.value("groundwire_step_duration_seconds_count", step="search.vectors") == 2
    assert watched.value("groundwire_step_duration_seconds_count", step="ingest.publish") == 1
    assert watched.value("groundwire_searches_total", outcome="results") == 3
    assert watched.value("groundwire_searches_total", outcome="failed") == 1
    assert watched.value("groundwire_cache_hits_total", cache="results") == 1
    vectors = watched.value("groundwire_cache_hits_total", cache="query_vectors")
    assert vectors is not None
    assert vectors >= 1
    assert watched.value("groundwire_drafts_total", outcome="begun") == 1
    assert watched.value("groundwire_service_ready", service="groundwire.api.answer.v1.AnswerService") == 1
    assert watched.value("groundwire_outbox_tasks") == 0
    batches = watched.value("groundwire_embedder_batch_texts_count")
    assert batches is not None
    assert batches == watched.value("groundwire_step_duration_seconds_count", step="model.embed")
    assert batches >= 2


def test_names_that_callers_make_up_add_no_series(watched: Watched) -> None:
    methods = {
        sample.labels["method"]
        for family in text_string_to_metric_families(watched.scrape())
        for sample in family.samples
        if "method" in sample.labels
    }
    assert {"Ask", "Retrieve"} <= methods
    assert methods & {"Call", "None"} == set()


def test_a_call_and_its_steps_are_in_the_trace_of_the_caller(watched: Watched) -> None:
    def found() -> Span | None:
        return next((span for span in watched.collector.spans if span.name.endswith("AnswerService/Ask")), None)

    ask = eventually(found)
    assert ask.trace_id.hex() == TRACE
    assert ask.parent_span_id.hex() == PARENT
    below = [span for span in watched.collector.spans if span.parent_span_id == ask.span_id]
    assert {"answer.search", "search.vectors", "search.words", "answer.verify"} <= {span.name for span in below}
    assert {span.trace_id.hex() for span in below} == {TRACE}
    codes = {each.key: each.value.string_value for each in ask.attributes}
    assert codes["rpc.response.status_code"] == "OK"
    assert codes["groundwire.request_id"] == "asked-once"


def test_the_line_of_a_call_says_who_called_what_and_of_which_trace(watched: Watched) -> None:
    def found() -> dict[str, Any] | None:
        return next((line for line in watched.lines("call") if line["request_id"] == "asked-once"), None)

    line = eventually(found)
    assert line["method"] == "/groundwire.api.answer.v1.AnswerService/Ask"
    assert (line["code"], line["tenant"], line["subject"]) == ("OK", "default", "")
    assert line["trace_id"] == TRACE
    assert 1 < line["ms"] < 60_000


def test_a_server_that_stops_sends_its_last_spans_and_says_how_its_loop_did(tmp_path: Path) -> None:
    collector = Collector()
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}",
        "OTEL_BSP_SCHEDULE_DELAY": "600000",
        "GROUNDWIRE_LOG_FORMAT": "json",
    }
    arguments = ("--embedder", "hashing:64", "--vectors", "memory:", "--metrics", "127.0.0.1:0")
    with ServerProcess(tmp_path / "data", arguments, **variables) as server:
        assert groundwire("collections", "list", address=server.address).returncode == 0
        assert collector.spans == []
    collector.stop()
    assert "ListCollections" in {span.name.rpartition("/")[2] for span in collector.spans}
    said = [json.loads(line) for line in (tmp_path / "data.log").read_text(encoding="utf-8").splitlines()]
    (last,) = [each for each in said if each["event"] == "stopped"]
    assert last["loop_lag_max_ms"] >= last["loop_lag_p99_ms"] >= 0
    # On loopback no credential is nothing to be warned of.
    assert [each["level"] for each in said if "no credential" in each["event"]] == ["info"]


def test_no_content_is_in_metrics_traces_or_logs(watched: Watched) -> None:
    eventually(lambda: [line for line in watched.lines("call") if line["code"] == "NOT_FOUND"] or None)
    eventually(lambda: [span for span in watched.collector.spans if span.name.endswith("Retrieve")] or None)
    places = {"metrics": watched.scrape(), "log": watched.log.read_text("utf-8")}
    places["spans"] = watched.collector.raw.decode("utf-8", "replace")
    assert "AnswerService/Ask" in places["spans"]
    assert "AnswerService/Ask" in places["log"]
    assert {(name, word) for name, text in places.items() for word in CANARIES if word in text} == set()


@pytest.mark.parametrize("address", ["9464", "nowhere.invalid:1"])
def test_metrics_of_another_form_are_refused_before_anything_is_loaded(tmp_path: Path, address: str) -> None:
    done = groundwire("serve", "--metrics", address, "--data", str(tmp_path / "data"), "--embedder", "nope:")
    assert done.returncode == 2
    assert done.stderr.startswith("error INVALID_FIELD: metrics: ")
    assert not (tmp_path / "data").exists()
