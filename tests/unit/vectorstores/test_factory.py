"""Opening a vector store by URL."""

import importlib.util
import subprocess
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from groundwire.kernel.errors import InvalidRequestError, MissingExtraError, StoreUnavailableError
from groundwire.vectorstores.factory import open_vector_store

OPEN_BOTH = """
import sys
from pathlib import Path
from groundwire.kernel.budget import Budget
from groundwire.vectorstores.factory import open_vector_store
for scheme in ("chroma", "qdrant-edge"):
    store = open_vector_store(f"{scheme}:{scheme}", data_dir=Path(sys.argv[1]))
    store.create_collection("gw-books", 4, Budget())
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


@pytest.mark.parametrize(
    ("url", "package", "words"),
    [
        ("qdrant://127.0.0.1:9", "qdrant_client", "qdrant failed"),
        ("qdrants://127.0.0.1:9", "qdrant_client", "qdrant failed"),
        ("chroma+http://127.0.0.1:9", "chromadb", "chroma failed"),
    ],
)
def test_a_server_that_does_not_answer_is_unavailable_at_once(
    url: str, package: str, words: str, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError, match=words) as failed:
        open_vector_store(url, data_dir=tmp_path)
    assert time.monotonic() - started < 10
    assert "\n" not in failed.value.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("qdrant://", "names no host"),
        ("qdrant://u:secret@host", "GROUNDWIRE_VECTORS_API_KEY"),
        ("qdrant://host:99999", "port"),
        ("qdrant://host/path", "scheme://host:port"),
        ("qdrant://host?colour=red", "unknown option 'colour'"),
        ("qdrant://host?shard_number=0", "shard_number must be a whole number from 1"),
        ("qdrant://host?quantization=int8", "scalar, binary, product"),
        ("qdrant://host?on_disk=yes", "true or false"),
        ("qdrant://host?prefix=A_", "prefix must be"),
        ("chroma+http://host?shard_number=2", "unknown option"),
    ],
)
def test_a_malformed_url_of_a_server_says_what_is_wrong_and_no_secret(url: str, words: str, tmp_path: Path) -> None:
    pytest.importorskip("qdrant_client" if url.startswith("qdrant") else "chromadb")
    with pytest.raises(InvalidRequestError) as refused:
        open_vector_store(url, data_dir=tmp_path)
    assert {violation.field for violation in refused.value.violations} == {"vectors"}
    assert words in refused.value.message
    assert "secret" not in refused.value.message


@pytest.mark.parametrize(("rest", "expected"), [("", "vectors"), ("mine/here", "mine/here"), ("{}/away", "away")])
def test_a_folder_is_below_the_data_folder_unless_absolute(rest: str, expected: str, tmp_path: Path) -> None:
    pytest.importorskip("qdrant_edge")
    store = open_vector_store(f"qdrant-edge:{rest.format(tmp_path)}", data_dir=tmp_path)
    store.close()
    assert (tmp_path / expected / "LOCK").is_file()


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("qdrant-edge:", "qdrant_edge", "edge"),
        ("chroma:", "chromadb", "chroma"),
        ("qdrant://host", "qdrant_client", "qdrant"),
        ("chroma+http://host", "chromadb", "chroma"),
    ],
)
def test_a_missing_package_is_reported_with_its_extra(
    url: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec

    def without_package(name: str) -> ModuleSpec | None:
        return None if name == package else find_spec(name)

    monkeypatch.setattr(importlib.util, "find_spec", without_package)
    with pytest.raises(MissingExtraError) as missing:
        open_vector_store(url, data_dir=tmp_path)
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
