"""The mix of `groundwire bench load` for Locust, another client with another clock.

It needs `pip install locust` beside groundwire:

    ADDRESS=127.0.0.1:50051 locust -f benchmarks/load/mix_locust.py --headless -u 100 -r 20 -t 60s --only-summary

A hundred users who each call every five seconds make twenty calls a second, unless an answer takes longer than that.
They arrive one after the other, so that their calls are spread over these five seconds.
The collection `loaded` has to be there, as for k6 and ghz.
"""

import json
import os
import time
from pathlib import Path
from typing import Any, ClassVar

import grpc
import grpc.experimental.gevent
from locust import User, constant_throughput  # type: ignore[import-not-found,unused-ignore]

from groundwire.api.answer.v1 import answer_service_pb2, answer_service_pb2_grpc
from groundwire.api.ingest.v1 import ingest_service_pb2, ingest_service_pb2_grpc
from groundwire.api.retrieve.v1 import retrieve_service_pb2, retrieve_service_pb2_grpc

grpc.experimental.gevent.init_gevent()

_REQUESTS = json.loads(Path(__file__).with_name("requests.json").read_text(encoding="utf-8"))
_CALLS = {name.rpartition("/")[2]: fields for name, fields in _REQUESTS.items()}
_CHANNEL = grpc.insecure_channel(os.environ.get("ADDRESS", "127.0.0.1:50051"))
_RETRIEVE = retrieve_service_pb2_grpc.RetrieveServiceStub(_CHANNEL)
_ANSWER = answer_service_pb2_grpc.AnswerServiceStub(_CHANNEL)
_INGEST = ingest_service_pb2_grpc.IngestServiceStub(_CHANNEL)


def search(user: Any) -> None:
    _call(user, "Retrieve", _RETRIEVE.Retrieve, retrieve_service_pb2.RetrieveRequest(**_CALLS["Retrieve"]))


def ask(user: Any) -> None:
    _call(user, "Ask", _ANSWER.Ask, answer_service_pb2.AskRequest(**_CALLS["Ask"]))


def ingest(user: Any) -> None:
    fields, number = dict(_CALLS["IngestDocument"]), time.time_ns()
    fields |= {"source_uri": f"load/{number}.txt", "text": f"{number}: {fields['text']}"}
    _call(user, "IngestDocument", _INGEST.IngestDocument, ingest_service_pb2.IngestDocumentRequest(**fields))


def _call(user: Any, name: str, method: Any, request: Any) -> None:
    began, failure = time.perf_counter(), None
    try:
        method(request, timeout=30)
    except grpc.RpcError as error:
        failure = error
    elapsed_ms = (time.perf_counter() - began) * 1000
    user.environment.events.request.fire(
        request_type="grpc", name=name, response_time=elapsed_ms, response_length=0, exception=failure
    )


class Caller(User):  # type: ignore[misc,unused-ignore]
    """Calls once in five seconds."""

    wait_time = constant_throughput(0.2)
    tasks: ClassVar = {search: 8, ask: 1, ingest: 1}
