"""The names by which callers and operators know the engines."""

from groundwire.kernel.vector_store import VectorStore


def engine_name(vectors: VectorStore) -> str:
    """Return the name of the adapter's package or module, such as `qdrant-edge`."""
    path = type(vectors).__module__.split(".")
    package = path.index("vectorstores") + 1 if "vectorstores" in path else len(path) - 1
    return path[package].replace("_", "-")
