"""Opens the vector store that a URL names, importing an engine only when it is asked for."""

from pathlib import Path

from groundwire.kernel.errors import InvalidRequestError, NotAvailableError
from groundwire.kernel.vector_store import VectorStore

SCHEMES = ("memory:", "qdrant-edge:DIR", "chroma:DIR")
"""What `open_vector_store` understands; DIR may be left out and is then `vectors`."""

_SERVER_SCHEMES = ("qdrant://", "chroma+http://", "chroma+https://")
_DEFAULT_FOLDER = "vectors"


def open_vector_store(url: str, *, data_dir: Path) -> VectorStore:
    """Open the store of a URL; the caller closes it.

    Args:
        url: `memory:`, `qdrant-edge:DIR` or `chroma:DIR`; a relative or missing DIR is below `data_dir`.
        data_dir: the data folder of the process.

    Raises:
        InvalidRequestError: the scheme is unknown; names the field `vectors`.
        NotAvailableError: the scheme names a server, which this version cannot talk to.
        MissingExtraError: the engine's package is not installed.
        StoreOwnedError: another process has the folder open.
        StoreMismatchError: the folder was written by another engine or in another layout.
    """
    if url.startswith(_SERVER_SCHEMES):
        feature = url.split("://", maxsplit=1)[0] + "://"
        raise NotAvailableError(f"vector store servers ({feature}) are not offered yet", feature=feature)
    scheme, colon, rest = url.partition(":")
    folder = data_dir / (rest or _DEFAULT_FOLDER)
    match scheme + colon:
        case "memory:" if not rest:
            return _open_memory()
        case "qdrant-edge:":
            return _open_qdrant_edge(folder)
        case "chroma:":
            return _open_chroma(folder)
        case _:
            raise InvalidRequestError.of("vectors", f"{url!r} is none of {', '.join(SCHEMES)}")


def _open_memory() -> VectorStore:
    from groundwire.vectorstores.memory import MemoryVectorStore  # noqa: PLC0415 - only the engine asked for

    return MemoryVectorStore()


def _open_qdrant_edge(folder: Path) -> VectorStore:
    from groundwire.vectorstores.qdrant_edge.store import (  # noqa: PLC0415 - only the engine asked for
        QdrantEdgeVectorStore,
    )

    return QdrantEdgeVectorStore(folder)


def _open_chroma(folder: Path) -> VectorStore:
    from groundwire.vectorstores.chroma.store import ChromaVectorStore  # noqa: PLC0415 - only the engine asked for

    return ChromaVectorStore(folder)
