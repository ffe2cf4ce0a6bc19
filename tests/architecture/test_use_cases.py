"""Use cases know the domain and the ports of their service, nothing of transport, adapters or settings."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

SERVICES = ["ingest", "retrieve", "answer"]
EDGES = {
    "__init__",
    "__main__",
    "bootstrap",
    "citation_styles",
    "library",  # the LibraryService, which has no use cases of its own
    "messages",
    "servicer",
    "servicers",
    "settings",
}
MESSAGES = {"answer": ("groundwire.api.", "groundwire.rpc.messages", "groundwire.rpc.value_messages")}
"""What a service may import all the same: an answer is one message of the contract from its making to its sending."""
TRANSPORT = ("google", "groundwire.api", "groundwire.client", "groundwire.rpc", "grpc", "pydantic", "sqlalchemy")


def _use_cases(service: str) -> Iterator[Path]:
    (folder,) = import_module(f"groundwire.{service}").__path__
    for path in sorted(Path(folder).glob("*.py")):
        if path.stem not in EDGES and not path.stem.startswith("wire"):
            yield path


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("service", SERVICES)
def test_use_cases_import_no_edge(service: str) -> None:
    own = tuple(
        f"groundwire.{service}.{name}"
        for name in (
            "adapters",
            "bootstrap",
            "citation_styles",
            "library",
            "messages",
            "parsing.parser_p",
            "servicer",
            "settings",
            "wire",
        )
    )
    stores = ("groundwire.embedders", "groundwire.vectorstores")
    wrong = [
        f"{path.name}: {name}"
        for path in _use_cases(service)
        for name in _imports(path)
        if name.startswith((*TRANSPORT, *own, *stores)) and not name.startswith(MESSAGES.get(service, ()))
    ]
    assert not wrong
