"""Rerankers: a cross-encoder of the sentence-transformers library, or the token vectors of the packaged model."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import structlog

from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import GroundwireError, InvalidRequestError, MissingExtraError, UnavailableError
from groundwire.kernel.words import FUNCTION_WORDS

_CROSS_ENCODER, _MAX_SIM = "cross-encoder", "max-sim"
_Judge: TypeAlias = Callable[[str, Sequence[str]], Any]
HUNG_AFTER_S: Final = 4.0
"""A model that reads the same few passages for so long hangs: they should take some tenths of a second."""

_LOG = structlog.get_logger(__name__)


class TokenVectors(Protocol):
    """Gives the tokens of texts vectors of their own; blocking, for one thread at a time."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return where the tokens of a text stand in it, in code points."""

    def of(self, texts: Sequence[str]) -> list[Vectors]:
        """Return for each text float32 of shape (tokens, dimensions), rows of length 1."""


class ModelReranker:
    """Scores passages with one model, in a separate thread, so that a caller can abandon a model that hangs.

    One call at a time uses the model; the others wait in order of arrival.

    Args:
        name: of the model.
        judge: returns the scores of a query and some passages, one each or a row each.
    """

    def __init__(self, name: str, judge: _Judge) -> None:
        self.name = name
        self._judge = judge
        self._busy_since: float | None = None
        self._waiting: SimpleQueue[tuple[str, Sequence[str], Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._work, name="rerank", daemon=True).start()

    def score(self, query: str, passages: Sequence[str], budget: Budget) -> Sequence[float]:
        """Return the model's output for each passage; what goes beyond its length is not read.

        Raises:
            CallCancelledError: the call was cancelled before the model was done.
            DeadlineError: the deadline passed before the model was done.
            UnavailableError: the model fails, or hangs with the passages of somebody else.
        """
        if not passages:
            return []
        # Read once: the model may become idle at any moment.
        busy_since = self._busy_since
        if busy_since is not None and (busy_s := time.monotonic() - busy_since) >= HUNG_AFTER_S:
            raise UnavailableError(f"the reranker has not answered for {busy_s:.0f} s")
        future: Future[Any] = Future()
        self._waiting.put((query, passages, future))
        try:
            # Models with two classes return a score for each; the last one is that of a match.
            judged = np.asarray(budget.result_of(future), dtype=np.float64).reshape(len(passages), -1)[:, -1]
        except GroundwireError:
            raise
        except Exception as error:
            _LOG.warning("the reranker failed", model=self.name, exc_info=True)
            raise UnavailableError(f"the reranker failed: {error}") from error
        finally:
            future.cancel()  # the model skips passages of a caller who has left; a finished future is not affected
        # NaN has no place in an order; one odd passage must not fail the search.
        return [float(score) for score in np.nan_to_num(judged)]

    def _work(self) -> None:
        while True:
            query, passages, future = self._waiting.get()
            if not future.set_running_or_notify_cancel():
                continue
            self._busy_since = time.monotonic()
            try:
                future.set_result(self._judge(query, passages))
            except Exception as error:  # noqa: BLE001 - it is the caller's; the thread serves the next one
                future.set_exception(error)
            self._busy_since = None


def open_reranker(url: str, open_tokens: Callable[[str], TokenVectors]) -> ModelReranker | None:
    """Return the reranker of `cross-encoder:FOLDER` or `max-sim:MODEL`, None for an empty URL.

    `open_tokens` opens the model of this name, and raises an error of those below.

    Raises:
        InvalidRequestError: the URL is of another form, or names no model of its kind.
        MissingExtraError: what the model needs is not installed.
    """
    if not url:
        return None
    scheme, _, model = url.partition(":")
    if scheme == _CROSS_ENCODER and model:
        folder = Path(model)
        return ModelReranker(folder.name, _cross_encoder(folder))
    if scheme == _MAX_SIM and model:
        return ModelReranker(model, _max_sim(open_tokens(model)))
    raise InvalidRequestError.of("reranker", f"{url!r} is not of the form {_CROSS_ENCODER}:FOLDER or {_MAX_SIM}:MODEL")


def _cross_encoder(folder: Path) -> _Judge:
    """Return what judges by a model as `CrossEncoder.save_pretrained` writes it."""
    if not (folder / "config.json").is_file():
        raise InvalidRequestError.of("reranker", f"{str(folder)!r} holds no model: config.json is missing")
    try:
        from sentence_transformers import CrossEncoder  # noqa: PLC0415 - heavy (torch), only where a model is loaded
    except ImportError as error:
        raise MissingExtraError("a reranker needs sentence-transformers: groundwire[models]", extra="models") from error
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    try:
        model = CrossEncoder(str(folder), device="cpu", local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise InvalidRequestError.of("reranker", f"{str(folder)!r} holds no cross-encoder: {error}") from error

    def judge(query: str, passages: Sequence[str]) -> Any:
        pairs = [(query, passage) for passage in passages]
        return model.predict(pairs, show_progress_bar=False, convert_to_numpy=True)

    return judge


def _max_sim(tokens: TokenVectors) -> _Judge:
    """Return what judges by the mean, over the tokens of the query, of the cosine to the most similar of the passage.

    Source: Khattab & Zaharia, "ColBERT", SIGIR 2020, section 3.2, with a mean instead of a sum and a model that was not
    trained for it. Function words of the query are left out: every passage has them.
    """

    def judge(query: str, passages: Sequence[str]) -> Any:
        asked, *judged = tokens.of([query, *passages])
        pieces = [query[start:end].casefold() for start, end in tokens.offsets(query)][: len(asked)]
        kept = [at for at, piece in enumerate(pieces) if piece.isalnum() and piece not in FUNCTION_WORDS]
        asked = asked[kept] if kept else asked
        if len(asked) == 0:
            return [0.0] * len(passages)
        return [float((asked @ rows.T).max(axis=1).mean()) if len(rows) else 0.0 for rows in judged]

    return judge
