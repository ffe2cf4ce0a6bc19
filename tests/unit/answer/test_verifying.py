"""What a citation that came back is compared with."""

from dataclasses import replace

import pytest

from groundwire.answer.verification import CanonicalText, compare
from groundwire.api.answer.v1 import citation_pb2
from groundwire.kernel.spans import Span
from groundwire.rpc.messages import to_span

_TEXT = CanonicalText("Grüße 👩‍🚀 an alle. Ende. Ende.")
_QUOTE = "an alle."
_START = _TEXT.text.index(_QUOTE)
_START_BYTE = len(_TEXT.text[:_START].encode())
_SPAN = Span(_START, _START + 8, _START_BYTE, _START_BYTE + 8)


def _claimed(span: Span = _SPAN, quote: str = _QUOTE, quote_sha256: str = "") -> citation_pb2.Citation:
    return citation_pb2.Citation(
        document_id="doc_1", generation=1, span=to_span(span), quote=quote, quote_sha256=quote_sha256
    )


@pytest.mark.parametrize("given", [{}, {"start": 0, "end": 0}, {"start_byte": 0, "end_byte": 0}])
def test_one_unit_is_enough_and_both_may_be_given(given: dict[str, int]) -> None:
    failure, stored, span = compare(_claimed(replace(_SPAN, **given)), _TEXT)
    assert failure == citation_pb2.VERIFICATION_FAILURE_UNSPECIFIED
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
        replace(_SPAN, start_byte=_START_BYTE + 1, end_byte=_START_BYTE + 9),
        replace(_SPAN, start=2**31 - 2, end=2**31 - 1),
    ],
)
def test_spans_that_are_none_fail(span: Span) -> None:
    assert compare(_claimed(span), _TEXT)[0] == citation_pb2.VERIFICATION_FAILURE_SPAN_INVALID


def test_another_text_shows_what_is_stored() -> None:
    failure, stored, _ = compare(_claimed(quote="an Alle."), _TEXT)
    assert (failure, stored) == (citation_pb2.VERIFICATION_FAILURE_TEXT_DIFFERS, _QUOTE)


def test_a_wrong_digest_fails() -> None:
    assert compare(_claimed(quote_sha256="0" * 64), _TEXT)[0] == citation_pb2.VERIFICATION_FAILURE_DIGEST_DIFFERS


def test_a_generation_that_is_gone_fails() -> None:
    assert compare(_claimed(), None)[0] == citation_pb2.VERIFICATION_FAILURE_GENERATION_NOT_FOUND


def test_the_only_place_of_a_quote() -> None:
    assert _TEXT.only_place("Ende.") is None
    assert _TEXT.only_place("nowhere") is None
    assert _TEXT.only_place("") is None
    span = _TEXT.only_place(_QUOTE)
    assert span is not None
    assert (span.start, span.end_byte) == (_START, _START_BYTE + 8)
