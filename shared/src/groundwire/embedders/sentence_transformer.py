"""Load any model of the sentence-transformers library from local files, and learn what it expects."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import tokenizers

from groundwire.embedders.engine import Frame, LanguageModel, embed_directly, unit_rows
from groundwire.embedders.model_files import ModelFiles
from groundwire.embedders.probe import MIN_COSINE, PROBE_TEXTS, cosines, probe_digest
from groundwire.embedders.tokenization import ModelTokenizer
from groundwire.embedders.torch_engine import TorchEngine
from groundwire.kernel.embedder import EmbeddingIdentity, TokenizerDefinition, TokenizerFormat, Vectors
from groundwire.kernel.errors import InvalidRequestError, MissingExtraError, PreconditionError

PROVIDER: Final = "sentence-transformers"

_FALLBACK_MAX_TOKENS = 512
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")
"""The names under which the library's `encode_document` looks for a prompt, in its order."""

_QUERY_PROMPTS = ("query",)
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}


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
            raise MissingExtraError("sentence-transformers is not installed", extra="models") from error
        with _no_progress_bar():
            try:
                module = sentence_transformers.SentenceTransformer(
                    str(files.folder), device="cpu", local_files_only=True
                )
            except Exception as error:
                # torch, safetensors and transformers raise whatever they like for files they cannot read.
                raise _unusable(files, f"cannot be loaded: {error}") from error
        return module.float().eval()


def describe(module: Any, files: ModelFiles) -> LanguageModel:
    """Return what is known of a loaded model.

    Raises:
        InvalidRequestError: the model takes no token sequences, or has no tokenizer of the tokenizers library.
        PreconditionError: the way we run it does not give the library's own vectors.
    """
    definition = TokenizerDefinition(files.model_name, TokenizerFormat.HUGGINGFACE_JSON, _tokenizer_json(module, files))
    tokenizer = ModelTokenizer(definition)
    expected = encoded(module, PROBE_TEXTS)
    model = LanguageModel(
        identity=_identity(module, files, expected),
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


def _identity(module: Any, files: ModelFiles, probe_vectors: Vectors) -> EmbeddingIdentity:
    return EmbeddingIdentity(
        provider=PROVIDER,
        model_name=files.model_name,
        revision=files.revision,
        dimensions=probe_vectors.shape[1],
        max_tokens=_max_tokens(module),
        normalized=True,
        probe_digest=probe_digest(probe_vectors),
    )


def encoded(module: Any, texts: tuple[str, ...]) -> Vectors:
    """Return the library's own vectors of documents: float32, shape (len(texts), dimensions), unit rows."""
    with quiet_libraries():
        vectors: Vectors = module.encode_document(list(texts), show_progress_bar=False)
    return unit_rows(vectors)


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


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    from transformers.utils import logging as transformers_logging  # noqa: PLC0415 - heavy, loaded by now

    was_enabled = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            transformers_logging.enable_progress_bar()


def _tokenizer_json(module: Any, files: ModelFiles) -> str:
    backend = getattr(getattr(module, "tokenizer", None), "backend_tokenizer", None)
    if not isinstance(backend, tokenizers.Tokenizer) or not hasattr(module[0], "auto_model"):
        raise _unusable(files, "is not a transformer with a fast tokenizer")
    copy = tokenizers.Tokenizer.from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy.to_str()


def _max_tokens(module: Any) -> int:
    positions = getattr(module[0].auto_model.config, "max_position_embeddings", None)
    return int(module.max_seq_length or positions or _FALLBACK_MAX_TOKENS)


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
