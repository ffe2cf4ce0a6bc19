"""Opens embedded Chroma on a folder, and collections in it, with every setting that matters said aloud."""

from pathlib import Path
from typing import Any

from groundwire.kernel.errors import StoreMismatchError

_METRIC = "cosine"
_DIMENSIONS = "dimensions"
_EF = 200
"""Candidates of building and searching the graph; Chroma's 100 finds fewer of the best."""


def open_client(folder: Path) -> Any:
    """Open the library on a folder; no telemetry, no connection to anywhere."""
    import chromadb  # noqa: PLC0415 - takes a second and a half
    from chromadb.config import Settings  # noqa: PLC0415 - the same

    return chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False))


def open_collections(client: Any) -> dict[str, Any]:
    """Return the collections by name, without an embedding function.

    Raises:
        StoreMismatchError: one has another metric than cosine (Chroma would ignore ours without a word).
    """
    names = [collection.name for collection in client.list_collections()]
    found = {name: client.get_collection(name, embedding_function=None) for name in names}
    for collection in found.values():
        _check_metric(collection)
    return found


def make_collection(client: Any, name: str, dimensions: int) -> Any:
    """Make a collection for cosine; Chroma itself learns the dimensions with the first vector."""
    collection = client.create_collection(
        name,
        embedding_function=None,
        configuration={"hnsw": {"space": _METRIC, "ef_construction": _EF, "ef_search": _EF}},
        metadata={_DIMENSIONS: dimensions},
    )
    _check_metric(collection)
    return collection


def dimensions_of(collection: Any) -> int:
    """Return the vector length that a collection was made for."""
    return int(collection.metadata[_DIMENSIONS])


def _check_metric(collection: Any) -> None:
    hnsw = collection.configuration_json.get("hnsw") or {}
    got = hnsw.get("space", "l2")
    if got != _METRIC:
        message = f"collection {collection.name} was made with metric {got}, not {_METRIC}"
        raise StoreMismatchError(message, setting="metric", expected=_METRIC, got=got)
