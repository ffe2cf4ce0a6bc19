"""Reranker on the cross-encoders of the sentence-transformers library, from local files."""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import numpy as np

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import InvalidRequestError, MissingExtraError

_SCHEME = "cross-encoder"
_Pairs: TypeAlias = list[tuple[str, str]]


class CrossEncoderReranker:
    """Scores passages with one model, in a separate thread, so that a caller can abandon a model that hangs.

    One call at a time uses the model; the others wait in order of arrival.

    Args:
        folder: of a model as `CrossEncoder.save_pretrained` writes it.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        InvalidRequestError: the folder holds no cross-encoder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if not (folder / "config.json").is_file():
            raise InvalidRequestError.of("reranker", f"{str(folder)!r} holds no model: config.json is missing")
        try:
            from sentence_transformers import CrossEncoder  # noqa: PLC0415 - heavy (torch), only where a model is loaded
        except ImportError as error:
            raise MissingExtraError(
                "a reranker needs sentence-transformers: groundwire[models]", extra="models"
            ) from error
        logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
        try:
            self._model = CrossEncoder(str(folder), device="cpu", local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise InvalidRequestError.of("reranker", f"{str(folder)!r} holds no cross-encoder: {error}") from error
        self._waiting: SimpleQueue[tuple[_Pairs, Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._work, name="rerank", daemon=True).start()

    @property
    def name(self) -> str:
        """Return the name of the model's folder."""
        return self._folder.name

    def score(self, query: str, passages: Sequence[str], budget: Budget) -> Sequence[float]:
        """Return the model's output for each passage; what goes beyond its length is not read.

        Raises:
            CallCancelledError: the call was cancelled before the model was done.
            DeadlineError: the deadline passed before the model was done.
        """
        if not passages:
            return []
        future: Future[Any] = Future()
        self._waiting.put(([(query, passage) for passage in passages], future))
        try:
            scores = budget.result_of(future)
        finally:
            future.cancel()  # the model skips pairs of a caller who has left; a finished future is not affected
        # Models with two classes return a score for each; the last one is that of a match.
        judged = np.asarray(scores, dtype=np.float64).reshape(len(passages), -1)[:, -1]
        # NaN has no place in an order; one odd passage must not fail the search.
        return [float(score) for score in np.nan_to_num(judged)]

    def _work(self) -> None:
        while True:
            pairs, future = self._waiting.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(self._model.predict(pairs, show_progress_bar=False, convert_to_numpy=True))
            except Exception as error:  # noqa: BLE001 - it is the caller's; the thread serves the next one
                future.set_exception(error)


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
