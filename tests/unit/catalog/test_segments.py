"""Cutting and measuring of texts, and the check of chunks, without a database."""

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.catalog import texts
from groundwire.catalog.texts import check_chunks, cut, measure
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.spans import OffsetMap, Span

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.fixture(autouse=True)
def _short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "SEGMENT_CHARS", 7)


def _chunk(number: int, text: str, span: Span) -> Chunk:
    content = text[span.start : span.end]
    return Chunk(number, span, content, 1, "Chapter", None, (), 1)


@given(TEXTS)
def test_segments_join_to_the_text_and_know_where_they_begin(text: str) -> None:
    found = list(cut(text))
    assert "".join(segment.content for segment in found) == text
    assert [segment.number for segment in found] == list(range(len(found)))
    for segment in found:
        assert text[segment.char_start :].startswith(segment.content)
        assert len(text[: segment.char_start].encode()) == segment.byte_start
    assert all(len(left.content) == 7 for left, _ in pairwise(found))


@given(TEXTS)
def test_figures_are_those_of_the_whole_text(text: str) -> None:
    encoded = text.encode()
    figures = measure(text)
    assert figures.digest == hashlib.sha256(encoded).hexdigest()
    assert (figures.total_chars, figures.total_bytes) == (len(text), len(encoded))


@given(TEXTS.filter(bool), st.data())
def test_right_chunks_pass_and_a_shifted_byte_does_not(text: str, data: st.DataObject) -> None:
    offsets = OffsetMap(text)
    chunks = []
    for number in range(data.draw(st.integers(1, 5))):
        start = data.draw(st.integers(0, len(text) - 1))
        chunks.append(_chunk(number, text, offsets.span(start, data.draw(st.integers(start + 1, len(text))))))
    check_chunks(text, chunks)
    last = chunks[-1].span
    shifted = Span(last.start, last.end, last.start_byte + 1, last.end_byte + 1)
    with pytest.raises(ValueError, match="byte offsets"):
        check_chunks(text, [*chunks[:-1], _chunk(len(chunks) - 1, text, shifted)])


@pytest.mark.parametrize("span", [Span(0, 0, 0, 0), Span(3, 2, 3, 2), Span(-1, 2, 0, 2), Span(3, 6, 3, 6)])
def test_a_span_that_is_empty_or_outside_is_refused(span: Span) -> None:
    with pytest.raises(ValueError, match="chunk 0"):
        check_chunks("tides", [_chunk(0, "tides", span)])
