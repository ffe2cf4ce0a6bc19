"""The Embedder of a model: runs the texts of all callers through one engine, batched together."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from groundwire.embedders.model import Engine, Frame, LanguageModel, pad, unit_rows
from groundwire.embedders.schedule import HUNG_AFTER_S, Call, Item, Schedule
from groundwire.embedders.tokenization import ModelTokenizer, TokenIds
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import EmbeddingIdentity, Vectors
from groundwire.kernel.errors import GroundwireError, UnavailableError
from groundwire.kernel.latencies import Step

_LOG = logging.getLogger(__name__)

SLICE_TEXTS: Final = 128
"""Texts tokenised at a time: the workers run one slice while the caller prepares the next."""

WINDOWS_SUFFIX: Final = "+windows"
"""Of the provider of vectors of whole texts: vectors of their beginnings alone are not comparable with them."""

_LOOKS_EVERY_S = 1.0
_CLOSE_WAIT_S = 5.0
_DOCUMENTS_WAIT_S = 60.0
"""Documents wait longer for a hung model than questions do: they are long work, and nobody watches each of them."""


class BatchingEmbedder:
    """Batches across calls: nobody waits while the engine is idle, and what arrives meanwhile runs together.

    Texts are tokenised in the caller's thread; inferences run in threads of its own, so that a caller can leave an
    inference that hangs.

    With `windows` a text beyond the model's limit is read to its end: its tokens are cut into consecutive windows, and
    its vector is the mean of theirs, weighted by their numbers of tokens, at length 1. Texts that fit into one window
    get exactly the vector they have without. Without `windows` the text is cut at the limit.
    """

    def __init__(self, engine: Engine, model: LanguageModel, *, windows: bool = False) -> None:
        self._engine = engine
        self._model = model
        self._windows = windows
        provider = model.identity.provider + (WINDOWS_SUFFIX if windows else "")
        self._identity = replace(model.identity, provider=provider)
        self._tokenizer = ModelTokenizer(model.tokenizer)
        self._schedule = Schedule(engine.parallelism)
        self._workers = [
            threading.Thread(target=self._work, name=f"embed-{number}", daemon=True)
            for number in range(engine.parallelism)
        ]
        for worker in self._workers:
            worker.start()

    @property
    def engine_name(self) -> str:
        """Return what operators see: library and precision."""
        return self._engine.name

    @property
    def batch_sizes(self) -> Counter[int]:
        """Return how many inferences there were of each number of texts."""
        return self._schedule.batch_sizes

    @property
    def waiting(self) -> tuple[int, int]:
        """Return how many urgent calls and how many others wait for the model; cheap, never waits."""
        return self._schedule.waiting

    @property
    def identity(self) -> EmbeddingIdentity:
        return self._identity

    @property
    def tokenizer(self) -> ModelTokenizer:
        return self._tokenizer

    @property
    def is_responsive(self) -> bool:
        return self._schedule.overdue_s() < HUNG_AFTER_S

    def embed_documents(self, texts: Sequence[str], budget: Budget, *, urgent: bool = False) -> Vectors:
        """Return float32 of shape (len(texts), dimensions), rows L2-normalised."""
        return self._embed(texts, budget, self._model.document_frame, urgent=urgent)

    def embed_query(self, text: str, budget: Budget) -> Vectors:
        vector: Vectors = self.embed_queries([text], budget)[0]
        return vector

    def embed_queries(self, texts: Sequence[str], budget: Budget) -> Vectors:
        return self._embed(texts, budget, self._model.query_frame, urgent=True)

    def close(self) -> None:
        """Fail all waiting calls, end the workers and close the engine; idempotent.

        An engine that hangs is left to the end of the process: closing it below a running inference may crash.
        """
        for call in self._schedule.close():
            call.fail(UnavailableError("the embedder is closed"))
        if not self._schedule.wait_until_idle(_CLOSE_WAIT_S):
            _LOG.error("the embedding engine hangs: it is left running")
            return
        for worker in self._workers:
            worker.join()
        self._engine.close()

    def _embed(self, texts: Sequence[str], budget: Budget, frame: Frame, *, urgent: bool) -> Vectors:
        if not texts:
            return np.zeros((0, self.identity.dimensions), np.float32)
        call = Call()
        # Whoever asks a question should know at once that the model hangs; an ingest can sit it out.
        patience_s = HUNG_AFTER_S if urgent else _DOCUMENTS_WAIT_S
        sizes: list[list[int]] = []
        window = self._model.window
        try:
            for start in range(0, len(texts), SLICE_TEXTS):
                budget.check()
                self._refuse_if_hung(call, patience_s)
                sequences: list[TokenIds] = []
                for tokens in self._tokenizer.encode(texts[start : start + SLICE_TEXTS]):
                    # An empty text is a window too: it has a vector, that of its special tokens.
                    end = max(len(tokens), 1) if self._windows else 1
                    parts = [tokens[at : at + window] for at in range(0, end, window)]
                    sizes.append([len(part) for part in parts])
                    sequences.extend(frame.around(part) for part in parts)
                self._schedule.add(call, call.expect(sequences), urgent=urgent)
            # A look at the engine now and then, because a call may have no deadline.
            while not call.wait(budget, _LOOKS_EVERY_S):
                self._refuse_if_hung(call, patience_s)
        except BaseException as error:
            call.fail(error)
            self._schedule.drop(call)
            raise
        return _averaged(call.vectors(), sizes)

    def _refuse_if_hung(self, call: Call, patience_s: float) -> None:
        overdue_s = self._schedule.overdue_s(call)
        if overdue_s >= patience_s:
            raise UnavailableError(f"the embedding model has not answered for {overdue_s:.0f} s")

    def _work(self) -> None:
        # Ends when the schedule is closed, which gives an empty batch.
        while batch := self._schedule.next_batch():
            try:
                self._run(batch)
            except Exception as error:  # noqa: BLE001 - whatever an engine raises belongs to the callers
                self._fail(batch, error)
            finally:
                self._schedule.finish(batch)

    def _run(self, batch: list[Item]) -> None:
        input_ids, attention_mask = pad([item.sequence for item in batch], self._model.pad_id)
        started = time.perf_counter()
        with Step("model.embed"):
            vectors = unit_rows(self._engine.infer(input_ids, attention_mask))
        self._schedule.record(input_ids.size, time.perf_counter() - started)
        for item, vector in zip(batch, vectors, strict=True):
            item.call.deliver(item.row, vector)

    def _fail(self, batch: list[Item], error: Exception) -> None:
        """Give the callers the error; items of several callers run again alone, so that only the guilty one fails."""
        if len({id(item.call) for item in batch}) > 1:
            for item in batch:
                if item.call.has_failed:
                    continue
                try:
                    self._run([item])
                except Exception as own_error:  # noqa: BLE001 - the same
                    item.call.fail(_engine_error(own_error))
        else:
            batch[0].call.fail(_engine_error(error))


def _engine_error(error: Exception) -> GroundwireError:
    if isinstance(error, GroundwireError):
        return error
    _LOG.error("the embedding engine failed", exc_info=error)
    failure = UnavailableError("the embedding engine failed")
    failure.__cause__ = error
    return failure


def _averaged(vectors: Vectors, sizes: list[list[int]]) -> Vectors:
    """Return one row for each text from the rows of its windows, whose numbers of tokens are its `sizes`."""
    if len(vectors) == len(sizes):
        return vectors
    result = np.empty((len(sizes), vectors.shape[1]), np.float32)
    start = 0
    for row, tokens in enumerate(sizes):
        part = vectors[start : start + len(tokens)]
        start += len(tokens)
        result[row] = part[0] if len(tokens) == 1 else unit_rows((np.array(tokens, np.float32) @ part)[None])[0]
    return result
