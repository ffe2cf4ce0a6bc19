"""Cosines of any embedding model on the scale of the default one, which every weight and threshold was fitted with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from statistics import fmean, pvariance
from typing import TypeAlias

Floats: TypeAlias = Sequence[float]

QUESTIONS = (
    "When was the bridge opened to traffic?",
    "How do I reset my password?",
    "Who wrote the first draft of the report?",
    "What is photosynthesis?",
    "Why did the engine stop?",
    "How long does the warranty last?",
    "Where is the museum?",
    "How is bread made?",
)
ANSWERS = (
    "The bridge was opened to traffic in May 1937.",
    "Choose Forgot password on the sign-in page to set a new one.",
    "The first draft was written by Maria Lopez.",
    "Photosynthesis is the process by which plants turn light into chemical energy.",
    "The engine stopped because its fuel filter was blocked.",
    "The warranty covers all parts for two years from the date of purchase.",
    "The museum stands on the north bank of the river, next to the theatre.",
    "Flour, water, salt and yeast are kneaded, left to rise, and baked.",
)
PARAPHRASES = (
    "Cars have crossed the bridge since May 1937.",
    "A new password can be set from the sign-in page.",
    "Maria Lopez is the author of the first draft.",
    "Plants make chemical energy from light by photosynthesis.",
    "A blocked fuel filter made the engine stop.",
    "For two years after the purchase, all parts are under warranty.",
    "Beside the theatre, on the river's north bank, is the museum.",
    "To bake bread, knead flour, water, salt and yeast, and let the dough rise.",
)

_UNRELATED = 0.05
_RELATED_TO_QUESTION = 0.68
_RELATED_TO_STATEMENT = 0.86
"""Mean cosines of all-MiniLM-L6-v2: of texts above that do not belong together, and of those that do."""

# Standard deviations between the means: hashed words have 1.4, the models that were tried 5.7 and more.
_LEAST_SPREADS = 3.0
# More than two engines of the default model differ by, so that its answers never depend on the engine.
_NEGLIGIBLE = 0.03


@dataclass(frozen=True, slots=True)
class SimilarityScale:
    """How cosines of a model are put on the scale of the default one: by a straight line, here the identity.

    Models differ in what they give to texts that have nothing to do with each other: some 0.05, others 0.7, because
    their vectors fill only a narrow cone (Ethayarajh, 2019).
    """

    slope: float = 1.0
    intercept: float = 0.0

    def of(self, similarity: float) -> float:
        """Return a cosine in [0, 1] on the scale of the default model, in [0, 1]."""
        return min(1.0, max(0.0, self.intercept + self.slope * similarity))


AS_IS = SimilarityScale()


@dataclass(frozen=True, slots=True)
class Scales:
    """The scales of a model: for a question beside a text, and for two texts."""

    questions: SimilarityScale = AS_IS
    statements: SimilarityScale = AS_IS


def measure(questions: Sequence[Floats], answers: Sequence[Floats], paraphrases: Sequence[Floats]) -> Scales:
    """Return the scales of the model that made the vectors of `QUESTIONS`, `ANSWERS` and `PARAPHRASES`.

    Cosines stay as they are where they hardly differ from the default model's, and where the model does not set the
    pairs apart, as hashed words and models of other languages do not: their means would say nothing.
    """
    asked, stated = _Means(questions, answers), _Means(answers, paraphrases)
    is_alike = max(abs(asked.unrelated - _UNRELATED), abs(asked.related - _RELATED_TO_QUESTION)) < _NEGLIGIBLE
    if is_alike or not (asked.are_apart and stated.are_apart):
        return Scales()
    return Scales(asked.mapped_to(_RELATED_TO_QUESTION), stated.mapped_to(_RELATED_TO_STATEMENT))


class _Means:
    """The mean cosine of the vectors that stand at the same place, of all others, and whether they are well apart."""

    def __init__(self, ones: Sequence[Floats], others: Sequence[Floats]) -> None:
        related = [cosine(one, other) for one, other in zip(ones, others, strict=True)]
        unrelated = [cosine(one, other) for i, one in enumerate(ones) for j, other in enumerate(others) if i != j]
        self.related, self.unrelated = fmean(related), fmean(unrelated)
        spread = math.sqrt((pvariance(related) + pvariance(unrelated)) / 2)
        self.are_apart = self.related - self.unrelated > _LEAST_SPREADS * spread

    def mapped_to(self, related: float) -> SimilarityScale:
        slope = (related - _UNRELATED) / (self.related - self.unrelated)
        return SimilarityScale(slope, _UNRELATED - slope * self.unrelated)


def cosine(one: Floats, other: Floats) -> float:
    """Return the cosine of two vectors of length 1, negative ones as 0."""
    product: float = sum(map(mul, one, other))
    return min(1.0, max(0.0, product))
