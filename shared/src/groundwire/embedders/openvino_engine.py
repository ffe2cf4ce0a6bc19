"""Run a model with OpenVINO: one stream for each core, without torch."""

import fcntl
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import MissingExtraError

_MAX_STREAMS = 8
_COMPILING_S = 30.0
"""What a process waits for another that compiles the same model, which takes about a second."""
_CONVERTER = "openvino.tools.ovc"
_IMPORTING = threading.Lock()


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
        # makes it anew if it is damaged, but not if another process is writing it: that gave a model that fails.
        cache = {"CACHE_DIR": str(model.parent), "CACHE_MODE": "OPTIMIZE_SIZE"}
        with _locked(model.parent) as is_locked:
            self._compiled = core.compile_model(str(model), "CPU", options | (cache if is_locked else {}))

    def infer(self, input_ids: NDArray[np.int64], attention_mask: NDArray[np.int64]) -> Vectors:
        """Return float32 of shape (n, dimensions); requests are made when needed and used again."""
        try:
            request = self._idle.pop()
        except IndexError:
            request = self._compiled.create_infer_request()
        request.infer([input_ids, attention_mask])
        vectors: Vectors = request.get_output_tensor(0).data.copy()
        self._idle.append(request)
        return vectors

    def close(self) -> None:
        """Let go of the compiled model."""
        self._idle.clear()
        self._compiled = None


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold the lock of a folder against other processes; yield false when one of them does not let go of it."""
    descriptor = os.open(folder, os.O_RDONLY)
    is_locked = False
    ends_at = time.monotonic() + _COMPILING_S
    try:
        # flock has no timeout, and an alarm would need the main thread: look twenty times a second.
        while not is_locked and time.monotonic() < ends_at:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_locked = True
            except OSError:
                time.sleep(0.05)
        yield is_locked
    finally:
        os.close(descriptor)


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
    """Return what OpenVINO says of the processor: a name for figures measured on it."""
    core = import_openvino().Core()
    abilities = ",".join(sorted(core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")))
    return f"{core.get_property('CPU', 'FULL_DEVICE_NAME')} {abilities} x{len(os.sched_getaffinity(0))}"


def has_bfloat16() -> bool:
    """Return whether the processor has bfloat16 units (AMX or AVX-512) that OpenVINO uses."""
    return "BF16" in import_openvino().Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
