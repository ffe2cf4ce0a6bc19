"""What a citation that came back is compared with."""

from dataclasses import replace

import pytest

from groundwire.answer.verification import CanonicalText, ClaimedCitation, Failure, compare
from groundwire.kernel.spans import Span

_TEXT = CanonicalText("Grüße 👩‍🚀 an alle. Ende. Ende.")
_QUOTE = "an alle."
_START = _TEXT.text.index(_QUOTE)
_START_BYTE = len(_TEXT.text[:_START].encode())
_TRUE = ClaimedCitation(
    collection="docs",
    document_id="doc_1",
    generation=1,
    span=Span(_START, _START + 8, _START_BYTE, _START_BYTE + 8),
    quote=_QUOTE,
)


@pytest.mark.parametrize("given", [{}, {"start": 0, "end": 0}, {"start_byte": 0, "end_byte": 0}])
def test_one_unit_is_enough_and_both_may_be_given(given: dict[str, int]) -> None:
    failure, stored, span = compare(replace(_TRUE, span=replace(_TRUE.span, **given)), _TEXT)
    assert failure is None
    assert stored == _QUOTE
    assert span is not None
    assert (span.start, span.start_byte) == (_START, _START_BYTE)


@pytest.mark.parametrize(
    "span",
    [
        Span(0, 0, 0, 0),
        Span(5, 5, 0, 0),
        Span(9, 5, 0, 0),
        Span(5, 5_000, 0, 0),
        Span(0, 0, 3, 4),
        replace(_TRUE.span, start_byte=_START_BYTE + 1, end_byte=_START_BYTE + 9),
        replace(_TRUE.span, start=2**32 - 2, end=2**32 - 1),
    ],
)
def test_spans_that_are_none_fail(span: Span) -> None:
    assert compare(replace(_TRUE, span=span), _TEXT)[0] is Failure.SPAN_INVALID


def test_another_text_shows_what_is_stored() -> None:
    failure, stored, _ = compare(replace(_TRUE, quote="an Alle."), _TEXT)
    assert (failure, stored) == (Failure.TEXT_DIFFERS, _QUOTE)


def test_a_wrong_digest_fails() -> None:
    assert compare(replace(_TRUE, quote_sha256="0" * 64), _TEXT)[0] is Failure.DIGEST_DIFFERS


def test_a_generation_that_is_gone_fails() -> None:
    assert compare(_TRUE, None)[0] is Failure.GENERATION_NOT_FOUND


def test_the_only_place_of_a_quote() -> None:
    assert _TEXT.only_place("Ende.") is None
    assert _TEXT.only_place("nowhere") is None
    assert _TEXT.only_place("") is None
    span = _TEXT.only_place(_QUOTE)
    assert span is not None
    assert (span.start, span.end_byte) == (_START, _START_BYTE + 8)
