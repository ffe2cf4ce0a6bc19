"""The adapter of Qdrant servers against the specifications, over gRPC.

The server is the client library's local mode behind the real messages; `GROUNDWIRE_TEST_VECTORS` runs the same
specifications against a real one (test_given_store.py).
"""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("qdrant_client")

import grpc
from qdrant_client import grpc as pb
from qdrant_client import models

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CallCancelledError, DeadlineError, StoreMismatchError, StoreUnavailableError
from groundwire.kernel.filters import BUILT_IN_FIELDS, Comparator, Comparison, Filter, Payload
from groundwire.kernel.vector_store import VectorStore
from groundwire.vectorstores.factory import open_vector_store
from groundwire.vectorstores.stored_fields import TERMS_FIELD
from tests.conformance.engine_limits import is_unsupported_by_qdrant_server
from tests.conformance.qdrant_loopback import Backend, qdrant_loopback
from tests.conformance.server_vector_store import ServerVectorStoreContract
from tests.conformance.vector_store import DIMENSIONS, NAME, VectorStoreContract, batch, found, unit_vectors
from tests.tcp_proxy import tcp_proxy

# The local mode says that payload indexes do nothing there, and that it is slow above 20,000 points.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Backend]]:
    with qdrant_loopback() as running:
        yield running


@pytest.fixture
def backend(server: tuple[str, Backend]) -> Iterator[Backend]:
    backend = server[1]
    backend.requests.clear()
    backend.headers.clear()
    yield backend
    for each in backend.local.get_collections().collections:
        backend.local.delete_collection(each.name)


@pytest.fixture(scope="module")
def engine(server: tuple[str, Backend]) -> Iterator[VectorStore]:
    store = open_vector_store(server[0], data_dir=Path())
    yield store
    store.close()


@pytest.fixture
def opened(server: tuple[str, Backend]) -> Iterator[Callable[..., VectorStore]]:
    """Open more stores on the server; they are closed at the end."""
    stores: list[VectorStore] = []

    def open_one(query: str = "", api_key: str | None = None) -> VectorStore:
        stores.append(open_vector_store(server[0] + query, data_dir=Path(), api_key=api_key))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def open_again(opened: Callable[..., VectorStore]) -> Callable[[], VectorStore]:
    return opened


class TestQdrantServerStore(VectorStoreContract, ServerVectorStoreContract):
    def is_unsupported(self, clause: Filter) -> bool:
        return is_unsupported_by_qdrant_server(clause)


def test_every_filter_field_has_a_payload_index_and_point_ids_are_the_numbers(
    opened: Callable[..., VectorStore], backend: Backend
) -> None:
    store = opened()
    store.create_collection(NAME, DIMENSIONS, Budget())
    payload: Payload = {"chapter": "One", "section": "A", "chunk_number": 42, "chunk_id": "doc#42", "mine": 5}
    store.upsert(NAME, batch([42], unit_vectors(1), [payload]), Budget())
    assert set(backend.indexes[NAME]) == {*BUILT_IN_FIELDS, TERMS_FIELD}
    keyword, integer = pb.PayloadSchemaType.Keyword, pb.PayloadSchemaType.Integer
    kinds = {field: backend.indexes[NAME][field] for field in ("chapter", "section", "chunk_number", "page_numbers")}
    assert kinds == {"chapter": keyword, "section": keyword, "chunk_number": integer, "page_numbers": integer}
    assert all(request.wait for request in backend.asked(pb.CreateFieldIndexCollection))
    point = backend.local.retrieve(NAME, [42])[0]
    held = point.payload or {}
    assert point.id == held["chunk_number"] == 42
    assert (held["chapter"], held["section"]) == ("One", "A")


@pytest.mark.requirement("S1-27")
@pytest.mark.requirement("T08")
def test_a_collection_is_made_for_cosine_with_what_the_url_says(
    opened: Callable[..., VectorStore], backend: Backend
) -> None:
    query = "?shard_number=3&replication_factor=2&write_consistency_factor=2&quantization=scalar&on_disk=true"
    store = opened(f"{query}&on_disk_payload=true&hnsw_m=24&hnsw_ef_construct=300&hnsw_ef=400&consistency=majority")
    store.create_collection(NAME, DIMENSIONS, Budget())
    made = backend.asked(pb.CreateCollection)[-1]
    assert (made.shard_number, made.replication_factor, made.write_consistency_factor) == (3, 2, 2)
    vectors = made.vectors_config.params
    assert (vectors.distance, vectors.size, vectors.on_disk) == (pb.Distance.Cosine, DIMENSIONS, True)
    assert made.quantization_config.scalar.type == pb.QuantizationType.Int8
    assert (made.on_disk_payload, made.hnsw_config.m, made.hnsw_config.ef_construct) == (True, 24, 300)
    store.upsert(NAME, batch([1], unit_vectors(1)), Budget())
    store.search(NAME, unit_vectors(1)[0], 1, Budget())
    store.search(NAME, unit_vectors(1)[0], 1, Budget(), within=[1])
    approximate, exact = backend.asked(pb.QueryPoints)
    assert (approximate.params.hnsw_ef, approximate.params.exact) == (400, False)
    assert (approximate.params.quantization.rescore, approximate.params.quantization.ignore) == (True, False)
    assert (exact.params.exact, exact.params.quantization.ignore) == (True, True)
    assert approximate.read_consistency.type == pb.ReadConsistencyType.Majority


@pytest.mark.parametrize("kind", ["scalar", "binary", "product"])
def test_every_quantization_is_passed_on(kind: str, opened: Callable[..., VectorStore], backend: Backend) -> None:
    opened(f"?quantization={kind}").create_collection(NAME, DIMENSIONS, Budget())
    made = backend.asked(pb.CreateCollection)[-1]
    assert made.quantization_config.WhichOneof("quantization") == kind


def test_writes_wait_and_the_key_goes_with_every_call(opened: Callable[..., VectorStore], backend: Backend) -> None:
    store = opened("", "a-secret")
    store.create_collection(NAME, DIMENSIONS, Budget())
    store.upsert(NAME, batch(range(1, 601), unit_vectors(600)), Budget())
    store.delete(NAME, [1, 2], Budget())
    assert [len(request.points) for request in backend.asked(pb.UpsertPoints)] == [256, 256, 88]
    assert all(request.wait for request in (*backend.asked(pb.UpsertPoints), *backend.asked(pb.DeletePoints)))
    assert {headers["api-key"] for headers in backend.headers} == {"a-secret"}


def test_a_passing_failure_is_repeated_and_a_lasting_one_is_unavailable(
    opened: Callable[..., VectorStore], backend: Backend
) -> None:
    store = opened()
    store.create_collection(NAME, DIMENSIONS, Budget())
    store.upsert(NAME, batch([1], unit_vectors(1)), Budget())
    code = grpc.StatusCode.UNAVAILABLE
    backend.failures[:] = [code, code]
    assert store.count(NAME, Budget()) == 1
    backend.failures[:] = [code, code, code]
    with pytest.raises(StoreUnavailableError, match="told to fail") as failed:
        store.count(NAME, Budget())
    assert failed.value.metadata == {"engine": "qdrant"}
    assert "more lines" not in failed.value.message
    assert backend.failures == []


def test_a_server_that_hangs_costs_a_call_no_more_than_its_time(
    opened: Callable[..., VectorStore], backend: Backend
) -> None:
    store = opened("?timeout_s=6")
    store.create_collection(NAME, DIMENSIONS, Budget())
    store.upsert(NAME, batch([1], unit_vectors(1)), Budget())
    store.check_responding()
    calls: list[tuple[float, Callable[[], object]]] = [
        (1.0, lambda: store.count(NAME, Budget(1.0))),
        (1.0, lambda: store.search(NAME, unit_vectors(1)[0], 1, Budget(1.0))),
        (1.0, lambda: store.upsert(NAME, batch([1], unit_vectors(1)), Budget(1.0))),
        (1.0, lambda: store.delete(NAME, [1], Budget(1.0))),
        (1.0, lambda: store.create_collection("gw-other", DIMENSIONS, Budget(1.0))),
        (2.0, store.check_responding),
    ]
    with backend.lock:
        for limit_s, call in calls:
            began_at = time.monotonic()
            with pytest.raises((DeadlineError, StoreUnavailableError)):
                call()
            assert limit_s - 0.1 < time.monotonic() - began_at < limit_s + 4.0
        cancelled = Budget()
        threading.Timer(0.5, cancelled.cancel).start()
        began_at = time.monotonic()
        with pytest.raises(CallCancelledError):
            store.upsert(NAME, batch([2], unit_vectors(1)), cancelled)
        assert time.monotonic() - began_at < 5.0
    store.check_responding()
    assert store.count(NAME, Budget()) <= 2


def test_a_server_that_was_away_is_found_again_within_seconds(server: tuple[str, Backend]) -> None:
    scheme, _, port = server[0].rpartition(":")
    with tcp_proxy(int(port)) as link:
        store = open_vector_store(f"{scheme}:{link.port}", data_dir=Path())
        with link.cut():
            # So long that the library alone would wait four seconds before it connects again, and ever longer later.
            ends_at = time.monotonic() + 6
            while time.monotonic() < ends_at:
                with pytest.raises(StoreUnavailableError):
                    store.check_responding()
                time.sleep(0.2)
        back_at = time.monotonic()
        while True:
            try:
                store.check_responding()
                break
            except StoreUnavailableError:
                assert time.monotonic() - back_at < 2
                time.sleep(0.05)
        store.close()


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.DEADLINE_EXCEEDED])
def test_what_a_repetition_does_not_heal_is_not_repeated(
    code: grpc.StatusCode, opened: Callable[..., VectorStore], backend: Backend
) -> None:
    store = opened()
    backend.requests.clear()
    backend.failures[:] = [code]
    with pytest.raises(StoreUnavailableError):
        store.collections(Budget())
    assert len(backend.requests) == 1


def test_a_wrong_key_is_an_error_at_start(opened: Callable[..., VectorStore], backend: Backend) -> None:
    backend.failures[:] = [grpc.StatusCode.UNAUTHENTICATED]
    with pytest.raises(StoreUnavailableError, match="told to fail"):
        opened("", "wrong")


def test_indexes_that_an_interrupted_creation_left_out_are_added(
    opened: Callable[..., VectorStore], backend: Backend
) -> None:
    store = opened()
    store.create_collection(NAME, DIMENSIONS, Budget())
    del backend.indexes[NAME]["chapter"], backend.indexes[NAME][TERMS_FIELD]
    backend.requests.clear()
    store.create_collection(NAME, DIMENSIONS, Budget())
    assert {request.field_name for request in backend.asked(pb.CreateFieldIndexCollection)} == {"chapter", TERMS_FIELD}


def test_two_processes_may_make_the_same_collection_at_once(
    opened: Callable[..., VectorStore], backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = opened(), opened()
    look = second._info  # type: ignore[attr-defined]  # the adapter's own look before it makes one
    answers: list[Any] = [None]
    monkeypatch.setattr(second, "_info", lambda name, budget: answers.pop() if answers else look(name, budget))
    first.create_collection(NAME, DIMENSIONS, Budget())
    second.create_collection(NAME, DIMENSIONS, Budget())
    assert len(backend.asked(pb.CreateCollection)) == 2
    assert second.count(NAME, Budget()) == 0


def test_a_collection_of_somebody_else_is_refused_and_not_listed(
    opened: Callable[..., VectorStore], backend: Backend
) -> None:
    cosine = models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE)
    dot = models.VectorParams(size=DIMENSIONS, distance=models.Distance.DOT)
    backend.local.create_collection(NAME, vectors_config=dot)
    backend.local.create_collection("theirs", vectors_config=cosine)
    store = opened()
    assert store.collections(Budget()) == [NAME]
    with pytest.raises(StoreMismatchError) as refused:
        store.create_collection(NAME, DIMENSIONS, Budget())
    assert refused.value.metadata["setting"] == "metric"


def test_a_prefix_keeps_installations_apart(opened: Callable[..., VectorStore], backend: Backend) -> None:
    one, two = opened("?prefix=one-"), opened("?prefix=two-")
    one.create_collection(NAME, DIMENSIONS, Budget())
    two.create_collection(NAME, 4, Budget())
    one.upsert(NAME, batch([1], unit_vectors(1)), Budget())
    assert (one.collections(Budget()), two.collections(Budget())) == ([NAME], [NAME])
    two.drop_collection(NAME, Budget())
    assert found(one, unit_vectors(1)[0], where=Comparison("level", Comparator.EQ, 1)) == [1]
