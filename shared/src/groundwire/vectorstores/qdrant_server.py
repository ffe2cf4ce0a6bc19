"""VectorStore on a Qdrant server or cluster, over gRPC; point ids are the numbers."""

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any, Final, TypeVar

import numpy as np

from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import CollectionNotFoundError, GroundwireError, MissingExtraError, StoreMismatchError
from groundwire.kernel.filters import BUILT_IN_FIELDS
from groundwire.vectorstores.points import EngineAdapter, as_ints, batches, best, check_same
from groundwire.vectorstores.qdrant_conditions import MIN_EF, Condition, ConditionCompiler
from groundwire.vectorstores.servers import (
    Parse,
    StoreAddress,
    name_prefix,
    one_of,
    own_names,
    repeated,
    truth,
    unavailable,
    whole_number,
)
from groundwire.vectorstores.stored_fields import TERMS_FIELD, TEXTS, Stored

_OVERSAMPLING: Final = 2.0

OPTIONS: Final[Mapping[str, Parse]] = {
    "prefix": name_prefix,
    "timeout_s": whole_number(1, 3600),
    "shard_number": whole_number(1, 1024),
    "replication_factor": whole_number(1, 64),
    "write_consistency_factor": whole_number(1, 64),
    "consistency": one_of("all", "majority", "quorum"),
    "quantization": one_of("none", "scalar", "binary", "product"),
    "on_disk": truth,
    "on_disk_payload": truth,
    "hnsw_m": whole_number(2, 128),
    "hnsw_ef_construct": whole_number(4, 4096),
    "hnsw_ef": whole_number(1, 65_536),
}
"""Options of the URL and what they may be; docs/reference/vector-stores.md describes each."""

_CHANNEL: Final[Mapping[str, int]] = {
    # By default the library may wait two minutes before it connects again to a server that is back.
    "grpc.initial_reconnect_backoff_ms": 200,
    "grpc.max_reconnect_backoff_ms": 1_000,
    "grpc.min_reconnect_backoff_ms": 2_000,
    # Data unacknowledged for this long ends the connection; TCP alone would retry at growing intervals.
    "grpc.keepalive_time_ms": 10_000,
    "grpc.keepalive_timeout_ms": 3_000,
    "grpc.http2.ping_timeout_ms": 3_000,
}


@dataclass(frozen=True, slots=True)
class QdrantAddress(StoreAddress):
    """A server at `qdrant://HOST:PORT?…`; `qdrants://` is the same with TLS."""

    default_port = 6334
    known_options = OPTIONS

    def open_client(self) -> Any:
        """Return the library's client; it connects at its first call, over gRPC, and to nothing else."""
        from qdrant_client import QdrantClient  # noqa: PLC0415 - only the engine asked for

        return QdrantClient(
            host=self.host,
            grpc_port=self.port,
            prefer_grpc=True,
            https=self.is_encrypted,
            timeout=self.timeout_s,
            grpc_options=dict(_CHANNEL),  # the library adds its own
            # As a header: given as a key, the library warns on every plain connection.
            headers={"api-key": self.api_key} if self.api_key else None,
            # It would ask for the version over REST, on a port that may be closed.
            check_compatibility=False,
            # Its client for REST makes no call, but reads the certificates, which takes longer than all the rest.
            verify=self.is_encrypted,
        )

    def collection_config(self, dimensions: int) -> dict[str, Any]:
        """Return the arguments of `create_collection` besides the name."""
        from qdrant_client import models  # noqa: PLC0415 - only the engine asked for

        given = self.options
        quantization: Any = None
        # The quantized vectors stay in memory: from the disk they would save nothing.
        match given.get("quantization"):
            case "scalar":
                scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
                quantization = models.ScalarQuantization(scalar=scalar)
            case "binary":
                quantization = models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
            case "product":
                product = models.ProductQuantizationConfig(compression=models.CompressionRatio.X16, always_ram=True)
                quantization = models.ProductQuantization(product=product)
        vectors = models.VectorParams(size=dimensions, distance=models.Distance.COSINE, on_disk=given.get("on_disk"))
        hnsw = models.HnswConfigDiff(m=given.get("hnsw_m"), ef_construct=given.get("hnsw_ef_construct"))
        passed_on = ("shard_number", "replication_factor", "write_consistency_factor", "on_disk_payload")
        return {
            "vectors_config": vectors,
            "hnsw_config": hnsw,
            "quantization_config": quantization,
            **{name: given[name] for name in passed_on if name in given},
        }

    def search_params(self, limit: int, *, is_exact: bool) -> Any:
        """Return how to search: with enough candidates, or every point with its own vector."""
        from qdrant_client import models  # noqa: PLC0415 - only the engine asked for

        quantization = None
        if self.options.get("quantization", "none") != "none":
            quantization = models.QuantizationSearchParams(ignore=is_exact, rescore=True, oversampling=_OVERSAMPLING)
        ef = max(int(self.options.get("hnsw_ef", MIN_EF)), limit)
        return models.SearchParams(hnsw_ef=ef, exact=is_exact, quantization=quantization)

    def read_consistency(self) -> Any:
        """Return how many replicas a read asks; None is one."""
        from qdrant_client import models  # noqa: PLC0415 - only the engine asked for

        consistency = self.options.get("consistency")
        return None if consistency is None else models.ReadConsistencyType(consistency)


_TRANSIENT = frozenset({"UNAVAILABLE", "ABORTED", "RESOURCE_EXHAUSTED"})


def is_transient(error: Exception) -> bool:
    """Tell whether a retry may succeed: the connection failed, or the server is overloaded."""
    return _code_name(error) in _TRANSIENT or type(error).__name__ == "ResourceExhaustedResponse"


def is_missing(error: Exception) -> bool:
    """Tell whether the server says that a collection does not exist."""
    return _code_name(error) == "NOT_FOUND" or (isinstance(error, ValueError) and "not found" in str(error))


def _code_name(error: Any) -> str:
    """Return the name of the gRPC code, read from the error because stores do not import the transport."""
    code = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


_METRIC = "Cosine"


def checked_dimensions_of(collection: str, info: Any) -> int:
    """Return the vector length of a collection if its metric is cosine and it has the one vector that we write.

    Raises:
        StoreMismatchError: it was made by something else.
    """
    vectors = info.config.params.vectors
    if isinstance(vectors, dict) or vectors is None:
        message = f"collection {collection} has named vectors, not a single one"
        raise StoreMismatchError(message, setting="vectors", expected="unnamed", got="named")
    check_same(collection, "metric", str(getattr(vectors.distance, "value", vectors.distance)), _METRIC)
    return int(vectors.size)


def missing_indexes(info: Any) -> dict[str, Any]:
    """Return the payload indexes that filters need and a collection lacks, by field.

    Servers in strict mode refuse filters on fields without one.
    """
    from qdrant_client import models  # noqa: PLC0415 - only the engine asked for

    text, integer = models.PayloadSchemaType.KEYWORD, models.PayloadSchemaType.INTEGER
    schemas = {field: text if kind in TEXTS else integer for field, kind in BUILT_IN_FIELDS.items()}
    schemas[TERMS_FIELD] = text
    return {field: schema for field, schema in schemas.items() if field not in (info.payload_schema or {})}


def vendor_filter(condition: Condition) -> Any:
    """Return the `models.Filter` of a condition tree made by `ConditionCompiler`."""
    from qdrant_client import models  # noqa: PLC0415 - only the engine asked for

    return models.Filter.model_validate(condition)


T = TypeVar("T")
_ENGINE = "qdrant"
_PAGE = 10_000
_CHECK_S = 2.0
# Requests at a time: more than there are calls, because some may have been abandoned.
_REQUESTS = 64


class QdrantServerVectorStore(EngineAdapter):
    """VectorStore over a server, which other processes may use as well.

    Raises:
        MissingExtraError: qdrant-client is not installed.
        StoreUnavailableError: the server does not answer, or refuses the key.
    """

    _batch = 256
    # Servers learned to match substrings late, so those go through the catalog.
    _compiled = ConditionCompiler(_ENGINE, matches_substrings=False)

    def __init__(self, address: QdrantAddress) -> None:
        if importlib.util.find_spec("qdrant_client") is None:
            raise MissingExtraError("qdrant needs the package qdrant-client: groundwire[qdrant]", extra="qdrant")
        self._address = address
        self._dimensions: dict[str, int] = {}
        self._client = address.open_client()
        # The library lets writes last as long as its own timeout, whatever they are given, and cancels nothing: what a
        # caller has left behind ends by that.
        self._requests = ThreadPoolExecutor(_REQUESTS, thread_name_prefix="qdrant")
        self._consistency = address.read_consistency()
        try:
            self.collections(Budget(address.timeout_s))
        except BaseException:
            self.close()
            raise

    def filters_by_index(self, _collection: str) -> bool:
        return True  # they are made with the collection

    def drop_collection(self, collection: str, budget: Budget) -> None:
        self._dimensions.pop(collection, None)
        if self._info(collection, budget) is not None:
            self._call(collection, self._client.delete_collection, budget)

    def collections(self, budget: Budget) -> list[str]:
        """Return the names of the collections that this system has made there, sorted."""
        found = self._guarded("", lambda _: self._client.get_collections(), budget).collections
        return own_names(self._address.prefix, (each.name for each in found))

    def delete(self, collection: str, numbers: Sequence[int], budget: Budget) -> None:
        self._dimensions_of(collection, budget)
        for batch in batches(numbers, _PAGE):
            self._call(collection, partial(self._client.delete, points_selector=as_ints(batch), wait=True), budget)

    def numbers(self, collection: str, budget: Budget) -> Iterator[int]:
        """Iterate over the numbers of all points, ascending; reads a page at a time."""
        self._dimensions_of(collection, budget)  # now, not when the first number is fetched
        scroll = partial(
            self._client.scroll, limit=_PAGE, with_payload=False, with_vectors=False, consistency=self._consistency
        )

        def pages() -> Iterator[int]:
            offset: int | None = 1
            while offset is not None:
                records, _ = self._call(collection, partial(scroll, offset=offset), budget)
                yield from (int(record.id) for record in records)
                # From the last number, not by the server's cursor: writes meanwhile would shift that.
                offset = int(records[-1].id) + 1 if records else None

        return pages()

    def count(self, collection: str, budget: Budget) -> int:
        return int(self._call(collection, partial(self._client.count, exact=True), budget).count)

    def check_responding(self) -> None:
        """Ask the server for its collections' names; see the port."""
        self.collections(Budget(_CHECK_S))

    def close(self) -> None:
        self._dimensions.clear()
        self._requests.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _put(
        self, collection: str, numbers: list[int], vectors: Vectors, stored: Sequence[Stored], budget: Budget
    ) -> None:
        from qdrant_client import models  # noqa: PLC0415 - only the engine asked for

        ids: list[Any] = [*numbers]
        # Acknowledged only when it is applied (`wait`): the next search is to find it.
        points = models.Batch(ids=ids, vectors=vectors.tolist(), payloads=[dict(each) for each in stored])
        self._call(collection, partial(self._client.upsert, points=points, wait=True), budget)

    def _nearest(
        self, collection: str, vector: Vectors, limit: int, condition: Any, within: list[int] | None, budget: Budget
    ) -> list[tuple[int, float]]:
        """Return the most similar points, exactly with `within`."""
        parts: list[Condition] = [] if condition is None else [condition]
        if within is not None:
            parts.append({"has_id": within})
        request = partial(
            self._client.query_points,
            query=vector.tolist(),
            query_filter=vendor_filter({"must": parts}) if parts else None,
            search_params=self._address.search_params(limit, is_exact=within is not None),
            with_payload=False,
            consistency=self._consistency,
        )

        def ranked(count: int) -> list[tuple[int, float]]:
            found = self._call(collection, partial(request, limit=count), budget)
            return [(int(point.id), float(point.score)) for point in found.points]

        return best(ranked, limit)

    def _points(self, collection: str, numbers: list[int], budget: Budget) -> tuple[list[int], Vectors, list[Any]]:
        read = partial(self._client.retrieve, with_payload=True, with_vectors=True, consistency=self._consistency)
        found: list[Any] = []
        for batch in batches(numbers, self._batch):
            found += self._call(collection, partial(read, ids=list(batch)), budget)
        found.sort(key=lambda point: int(point.id))
        vectors = np.array([point.vector for point in found], dtype=np.float32)
        return [point.id for point in found], vectors, [point.payload or {} for point in found]

    def _ensure(self, collection: str, dimensions: int, budget: Budget) -> int:
        """Make a collection with an index for every filter field, or complete one that was interrupted."""
        # Without a lock, on which others would wait while the server is silent: every step may run twice at once.
        info = self._info(collection, budget)
        if info is None:
            make = partial(self._client.create_collection, **self._address.collection_config(dimensions))
            try:
                self._call(collection, make, budget)
            except Exception:
                # Another process may have made it at the same moment.
                info = self._info(collection, budget)
                if info is None:
                    raise
            else:
                info = self._described(collection, budget)
        found = checked_dimensions_of(collection, info)
        # One of another length is refused, and stays as it is.
        for field, schema in missing_indexes(info).items() if found == dimensions else ():
            make_index = partial(self._client.create_payload_index, field_name=field, field_schema=schema)
            self._call(collection, make_index, budget)
        return found

    def _dimensions_of(self, collection: str, budget: Budget) -> int:
        known = self._dimensions.get(collection)
        if known is None:
            known = checked_dimensions_of(collection, self._described(collection, budget))
            self._dimensions[collection] = known
        return known

    def _info(self, collection: str, budget: Budget) -> Any:
        """Return what the server says about a collection, None when there is none."""
        try:
            return self._described(collection, budget)
        except CollectionNotFoundError:
            return None

    def _described(self, collection: str, budget: Budget) -> Any:
        return self._guarded(
            collection, lambda _: self._client.get_collection(self._address.prefix + collection), budget
        )

    def _call(self, collection: str, call: Callable[..., T], budget: Budget) -> T:
        """Make a call on a collection, with the remaining whole seconds as the server's time limit."""
        on_collection = partial(call, collection_name=self._address.prefix + collection)
        return self._guarded(collection, lambda seconds: on_collection(timeout=ceil(seconds)), budget)

    def _guarded(self, collection: str, call: Callable[[float], T], budget: Budget) -> T:
        def attempt(seconds: float) -> T:
            return budget.result_of(self._requests.submit(call, seconds))

        try:
            return repeated(attempt, is_transient, budget, self._address.timeout_s)
        except GroundwireError:
            raise
        except Exception as error:
            if is_missing(error):
                self._dimensions.pop(collection, None)
                raise CollectionNotFoundError(collection) from error
            raise unavailable(_ENGINE, error) from error
