"""What every row is held against: a hybrid of the textbook over the same chunks and the same vectors.

Words are runs of letters and digits in lower case, scored by BM25 with k1 = 1.2 and b = 0.75 (Robertson, Zaragoza, "The
Probabilistic Relevance Framework", 2009, section 3.2); similarity is the cosine; each is brought to [0, 1] for a query
by its smallest and largest value, and both count half. No stems, no stop words, no rules.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

_K1, _B = 1.2, 0.75
_WORD = re.compile(r"\w+")
Floats = NDArray[np.float64]


class PlainHybrid:
    """Searches texts in memory.

    Args:
        texts: what is searched.
        vectors: of each of them, of shape (texts, dimensions).
    """

    def __init__(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self._units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        counts = [Counter(_words(text)) for text in texts]
        lengths = np.array([sum(of_text.values()) for of_text in counts], dtype=np.float64)
        self._saturation = _K1 * (1 - _B + _B * lengths / max(lengths.mean(), 1.0))
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, of_text in enumerate(counts):
            for word, count in of_text.items():
                self._postings[word].append((place, count))

    def search(
        self, query: str, vector: NDArray[np.float32], top_k: int, dense_weight: float
    ) -> list[tuple[int, float]]:
        """Return place and relevance of the best texts for a query and its vector of length 1.

        `dense_weight` is 0.5 for the hybrid, 0 for BM25 alone and 1 for vectors alone.
        """
        similarities = np.asarray(self._units @ vector, dtype=np.float64)
        relevance = dense_weight * _scaled(similarities) + (1.0 - dense_weight) * _scaled(self._bm25(query))
        best = np.argsort(-relevance, kind="stable")[:top_k].tolist()
        return [(place, float(relevance[place])) for place in best]

    def _bm25(self, query: str) -> Floats:
        scores = np.zeros(len(self._units))
        for word in _words(query):
            postings = self._postings.get(word, [])
            rarity = log(1 + (len(self._units) - len(postings) + 0.5) / (len(postings) + 0.5))
            for place, count in postings:
                scores[place] += rarity * count * (_K1 + 1) / (count + self._saturation[place])
        return scores


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _scaled(values: Floats) -> Floats:
    low, high = float(values.min()), float(values.max())
    return np.asarray((values - low) / ((high - low) or 1.0))
