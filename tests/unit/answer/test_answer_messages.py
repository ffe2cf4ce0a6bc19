"""What answers and messages say on the wire."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from groundwire.answer.answers import Answer, Claim, FinishReason, RefusalReason, SearchReport
from groundwire.answer.messages import parse_answer, to_answer
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
