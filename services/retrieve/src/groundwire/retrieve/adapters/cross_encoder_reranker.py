"""Reranker on the cross-encoders of the sentence-transformers library, from local files."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from groundwire.kernel.errors import InvalidRequestError, MissingExtraError

_SCHEME = "cross-encoder"


class CrossEncoderReranker:
    """Judges passages by one model; one call at a time uses the model, others wait.

    Args:
        folder: of a model as `CrossEncoder.save_pretrained` writes it.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        InvalidRequestError: the folder holds no cross-encoder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._model = _load(folder)

    @property
    def name(self) -> str:
        """Return the name of the model: that of its folder."""
        return self._folder.name

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """Return the model's output for each passage; what goes beyond its length is not read."""
        if not passages:
            return []
        pairs = [(query, passage) for passage in passages]
        with self._lock:
            scores = self._model.predict(pairs, show_progress_bar=False, convert_to_numpy=True)
        judged = np.asarray(scores, dtype=np.float64).reshape(len(passages), -1)[:, -1]
        return [float(score) for score in np.nan_to_num(judged)]


def open_reranker(url: str) -> CrossEncoderReranker | None:
    """Return the reranker of `cross-encoder:FOLDER`, None for an empty URL.

    Raises:
        InvalidRequestError: the URL is of another form, or the folder holds no cross-encoder.
        MissingExtraError: sentence-transformers is not installed.
    """
    if not url:
        return None
    scheme, _, folder = url.partition(":")
    if scheme != _SCHEME or not folder:
        raise InvalidRequestError.of("reranker", f"{url!r} is not of the form {_SCHEME}:FOLDER")
    return CrossEncoderReranker(Path(folder))


def _load(folder: Path) -> Any:
    if not (folder / "config.json").is_file():
        raise InvalidRequestError.of("reranker", f"{str(folder)!r} holds no model: config.json is missing")
    try:
        from sentence_transformers import CrossEncoder  # noqa: PLC0415 - heavy (torch), only where a model is loaded
    except ImportError as error:
        raise MissingExtraError("a reranker needs sentence-transformers: groundwire[models]", extra="models") from error
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    try:
        return CrossEncoder(str(folder), device="cpu", local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise InvalidRequestError.of("reranker", f"{str(folder)!r} holds no cross-encoder: {error}") from error
