"""When a question begins another topic."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from groundwire.answer.grounding.sentence_vectors import SentenceVectors
from groundwire.answer.ports import Vector
from groundwire.answer.sessions import Message
from groundwire.answer.topics import Topics
from groundwire.kernel.session import Role
from tests.conformance.embedder import opened
from tests.unit.answer.builders import LocalEmbeddings

_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_SAID = [
    Message("1", Role.USER, "How much vacation do I get?", _TIME),
    Message("2", Role.ASSISTANT, "Full-time employees receive 25 days of paid leave each year.", _TIME),
]


@pytest.fixture
def topics() -> Topics:
    return Topics(SentenceVectors(LocalEmbeddings(opened("sentence-transformers:all-MiniLM-L6-v2"))))


class _Refuses:
    async def embed(self, queries: Sequence[str], texts: Sequence[str]) -> list[Vector]:
        raise AssertionError((queries, texts))


@pytest.mark.requirement("S4-35")
@pytest.mark.parametrize(
    "question", ["How long should bread dough rest before baking?", "Who won the world cup final in 1998?"]
)
async def test_a_question_on_something_else_is_a_shift(topics: Topics, question: str) -> None:
    assert await topics.is_shift(question, _SAID)


@pytest.mark.requirement("S4-35")
@pytest.mark.parametrize(
    "question",
    [
        "Do employees in their first year get paid leave?",
        "Are unused holidays carried over?",  # no word in common
        "How do I request time off?",  # nor here
    ],
)
async def test_a_question_on_the_same_thing_is_none_even_in_other_words(topics: Topics, question: str) -> None:
    assert not await topics.is_shift(question, _SAID)


async def test_of_earlier_messages_only_the_words_count(topics: Topics) -> None:
    bread = "How is bread made at home?"
    earlier = [Message("0", Role.USER, "What is bread made of?", _TIME), Message("00", Role.ASSISTANT, "Flour.", _TIME)]
    shifted = await topics.parts(bread, _SAID)
    back = await topics.parts(bread, [*earlier, *_SAID])
    assert shifted is not None
    assert back is not None
    assert (shifted.foreign_words, back.foreign_words) == (1.0, 0.0)
    assert shifted.similarity == pytest.approx(back.similarity)
    assert shifted.probability > back.probability


async def test_a_question_is_compared_with_the_beginning_of_both_messages_before_it(topics: Topics) -> None:
    on_bread = Message("1", Role.USER, "What is bread made of?", _TIME)
    opening = _SAID[1].content.ljust(200, ".")

    async def similarity(*window: Message) -> float:
        parts = await topics.parts("How is bread made at home?", window)
        assert parts is not None
        return parts.similarity

    assert await similarity(on_bread) == pytest.approx(await similarity(on_bread, _SAID[1]))
    one, other = (Message("2", Role.ASSISTANT, said, _TIME) for said in (opening, f"{opening} Bread is made of flour."))
    assert await similarity(one) == pytest.approx(await similarity(other))


async def test_what_answers_a_question_goes_on_more_likely(topics: Topics) -> None:
    asks = [_SAID[0], Message("2", Role.ASSISTANT, f"{_SAID[1].content} Do you plan a trip?", _TIME)]
    said, asked = await topics.parts("I bake bread", _SAID), await topics.parts("I bake bread", asks)
    assert said is not None
    assert asked is not None
    assert (said.answers, asked.answers) == (0.0, 1.0)
    assert asked.probability < said.probability


@pytest.mark.parametrize("window", [[], [Message("1", Role.USER, " ", _TIME)]])
async def test_where_nothing_was_said_there_is_no_topic(window: list[Message]) -> None:
    assert not await Topics(SentenceVectors(_Refuses())).is_shift("How is bread made?", window)


async def test_a_question_that_leans_on_what_was_said_is_not_compared() -> None:
    assert not await Topics(SentenceVectors(_Refuses())).is_shift("Tell me more about it", _SAID)
