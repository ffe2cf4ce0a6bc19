"""Opens embedded Chroma on a folder and makes collections in it, with every setting that matters said aloud."""

from typing import Any, NamedTuple

from groundwire.kernel.errors import StoreMismatchError

_DIMENSIONS = "dimensions"
_IS_COMPLETE = "is_complete"
_METRIC = "cosine"
_EF = 200
"""Candidates of building and searching the graph; Chroma's 100 finds fewer of the best."""


class Facts(NamedTuple):
    """What Chroma says about a collection; `dimensions` is 0 where we did not make it.

    `is_complete` is false for a collection that is being filled from the catalog.
    """

    metric: str
    dimensions: int
    is_complete: bool = True


def open_client(folder: str) -> Any:
    """Open the library on a folder; no telemetry, no connection to anywhere."""
    import chromadb  # noqa: PLC0415 - only the engine process loads it
    from chromadb.config import Settings  # noqa: PLC0415 - the same

    return chromadb.PersistentClient(path=folder, settings=Settings(anonymized_telemetry=False))


def make_collection(client: Any, name: str, dimensions: int, *, is_complete: bool = True) -> Any:
    """Make a collection for cosine; Chroma itself learns the dimensions with the first vector."""
    return client.create_collection(
        name,
        embedding_function=None,
        configuration={"hnsw": {"space": _METRIC, "ef_construction": _EF, "ef_search": _EF}},
        metadata={_DIMENSIONS: dimensions, _IS_COMPLETE: is_complete},
    )


def set_complete(collection: Any) -> None:
    """Take note that a collection has been filled."""
    collection.modify(metadata={**collection.metadata, _IS_COMPLETE: True})


def facts_of(collection: Any) -> Facts:
    """Read back what a collection was made with."""
    hnsw = collection.configuration_json.get("hnsw") or {}
    metadata = collection.metadata or {}
    return Facts(
        str(hnsw.get("space", "l2")), int(metadata.get(_DIMENSIONS, 0)), bool(metadata.get(_IS_COMPLETE, True))
    )


def checked_dimensions_of(collection: str, facts: Facts) -> int:
    """Return the vector length of a collection if its metric is cosine: Chroma ignores ours without a word.

    Raises:
        StoreMismatchError: it is another one.
    """
    if facts.metric != _METRIC:
        message = f"collection {collection} was made with metric {facts.metric}, not {_METRIC}"
        raise StoreMismatchError(message, setting="metric", expected=_METRIC, got=facts.metric)
    return facts.dimensions
