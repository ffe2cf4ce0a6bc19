"""Opens the vector store that a URL names, importing an engine only when it is asked for."""

from pathlib import Path

from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.vector_store import VectorStore
from groundwire.vectorstores.engine_process import HUNG_AFTER_S

SCHEMES = (
    *("memory:", "qdrant-edge:DIR", "chroma:DIR"),
    *("qdrant://HOST:PORT", "qdrants://HOST:PORT", "chroma+http://HOST:PORT", "chroma+https://HOST:PORT"),
)
"""What `open_vector_store` understands; DIR may be left out and is then `vectors`, and so may the port."""

_DEFAULT_FOLDER = "vectors"
_IN_FOLDERS = ("qdrant-edge", "chroma")


def open_vector_store(
    url: str,
    *,
    data_dir: Path,
    api_key: str | None = None,
    hung_after_s: float = HUNG_AFTER_S,
    most_open: int = 32,
) -> VectorStore:
    """Open the store of a URL; the caller closes it.

    Args:
        url: one of `SCHEMES`; a relative or missing DIR is below `data_dir`. Those of servers may have options.
        data_dir: the data folder of the process.
        api_key: what a server asks for; the engines in a folder do not.
        hung_after_s: seconds without a sign of life after which an engine in a folder is started again.
        most_open: collections whose files qdrant-edge keeps open at a time.

    Raises:
        InvalidRequestError: the scheme is unknown, or the URL of a server malformed; names the field `vectors`.
        MissingExtraError: the engine's package is not installed.
        StoreUnavailableError: the server does not answer, or refuses the key.
        StoreOwnedError: another process has the folder open.
        StoreMismatchError: the folder was written by another engine or in another layout.
    """
    # Each engine is imported only when it is the one asked for: they are heavy, and most are not installed.
    if url.startswith(("qdrant://", "qdrants://")):
        from groundwire.vectorstores.qdrant_server import QdrantAddress, QdrantServerVectorStore  # noqa: PLC0415

        return QdrantServerVectorStore(QdrantAddress.parse(url, api_key))
    if url.startswith(("chroma+http://", "chroma+https://")):
        from groundwire.vectorstores.chroma import server_store as chroma_server  # noqa: PLC0415

        return chroma_server.ChromaServerVectorStore(chroma_server.ChromaAddress.parse(url, api_key))
    scheme, colon, rest = url.partition(":")
    folder = data_dir / (rest or _DEFAULT_FOLDER)
    if "?" in rest and scheme in _IN_FOLDERS:  # else they would become part of the name of the folder
        raise InvalidRequestError.of("vectors", f"{url!r} has options, and an engine in a folder takes none")
    match scheme + colon:
        case "memory:" if not rest:
            from groundwire.vectorstores.memory import MemoryVectorStore  # noqa: PLC0415

            return MemoryVectorStore()
        case "qdrant-edge:":
            from groundwire.vectorstores.qdrant_edge.store import QdrantEdgeVectorStore  # noqa: PLC0415

            return QdrantEdgeVectorStore(folder, hung_after_s=hung_after_s, most_open=most_open)
        case "chroma:":
            from groundwire.vectorstores.chroma.store import ChromaVectorStore  # noqa: PLC0415

            return ChromaVectorStore(folder, hung_after_s=hung_after_s)
        case _:
            raise InvalidRequestError.of("vectors", f"{url!r} is none of {', '.join(SCHEMES)}")


def engine_name(vectors: VectorStore) -> str:
    """Return the name of the adapter's package or module, such as `qdrant-edge`."""
    path = type(vectors).__module__.split(".")
    package = path.index("vectorstores") + 1 if "vectorstores" in path else len(path) - 1
    return path[package].replace("_", "-")
