"""An engine without weights whose vectors are easy to foresee, and that can be held up."""

import threading
from dataclasses import replace

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import models, pre_tokenizers, processors

from groundwire.embedders.model import Frame, LanguageModel
from groundwire.kernel.embedder import EmbeddingIdentity, TokenizerDefinition, TokenizerFormat, Vectors

WORDS = [f"w{number}" for number in range(50)]
START, END, PAD = 100, 101, 99
DIMENSIONS = 64
POISON = 49


def word_model(max_tokens: int = 10) -> LanguageModel:
    """Return a model of the words w0 … w49, framed by START and END."""
    vocabulary = {word: number for number, word in enumerate(WORDS)} | {"[S]": START, "[E]": END, "[P]": PAD}
    tokenizer = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))  # noqa: S106 - no password
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[S] $0 [E]", special_tokens=[("[S]", START), ("[E]", END)]
    )
    frame = Frame((START,), (END,))
    identity = EmbeddingIdentity("test", "words", "1", DIMENSIONS, max_tokens, normalized=True, probe_digest="0" * 64)
    definition = TokenizerDefinition("words", TokenizerFormat.HUGGINGFACE_JSON, tokenizer.to_str())
    return LanguageModel(identity, definition, frame, replace(frame), PAD)


class WordEngine:
    """Counts the words of a sequence: dimension i is the number of words w{i}; keeps each batch it got.

    While `gate` is closed, inferences wait in it. A sequence with the word w49 fails its whole batch,
    `failure` fails every batch.
    """

    name = "words"

    def __init__(self, parallelism: int = 1) -> None:
        self.parallelism = parallelism
        self.batches: list[list[list[int]]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.failure: Exception | None = None
        self.is_closed = False

    def infer(self, input_ids: NDArray[np.int64], attention_mask: NDArray[np.int64]) -> Vectors:
        rows = [ids[mask == 1].tolist() for ids, mask in zip(input_ids, attention_mask, strict=True)]
        self.batches.append(rows)
        self.entered.release()
        assert self.gate.wait(30)
        if self.failure is not None:
            raise self.failure
        if any(POISON in row for row in rows):
            raise RuntimeError("poison")
        vectors = np.zeros((len(rows), DIMENSIONS), np.float32)
        for vector, row in zip(vectors, rows, strict=True):
            assert row[0] == START
            assert row[-1] == END
            np.add.at(vector, row[1:-1], 1.0)
        vectors[:, DIMENSIONS - 1] += 0.001
        return vectors

    def close(self) -> None:
        self.is_closed = True
