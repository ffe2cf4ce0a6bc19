"""An Embedder that runs the texts of all callers through one engine, batched together."""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from groundwire.embedders.calls import Call, Item
from groundwire.embedders.engine import Engine, Frame, LanguageModel, pad, unit_rows
from groundwire.embedders.schedule import Schedule
from groundwire.embedders.tokenization import ModelTokenizer, TokenIds
from groundwire.kernel.embedder import EmbeddingIdentity, Vectors
from groundwire.kernel.errors import GroundwireError, UnavailableError

_LOG = logging.getLogger(__name__)

SLICE_TEXTS: Final = 128
"""Texts tokenised at a time: the workers run one slice while the caller prepares the next."""


class BatchingEmbedder:
    """Batches across calls: nobody waits while the engine is idle, and what arrives meanwhile runs together.

    Texts are tokenised in the caller's thread. Texts beyond the model's limit are cut there; see
    `WindowedEmbedder` for the alternative.
    """

    def __init__(self, engine: Engine, model: LanguageModel) -> None:
        self._engine = engine
        self._model = model
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
    def identity(self) -> EmbeddingIdentity:
        """Return the identity of the vectors it makes."""
        return self._model.identity

    @property
    def model(self) -> LanguageModel:
        """Return what is known of the model."""
        return self._model

    @property
    def tokenizer(self) -> ModelTokenizer:
        """Return the tokenizer of the model."""
        return self._tokenizer

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return float32 of shape (len(texts), dimensions), rows L2-normalised.

        Raises:
            InvalidRequestError: a text has lone surrogates.
            UnavailableError: the engine failed, or the embedder is closed.
        """
        return self.embed_token_slices(self.tokenized(texts))

    def tokenized(self, texts: Sequence[str]) -> Iterator[list[TokenIds]]:
        """Yield the token ids of the texts in slices, not truncated, without special tokens."""
        for start in range(0, len(texts), SLICE_TEXTS):
            yield self._tokenizer.encode(texts[start : start + SLICE_TEXTS])

    def embed_token_slices(self, slices: Iterable[list[TokenIds]]) -> Vectors:
        """Return the vectors of all token ids in order, each cut at the model's limit.

        Slices are taken one by one while the engine already works on the earlier ones.

        Raises:
            UnavailableError: the engine failed, or the embedder is closed.
        """
        call = Call()
        is_empty = True
        try:
            for tokens in slices:
                is_empty = False
                self._schedule.add_documents(call, call.expect(self._framed(tokens, self._model.document_frame)))
        except BaseException as error:
            call.fail(error)
            raise
        return np.zeros((0, self.identity.dimensions), np.float32) if is_empty else call.wait()

    def embed_query(self, text: str) -> Vectors:
        """Return float32 of shape (dimensions,); goes ahead of waiting documents.

        Raises:
            InvalidRequestError: the text has lone surrogates.
            UnavailableError: the engine failed, or the embedder is closed.
        """
        vector: Vectors = self.embed_queries([text])[0]
        return vector

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return float32 of shape (len(texts), dimensions), together and ahead of waiting documents.

        Raises:
            InvalidRequestError: a text has lone surrogates.
            UnavailableError: the engine failed, or the embedder is closed.
        """
        if not texts:
            return np.zeros((0, self.identity.dimensions), np.float32)
        return self.embed_query_tokens(self._tokenizer.encode(texts))

    def embed_query_tokens(self, tokens: list[TokenIds]) -> Vectors:
        """Return float32 of shape (len(tokens), dimensions), ahead of waiting documents; at least one row.

        Raises:
            UnavailableError: the engine failed, or the embedder is closed.
        """
        call = Call()
        items = call.expect(self._framed(tokens, self._model.query_frame))
        if self._engine.runs_in_any_thread and self._schedule.take_slot():
            self._run_in_slot(items)
        else:
            self._schedule.add_queries(items)
        return call.wait()

    def close(self) -> None:
        """Fail all waiting calls, end the workers and close the engine; idempotent."""
        for call in self._schedule.close():
            call.fail(UnavailableError("the embedder is closed"))
        for worker in self._workers:
            worker.join()
        self._schedule.wait_for_slots(len(self._workers))
        self._engine.close()

    def _framed(self, tokens: Iterable[TokenIds], frame: Frame) -> list[TokenIds]:
        return [frame.around(ids[: self._model.window]) for ids in tokens]

    def _work(self) -> None:
        while batch := self._schedule.next_batch():
            self._run_in_slot(batch)

    def _run_in_slot(self, batch: list[Item]) -> None:
        try:
            self._run(batch)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises belongs to the callers
            self._fail(batch, error)
        finally:
            self._schedule.free_slot()

    def _run(self, batch: list[Item]) -> None:
        input_ids, attention_mask = pad([item.sequence for item in batch], self._model.pad_id)
        started = time.perf_counter()
        vectors = unit_rows(self._engine.infer(input_ids, attention_mask))
        self._schedule.record(input_ids.size, time.perf_counter() - started)
        for item, vector in zip(batch, vectors, strict=True):
            item.call.deliver(item.row, vector)

    def _fail(self, batch: list[Item], error: Exception) -> None:
        """Tell the callers; items of several callers run again alone, so that only the guilty one fails."""
        if len({id(item.call) for item in batch}) > 1:
            for item in batch:
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
