"""Run a model with OpenVINO, one stream for each core, without torch; converted models on disk.

A model is converted once. What was converted is checked at every start, and processes share it.
"""

import fcntl
import hashlib
import json
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from groundwire.embedders.model import Frame, LanguageModel
from groundwire.embedders.model_files import ModelFiles
from groundwire.kernel.embedder import EmbeddingIdentity, TokenizerDefinition, TokenizerFormat, Vectors
from groundwire.kernel.errors import MissingExtraError, PreconditionError

_LOG = logging.getLogger(__name__)

_MAX_STREAMS = 8
# How long to wait for another process that compiles the same model, which takes about a second.
_COMPILING_S = 30.0
_CONVERTER = "openvino.tools.ovc"
_IMPORTING = threading.Lock()
# Raise it when the layout of an entry or the way to convert changes.
_FORMAT: Final = 3

_STAGING = ".converting-"
_LONGEST_CONVERSION_S = 3_600
_MANIFEST = "manifest.json"
_GRAPH = "model.xml"
_REFERENCE = "reference.npy"
_COMPILED = "compiled-"


class OpenVinoEngine:
    """Runs the model with one single-threaded stream for each core.

    Streams that need not meet at barriers use the cores best, also when other work shares them: one
    stream over both of two busy cores was half as fast (measured).
    """

    def __init__(self, model: Any, precision: str) -> None:
        """Compile an `openvino.Model`, or the file of one; precision is `f32` or `bf16`."""
        cores = len(os.sched_getaffinity(0))
        self.name = f"openvino {precision}"
        self.parallelism = min(cores, _MAX_STREAMS)
        options = {
            "INFERENCE_PRECISION_HINT": precision,
            "PERFORMANCE_HINT": "THROUGHPUT",
            "NUM_STREAMS": str(self.parallelism),
            "INFERENCE_NUM_THREADS": cores,
            "ENABLE_CPU_PINNING": False,
        }
        core = import_openvino().Core()
        self._idle: deque[Any] = deque()
        if not isinstance(model, Path):
            self._compiled: Any = core.compile_model(model, "CPU", options)
            return
        # What was compiled stays beside the model, without its weights: that halves the time of compiling. OpenVINO
        # rebuilds it if it is damaged, but not while another process writes it: that gave a model that fails. Each
        # precision has a folder of its own: in a shared one a processor with AMX ran bf16 with what had been compiled
        # for f32, which gave no numbers and destroyed the memory of the process (OpenVINO 2026.4.1).
        folder = os.open(model.parent, os.O_RDONLY)
        try:
            ends_at = time.monotonic() + _COMPILING_S
            # flock has no timeout, and an alarm would need the main thread, so the lock is polled.
            while time.monotonic() < ends_at:
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    time.sleep(0.05)
                else:
                    compiled = model.parent / f"{_COMPILED}{precision}"
                    options |= {"CACHE_DIR": str(compiled), "CACHE_MODE": "OPTIMIZE_SIZE"}
                    break
            self._compiled = core.compile_model(str(model), "CPU", options)
        finally:
            os.close(folder)

    def infer(self, input_ids: NDArray[np.int64], attention_mask: NDArray[np.int64]) -> Vectors:
        """Return float32 of shape (n, dimensions); inference requests are created when needed and reused."""
        try:
            request = self._idle.pop()
        except IndexError:
            request = self._compiled.create_infer_request()
        request.infer([input_ids, attention_mask])
        vectors: Vectors = request.get_output_tensor(0).data.copy()
        self._idle.append(request)
        return vectors

    def close(self) -> None:
        self._idle.clear()
        self._compiled = None


def import_openvino() -> Any:
    """Return the openvino module, its telemetry off.

    OpenVINO reports conversions over the network when the package openvino_telemetry can be imported,
    and has a silent stub for when it cannot. Its converter takes half of the import, and only a new model needs it:
    `openvino.tools.ovc` can be imported afterwards.

    Raises:
        MissingExtraError: openvino is not installed.
    """
    with _IMPORTING:
        if "openvino" not in sys.modules:
            # None blocks an import.
            sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
            sys.modules[_CONVERTER] = None  # type: ignore[assignment]
        try:
            import openvino  # noqa: PLC0415 - heavy, only where this engine runs
        except ImportError as error:
            raise MissingExtraError("openvino is not installed: groundwire[openvino]", extra="openvino") from error
        finally:
            if sys.modules.get(_CONVERTER, sys) is None:
                del sys.modules[_CONVERTER]
    return openvino


def processor() -> str:
    """Return OpenVINO's description of the processor, the name under which its measurements are stored."""
    core = import_openvino().Core()
    abilities = ",".join(sorted(core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")))
    return f"{core.get_property('CPU', 'FULL_DEVICE_NAME')} {abilities} x{len(os.sched_getaffinity(0))}"


def has_bfloat16() -> bool:
    """Return whether the processor has bfloat16 units (AMX or AVX-512) that OpenVINO uses."""
    return "BF16" in import_openvino().Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


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
        return self.folder / _GRAPH

    def noted(self, name: str) -> dict[str, Any]:
        """Return what `note` stored under this name, empty when there is nothing readable."""
        try:
            note = json.loads((self.folder / _note_file(name)).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return note if isinstance(note, dict) else {}

    def note(self, name: str, content: dict[str, Any]) -> None:
        """Store figures measured with this model, such as on one processor; errors of the disk are ignored."""
        try:
            # Renamed into place: another process may read it at any moment.
            handle, temporary = tempfile.mkstemp(prefix=".note-", dir=self.folder)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"of": name, **content}, file)
            Path(temporary).replace(self.folder / _note_file(name))
        except OSError as error:
            _LOG.warning("what was measured of %s will be measured again: %s", self.folder, error)

    def discard(self) -> None:
        """Remove the conversion, so that the next start converts again."""
        shutil.rmtree(self.folder, ignore_errors=True)


def find_conversion(files: ModelFiles, cache_dir: Path) -> Conversion | None:
    """Return the conversion of exactly these files by this version of OpenVINO, if there is a complete one."""
    folder = _entry(files, cache_dir)
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        definition = manifest["tokenizer"]
        model = LanguageModel(
            # The current name of the folder, so that a copied one keeps its conversion.
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

    Raises:
        PreconditionError: it cannot be written there.
    """
    folder = _entry(files, cache_dir)
    try:
        _write(graph, model, reference, folder)
    except (OSError, RuntimeError) as error:  # OpenVINO raises the latter, which does not name the disk
        reason = (isinstance(error, OSError) and error.strerror) or error
        message = f"cannot keep the converted model in {str(cache_dir)!r}: {reason}"
        raise PreconditionError(f"{message}; set GROUNDWIRE_CACHE to a folder with room to write to") from error
    return Conversion(folder, model, reference)


def _write(graph: Any, model: LanguageModel, reference: Vectors, folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for abandoned in folder.parent.glob(f"{_STAGING}*"):
        # Left by a process that died while converting; a younger folder may still be in use.
        if time.time() - abandoned.stat().st_mtime > _LONGEST_CONVERSION_S:
            shutil.rmtree(abandoned, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=folder.parent))
    try:
        # By default the weights would be rounded to 16 bits.
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


def _entry(files: ModelFiles, cache_dir: Path) -> Path:
    key = hashlib.sha256(f"{_FORMAT}\0{files.revision}\0{import_openvino().get_version()}".encode()).hexdigest()
    return cache_dir / "openvino" / key[:32]


def _read_frame(written: dict[str, list[int]]) -> Frame:
    return Frame(tuple(written["prefix"]), tuple(written["suffix"]))


def _note_file(name: str) -> str:
    return f"note-{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
