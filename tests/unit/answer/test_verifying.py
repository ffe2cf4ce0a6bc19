"""What a citation that came back is compared with."""

from dataclasses import replace

import pytest

from groundwire.answer.ports import StoredDocument
from groundwire.answer.verification import CanonicalText, compare, verify_in_document
from groundwire.api.answer.v1 import citation_pb2
from groundwire.kernel.budget import Budget
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
        Span(0, 0, -2, -1),
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
    assert CanonicalText("aaa").only_place("aa") is None, "its places overlap"
    span = _TEXT.only_place(_QUOTE)
    assert span is not None
    assert (span.start, span.end_byte) == (_START, _START_BYTE + 8)


@pytest.mark.parametrize("around", ["At dawn {} and more.", "At noon {} slowly.", "At {}, and that at dawn."])
@pytest.mark.parametrize("turns", [1, -1])
def test_of_several_places_that_with_the_same_surroundings_is_the_likeliest(around: str, turns: int) -> None:
    quote, rest = "the tide turns", " The sea is wide." * 40 + " "
    cited = CanonicalText(around.format(quote) + rest)
    start = cited.text.index(quote)
    sentences = [f"At noon {quote} and more.", around.format(quote)][::turns]
    live = CanonicalText("".join(sentence + rest for sentence in sentences))
    place = live.likeliest_place(quote, cited.only_place(quote), cited)
    assert place is not None
    assert place.start == live.text.index(around.format(quote)) + start
    # Without the text that was cited, the nearest one is.
    nearest = live.likeliest_place(quote, cited.only_place(quote), None)
    assert nearest is not None
    assert nearest.start == live.text.index(quote)


@pytest.mark.parametrize(("origin", "nearest"), [(0, 100), (103, 100), (149, 100), (151, 200), (300, 200), (5000, 200)])
def test_of_equal_places_the_nearest_is_the_likeliest_on_either_side(origin: int, nearest: int) -> None:
    quote = "the tide turns"
    text = CanonicalText(" " * 100 + quote.ljust(100) + quote.ljust(300))
    place = text.likeliest_place(quote, Span(origin, origin + 14, origin, origin + 14), None)
    assert place is not None
    assert place.start == nearest


def test_what_occurs_nowhere_has_no_likeliest_place() -> None:
    assert [_TEXT.likeliest_place(quote, _SPAN, _TEXT) for quote in ("", "nowhere")] == [None, None]


def test_stored_texts_are_shown_as_long_as_their_bytes_fit() -> None:
    document = StoredDocument(text=_TEXT.text, live_text=_TEXT.text, live_generation=1)
    claims = [(_claimed(Span(0, 5, 0, 0), quote="Gruss"), None)] * 2
    for room, shown, left in ((14, ["Grüße", "Grüße"], 0), (13, ["Grüße", ""], 6), (6, ["", ""], 6)):
        found, rest = verify_in_document(claims, document, room, Budget())
        assert ([each.stored_text for each in found], rest) == (shown, left), room


def test_places_of_a_quote_may_overlap() -> None:
    cited, live = CanonicalText("-" * 10 + "xabaq"), CanonicalText("xababay")
    place = live.likeliest_place("aba", cited.only_place("aba"), cited)
    assert place is not None
    assert place.start == 1
