"""How long calls may take when nobody says: the server's defaults, and what the shipped client asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

METHOD_TIMEOUTS_S: Mapping[str, float | None] = MappingProxyType(
    {
        "IngestDocument": 600.0,
        "UploadDocument": 3600.0,
        "PutChunks": 600.0,
        "PlanIngest": 600.0,
        "GetDocumentText": 600.0,
        "Ask": 120.0,
        "AskStream": 120.0,
        "Converse": 1800.0,
        "Reindex": None,
        "Reembed": None,
        "CheckStore": None,
        "ExportVault": None,
        "ImportVault": None,
    }
)
"""Seconds by method name for calls that are not quick; None is no limit."""


@dataclass(frozen=True, slots=True)
class DeadlineTable:
    """The time limit of each method, in seconds.

    `by_method` is keyed by the method's name without its service; other methods have `default_s`.
    None is no limit.
    """

    default_s: float | None = 30.0
    by_method: Mapping[str, float | None] = field(default_factory=lambda: METHOD_TIMEOUTS_S)

    def limit_s(self, method: str) -> float | None:
        """Return the limit of a method given as `/package.Service/Method` or `Method`."""
        return self.by_method.get(method.rpartition("/")[2], self.default_s)
