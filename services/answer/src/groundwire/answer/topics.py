"""When a question of a conversation begins another topic (requirement S4-35)."""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from groundwire.answer.grounding.sentence_vectors import SentenceVectors
from groundwire.answer.grounding.similarity_scale import cosine
from groundwire.answer.intent import leans_on_context
from groundwire.answer.sessions import Message
from groundwire.kernel.sentences import QUESTION_MARKS
from groundwire.kernel.words import content_stems, words

_COMPARED_MESSAGES = 2
# What a message is about stands at its beginning; more of it costs time and tells no better.
_OPENING_CHARS = 200


@dataclass(frozen=True, slots=True)
class ShiftWeights:
    """Weights of the logistic function that says how likely a question begins another topic.

    A logistic regression over the messages of TIAGE dev (1,446, of which 311 change the topic) and, with the same
    weight in all, the follow-up questions of MT-RAG and iKAT (161) and as many first questions of other conversations
    in their place. `benchmarks/quality.py topics` fits it again. With this `threshold` of the probability, 21 % of the
    follow-up questions are taken for another topic, and 86 % of the foreign ones are found.
    """

    similarity: float = -6.51
    length: float = 1.13
    foreign_words: float = 0.63
    answers: float = -0.50
    bias: float = -1.75
    threshold: float = 0.4


WEIGHTS = ShiftWeights()


@dataclass(frozen=True, slots=True)
class ShiftParts:
    """What tells a new topic, in the order of the weights.

    `similarity` is the greater cosine of the question to the two messages before it, in [0, 1]; `length` the logarithm
    of its number of words; `foreign_words` 1 if it shares no key word with the conversation; `answers` 1 if the message
    before it asks something.
    """

    similarity: float
    length: float
    foreign_words: float
    answers: float

    @classmethod
    def of(cls, question: str, window: Sequence[Message], similarity: float) -> "ShiftParts":
        """Return the parts of a question after a window that is not empty."""
        said = {stem for message in window for stem in content_stems(message.content)}
        return cls(
            similarity,
            math.log(max(1, len(words(question)))),
            float(said.isdisjoint(content_stems(question))),
            float(any(mark in window[-1].content for mark in QUESTION_MARKS)),
        )

    @property
    def probability(self) -> float:
        """Return how likely the question begins another topic, in (0, 1)."""
        *weights, bias, _ = astuple(WEIGHTS)
        value = bias + sum(weight * part for weight, part in zip(weights, astuple(self), strict=True))
        return 1.0 / (1.0 + math.exp(-value))


class Topics:
    """Compares questions with what was said before them."""

    def __init__(self, vectors: SentenceVectors) -> None:
        self._vectors = vectors

    async def is_shift(self, question: str, window: Sequence[Message]) -> bool:
        """Tell whether a question begins another topic than that of the messages of the window.

        One that cannot be understood without them goes on with theirs.

        Raises:
            GroundwireError: as `Embeddings.embed` does.
        """
        if leans_on_context(question):
            return False
        parts = await self.parts(question, window)
        return parts is not None and parts.probability >= WEIGHTS.threshold

    async def parts(self, question: str, window: Sequence[Message]) -> ShiftParts | None:
        """Return what tells a new topic; None if nothing was said.

        Raises:
            GroundwireError: as `Embeddings.embed` does.
        """
        openings = [each.content[:_OPENING_CHARS] for each in window[-_COMPARED_MESSAGES:] if each.content.strip()]
        if not openings:
            return None
        vectors, [asked] = await self._vectors.of(openings, [question])
        scale = (await self._vectors.scales()).questions
        return ShiftParts.of(question, window, max(scale.of(cosine(asked, vector)) for vector in vectors))
