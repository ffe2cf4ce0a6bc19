"""Damage to the files of an engine between two lives of a server: what the catalog has is found again."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CollectionNotFoundError, StoreUnavailableError
from groundwire.kernel.vector_store import Recoverable, VectorStore
from groundwire.vectorstores.factory import open_vector_store
from tests.conformance.chroma_server import chroma_server
from tests.conformance.memory_folder import memory_folder
from tests.integration.ingest.harness import Harness

COLLECTIONS = 24
"""More than one of them has files, so that each file is damaged in another one and some are spared."""
DOCUMENTS = 3
FOUND_WITHIN_S = 60.0
"""For all of them, on a machine that has other work; one takes a tenth of a second."""

Damage = Callable[[Path], object]


def _noise(path: Path) -> None:
    """Overwrite the content that there is, wherever it is in a file of holes, with something else."""
    with path.open("r+b") as file:
        try:
            start = os.lseek(file.fileno(), 0, os.SEEK_DATA)
        except OSError:
            start = 0  # nothing but a hole
        content = os.pread(file.fileno(), 256, start)
        os.pwrite(file.fileno(), bytes(byte ^ 0x5A for byte in content), start)


DAMAGES: dict[str, Damage] = {
    "deleted": Path.unlink,
    "emptied": lambda path: os.truncate(path, 0),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "garbled": _noise,
}


class Library:
    """Collections on disk, as a server left them when it was stopped."""

    def __init__(self, folder: Path, scheme: str, collections: int) -> None:
        self.folder, self._scheme = folder, scheme
        names = [f"shelf-{number}" for number in range(collections)]
        with Life(folder, scheme) as life:
            for name in names:
                life.harness.create(name)
                for number in range(DOCUMENTS):
                    life.harness.ingest(name, f"{number}.txt", f"Text {number} of {name}.")
            self.numbers = {name: life.numbers(name) for name in names}
            self.folders = {name: life.engine_name(name) for name in names}

    def copy(self, target: Path) -> "Life":
        """Start a server on a copy of the files."""
        subprocess.run(["cp", "-r", "--sparse=always", str(self.folder), str(target)], check=True)
        return Life(target, self._scheme)


class Life:
    """A server on a folder, from its start to its stop."""

    def __init__(self, folder: Path, scheme: str) -> None:
        self._folder, self._scheme = folder, scheme

    def __enter__(self) -> Self:
        self._folder.mkdir(exist_ok=True)
        self.vectors: VectorStore = open_vector_store(self._scheme, data_dir=self._folder)
        self.harness = Harness(self._folder, self.vectors).start_without_parser_process()
        return self

    def __exit__(self, *_: object) -> None:
        self.harness.close()
        self.vectors.close()

    def engine_name(self, name: str) -> str:
        return self.harness.collection(name).engine_name

    def numbers(self, name: str) -> set[int]:
        return set(self.vectors.numbers(self.engine_name(name), Budget()))

    def found(self, name: str) -> set[int] | None:
        """Return what a search finds; None when it says that it cannot tell."""
        vector = self.harness.embedder.embed_queries(["text"], Budget())[0]
        try:
            return {hit.number for hit in self.vectors.search(self.engine_name(name), vector, 100, Budget(10))}
        except (StoreUnavailableError, CollectionNotFoundError):
            return None

    def lost(self, expected: dict[str, set[int]]) -> list[str]:
        """Return the collections, with what a search finds, that do not become whole in time."""
        until = time.monotonic() + FOUND_WITHIN_S
        wrong = []
        for name, numbers in expected.items():
            while (found := self.found(name)) is None and time.monotonic() < until:
                time.sleep(0.02)
            if found != numbers:
                wrong.append(f"{name}: {found}")
        return wrong


@pytest.fixture(scope="module")
def library() -> Iterator[Library]:
    with memory_folder() as folder:
        yield Library(folder / "data", "qdrant-edge:", COLLECTIONS)


@pytest.fixture(scope="module")
def chroma_library() -> Iterator[Library]:
    with memory_folder() as folder:
        yield Library(folder / "data", "chroma:", 6)


@pytest.mark.parametrize("damage", DAMAGES)
def test_any_file_of_a_collection_may_be_damaged(library: Library, damage: str) -> None:
    with memory_folder() as folder:
        life = library.copy(folder / "data")
        damaged = []
        for index, name in enumerate(library.folders):
            collection = folder / "data" / "vectors" / library.folders[name]
            files = sorted(path for path in collection.rglob("*") if path.is_file())
            if index < len(files):
                DAMAGES[damage](files[index])
                damaged.append(files[index].name)
        assert {"CURRENT", "chunk_0.mmap", "page_0.dat", "open-1", "segment.json"} < set(damaged)
        assert len(damaged) < COLLECTIONS
        with life:
            assert not life.lost(library.numbers)
            assert isinstance(life.vectors, Recoverable)
            assert not life.vectors.unverified()


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_file_that_names_the_engine_may_be_damaged(library: Library, damage: str) -> None:
    """Whichever engine it is: `folder_format` writes it for all."""
    with memory_folder() as folder:
        life = library.copy(folder / "data")
        DAMAGES[damage](folder / "data" / "vectors" / "FORMAT")
        with life:
            assert not life.lost(library.numbers)
        assert (folder / "data" / "vectors" / "FORMAT").read_text() == "qdrant-edge 1\n"


def test_without_any_of_its_files_the_engine_is_filled_again(library: Library) -> None:
    with memory_folder() as folder:
        life = library.copy(folder / "data")
        shutil.rmtree(folder / "data" / "vectors")
        with life:
            assert not life.lost(library.numbers)


def test_a_write_does_not_hide_what_is_missing(library: Library) -> None:
    """A search never finds only the new part of a collection that is being filled."""
    with memory_folder() as folder:
        life = library.copy(folder / "data")
        shutil.rmtree(folder / "data" / "vectors" / library.folders["shelf-0"])
        with life:
            life.harness.ingest("shelf-0", "new.txt", "A new text.")
            expected = library.numbers["shelf-0"] | set(life.harness.live_numbers("shelf-0"))
            assert len(expected) == DOCUMENTS + 1
            assert not life.lost({"shelf-0": expected})


def test_a_server_that_lacks_collections_gets_them_from_the_catalog_and_the_way_back_is_as_free(
    library: Library,
) -> None:
    pytest.importorskip("chromadb")
    names = ["shelf-0", "shelf-1", "shelf-2"]
    with memory_folder() as folder, chroma_server(folder / "server") as server:
        expected = {name: library.numbers[name] for name in names}
        with library.copy(folder / "data"):
            pass
        with Life(folder / "data", server.url) as life:
            assert not life.lost(expected)
            life.harness.ingest("shelf-0", "new.txt", "A new text.")
            expected["shelf-0"] = set(life.harness.live_numbers("shelf-0"))
            assert len(expected["shelf-0"]) == DOCUMENTS + 1
            assert not life.lost(expected)
        # Its folder still holds the indexes of before, without the new text.
        with Life(folder / "data", "qdrant-edge:") as life:
            assert not life.lost(expected)


@pytest.mark.parametrize("damage", DAMAGES)
def test_any_graph_of_chroma_may_be_damaged(chroma_library: Library, damage: str) -> None:
    with memory_folder() as folder:
        life = chroma_library.copy(folder / "data")
        graphs = sorted(path.parent for path in folder.rglob("header.bin"))
        names = [path.name for path in sorted(graphs[0].iterdir())]
        assert "data_level0.bin" in names
        assert len(names) < len(graphs) == len(chroma_library.folders)
        for graph, name in zip(graphs, names, strict=False):
            DAMAGES[damage](graph / name)
        with life:
            assert not life.lost(chroma_library.numbers)


@pytest.mark.parametrize("file", ["data/chroma.sqlite3", "data.seal"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_any_shared_file_of_chroma_may_be_damaged(chroma_library: Library, damage: str, file: str) -> None:
    with memory_folder() as folder:
        life = chroma_library.copy(folder / "data")
        DAMAGES[damage](folder / "data" / "vectors" / file)
        with life:
            assert not life.lost(chroma_library.numbers)
