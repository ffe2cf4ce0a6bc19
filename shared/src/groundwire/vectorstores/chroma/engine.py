"""What the engine process of Chroma does: it opens the library on a folder and searches and changes collections.

The library holds the interpreter lock while it writes: 20 ms a call for its log on disk, and 0.4 to 0.8 ms a record.

    <folder>/data/chroma.sqlite3   what Chroma knows, with a log of the latest vectors; SQLite syncs it by itself
    <folder>/data/<segment>/       the graph of one collection with its older vectors, rewritten every 1,000 records
    <folder>/data.seal             what these files looked like when the library was closed; missing while it is open
"""

import shutil
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from groundwire.kernel.embedder import Vectors
from groundwire.vectorstores.chroma.records import (
    Facts,
    all_numbers,
    facts_of,
    make_collection,
    nearest,
    nearest_of,
    open_client,
    put,
    records,
    remove,
    set_complete,
)
from groundwire.vectorstores.file_seal import Seal, seal_of, sync_tree
from groundwire.vectorstores.points import batches
from groundwire.vectorstores.stored_fields import Stored

_DATA = "data"
_CATALOG = "chroma.sqlite3"
_GRAPH_HEADER = "header.bin"
# Suffix of a collection that is being rewritten; our collection names have no dots.
_REWRITTEN = ".new"
_PAGE = 1000


class Engine:
    """The requests of a store, which lets one writer in at a time; `open` or `open_anew` is the first of them."""

    def __init__(self) -> None:
        self._client: Any = None
        self._collections: dict[str, Any] = {}
        self._data = Path()
        self._graphs: dict[Path, int] = {}
        self._readers = 0
        self._reading = threading.Condition()

    def open(self, folder: str) -> tuple[dict[str, Facts], bool]:
        """Open a folder; return the facts of its collections, and whether it was closed cleanly.

        Collections whose graphs are damaged are recreated empty, and all of them if Chroma's catalog is damaged.
        """
        self._data = Path(folder) / _DATA
        self._data.mkdir(exist_ok=True)
        seal = Seal.read(seal_of(self._data))
        broken = [] if seal is None else seal.broken(self._data)
        if _CATALOG in broken:
            return self.open_anew(folder)
        # Return the names of the collections that segments belong to; only while the library is closed.
        segments = {name.partition("/")[0] for name in broken}
        if not segments:
            damaged = []
        else:
            with closing(sqlite3.connect(self._data / _CATALOG)) as connection:
                rows = connection.execute(
                    "SELECT s.id, c.name FROM segments s JOIN collections c ON c.id = s.collection"
                )
                damaged = sorted({name for segment, name in rows if segment in segments})
        # From here on the files change: without a seal the next start knows that they were not closed.
        seal_of(self._data).unlink(missing_ok=True)
        self._open_client()
        for name in damaged:
            self.renew(name)
        for name in [name.removesuffix(_REWRITTEN) for name in self._collections if name.endswith(_REWRITTEN)]:
            if name in self._collections:
                self.drop(name + _REWRITTEN)  # it may not be whole
            else:
                self._replace_by_copy(name)
        return {name: facts_of(collection) for name, collection in self._collections.items()}, seal is not None

    def open_anew(self, folder: str) -> tuple[dict[str, Facts], bool]:
        """Open a folder, discarding what is in it."""
        self._data = Path(folder) / _DATA
        seal_of(self._data).unlink(missing_ok=True)
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(exist_ok=True)
        self._open_client()
        return {}, True

    def create(self, name: str, dimensions: int, is_complete: bool = True) -> Facts:
        """Make a collection, perhaps one that has to be filled, and return what Chroma made of it."""
        self._collections[name] = made = make_collection(self._client, name, dimensions, is_complete=is_complete)
        return facts_of(made)

    def complete(self, name: str) -> None:
        set_complete(self._collections[name])

    def renew(self, name: str) -> None:
        """Recreate a collection whose graph is damaged, empty, to be filled again."""
        dimensions = facts_of(self._collections[name]).dimensions
        self.drop(name)
        self.create(name, dimensions, False)  # noqa: FBT003 - as the owner would ask

    def begin_rewrite(self, name: str) -> None:
        """Make an empty copy of a collection, replacing an unfinished one."""
        if name + _REWRITTEN in self._collections:
            self._client.delete_collection(name + _REWRITTEN)
        facts = facts_of(self._collections[name])
        self.create(name + _REWRITTEN, facts.dimensions, facts.is_complete)

    def copy(self, name: str, numbers: Sequence[int]) -> None:
        """Bring records of the copy to the state they have in the collection: the same, or absent."""
        held, copy = self._collections[name], self._collections[name + _REWRITTEN]
        found, vectors, stored = records(held, numbers)
        if found:
            put(copy, found, vectors, stored)
        if gone := sorted(set(numbers).difference(found)):
            remove(copy, gone)

    def end_rewrite(self, name: str, numbers: Sequence[int]) -> None:
        """Copy the last records, and replace the collection by the copy."""
        self.copy(name, numbers)
        with self._alone():
            self._replace_by_copy(name)
        self._sync_graphs()

    def clean(self) -> None:
        """Rewrite Chroma's catalog, because it keeps what was removed."""
        with self._alone():
            self._reopen()

    def drop(self, name: str) -> None:
        with self._alone():
            # With the copy, which would take its place at the next start.
            for each in {name, name + _REWRITTEN} & self._collections.keys():
                self._client.delete_collection(each)
            self._reopen()

    def damage(self, name: str) -> str:
        """Read every vector of a collection and search it; return what fails, or an empty text."""
        held = self._collections[name]
        try:
            vectors = None
            for numbers in batches(all_numbers(held), _PAGE):
                _, vectors, _ = records(held, numbers)
            if vectors is not None:
                nearest(held, vectors[0], 1, {})
        except Exception as error:  # noqa: BLE001 - the library raises exceptions of many kinds
            return str(error)
        return ""

    def upsert(self, name: str, numbers: Sequence[int], vectors: Vectors, stored: Sequence[Stored]) -> None:
        put(self._collections[name], numbers, vectors, stored)
        self._sync_graphs()

    def delete(self, name: str, numbers: Sequence[int]) -> None:
        remove(self._collections[name], numbers)
        self._sync_graphs()

    def search(
        self, name: str, vector: Vectors, limit: int, where: dict[str, Any] | None, within: Sequence[int] | None
    ) -> list[tuple[int, float]]:
        """Return (number, cosine), best first."""
        selection: dict[str, Any] = {} if where is None else {"where": where}
        with self._read(name) as held:
            if within is None:
                return nearest(held, vector, limit, selection)
            return nearest_of(held, vector, limit, selection, [str(number) for number in dict.fromkeys(within)])

    def numbers(self, name: str) -> list[int]:
        """Return the numbers of all records, ascending; while nobody writes."""
        with self._read(name) as held:
            return all_numbers(held)

    def points(self, name: str, numbers: Sequence[int]) -> tuple[list[int], Vectors, list[Stored]]:
        """Return those of the records that exist: numbers, vectors, stored fields."""
        with self._read(name) as held:
            return records(held, numbers)

    def count(self, name: str) -> int:
        with self._read(name) as held:
            return int(held.count())

    def close_all(self) -> None:
        """Close the library and seal its files."""
        if self._client is not None:
            self._client.close()
            # In this order: a seal says what is on disk.
            sync_tree(self._data)
            Seal.of(self._data).write(seal_of(self._data))

    @contextmanager
    def _read(self, name: str) -> Iterator[Any]:
        """Yield a collection, and keep the library open while it is used."""
        with self._reading:
            held = self._collections[name]
            self._readers += 1
        try:
            yield held
        finally:
            with self._reading:
                self._readers -= 1
                self._reading.notify_all()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until nobody reads, and hold back new readers; the store queues the writers."""
        with self._reading:
            self._reading.wait_for(lambda: self._readers == 0)
            yield

    def _replace_by_copy(self, name: str) -> None:
        if name in self._collections:
            self._client.delete_collection(name)
            self._reopen()
        self._collections[name] = self._collections.pop(name + _REWRITTEN)
        self._collections[name].modify(name=name)

    def _reopen(self) -> None:
        """Clean up Chroma's catalog, with the library closed meanwhile."""
        self._client.close()
        # Later records would inherit the filter keys of those that are gone, whose content the log and the free pages
        # keep as well.
        with closing(sqlite3.connect(self._data / _CATALOG)) as connection:
            for table in ("embedding_metadata", "embedding_metadata_array"):
                connection.execute(f"DELETE FROM {table} WHERE id NOT IN (SELECT id FROM embeddings)")  # noqa: S608 - ours
            topics = [row[0] for row in connection.execute("SELECT DISTINCT topic FROM embeddings_queue")]
            known = {row[0] for row in connection.execute("SELECT id FROM collections")}
            for topic in topics:
                if topic.rpartition("/")[2] not in known:
                    connection.execute("DELETE FROM embeddings_queue WHERE topic = ?", (topic,))
            connection.commit()
            connection.execute("VACUUM")
        self._open_client()

    def _open_client(self) -> None:
        self._client = open_client(str(self._data))
        names = [collection.name for collection in self._client.list_collections()]
        self._collections = {name: self._client.get_collection(name, embedding_function=None) for name in names}

    def _sync_graphs(self) -> None:
        """Sync the graphs that Chroma has written: it truncates its log afterwards, but syncs only the log."""
        for header in self._data.glob(f"*/{_GRAPH_HEADER}"):
            written_ns = header.stat().st_mtime_ns
            if self._graphs.get(header) != written_ns:
                sync_tree(header.parent)
                self._graphs[header] = written_ns
