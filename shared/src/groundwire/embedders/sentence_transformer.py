"""Any model of the sentence-transformers library: load it from local files, learn what it expects, run or trace it."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from groundwire.embedders.model import (
    MIN_COSINE,
    PROBE_TEXTS,
    PROVIDER,
    Frame,
    LanguageModel,
    ModelTokenizer,
    cosines,
    embed_directly,
    probe_digest,
)
from groundwire.embedders.model_files import ModelFiles
from groundwire.embedders.openvino_engine import import_openvino
from groundwire.kernel.embedder import EmbeddingIdentity, TokenizerDefinition, TokenizerFormat, Vectors
from groundwire.kernel.errors import InvalidRequestError, MissingExtraError, PreconditionError
from groundwire.kernel.vectors import unit_rows

_FALLBACK_MAX_TOKENS = 512
# The names under which the library's `encode_document` looks for a prompt, in its order.
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")

_QUERY_PROMPTS = ("query",)
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}


class TorchEngine:
    """Runs the module in fp32 on the CPU; one inference at a time, which uses all cores."""

    name = "torch f32"
    parallelism = 1

    def __init__(self, module: Any) -> None:
        self._module = module

    def infer(self, input_ids: NDArray[np.int64], attention_mask: NDArray[np.int64]) -> Vectors:
        import torch  # noqa: PLC0415 - heavy, only where this engine runs

        features = {"input_ids": torch.from_numpy(input_ids), "attention_mask": torch.from_numpy(attention_mask)}
        with torch.inference_mode():
            vectors: Vectors = self._module(features)["sentence_embedding"].float().numpy()
        return vectors

    def close(self) -> None:
        self._module = None


def load_module(files: ModelFiles) -> Any:
    """Return the model as the library loads it, in fp32 on the CPU, without any network.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        InvalidRequestError: the files are no model that the library can load.
    """
    os.environ.update(_OFFLINE)
    with quiet_libraries():
        try:
            import sentence_transformers  # noqa: PLC0415 - heavy (torch), only where a model is loaded
        except ImportError as error:
            message = f"the model {files.model_name} needs sentence-transformers: groundwire[models]"
            raise MissingExtraError(message, extra="models") from error
        from transformers.utils import logging as transformers_logging  # noqa: PLC0415 - heavy, loaded by now

        shows_progress = transformers_logging.is_progress_bar_enabled()
        transformers_logging.disable_progress_bar()
        try:
            module = sentence_transformers.SentenceTransformer(str(files.folder), device="cpu", local_files_only=True)
        except Exception as error:
            # torch, safetensors and transformers raise all kinds of exceptions for files they cannot read.
            raise _unusable(files, f"cannot be loaded: {error}") from error
        finally:
            if shows_progress:
                transformers_logging.enable_progress_bar()
        return module.float().eval()


def describe(module: Any, files: ModelFiles) -> LanguageModel:
    """Describe a loaded model.

    Raises:
        InvalidRequestError: the model takes no token sequences, or has no tokenizer of the tokenizers library.
        PreconditionError: the way we run it does not give the library's own vectors.
    """
    backend = getattr(getattr(module, "tokenizer", None), "backend_tokenizer", None)
    if not isinstance(backend, tokenizers.Tokenizer) or not hasattr(module[0], "auto_model"):
        raise _unusable(files, "is not a transformer with a fast tokenizer")
    copy = tokenizers.Tokenizer.from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()
    definition = TokenizerDefinition(files.model_name, TokenizerFormat.HUGGINGFACE_JSON, copy.to_str())
    tokenizer = ModelTokenizer(definition)
    expected = encoded(module, PROBE_TEXTS)
    positions = getattr(module[0].auto_model.config, "max_position_embeddings", None)
    model = LanguageModel(
        identity=EmbeddingIdentity(
            provider=PROVIDER,
            model_name=files.model_name,
            revision=files.revision,
            dimensions=expected.shape[1],
            max_tokens=int(module.max_seq_length or positions or _FALLBACK_MAX_TOKENS),
            normalized=True,
            probe_digest=probe_digest(expected),
        ),
        tokenizer=definition,
        document_frame=_frame(module, tokenizer, _DOCUMENT_PROMPTS),
        query_frame=_frame(module, tokenizer, _QUERY_PROMPTS),
        pad_id=int(module.tokenizer.pad_token_id or 0),
    )
    if model.window < 1:
        raise _unusable(files, f"leaves no room for text in its {model.identity.max_tokens} tokens")
    own = embed_directly(TorchEngine(module), model, tokenizer.encode(PROBE_TEXTS))
    if (worst := float(cosines(own, expected).min())) < MIN_COSINE:
        raise PreconditionError(
            f"model {files.model_name} needs a treatment of its input that is not supported: cosine to the "
            f"library's own vectors {worst:.4f} < {MIN_COSINE}",
            model=files.model_name,
        )
    return model


def encoded(module: Any, texts: tuple[str, ...]) -> Vectors:
    """Return the library's own vectors of documents: float32, shape (len(texts), dimensions), unit rows."""
    with quiet_libraries():
        vectors: Vectors = module.encode_document(list(texts), show_progress_bar=False)
    return unit_rows(vectors)


def traced(module: Any, model_name: str) -> Any:
    """Return the `openvino.Model` of a loaded model, all its modules (transformer, pooling, …) together.

    Raises:
        MissingExtraError: openvino is not installed.
        PreconditionError: OpenVINO cannot convert this model.
    """
    import torch  # noqa: PLC0415 - heavy, loaded by now

    class Whole(torch.nn.Module):  # type: ignore[misc]  # torch ships no types here
        """The module with positional inputs, which tracing needs."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.inner({"input_ids": input_ids, "attention_mask": attention_mask})["sentence_embedding"]

    # Two sequences of different lengths: a mask of ones alone would be optimised away by the tracing.
    attention_mask = torch.ones(2, 16, dtype=torch.long)
    attention_mask[1, 9:] = 0
    example = (torch.full((2, 16), 5, dtype=torch.long), attention_mask)
    openvino = import_openvino()
    shape = openvino.PartialShape([-1, -1])
    inputs = [(name, shape, openvino.Type.i64) for name in ("input_ids", "attention_mask")]
    with quiet_libraries():
        from openvino.tools.ovc import convert_model  # noqa: PLC0415 - importing openvino leaves it out

        try:
            return convert_model(Whole().eval(), example_input=example, input=inputs)
        except Exception as error:
            # OpenVINO and torch's tracing raise all kinds of exceptions for a model they do not support.
            raise PreconditionError(f"OpenVINO cannot convert {model_name}: {error}") from error


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep the libraries' deprecation and tracing warnings from the operator; errors still raise."""
    level = logging.getLogger("transformers").level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("transformers").setLevel(logging.ERROR)
        try:
            yield
        finally:
            logging.getLogger("transformers").setLevel(level)


def _frame(module: Any, tokenizer: ModelTokenizer, names: tuple[str, ...]) -> Frame:
    """Return special tokens and prompt; which prompt is chosen as `encode_query`/`encode_document` do."""
    prompts = module.prompts or {}
    name = next((name for name in names if name in prompts), module.default_prompt_name)
    prompt = prompts.get(name, "") if name else ""
    before, after = tokenizer.special_tokens()
    (ids,) = tokenizer.encode([prompt.rstrip()])
    return Frame((*before, *ids.tolist()), after)


def _unusable(files: ModelFiles, why: str) -> InvalidRequestError:
    return InvalidRequestError.of("embedder", f"model {files.model_name!r} in {str(files.folder)!r} {why}")
