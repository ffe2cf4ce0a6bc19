"""What answers and messages say on the wire."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from groundwire.answer.domain.answer import Answer, Claim, FinishReason, RefusalReason, SearchReport
from groundwire.answer.domain.session import Message, Placed, Role
from groundwire.answer.wire.answers import parse_answer, to_answer
from groundwire.answer.wire.sessions import MAX_PAGE_BYTES, to_message_page
from groundwire.kernel.spans import Span

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_ANSWER = Answer(
    content="One. [1] Two.",
    citations=(),
    claims=(Claim(Span(0, 4, 0, 4), "One.", (1,), 0.5), Claim(Span(9, 13, 9, 13), "Two.", (), 0.0)),
    confidence=0.5,
    refusal=None,
    finish=FinishReason.COMPLETE,
    message_id="a",
    collection="docs",
    answer_time=_NOW,
    generator="scripted",
    search=SearchReport("one"),
)


@pytest.mark.parametrize(
    ("answer", "grounded"),
    [
        (_ANSWER, False),
        (replace(_ANSWER, claims=_ANSWER.claims[:1]), True),
        (replace(_ANSWER, claims=(), refusal=RefusalReason.NO_RESULTS, finish=FinishReason.REFUSED), False),
    ],
    ids=["one claim has no source", "every claim has one", "a refusal"],
)
def test_an_answer_is_grounded_when_every_claim_is(answer: Answer, grounded: bool) -> None:
    assert answer.grounded is to_answer(answer).grounded is grounded
    assert parse_answer(to_answer(answer)) == answer


def _messages(count: int, chars: int) -> list[Placed]:
    return [Placed(place, Message(str(place), Role.USER, "x" * chars, _NOW)) for place in range(7, 7 + count)]


def test_a_page_of_messages_ends_before_it_is_too_large() -> None:
    page, last = to_message_page(_messages(5, MAX_PAGE_BYTES // 3), 5)
    assert ([message.message_id for message in page], last) == (["7", "8"], 8)
    page, last = to_message_page(_messages(2, MAX_PAGE_BYTES + 1), 2)
    assert ([message.message_id for message in page], last) == (["7"], 7)


def test_the_last_page_of_messages_says_so() -> None:
    assert to_message_page(_messages(2, 10), 2)[1] is None
    assert to_message_page(_messages(3, 10), 2)[1] == 8
    assert to_message_page([], 2) == ([], None)
