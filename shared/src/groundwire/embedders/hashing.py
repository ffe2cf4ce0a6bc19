"""Vectors without a model: hashed words, for tests only."""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from groundwire.embedders.model import PROBE_TEXTS, ModelTokenizer, check_unicode, probe_digest
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import EmbeddingIdentity, TokenizerDefinition, TokenizerFormat, Vectors
from groundwire.kernel.vectors import unit_rows

# Each word falls on four dimensions, so that two words rarely look alike.
_PARTS_PER_WORD = 4

_MAX_TOKENS = 1_000_000
_WORD = r"\w+"


class HashingEmbedder:
    """Adds up hashed directions of the words; texts that share words are near each other.

    Deterministic on every machine, any dimension, reads the whole text. Not a substitute for a model.
    """

    is_responsive = True

    def __init__(self, dimensions: int) -> None:
        unproven = EmbeddingIdentity(
            provider="hashing",
            model_name="hashing-words",
            revision="1",
            dimensions=dimensions,
            max_tokens=_MAX_TOKENS,
            normalized=True,
            probe_digest="",
        )
        self._dimensions = dimensions
        self.tokenizer = ModelTokenizer(TokenizerDefinition("hashing-words", TokenizerFormat.HASHING_WORDS, ""))
        self.identity = replace(unproven, probe_digest=probe_digest(self.embed_documents(PROBE_TEXTS, Budget())))

    def embed_documents(self, texts: Sequence[str], budget: Budget, *, urgent: bool = False) -> Vectors:  # noqa: ARG002 - nothing waits here
        check_unicode(texts)
        vectors = np.zeros((len(texts), self._dimensions), np.float32)
        for row, text in enumerate(texts):
            budget.check()
            # The empty word gives a text without words a direction, too.
            words = Counter(re.findall(_WORD, text.casefold())) or Counter([""])
            for word, times in words.items():
                digest = hashlib.blake2b(word.encode(), digest_size=8 * _PARTS_PER_WORD).digest()
                numbers = np.frombuffer(digest, "<u8")
                signs = np.where(numbers >> np.uint64(63), -1.0, 1.0).astype(np.float32)
                places = (numbers % np.uint64(self._dimensions)).astype(np.intp)
                np.add.at(vectors[row], places, signs * (1.0 + math.log(times)))
        # Words can cancel out: such a row gets the first axis as its direction.
        vectors[~vectors.any(axis=1), 0] = 1.0
        return unit_rows(vectors)

    def embed_query(self, text: str, budget: Budget) -> Vectors:
        vector: Vectors = self.embed_documents([text], budget)[0]
        return vector

    def embed_queries(self, texts: Sequence[str], budget: Budget) -> Vectors:
        return self.embed_documents(texts, budget)

    def close(self) -> None:
        """Do nothing."""
