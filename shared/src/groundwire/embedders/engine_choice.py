"""Choose the engine that runs a model: measured on this processor, never assumed."""

import logging
import time
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from groundwire.embedders.batching import BatchingEmbedder
from groundwire.embedders.conversion import Conversion, convert, find_conversion
from groundwire.embedders.engine import embed_directly
from groundwire.embedders.model_files import ModelFiles
from groundwire.embedders.openvino_engine import OpenVinoEngine, has_bfloat16, processor
from groundwire.embedders.probe import CHECK_TEXTS, LONG_TEXTS, MIN_COSINE, PROBE_TEXTS, cosines
from groundwire.embedders.sentence_transformer import describe, load_module
from groundwire.embedders.tokenization import ModelTokenizer
from groundwire.embedders.torch_engine import TorchEngine
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import PreconditionError

_LOG = logging.getLogger(__name__)

_WORTH_BFLOAT16: Final = 1.1
"""bf16 must be so much faster than fp32 to be worth its rounding."""

_WORTH_TORCH: Final = 1.25
"""torch must be so much faster than OpenVINO to be worth its seconds of start and its memory."""

_ROUNDS = 3
_TIMED_TEXTS = [*LONG_TEXTS[:2]] * 4


class EngineName(StrEnum):
    """What an operator may ask for."""

    AUTO = "auto"
    TORCH = "torch"
    OPENVINO = "openvino"


def open_model(files: ModelFiles, engine: EngineName, cache_dir: Path) -> BatchingEmbedder:
    """Return the embedder of a model on the engine asked for, or on the better one.

    Raises:
        MissingExtraError: a package is not installed.
        InvalidRequestError: the files are no model that can be loaded.
        PreconditionError: OpenVINO was asked for and does not give this model's vectors.
    """
    if engine is EngineName.TORCH:
        return _on_torch(files)
    try:
        return _on_openvino(files, cache_dir, may_decline=engine is EngineName.AUTO)
    except (PreconditionError, OSError, RuntimeError) as error:
        if engine is EngineName.OPENVINO:
            if isinstance(error, PreconditionError):
                raise
            raise PreconditionError(f"OpenVINO cannot run {files.model_name}: {error}") from error
        _LOG.warning("running %s on torch: %s", files.model_name, error)
        return _on_torch(files)


def _on_torch(files: ModelFiles) -> BatchingEmbedder:
    module = load_module(files)
    return BatchingEmbedder(TorchEngine(module), describe(module, files))


def _on_openvino(files: ModelFiles, cache_dir: Path, *, may_decline: bool) -> BatchingEmbedder:
    conversion = find_conversion(files, cache_dir)
    if conversion is not None:
        note = conversion.noted(processor())
        if may_decline and "declined" in note:
            raise PreconditionError(note["declined"])
        try:
            return _verified(conversion, note["precision"], PROBE_TEXTS) if "precision" in note else _best(conversion)
        except (PreconditionError, OSError, RuntimeError) as error:
            _LOG.warning("the converted model in %s is not usable (%s); converting again", conversion.folder, error)
            conversion.discard()
    module = load_module(files)
    conversion = convert(module, describe(module, files), files, cache_dir)
    embedder = _best(conversion)
    return _unless_torch_is_better(embedder, module, conversion) if may_decline else embedder


def _best(conversion: Conversion) -> BatchingEmbedder:
    """Return the embedder of the fastest precision that is close enough, and note it for this processor."""
    fp32 = _verified(conversion, "f32", CHECK_TEXTS)
    chosen, precision = fp32, "f32"
    if has_bfloat16():
        try:
            bf16 = _verified(conversion, "bf16", CHECK_TEXTS)
        except PreconditionError as error:
            _LOG.info("keeping fp32: %s", error)
        else:
            speed = _speed_ratio(bf16, fp32)
            chosen, precision = (bf16, "bf16") if speed >= _WORTH_BFLOAT16 else (fp32, "f32")
            (fp32 if chosen is bf16 else bf16).close()
            _LOG.info("chose %s for %s: bf16 is %.2f times as fast as fp32", precision, bf16.identity.model_name, speed)
    conversion.note(processor(), {"precision": precision})
    return chosen


def _unless_torch_is_better(embedder: BatchingEmbedder, module: Any, conversion: Conversion) -> BatchingEmbedder:
    """Return the embedder; raise and note it when torch runs the same weights clearly faster here."""
    on_torch = BatchingEmbedder(TorchEngine(module), conversion.model)
    speed = _speed_ratio(on_torch, embedder)
    on_torch.close()
    if speed < _WORTH_TORCH:
        return embedder
    embedder.close()
    reason = f"torch is {speed:.2f} times as fast as {embedder.engine_name} on this processor"
    conversion.note(processor(), {"declined": reason})
    raise PreconditionError(reason)


def _verified(conversion: Conversion, precision: str, texts: tuple[str, ...]) -> BatchingEmbedder:
    """Return the embedder once its vectors of the first CHECK_TEXTS agree with the library's.

    Raises:
        PreconditionError: they do not.
    """
    model = conversion.model
    engine = OpenVinoEngine(conversion.model_xml, precision)
    vectors = embed_directly(engine, model, ModelTokenizer(model.tokenizer).encode(texts))
    worst = float(cosines(vectors, conversion.reference[: len(texts)]).min())
    if not worst >= MIN_COSINE:
        engine.close()
        raise PreconditionError(
            f"{engine.name} does not give the vectors of {model.identity.model_name}: cosine {worst:.5f} < {MIN_COSINE}"
        )
    return BatchingEmbedder(engine, model)


def _speed_ratio(one: BatchingEmbedder, other: BatchingEmbedder) -> float:
    """Return how many times as fast `one` is, from the best of a few rounds taken in turns."""
    best = [float("inf"), float("inf")]
    for _ in range(_ROUNDS):
        for position, embedder in enumerate((one, other)):
            started = time.perf_counter()
            embedder.embed_documents(_TIMED_TEXTS, Budget())
            best[position] = min(best[position], time.perf_counter() - started)
    return best[1] / best[0]
