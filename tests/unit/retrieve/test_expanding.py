"""Extents around chunks: whatever is asked for, texts are neither doubled nor lost."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.chunk import ChunkLocation
from groundwire.kernel.spans import Span
from groundwire.retrieve.expansion import DocumentMap, ExpandMode, Expansion, Extent, Place


@st.composite
def _documents(draw: st.DrawFn) -> DocumentMap:
    """Draw a document of chunks that overlap or leave gaps, below nested headings."""
    places, start = [], draw(st.integers(0, 5))
    for number in range(draw(st.integers(1, 12))):
        length = draw(st.integers(5, 40))
        path = tuple(draw(st.sampled_from([(), ("A",), ("A", "B"), ("A", "C"), ("D",)])))
        places.append(ChunkLocation(number, Span(start, start + length, start, start + length), path))
        start += draw(st.integers(max(1, length // 2), length + 3))
    end = max(place.span.end for place in places) + draw(st.integers(0, 5))
    return DocumentMap(places, Place(end, end))


def _check(extent: Extent, document: DocumentMap, requested: int, max_chars: int) -> None:
    own = document.leaves[requested].span
    assert extent.start.char <= own.start
    assert own.end <= extent.end.char
    assert 0 <= extent.start.char < extent.end.char <= document.end.char
    assert extent.chars <= max(max_chars, own.end - own.start)


@given(
    document=_documents(),
    mode=st.sampled_from([ExpandMode.NEIGHBOURS, ExpandMode.PARENT, ExpandMode.HIERARCHY]),
    size=st.integers(0, 5),
    max_chars=st.integers(1, 200),
    data=st.data(),
)
def test_merged_extents_share_no_text_and_hold_every_requested_chunk(
    document: DocumentMap, mode: ExpandMode, size: int, max_chars: int, data: st.DataObject
) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(document.leaves) - 1), min_size=1, max_size=5, unique=True))
    rule = Expansion(mode, radius=size, levels_up=max(1, min(3, size)), max_chars=max_chars)
    single = [document.expand(number, rule) for number in numbers]
    for number, extent in zip(numbers, single, strict=True):
        _check(extent, document, number, max_chars)
    merged = document.merge(single, max_chars)
    assert sorted(number for extent in merged for number in extent.requested) == sorted(numbers)
    for before, after in pairwise(merged):
        assert before.end.char <= after.start.char
    for extent in merged:
        for number in extent.requested:
            assert extent.first <= number <= extent.last
    if max_chars >= document.end.char:
        covered = {at for extent in merged for at in range(extent.start.char, extent.end.char)}
        assert covered >= {at for extent in single for at in range(extent.start.char, extent.end.char)}


def test_a_section_ends_where_another_of_the_same_name_begins_elsewhere() -> None:
    paths = [("A", "Notes"), ("A",), ("B",), ("B", "Notes")]
    places = [
        ChunkLocation(number, Span(10 * number, 10 * number + 9, 10 * number, 10 * number + 9), path)
        for number, path in enumerate(paths)
    ]
    document = DocumentMap(places, Place(40, 40))
    up = document.expand(3, Expansion(ExpandMode.HIERARCHY))
    assert (up.first, up.last) == (3, 3)
    chapter = document.expand(3, Expansion(ExpandMode.HIERARCHY, levels_up=2))
    assert (chapter.first, chapter.last) == (2, 3)
    everything = document.expand(3, Expansion(ExpandMode.HIERARCHY, levels_up=3))
    assert (everything.first, everything.last) == (0, 3)


def test_where_levels_have_chunks_going_up_ends_with_what_each_of_them_holds() -> None:
    def place(number: int, first: int, last: int, level: int, parent: int | None) -> ChunkLocation:
        span = Span(10 * first, 10 * last + 9, 10 * first, 10 * last + 9)
        return ChunkLocation(number, span, (), parent=parent, upper=level < 3)

    # Two sections of two chunks in one chapter of two, then a chapter without sections.
    leaves = [place(n, n, n, 3, 7 + n // 2 if n < 4 else 9) for n in range(5)]
    uppers = [place(5, 0, 4, 0, None), place(6, 0, 3, 1, 5), place(7, 0, 1, 2, 6), place(8, 2, 3, 2, 6)]
    document = DocumentMap([*leaves, *uppers, place(9, 4, 4, 1, 5)], Place(49, 49))
    found = [
        [
            (extent.first, extent.last)
            for levels_up in (1, 2, 3)
            for extent in [document.expand(number, Expansion(ExpandMode.HIERARCHY, levels_up=levels_up))]
        ]
        for number in (2, 4, 8)
    ]
    assert found == [[(2, 3), (0, 3), (0, 4)], [(4, 4), (0, 4), (0, 4)], [(0, 3), (0, 4), (0, 4)]]
