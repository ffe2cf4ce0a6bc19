import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.spans import OffsetMap, Span

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(ANY_TEXT, st.data())
def test_both_units_cut_the_same_characters(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    span = OffsetMap(text).span(start, end)
    assert text.encode()[span.start_byte : span.end_byte].decode() == text[span.start : span.end]


@given(ANY_TEXT)
def test_every_code_point_offset_comes_back_from_its_byte_offset(text: str) -> None:
    offsets = OffsetMap(text)
    assert [offsets.to_codepoint(offsets.to_byte(index)) for index in range(len(text) + 1)] == [*range(len(text) + 1)]


@pytest.mark.parametrize("byte", [1, 2, 3, 6, -1])
def test_a_byte_inside_a_character_or_outside_the_text_is_refused(byte: int) -> None:
    with pytest.raises(ValueError, match="not a character boundary"):
        OffsetMap("🌊a").to_codepoint(byte)


@pytest.mark.parametrize("codepoint", [-1, 4])
@pytest.mark.parametrize("text", ["abc", "äöü"])
def test_an_offset_outside_the_text_is_refused(text: str, codepoint: int) -> None:
    with pytest.raises(IndexError):
        OffsetMap(text).to_byte(codepoint)


def test_spans_sort_by_place() -> None:
    assert min(Span(5, 6, 5, 6), Span(1, 9, 1, 9)).start == 1
