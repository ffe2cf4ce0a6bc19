"""Make the Embedder of a URL."""

from pathlib import Path
from urllib.parse import parse_qsl

from groundwire.kernel.embedder import Embedder
from groundwire.kernel.errors import InvalidRequestError, NotAvailableError

_MAX_HASHING_DIMENSIONS = 65_536


def open_embedder(url: str, *, cache_dir: Path) -> Embedder:
    """Return the whole stack for a URL: engine, batching across calls, windows for long texts.

    Args:
        url: `sentence-transformers:NAME_OR_DIR[?engine=auto|torch|openvino][&long=windows|truncate]` or, for
            tests, `hashing:DIMENSIONS`.
        cache_dir: where converted models are kept; created when needed, may be shared by processes.

    Raises:
        InvalidRequestError: the URL is malformed (field `embedder`), or the model is not on this machine.
        MissingExtraError: a package is not installed.
        DataLossError: the packaged weights are damaged.
        NotAvailableError: an embedder of the contract that this version does not have.
    """
    scheme, separator, rest = url.partition(":")
    if separator and scheme == "sentence-transformers":
        return _open_sentence_transformer(rest, cache_dir)
    if separator and scheme == "hashing":
        return _open_hashing(rest)
    if scheme in {"openai+http", "openai+https"}:
        raise NotAvailableError("embedding over HTTP is not available in this version", feature="openai_compatible")
    raise InvalidRequestError.of(
        "embedder", f"unknown kind of embedder {scheme!r}; known are sentence-transformers and hashing"
    )


def _open_sentence_transformer(rest: str, cache_dir: Path) -> Embedder:
    # Imported here, so that a process with another embedder does not need the packages of this one.
    from groundwire.embedders.engine_choice import EngineName, open_model  # noqa: PLC0415 - see above
    from groundwire.embedders.model_files import find_model  # noqa: PLC0415 - see above
    from groundwire.embedders.windowed import WindowedEmbedder  # noqa: PLC0415 - see above

    name, _, query = rest.partition("?")
    choices = _choices(query, {"engine": tuple(EngineName), "long": ("windows", "truncate")})
    if not name:
        raise InvalidRequestError.of("embedder", "names no model")
    embedder = open_model(find_model(name), EngineName(choices.get("engine", EngineName.AUTO)), cache_dir)
    return embedder if choices.get("long") == "truncate" else WindowedEmbedder(embedder)


def _choices(query: str, allowed: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the options of a URL, each known and with a known value."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise InvalidRequestError.of("embedder", f"malformed options {query!r}") from error
    for key, value in pairs:
        if key not in allowed:
            raise InvalidRequestError.of("embedder", f"unknown option {key!r}; known are {', '.join(allowed)}")
        if value not in allowed[key]:
            raise InvalidRequestError.of("embedder", f"{key} is {value!r}, must be one of {', '.join(allowed[key])}")
    return dict(pairs)


def _open_hashing(rest: str) -> Embedder:
    from groundwire.embedders.hashing import HashingEmbedder  # noqa: PLC0415 - only where it is asked for

    if not (rest.isascii() and rest.isdigit() and 1 <= int(rest) <= _MAX_HASHING_DIMENSIONS):
        raise InvalidRequestError.of(
            "embedder", f"hashing needs dimensions from 1 to {_MAX_HASHING_DIMENSIONS}, got {rest!r}"
        )
    return HashingEmbedder(int(rest))
