"""Converted models on disk: made once, checked at every start, shared by processes."""

import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from groundwire.embedders.model import Frame, LanguageModel
from groundwire.embedders.model_files import ModelFiles
from groundwire.embedders.openvino_engine import import_openvino
from groundwire.kernel.embedder import EmbeddingIdentity, TokenizerDefinition, TokenizerFormat, Vectors

_LOG = logging.getLogger(__name__)

_FORMAT: Final = 2
"""Raise it when the layout of an entry or the way to convert changes."""

_STAGING = ".converting-"
_LONGEST_CONVERSION_S = 3_600
_MANIFEST = "manifest.json"
_GRAPH = "model.xml"
_REFERENCE = "reference.npy"


@dataclass(frozen=True, slots=True)
class Conversion:
    """A converted model on disk.

    `reference` holds the fp32 vectors of CHECK_TEXTS (unit rows), made when it was converted.
    """

    folder: Path
    model: LanguageModel
    reference: Vectors

    @property
    def model_xml(self) -> Path:
        """Return the file that OpenVINO reads."""
        return self.folder / _GRAPH

    def noted(self, name: str) -> dict[str, Any]:
        """Return what `note` kept under this name, empty when nothing or nothing readable."""
        try:
            note = json.loads((self.folder / _note_file(name)).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return note if isinstance(note, dict) else {}

    def note(self, name: str, content: dict[str, Any]) -> None:
        """Keep figures measured with this model, for instance on one processor; in vain where the disk refuses."""
        try:
            # Renamed into place: another process may read it at any moment.
            handle, temporary = tempfile.mkstemp(prefix=".note-", dir=self.folder)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"of": name, **content}, file)
            Path(temporary).replace(self.folder / _note_file(name))
        except OSError as error:
            _LOG.warning("what was measured of %s will be measured again: %s", self.folder, error)

    def discard(self) -> None:
        """Remove it, so that the next start converts again."""
        shutil.rmtree(self.folder, ignore_errors=True)


def find_conversion(files: ModelFiles, cache_dir: Path) -> Conversion | None:
    """Return the conversion of exactly these files by this version of OpenVINO, if there is a complete one."""
    folder = _entry(files, cache_dir)
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        definition = manifest["tokenizer"]
        model = LanguageModel(
            # The name it has now: a copied folder keeps its conversion.
            identity=replace(EmbeddingIdentity(**manifest["identity"]), model_name=files.model_name),
            tokenizer=TokenizerDefinition(
                files.model_name, TokenizerFormat(definition["format"]), definition["content"]
            ),
            document_frame=_read_frame(manifest["document_frame"]),
            query_frame=_read_frame(manifest["query_frame"]),
            pad_id=manifest["pad_id"],
        )
        reference = np.load(folder / _REFERENCE, allow_pickle=False)
    except FileNotFoundError:
        return None
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        _LOG.warning("the converted model in %s cannot be read (%s); converting again", folder, error)
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return Conversion(folder, model, reference)


def keep_conversion(
    graph: Any, model: LanguageModel, reference: Vectors, files: ModelFiles, cache_dir: Path
) -> Conversion:
    """Write an `openvino.Model` for later starts; when another process was quicker, its result counts.

    `reference` are the vectors of CHECK_TEXTS that every engine and precision has to give.
    """
    folder = _entry(files, cache_dir)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for abandoned in folder.parent.glob(f"{_STAGING}*"):
        # Of a process that died while it converted; a younger one may still be at work.
        if time.time() - abandoned.stat().st_mtime > _LONGEST_CONVERSION_S:
            shutil.rmtree(abandoned, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=folder.parent))
    try:
        import_openvino().save_model(graph, str(staging / _GRAPH), compress_to_fp16=False)
        np.save(staging / _REFERENCE, reference, allow_pickle=False)
        (staging / _MANIFEST).write_text(json.dumps(asdict(model)), encoding="utf-8")
        if folder.exists() and not (folder / _MANIFEST).is_file():
            shutil.rmtree(folder, ignore_errors=True)
        try:
            staging.rename(folder)
        except OSError:
            # Renaming a folder fails when the target has files: then another process has put the same there.
            if not (folder / _MANIFEST).is_file():
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return Conversion(folder, model, reference)


def _entry(files: ModelFiles, cache_dir: Path) -> Path:
    key = hashlib.sha256(f"{_FORMAT}\0{files.revision}\0{import_openvino().get_version()}".encode()).hexdigest()
    return cache_dir / "openvino" / key[:32]


def _read_frame(written: dict[str, list[int]]) -> Frame:
    return Frame(tuple(written["prefix"]), tuple(written["suffix"]))


def _note_file(name: str) -> str:
    return f"note-{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
