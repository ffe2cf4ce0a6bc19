"""Opening a vector store by URL."""

import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from groundwire.kernel.errors import InvalidRequestError, MissingExtraError, NotAvailableError
from groundwire.vectorstores.factory import open_vector_store

OPEN_BOTH = """
import sys
from pathlib import Path
from groundwire.vectorstores.factory import open_vector_store
for scheme in ("chroma", "qdrant-edge"):
    store = open_vector_store(f"{scheme}:{scheme}", data_dir=Path(sys.argv[1]))
    store.create_collection("gw-books", 4)
    store.close()
print([name for name in ("chromadb", "qdrant_edge") if name in sys.modules])
"""
NO_VENDORS = """
import sys
import groundwire.vectorstores.factory
print([name for name in ("chromadb", "qdrant_edge", "qdrant_client") if name in sys.modules])
"""


@pytest.mark.parametrize("url", ["", "memory", "memory:x", "faiss:", "qdrant-edge", "http://localhost", "chroma//x"])
def test_an_unknown_scheme_is_refused_with_the_known_ones_named(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        open_vector_store(url, data_dir=tmp_path)
    assert refused.value.violations[0].field == "vectors"
    for scheme in ("memory:", "qdrant-edge:DIR", "chroma:DIR"):
        assert scheme in refused.value.violations[0].description
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["qdrant://localhost:6334", "chroma+http://localhost:8000"])
def test_servers_are_not_available_yet(url: str, tmp_path: Path) -> None:
    with pytest.raises(NotAvailableError):
        open_vector_store(url, data_dir=tmp_path)


@pytest.mark.parametrize(("rest", "expected"), [("", "vectors"), ("mine/here", "mine/here"), ("{}/away", "away")])
def test_a_folder_is_below_the_data_folder_unless_absolute(rest: str, expected: str, tmp_path: Path) -> None:
    pytest.importorskip("qdrant_edge")
    store = open_vector_store(f"qdrant-edge:{rest.format(tmp_path)}", data_dir=tmp_path)
    store.close()
    assert (tmp_path / expected / "LOCK").is_file()


@pytest.mark.parametrize(
    ("scheme", "package", "extra"), [("qdrant-edge", "qdrant_edge", "edge"), ("chroma", "chromadb", "chroma")]
)
def test_a_missing_package_is_reported_with_its_extra(
    scheme: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec

    def without_package(name: str) -> ModuleSpec | None:
        return None if name == package else find_spec(name)

    monkeypatch.setattr(importlib.util, "find_spec", without_package)
    with pytest.raises(MissingExtraError) as missing:
        open_vector_store(f"{scheme}:", data_dir=tmp_path)
    assert missing.value.metadata == {"extra": extra}
    assert f"groundwire[{extra}]" in missing.value.message


def test_the_factory_imports_no_engine() -> None:
    shown = subprocess.run([sys.executable, "-c", NO_VENDORS], env=_environment(), capture_output=True, check=True)
    assert shown.stdout.strip() == b"[]"


def test_no_engine_is_loaded_into_the_serving_process(tmp_path: Path) -> None:
    pytest.importorskip("qdrant_edge")
    pytest.importorskip("chromadb")
    arguments = [sys.executable, "-c", OPEN_BOTH, str(tmp_path)]
    shown = subprocess.run(arguments, env=_environment(), capture_output=True, check=True)
    assert shown.stdout.strip() == b"[]"


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(filter(None, sys.path))}
