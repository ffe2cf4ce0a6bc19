"""Converted models on disk: made once, safe between processes, checked before they serve."""

import fcntl
import json
import logging
import os
import random
import resource
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from groundwire.embedders import factory, openvino_engine
from groundwire.embedders.factory import EngineName, open_model
from groundwire.embedders.model import cosines, embed_directly
from groundwire.embedders.model_files import ModelFiles, find_model
from groundwire.embedders.openvino_engine import OpenVinoEngine, find_conversion
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import PreconditionError
from tests.conformance.embedder import model_cache, opened
from tests.unit.embedders.tiny_model import save_tiny_model

SERVE = """
import json, sys, time
events = []
watched = {"socket.connect", "subprocess.Popen", "os.fork"}
sys.addaudithook(lambda name, _: events.append(name) if name in watched else None)
started = time.process_time()
from pathlib import Path
from groundwire.embedders.factory import open_embedder
from groundwire.kernel.budget import Budget
embedder = open_embedder(sys.argv[1], cache_dir=Path(sys.argv[2]))
vector = embedder.embed_query("hello", Budget())
embedder.embed_documents(["one", "two " * 500], Budget())
seconds = time.process_time() - started
unused = ("torch", "transformers", "sentence_transformers", "openvino.tools.ovc")
heavy = [name for name in unused if name in sys.modules]
engine, identity = embedder.engine_name, embedder.identity.digest
embedder.close()
time.sleep(float(sys.argv[3]))
print(json.dumps({"heavy": heavy, "events": events, "seconds": seconds, "engine": engine, "identity": identity}))
"""


def start(url: str, cache: Path, linger_s: float = 0.0) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", SERVE, url, str(cache), str(linger_s)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def outcome(process: "subprocess.Popen[str]") -> dict[str, object]:
    output, _ = process.communicate(timeout=250)
    assert process.returncode == 0
    result: dict[str, object] = json.loads(output.splitlines()[-1])
    return result


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    return find_model(str(save_tiny_model(tmp_path_factory.mktemp("model"), 64)))


@pytest.fixture(scope="module")
def converted(tiny: ModelFiles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("converted")
    open_model(tiny, EngineName.OPENVINO, cache).close()
    return cache


@pytest.fixture
def cache(converted: Path, tmp_path: Path) -> Path:
    """Return a cache of this test's own that holds the converted model."""
    return Path(shutil.copytree(converted, tmp_path / "cache"))


def entries(cache: Path) -> list[Path]:
    return [path for path in (cache / "openvino").iterdir() if not path.name.startswith(".")]


def test_once_converted_serving_needs_neither_torch_nor_transformers() -> None:
    opened("sentence-transformers:all-MiniLM-L6-v2?engine=openvino&long=truncate")
    result = outcome(start("sentence-transformers:all-MiniLM-L6-v2", model_cache()))
    assert result["heavy"] == []
    assert result["events"] == []
    assert str(result["engine"]).startswith("openvino ")
    assert isinstance(result["seconds"], float)
    # About a second of the processor.
    assert result["seconds"] < 10


@pytest.mark.slow
def test_two_processes_that_convert_at_once_make_one_entry_and_no_connection(tiny: ModelFiles, tmp_path: Path) -> None:
    url = f"sentence-transformers:{tiny.folder}?engine=openvino"
    one, two = start(url, tmp_path, 0.5), start(url, tmp_path, 0.5)
    results = [outcome(one), outcome(two)]
    assert results[0]["identity"] == results[1]["identity"]
    assert [result["events"] for result in results] == [[], []]
    assert len(entries(tmp_path)) == 1
    assert [path.name for path in (tmp_path / "openvino").iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("damage", ["weights", "manifest", "reference", "note", "all"])
def test_a_damaged_entry_is_made_again(
    tiny: ModelFiles, cache: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = open_model(tiny, EngineName.OPENVINO, cache)
    expected = first.embed_query("hello", Budget())
    first.close()
    (entry,) = entries(cache)
    if damage == "weights":
        weights = bytearray((entry / "model.bin").read_bytes())
        weights[1_000:9_000] = random.Random(1).randbytes(8_000)
        (entry / "model.bin").write_bytes(weights)
    elif damage == "manifest":
        (entry / "manifest.json").write_text("{}")
    elif damage == "reference":
        (entry / "reference.npy").write_bytes(b"")
    elif damage == "all":
        (entry / "manifest.json").unlink()
    else:
        next(entry.glob("note-*")).write_text("{ torn")
    again = open_model(tiny, EngineName.OPENVINO, cache)
    assert float(again.embed_query("hello", Budget()) @ expected) > 0.999
    again.close()
    # A torn note costs a measurement, not a conversion.
    assert ("converting again" in caplog.text) == (damage in {"weights", "manifest", "reference"})
    assert (entry / "manifest.json").is_file()


@pytest.mark.parametrize("damage", ["cut", "garbled"])
def test_what_was_compiled_is_kept_and_made_anew_when_it_is_damaged(
    tiny: ModelFiles, cache: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = open_model(tiny, EngineName.OPENVINO, cache)
    expected = first.embed_query("hello", Budget())
    first.close()
    (entry,) = entries(cache)
    compiled = list(entry.rglob("*.blob"))
    assert compiled
    assert all(blob.stat().st_size < (entry / "model.bin").stat().st_size for blob in compiled)
    damaged = {}
    for blob in compiled:
        content = blob.read_bytes()
        damaged[blob] = content[:1000]
        if damage == "garbled":
            damaged[blob] += random.Random(1).randbytes(len(content) - 1000)
        blob.unlink()
        blob.write_bytes(damaged[blob])
    again = open_model(tiny, EngineName.OPENVINO, cache)
    assert float(again.embed_query("hello", Budget()) @ expected) > 0.999
    again.close()
    assert "converting again" not in caplog.text
    # Only that of the precision that was chosen is read, and written.
    assert any(blob.read_bytes() != content for blob, content in damaged.items())


def test_each_precision_runs_what_was_compiled_for_it_alone(tiny: ModelFiles, cache: Path) -> None:
    """Where they shared it, bf16 gave no numbers on a processor with AMX, and then took the process down."""
    opened = open_model(tiny, EngineName.OPENVINO, cache)
    (entry,) = entries(cache)
    shutil.rmtree(entry / "compiled-f32")
    shutil.rmtree(entry / "compiled-bf16", ignore_errors=True)
    tokens = opened.tokenizer.encode(["hello", "what is a slice?"])
    conversion = find_conversion(tiny, cache)
    assert conversion is not None
    vectors = []
    for precision in ("f32", "bf16", "f32"):
        engine = OpenVinoEngine(conversion.model_xml, precision)
        vectors.append(embed_directly(engine, conversion.model, tokens))
        engine.close()
    opened.close()
    assert [bool(list((entry / f"compiled-{each}").glob("*.blob"))) for each in ("f32", "bf16")] == [True, True]
    assert list(entry.glob("*.blob")) == []
    assert cosines(vectors[0], vectors[1]).min() >= 0.99
    assert np.array_equal(vectors[0], vectors[2])


def test_a_process_waits_while_another_compiles_the_same_model(tiny: ModelFiles, cache: Path) -> None:
    open_model(tiny, EngineName.OPENVINO, cache).close()
    (entry,) = entries(cache)
    for blob in entry.rglob("*.blob"):
        blob.unlink()
    compiling = os.open(entry, os.O_RDONLY)
    fcntl.flock(compiling, fcntl.LOCK_EX)
    with ThreadPoolExecutor() as pool:
        opening = pool.submit(open_model, tiny, EngineName.OPENVINO, cache)
        with pytest.raises(TimeoutError):
            opening.result(1.0)
        assert list(entry.rglob("*.blob")) == []
        os.close(compiling)
        opening.result(30.0).close()
    assert list(entry.rglob("*.blob")) != []


def test_a_process_that_compiles_for_ever_keeps_no_other_from_it(
    tiny: ModelFiles, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_model(tiny, EngineName.OPENVINO, cache).close()
    (entry,) = entries(cache)
    for blob in entry.rglob("*.blob"):
        blob.unlink()
    monkeypatch.setattr(openvino_engine, "_COMPILING_S", 0.1)
    compiling = os.open(entry, os.O_RDONLY)
    fcntl.flock(compiling, fcntl.LOCK_EX)
    open_model(tiny, EngineName.OPENVINO, cache).close()
    os.close(compiling)
    assert list(entry.rglob("*.blob")) == []


def test_what_a_dead_process_left_half_converted_is_swept(tiny: ModelFiles, tmp_path: Path) -> None:
    old, young = (tmp_path / "openvino" / f".converting-{name}" for name in ("old", "young"))
    for folder in (old, young):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    open_model(tiny, EngineName.OPENVINO, tmp_path).close()
    assert not old.exists()
    assert young.exists()


def test_a_cache_that_cannot_be_made_is_a_clear_error_or_a_reason_for_torch(tiny: ModelFiles, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PreconditionError, match=r"cannot keep the converted model in .*/file'.* set GROUNDWIRE_CACHE"):
        open_model(tiny, EngineName.OPENVINO, tmp_path / "file")
    embedder = open_model(tiny, EngineName.AUTO, tmp_path / "file")
    assert embedder.engine_name == "torch f32"
    embedder.close()


def test_a_cache_without_room_is_named(tiny: ModelFiles, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(PreconditionError, match=r"cannot keep the converted model in .* set GROUNDWIRE_CACHE"):
            open_model(tiny, EngineName.OPENVINO, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list((tmp_path / "openvino").iterdir()) == []


def test_auto_falls_back_to_torch_and_says_why(
    tiny: ModelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(factory, "MIN_COSINE", 1.5)
    with caplog.at_level(logging.WARNING):
        embedder = open_model(tiny, EngineName.AUTO, tmp_path)
    assert embedder.engine_name == "torch f32"
    embedder.close()
    assert "does not give the vectors of tiny" in caplog.text
    with pytest.raises(PreconditionError, match="cosine"):
        open_model(tiny, EngineName.OPENVINO, tmp_path)


def test_auto_without_openvino_runs_on_torch(
    tiny: ModelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with caplog.at_level(logging.WARNING):
        embedder = open_model(tiny, EngineName.AUTO, tmp_path)
    assert embedder.engine_name == "torch f32"
    embedder.close()
    assert "openvino is not installed" in caplog.text


def test_where_torch_is_faster_auto_takes_torch_and_remembers(
    tiny: ModelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factory, "_WORTH_TORCH", 0.0)
    first = open_model(tiny, EngineName.AUTO, tmp_path)
    first.close()
    monkeypatch.undo()
    second = open_model(tiny, EngineName.AUTO, tmp_path)
    second.close()
    third = open_model(tiny, EngineName.OPENVINO, tmp_path)
    third.close()
    assert [first.engine_name, second.engine_name] == ["torch f32", "torch f32"]
    assert third.engine_name.startswith("openvino ")
