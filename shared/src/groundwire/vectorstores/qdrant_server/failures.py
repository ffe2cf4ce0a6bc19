"""Tells failures of a Qdrant server apart by their gRPC codes; the library's local mode raises ValueError instead."""

from typing import Any

_TRANSIENT = frozenset({"UNAVAILABLE", "ABORTED", "RESOURCE_EXHAUSTED"})


def is_transient(error: Exception) -> bool:
    """Tell whether a call may do better the next time: the connection failed, or the server has too much to do."""
    return _code_name(error) in _TRANSIENT or type(error).__name__ == "ResourceExhaustedResponse"


def is_missing(error: Exception) -> bool:
    """Tell whether the server says that a collection does not exist."""
    return _code_name(error) == "NOT_FOUND" or (isinstance(error, ValueError) and "not found" in str(error))


def _code_name(error: Any) -> str:
    """Return the name of the gRPC code: stores do not import the transport, so the error is asked."""
    code = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""
