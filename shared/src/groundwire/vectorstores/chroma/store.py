"""VectorStore on embedded Chroma: vectors, ids and filter keys; never documents, never a model of Chroma's."""

import importlib.util
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import CollectionNotFoundError, MissingExtraError, StoreMismatchError
from groundwire.kernel.filters import Filter
from groundwire.kernel.vector_store import PointBatch, ScoredPoint
from groundwire.vectorstores.chroma.client import dimensions_of, make_collection, open_client, open_collections
from groundwire.vectorstores.chroma.errors import translated_errors
from groundwire.vectorstores.chroma.filters import compile_filter
from groundwire.vectorstores.chroma.queries import all_numbers, existing, nearest
from groundwire.vectorstores.chroma.writes import put
from groundwire.vectorstores.folder_format import claim_folder
from groundwire.vectorstores.owner_lock import OwnerLock
from groundwire.vectorstores.point_checks import check_points, check_query, checked_dimensions, checked_name
from groundwire.vectorstores.slicing import batches, slices

_ENGINE = "chroma"
_BATCH = 64
"""Writing holds the interpreter lock for about 0.4 ms a record."""


class ChromaVectorStore:
    """VectorStore over one folder, which it owns until `close()`; record ids are the numbers as text.

    Args:
        folder: made if missing.

    Raises:
        MissingExtraError: chromadb is not installed.
        StoreOwnedError: another process has the folder open.
        StoreMismatchError: the folder was written by another engine, in another layout or with another metric.
    """

    def __init__(self, folder: Path) -> None:
        if importlib.util.find_spec("chromadb") is None:
            raise MissingExtraError("chroma needs the package chromadb: groundwire[chroma]", extra="chroma")
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._owner = OwnerLock(folder)
        self._collections: dict[str, Any] = {}
        try:
            claim_folder(folder, _ENGINE)
            with translated_errors("*"):
                self._client = open_client(folder)
                self._collections = open_collections(self._client)
        except BaseException:
            self._owner.release()
            raise

    def create_collection(self, collection: str, dimensions: int) -> None:
        """Make a collection; see the port."""
        checked_name(collection)
        checked_dimensions(dimensions)
        with self._lock, translated_errors(collection):
            existing_one = self._collections.get(collection)
            if existing_one is None:
                self._collections[collection] = make_collection(self._client, collection, dimensions)
            elif dimensions_of(existing_one) != dimensions:
                got = dimensions_of(existing_one)
                raise StoreMismatchError(
                    f"collection {collection} has {got} dimensions, not {dimensions}",
                    setting="dimensions",
                    expected=dimensions,
                    got=got,
                )

    def drop_collection(self, collection: str) -> None:
        """Remove a collection; see the port."""
        with self._lock, self._writing, translated_errors(collection):
            held = self._collections.pop(collection, None)
            if held is None:
                return
            # Dropping alone leaves the list values behind, and later records of any collection inherit them.
            for batch in batches(all_numbers(held), _BATCH):
                held.delete(ids=[str(number) for number in batch])
            self._client.delete_collection(collection)

    def collections(self) -> list[str]:
        """Return the names of all collections, sorted."""
        with self._lock:
            return sorted(self._collections)

    def upsert(self, collection: str, points: PointBatch) -> None:
        """Insert or replace points, in Chroma's log when it returns; see the port."""
        held = self._held(collection)
        check_points(points, dimensions_of(held))
        vectors = np.ascontiguousarray(points.vectors, dtype=np.float32)
        for part in slices(PointBatch(points.numbers, vectors, points.payloads), _BATCH):
            with self._writing, translated_errors(collection):
                put(held, part)

    def delete(self, collection: str, numbers: Sequence[int]) -> None:
        """Remove points; see the port."""
        held = self._held(collection)
        for batch in batches(numbers, _BATCH):
            with self._writing, translated_errors(collection):
                held.delete(ids=[str(number) for number in batch])

    def search(
        self,
        collection: str,
        vector: Vectors,
        limit: int,
        where: Filter | None = None,
        within: Sequence[int] | None = None,
    ) -> list[ScoredPoint]:
        """Return the most similar points, approximately above some hundred; see the port."""
        held = self._held(collection)
        check_query(vector, limit, dimensions_of(held))
        condition = True if where is None else compile_filter(where)
        selection: dict[str, Any] = {} if isinstance(condition, bool) else {"where": condition}
        with translated_errors(collection):
            if within is not None:
                selection["ids"] = existing(held, [str(number) for number in dict.fromkeys(within)])
            if condition is False or selection.get("ids") == []:
                return []
            return nearest(held, vector, limit, selection)

    def numbers(self, collection: str) -> Iterator[int]:
        """Iterate over the numbers of all points, ascending."""
        held = self._held(collection)
        with self._writing, translated_errors(collection):
            return iter(all_numbers(held))

    def count(self, collection: str) -> int:
        """Return the exact number of points."""
        held = self._held(collection)
        with translated_errors(collection):
            return int(held.count())

    def close(self) -> None:
        """Close the library and let others own the folder; idempotent."""
        with self._lock, self._writing:
            self._collections.clear()
            self._client.close()
            self._owner.release()

    def _held(self, collection: str) -> Any:
        held = self._collections.get(collection)
        if held is None:
            raise CollectionNotFoundError(collection)
        return held
