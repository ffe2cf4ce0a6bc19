"""A corpus of any size for the other scripts: short passages of real words, their vectors, documents with filter keys.

Everything follows from a seed. Passages that were really cut from the texts are embedded; further ones join the halves
of two of them that stood near each other, and their vector lies between those two. Vectors are kept in a folder, so
that the model runs once.
"""

import hashlib
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from groundwire.embedders.factory import open_embedder
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Embedder, Vectors

_DOCUMENTS = 1000
_LEAST_CHUNKS = 10
PASSAGE_WORDS = 60
QUESTION_WORDS = 12
_NEAR = 20
"""Passages that are joined stood at most so many passages apart."""
_NOISE = 0.02
_SEED = 20260101
_QUESTIONS = 60_000
_PER_QUESTION = 4
"""Words of the texts for each question, so that there are enough places where one can begin."""
_QUESTION_VECTORS = 2000

Where: TypeAlias = Mapping[str, str | int]
"""A filter: these fields have these values."""

VALUES = {"category": 2, "project": 10, "region": 10, "team": 100, "week": 100, "batch": 1000}
"""Fields of documents by the number of their values; the fields are independent of one another."""
SHAPES: Mapping[str, Sequence[str]] = {
    "0.1 %": ("batch",),
    "1 %": ("team",),
    "10 %": ("project",),
    "50 %": ("category",),
    "AND 1 %": ("project", "region"),
    "AND 0.01 %": ("team", "week"),
}
"""The fields of a filter by the share of chunks that it keeps."""


@dataclass(frozen=True)
class Corpus:
    """Passages with vectors, float32 of shape (passages, dimensions).

    There are so many questions that none is asked twice; `question_vectors` are those of the first of them.
    """

    texts: Sequence[str]
    vectors: Vectors
    questions: Sequence[str]
    question_vectors: Vectors

    def first(self, count: int) -> "Corpus":
        """Return the corpus of the first passages."""
        return Corpus(self.texts[:count], self.vectors[:count], self.questions, self.question_vectors)

    @property
    def documents(self) -> list[range]:
        """Return the numbers of the passages of each document: a thousand documents, or fewer of ten passages."""
        count = len(self.texts)
        size = max(_LEAST_CHUNKS, count // _DOCUMENTS)
        return [range(start, min(start + size, count)) for start in range(0, count, size)]

    @property
    def fields(self) -> list[dict[str, str | int]]:
        """Return the fields of each passage, which are those of its document."""
        documents = self.documents
        pairs = zip(documents, fields_of(len(documents)), strict=True)
        return [fields for rows, fields in pairs for _ in rows]


class Words:
    """The words of the text files of a folder, in their order."""

    def __init__(self, folder: Path) -> None:
        files = sorted(path for path in folder.rglob("*") if path.suffix in {".md", ".rst", ".txt"})
        self._words = [word for path in files for word in path.read_text(errors="ignore").split()]
        if len(self._words) < 100 * PASSAGE_WORDS:
            raise SystemExit(f"too few texts in {folder}")

    @property
    def count(self) -> int:
        return len(self._words)

    def passages(self, most: int) -> list[str]:
        """Return up to `most` passages in the order of the texts, each with its own words."""
        starts = range(0, len(self._words) - PASSAGE_WORDS, PASSAGE_WORDS)
        return [" ".join(self._words[start : start + PASSAGE_WORDS]) for start in starts[:most]]

    def questions(self, count: int, seed: int) -> list[str]:
        """Return different questions of about a dozen words in a row, from anywhere."""
        chance, found = random.Random(seed), dict[str, None]()
        while len(found) < count:
            start = chance.randrange(len(self._words) - QUESTION_WORDS)
            words = " ".join(self._words[start : start + QUESTION_WORDS])
            if cleaned := " ".join(re.findall(r"[A-Za-z0-9]+", words)):
                found[cleaned] = None
        return list(found)


def make_corpus(words: Words, count: int, embedder_url: str, cache: Path) -> Corpus:
    """Return `count` passages with their vectors, and questions; vectors known in `cache` are read."""
    base, questions = words.passages(count), words.questions(min(_QUESTIONS, words.count // _PER_QUESTION), _SEED)
    if count > len(base) * _NEAR:
        raise SystemExit(f"too few texts for {count} passages; give a larger folder as --docs")
    asked = questions[:_QUESTION_VECTORS]
    kept = cache / f"{_fingerprint([embedder_url, *base, *asked])}.npz"
    if not kept.is_file():
        embedder = open_embedder(embedder_url, cache_dir=cache)
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(kept, passages=_embedded(embedder, base), questions=embedder.embed_queries(asked, Budget()))
        embedder.close()
    with np.load(kept) as stored:
        vectors, question_vectors = stored["passages"], stored["questions"]
    texts, vectors = _extended(base, vectors, count)
    return Corpus(texts, vectors, questions, question_vectors)


def fields_of(count: int) -> list[dict[str, str | int]]:
    """Return the fields of the first `count` documents; more documents change none of them."""
    columns = {}
    for number, (field, values) in enumerate(VALUES.items()):
        columns[field] = _shuffled(count, values, np.random.default_rng([_SEED, number]))
    return [
        {
            field: int(value) if field == "batch" else f"{field} {value}"
            for field, value in zip(columns, row, strict=True)
        }
        for row in zip(*columns.values(), strict=True)
    ]


def matching(where: Where, fields: Sequence[Where]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the numbers of the passages that have these fields, of the fields of all."""
    return np.flatnonzero([all(has[field] == value for field, value in where.items()) for has in fields])


def _shuffled(count: int, values: int, chance: np.random.Generator) -> list[int]:
    """Return numbers below `values`, each equally often among every thousand."""
    blocks = [chance.permutation(max(VALUES.values())) % values for _ in range(-(-count // max(VALUES.values())))]
    return [int(value) for value in np.concatenate(blocks)[:count]]


def _embedded(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    parts = [embedder.embed_documents(texts[start : start + 512], Budget()) for start in range(0, len(texts), 512)]
    return np.concatenate(parts)


def _extended(base: Sequence[str], vectors: Vectors, count: int) -> tuple[list[str], Vectors]:
    chance = np.random.default_rng(_SEED)
    more = max(0, count - len(base))
    # No pair twice: equal texts are one result to a search, and two to a comparison with every vector.
    pairs = chance.choice(len(base) * (_NEAR - 1), more, replace=False)
    first = pairs // (_NEAR - 1)
    second = (first + 1 + pairs % (_NEAR - 1)) % len(base)
    share = chance.uniform(0.3, 0.7, (more, 1)).astype(np.float32)
    noise = chance.standard_normal((more, vectors.shape[1])).astype(np.float32) * _NOISE
    between = share * vectors[first] + (1 - share) * vectors[second] + noise
    between /= np.linalg.norm(between, axis=1, keepdims=True)
    joined = [
        " ".join([*base[one].split()[: PASSAGE_WORDS // 2], *base[other].split()[PASSAGE_WORDS // 2 :]])
        for one, other in zip(first, second, strict=True)
    ]
    return [*base, *joined], np.concatenate([vectors, between]).astype(np.float32)


def _fingerprint(parts: Sequence[str]) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=12).hexdigest()
