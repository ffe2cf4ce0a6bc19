"""What the engine process of Chroma does: it opens the library on a folder and searches and changes collections.

The library holds the interpreter lock while it writes: 20 ms a call for its log on disk, and 0.4 to 0.8 ms a record.
"""

from collections.abc import Sequence
from typing import Any

from groundwire.kernel.embedder import Vectors
from groundwire.vectorstores.chroma.collections import Facts, facts_of, make_collection, open_client
from groundwire.vectorstores.chroma.queries import all_numbers, nearest, nearest_of, records
from groundwire.vectorstores.chroma.writes import put, remove
from groundwire.vectorstores.stored_fields import Stored


class Engine:
    """The requests of a store, which lets one writer in at a time; `open` is the first of them."""

    def __init__(self) -> None:
        self._client: Any = None
        self._collections: dict[str, Any] = {}

    def open(self, folder: str) -> dict[str, Facts]:
        """Open a folder and return what it says about its collections."""
        self._client = open_client(folder)
        names = [collection.name for collection in self._client.list_collections()]
        self._collections = {name: self._client.get_collection(name, embedding_function=None) for name in names}
        return {name: facts_of(collection) for name, collection in self._collections.items()}

    def create(self, name: str, dimensions: int) -> Facts:
        """Make a collection and return what Chroma made of it."""
        made = make_collection(self._client, name, dimensions)
        self._collections[name] = made
        return facts_of(made)

    def drop(self, name: str) -> None:
        """Remove a collection and its records."""
        held = self._collections[name]
        # Dropping alone leaves the list values behind, and later records of any collection inherit them.
        remove(held, all_numbers(held))
        self._client.delete_collection(name)
        del self._collections[name]

    def upsert(self, name: str, numbers: Sequence[int], vectors: Vectors, stored: Sequence[Stored]) -> None:
        """Insert or replace records."""
        put(self._collections[name], numbers, vectors, stored)

    def delete(self, name: str, numbers: Sequence[int]) -> None:
        """Remove records."""
        remove(self._collections[name], numbers)

    def search(
        self, name: str, vector: Vectors, limit: int, where: dict[str, Any] | None, within: Sequence[int] | None
    ) -> list[tuple[int, float]]:
        """Return (number, cosine), best first."""
        held = self._collections[name]
        selection: dict[str, Any] = {} if where is None else {"where": where}
        if within is None:
            return nearest(held, vector, limit, selection)
        return nearest_of(held, vector, limit, selection, [str(number) for number in dict.fromkeys(within)])

    def numbers(self, name: str) -> list[int]:
        """Return the numbers of all records, ascending; while nobody writes."""
        return all_numbers(self._collections[name])

    def points(self, name: str, numbers: Sequence[int]) -> tuple[list[int], Vectors, list[Stored]]:
        """Return those of the records that exist: numbers, vectors, stored fields."""
        return records(self._collections[name], numbers)

    def count(self, name: str) -> int:
        """Return the number of records."""
        return int(self._collections[name].count())

    def close_all(self) -> None:
        """Close the library."""
        if self._client is not None:
            self._client.close()
