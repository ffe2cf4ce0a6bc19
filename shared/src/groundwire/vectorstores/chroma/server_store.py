"""VectorStore on a Chroma server; it shares queries and filters with the embedded engine."""

import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import CollectionNotFoundError, GroundwireError, MissingExtraError, StoreMismatchError
from groundwire.kernel.filters import Filter
from groundwire.kernel.vector_store import PointBatch, ScoredPoint
from groundwire.vectorstores.chroma.collections import checked_dimensions_of, facts_of, make_collection
from groundwire.vectorstores.chroma.filters import compile_filter
from groundwire.vectorstores.chroma.queries import existing, nearest, records
from groundwire.vectorstores.chroma.server_client import (
    ServerOptions,
    close_server,
    is_missing,
    is_transient,
    open_server,
    requests_limited_to,
)
from groundwire.vectorstores.chroma.writes import remove, replace
from groundwire.vectorstores.point_checks import check_points, check_query, checked_dimensions, checked_name
from groundwire.vectorstores.server_calls import repeated, unavailable
from groundwire.vectorstores.slicing import as_ints, slices
from groundwire.vectorstores.stored_fields import restored_payload, stored_fields

T = TypeVar("T")

_ENGINE = "chroma"
_OURS = "gw-"
_BATCH = 500
_CHECK_S = 2.0


class ChromaServerVectorStore:
    """VectorStore over a server, which other processes may use as well; record ids are the numbers as text.

    Args:
        options: where the server is and what is asked of it.

    Raises:
        MissingExtraError: neither chromadb nor chromadb-client is installed.
        StoreUnavailableError: the server does not answer, or refuses the key.
    """

    def __init__(self, options: ServerOptions) -> None:
        if importlib.util.find_spec("chromadb") is None:
            raise MissingExtraError("chroma needs the package chromadb: groundwire[chroma]", extra="chroma")
        self._prefix = options.prefix
        self._timeout_s = options.timeout_s
        self._lock = threading.Lock()
        self._handles: dict[str, tuple[Any, int]] = {}
        try:
            self._client = repeated(lambda _: open_server(options), is_transient, Budget(), self._timeout_s)
        except Exception as error:
            raise unavailable(_ENGINE, error) from error

    def create_collection(self, collection: str, dimensions: int, budget: Budget) -> None:
        """Make a collection, also when another process makes it at the same moment; see the port."""
        checked_name(collection)
        checked_dimensions(dimensions)
        with self._lock:
            got = self._found_dimensions(collection, budget) or self._make(collection, dimensions, budget)
        if got != dimensions:
            raise StoreMismatchError(
                f"collection {collection} has {got} dimensions, not {dimensions}",
                setting="dimensions",
                expected=dimensions,
                got=got,
            )

    def drop_collection(self, collection: str, budget: Budget) -> None:
        """Remove a collection, record by record first; see the port."""
        try:
            self._call(collection, lambda held: remove(held, as_ints(held.get(include=[])["ids"])), budget)
            self._call(collection, lambda _: self._client.delete_collection(self._prefix + collection), budget)
        except CollectionNotFoundError:
            return
        finally:
            self._handles.pop(collection, None)

    def collections(self, budget: Budget) -> list[str]:
        """Return the names of the collections that this system has made there, sorted."""
        found = self._guarded("", self._client.list_collections, budget)
        names = [each.name.removeprefix(self._prefix) for each in found if each.name.startswith(self._prefix)]
        return sorted(name for name in names if name.startswith(_OURS))

    def upsert(self, collection: str, points: PointBatch, budget: Budget) -> None:
        """Insert or replace points, in the server's log when it returns; see the port."""
        check_points(points, self._handle(collection, budget)[1])
        for part in slices(points, _BATCH):
            self._call(collection, partial(_replace, part), budget)

    def delete(self, collection: str, numbers: Sequence[int], budget: Budget) -> None:
        """Remove points; see the port."""
        self._call(collection, lambda held: remove(held, as_ints(numbers)), budget)

    def search(
        self,
        collection: str,
        vector: Vectors,
        limit: int,
        budget: Budget,
        *,
        where: Filter | None = None,
        within: Sequence[int] | None = None,
    ) -> list[ScoredPoint]:
        """Return the most similar points, approximately above some hundred; see the port."""
        check_query(vector, limit, self._handle(collection, budget)[1])
        condition = True if where is None else compile_filter(where)
        if condition is False or (within is not None and len(within) == 0):
            return []
        selection = {} if condition is True else {"where": condition}
        found = self._call(collection, lambda held: _search(held, vector, limit, selection, within), budget)
        return [ScoredPoint(number, min(1.0, max(0.0, cosine))) for number, cosine in found]

    def fetch(self, collection: str, numbers: Sequence[int], budget: Budget) -> PointBatch:
        """Return those of the points that exist, by number; see the port."""
        dimensions = self._handle(collection, budget)[1]
        wanted = sorted(set(as_ints(numbers)))
        found, vectors, stored = self._call(collection, lambda held: records(held, wanted), budget)
        payloads = [restored_payload(fields) for fields in stored]
        return PointBatch(found, vectors.reshape(-1, dimensions), payloads)

    def numbers(self, collection: str, budget: Budget) -> Iterator[int]:
        """Iterate over the numbers of all points, ascending; one request, for pages shift under writes of others."""
        found = self._call(collection, lambda held: held.get(include=[])["ids"], budget)
        return iter(sorted(map(int, found)))

    def count(self, collection: str, budget: Budget) -> int:
        """Return the exact number of points."""
        return int(self._call(collection, lambda held: held.count(), budget))

    def check_responding(self) -> None:
        """Ask the server for its heartbeat; see the port."""
        self._guarded("", self._client.heartbeat, Budget(_CHECK_S))

    def close(self) -> None:
        """Close the connections; idempotent."""
        self._handles.clear()
        close_server(self._client)

    def _make(self, collection: str, dimensions: int, budget: Budget) -> int:
        def make() -> int:
            made = make_collection(self._client, self._prefix + collection, dimensions)
            return checked_dimensions_of(collection, facts_of(made))

        try:
            return self._guarded(collection, make, budget)
        except GroundwireError:
            got = self._found_dimensions(collection, budget)
            if got is None:
                raise
            return got

    def _found_dimensions(self, collection: str, budget: Budget) -> int | None:
        try:
            return self._handle(collection, budget)[1]
        except CollectionNotFoundError:
            return None

    def _handle(self, collection: str, budget: Budget) -> tuple[Any, int]:
        """Return Chroma's object for a collection and the vector length; it names one that was dropped until a call."""
        known = self._handles.get(collection)
        if known is not None:
            return known
        name = self._prefix + collection
        held = self._guarded(collection, lambda: self._client.get_collection(name, embedding_function=None), budget)
        handle = (held, checked_dimensions_of(collection, facts_of(held)))
        self._handles[collection] = handle
        return handle

    def _call(self, collection: str, call: Callable[[Any], T], budget: Budget) -> T:
        """Make a call on a collection; one that was dropped and made again meanwhile is looked up again."""
        held, _ = self._handle(collection, budget)
        try:
            return self._guarded(collection, lambda: call(held), budget)
        except CollectionNotFoundError:
            self._handles.pop(collection, None)
        held, _ = self._handle(collection, budget)
        return self._guarded(collection, lambda: call(held), budget)

    def _guarded(self, collection: str, call: Callable[[], T], budget: Budget) -> T:
        def limited(seconds: float) -> T:
            with requests_limited_to(seconds):
                return call()

        try:
            return repeated(limited, is_transient, budget, self._timeout_s)
        except GroundwireError:
            raise
        except Exception as error:
            if is_missing(error):
                raise CollectionNotFoundError(collection) from error
            raise unavailable(_ENGINE, error) from error


def _replace(points: PointBatch, held: Any) -> None:
    stored = [stored_fields(payload) for payload in points.payloads]
    replace(held, as_ints(points.numbers), points.vectors, stored)


def _search(
    held: Any, vector: Vectors, limit: int, selection: dict[str, Any], within: Sequence[int] | None
) -> list[tuple[int, float]]:
    if within is None:
        return nearest(held, vector, limit, selection)
    ids = existing(held, [str(number) for number in dict.fromkeys(as_ints(within))])
    return nearest(held, vector, limit, selection | {"ids": ids}) if ids else []
