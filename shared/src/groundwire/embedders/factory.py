"""Make the Embedder of a URL, on the engine that is best on this processor: measured, never assumed."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from groundwire.embedders.batching import BatchingEmbedder
from groundwire.embedders.bert import bert_graph, describe_bert
from groundwire.embedders.hashing import HashingEmbedder
from groundwire.embedders.model import (
    CHECK_TEXTS,
    LONG_TEXTS,
    MIN_COSINE,
    PROBE_TEXTS,
    Engine,
    LanguageModel,
    ModelTokenizer,
    cosines,
    embed_directly,
    probe_digest,
)
from groundwire.embedders.model_files import ModelFiles, find_model
from groundwire.embedders.openvino_engine import (
    Conversion,
    OpenVinoEngine,
    find_conversion,
    has_bfloat16,
    keep_conversion,
    processor,
)
from groundwire.embedders.sentence_transformer import TorchEngine, describe, encoded, load_module, traced
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.errors import InvalidRequestError, MissingExtraError, PreconditionError

_LOG = logging.getLogger(__name__)

PACKAGED_PROBE_DIGEST: Final = "2700550a44eb6242f3fa58f70d9781a2b7d8455ddca3374c9dc1eef323d8ade9"
"""Of the vectors that the sentence-transformers library makes of the packaged weights."""

_MAX_HASHING_DIMENSIONS = 65_536

# bf16 must be at least this much faster than fp32 to be worth its rounding.
_WORTH_BFLOAT16: Final = 1.1

# torch must be at least this much faster than OpenVINO to be worth its start-up time and memory.
_WORTH_TORCH: Final = 1.25

_ROUNDS = 3
_TIMED_TEXTS = [*LONG_TEXTS[:2]] * 4


class EngineName(StrEnum):
    """The engines that an operator may ask for."""

    AUTO = "auto"
    TORCH = "torch"
    OPENVINO = "openvino"


_OPTIONS = {"engine": tuple(EngineName), "long": ("windows", "truncate")}
_ENDPOINT_OPTIONS: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("dimensions", "max_tokens", "query_prompt", "document_prompt"), ()
)


def open_embedder(url: str, *, cache_dir: Path, api_key: str = "") -> Embedder:
    """Return the embedder of a URL; heavy libraries are imported only for the models that need them.

    Args:
        url: `sentence-transformers:NAME_OR_DIR[?engine=auto|torch|openvino][&long=windows|truncate]`,
            `openai+http(s)://HOST/PATH[?OPTIONS]#MODEL` or, for tests, `hashing:DIMENSIONS`.
        cache_dir: where converted models are kept; created when needed, may be shared by processes.
        api_key: what an endpoint asks for.

    Raises:
        InvalidRequestError: the URL is malformed (field `embedder`), or the model is not on this machine.
        MissingExtraError: a package is not installed.
        DataLossError: the packaged weights are damaged.
        PreconditionError: an endpoint refuses the key, the model or the request.
        UnavailableError: an endpoint does not answer.
    """
    scheme, separator, rest = url.partition(":")
    if separator and scheme == "sentence-transformers":
        name, _, query = rest.partition("?")
        options = _options(query, _OPTIONS)
        if not name:
            raise InvalidRequestError.of("embedder", "names no model")
        engine = EngineName(options.get("engine", EngineName.AUTO))
        return open_model(find_model(name), engine, cache_dir, windows=options.get("long") != "truncate")
    if separator and scheme == "hashing":
        if not (rest.isascii() and rest.isdigit() and 1 <= int(rest) <= _MAX_HASHING_DIMENSIONS):
            raise InvalidRequestError.of(
                "embedder", f"hashing needs dimensions from 1 to {_MAX_HASHING_DIMENSIONS}, got {rest!r}"
            )
        return HashingEmbedder(int(rest))
    if scheme in {"openai+http", "openai+https"}:
        return _open_endpoint(url.removeprefix("openai+"), api_key)
    raise InvalidRequestError.of(
        "embedder",
        f"unknown kind of embedder {scheme!r}; known are sentence-transformers, openai+http, openai+https and hashing",
    )


def _open_endpoint(url: str, api_key: str) -> Embedder:
    try:
        from groundwire.embedders.openai_compatible import (  # noqa: PLC0415 - few servers need it
            DEFAULT_MAX_TOKENS,
            EndpointModel,
            OpenAiCompatibleEmbedder,
        )
    except ModuleNotFoundError as error:
        raise MissingExtraError("an embedding endpoint needs httpx: pip install httpx", extra="ingest") from error
    try:
        parts = urlsplit(url)
        is_whole = bool(
            parts.hostname and not parts.username and parts.fragment and parts.port != 0
        )  # a bad one raises
    except ValueError:
        is_whole = False
    if not is_whole:
        raise InvalidRequestError.of("embedder", "must be openai+http(s)://HOST/v1#MODEL, without user and password")
    options = _options(parts.query, _ENDPOINT_OPTIONS)
    numbers = {name: options.pop(name) for name in ("dimensions", "max_tokens") if name in options}
    for name, value in numbers.items():
        if not (value.isascii() and value.isdigit() and int(value) > 0):
            raise InvalidRequestError.of("embedder", f"{name} must be a number above 0, got {value!r}")
    address = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
    limits = {str(name): int(value) for name, value in numbers.items()}
    return OpenAiCompatibleEmbedder(
        EndpointModel(
            address,
            parts.fragment,
            api_key,
            dimensions=limits.get("dimensions"),
            max_tokens=limits.get("max_tokens", DEFAULT_MAX_TOKENS),
            query_prompt=options.get("query_prompt", ""),
            document_prompt=options.get("document_prompt", ""),
        )
    )


def _options(query: str, known: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Return the options of a URL, each known and with a known value; a name without known values takes any."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise InvalidRequestError.of("embedder", f"malformed options {query!r}") from error
    for key, value in pairs:
        if key not in known:
            raise InvalidRequestError.of("embedder", f"unknown option {key!r}; known are {', '.join(known)}")
        if known[key] and value not in known[key]:
            raise InvalidRequestError.of("embedder", f"{key} is {value!r}, must be one of {', '.join(known[key])}")
    return dict(pairs)


def open_model(files: ModelFiles, engine: EngineName, cache_dir: Path, *, windows: bool = False) -> BatchingEmbedder:
    """Return the embedder of a model on the engine asked for, or on the better one.

    Raises:
        MissingExtraError: a package is not installed.
        InvalidRequestError: the files are no model that can be loaded.
        PreconditionError: OpenVINO was asked for and does not give this model's vectors.
    """
    has_library = find_spec("sentence_transformers") is not None
    if engine is not EngineName.TORCH:
        try:
            # The packaged model runs without torch even where torch would be faster (docs/adr/0017).
            may_decline = engine is EngineName.AUTO and has_library and not files.is_packaged
            return BatchingEmbedder(*_on_openvino(files, cache_dir, may_decline=may_decline), windows=windows)
        except (PreconditionError, OSError, RuntimeError) as error:
            # Without the library there is no fallback, and a message about the missing library would mislead.
            if engine is EngineName.OPENVINO or not has_library:
                if isinstance(error, PreconditionError):
                    raise
                raise PreconditionError(f"OpenVINO cannot run {files.model_name}: {error}") from error
            _LOG.warning("running %s on torch: %s", files.model_name, error)
    module = load_module(files)
    return BatchingEmbedder(TorchEngine(module), describe(module, files), windows=windows)


def _on_openvino(files: ModelFiles, cache_dir: Path, *, may_decline: bool) -> tuple[Engine, LanguageModel]:
    """Return the engine for a converted model; convert it first where that has not been done.

    Raises:
        PreconditionError: OpenVINO cannot run it, or torch is better at it and `may_decline`.
    """
    conversion = find_conversion(files, cache_dir)
    if conversion is not None:
        note = conversion.noted(processor())
        if may_decline and "declined" in note:
            raise PreconditionError(note["declined"])
        try:
            if "precision" in note:
                return _verified(conversion, note["precision"], PROBE_TEXTS), conversion.model
            return _fastest(conversion), conversion.model
        except (PreconditionError, OSError, RuntimeError) as error:
            _LOG.warning("the converted model in %s is not usable (%s); converting again", conversion.folder, error)
            conversion.discard()
    if files.is_packaged:
        # Built without the training library, so its vectors are verified against the known digest.
        graph, model = bert_graph(files.folder), describe_bert(files)
        engine = OpenVinoEngine(graph, "f32")
        reference = embed_directly(engine, model, ModelTokenizer(model.tokenizer).encode(CHECK_TEXTS))
        engine.close()
        digest = probe_digest(reference[: len(PROBE_TEXTS)])
        if digest != PACKAGED_PROBE_DIGEST:
            raise PreconditionError(f"OpenVINO does not give the vectors of {files.model_name} on this processor")
        model = replace(model, identity=replace(model.identity, probe_digest=digest))
        conversion = keep_conversion(graph, model, reference, files, cache_dir)
        return _fastest(conversion), conversion.model
    module = load_module(files)
    model = describe(module, files)
    reference = encoded(module, CHECK_TEXTS)
    conversion = keep_conversion(traced(module, files.model_name), model, reference, files, cache_dir)
    fastest = _fastest(conversion)
    if may_decline and (speed := _speed_ratio(TorchEngine(module), fastest, model)) >= _WORTH_TORCH:
        fastest.close()
        reason = f"torch is {speed:.2f} times as fast as {fastest.name} on this processor"
        # So that the next start neither converts nor measures again.
        conversion.note(processor(), {"declined": reason})
        raise PreconditionError(reason)
    return fastest, model


def _fastest(conversion: Conversion) -> OpenVinoEngine:
    """Return the fastest precision that is close enough, and record it for this processor."""
    fp32 = _verified(conversion, "f32", CHECK_TEXTS)
    chosen, precision = fp32, "f32"
    if has_bfloat16():
        try:
            bf16 = _verified(conversion, "bf16", CHECK_TEXTS)
        except PreconditionError as error:
            _LOG.info("keeping fp32: %s", error)
        else:
            speed = _speed_ratio(bf16, fp32, conversion.model)
            chosen, precision = (bf16, "bf16") if speed >= _WORTH_BFLOAT16 else (fp32, "f32")
            (fp32 if chosen is bf16 else bf16).close()
            name = conversion.model.identity.model_name
            _LOG.info("chose %s for %s: bf16 is %.2f times as fast as fp32", precision, name, speed)
    conversion.note(processor(), {"precision": precision})
    return chosen


def _verified(conversion: Conversion, precision: str, texts: tuple[str, ...]) -> OpenVinoEngine:
    """Return the engine once its vectors of the first CHECK_TEXTS agree with the reference.

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
    return engine


def _speed_ratio(one: Engine, other: Engine, model: LanguageModel) -> float:
    """Return how many times as fast `one` is with all streams busy: the best of a few alternating rounds."""
    tokens = ModelTokenizer(model.tokenizer).encode(_TIMED_TEXTS)

    def work(engine: Engine, pool: ThreadPoolExecutor) -> Callable[[], object]:
        shares = [tokens[start :: engine.parallelism] for start in range(min(engine.parallelism, len(tokens)))]
        return lambda: list(pool.map(lambda share: embed_directly(engine, model, share), shares))

    # The best and not the mean: other work on the machine only ever makes a round slower.
    best = [float("inf"), float("inf")]
    with ThreadPoolExecutor(max(one.parallelism, other.parallelism)) as pool:
        works = [work(engine, pool) for engine in (one, other)]
        for _ in range(_ROUNDS):
            for position, run in enumerate(works):
                started = time.perf_counter()
                run()
                best[position] = min(best[position], time.perf_counter() - started)
    return best[1] / best[0]
