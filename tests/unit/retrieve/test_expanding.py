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
        assert extent.requested
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
        for number in (2, 4, 8, 5)
    ]
    assert found[:3] == [[(2, 3), (0, 3), (0, 4)], [(4, 4), (0, 4), (0, 4)], [(0, 3), (0, 4), (0, 4)]]
    assert found[3] == [(0, 4)] * 3, "above the document there is nothing"


def _of_text(*spans: tuple[int, int]) -> DocumentMap:
    places = [ChunkLocation(number, Span(start, end, start, end), ()) for number, (start, end) in enumerate(spans)]
    end = max(end for _, end in spans)
    return DocumentMap(places, Place(end, end))


def test_a_cut_passage_holds_nothing_beyond_what_was_asked_for() -> None:
    document = _of_text((0, 5), (5, 10), (10, 20), (20, 120), (120, 125))
    extent = document.expand(2, Expansion(ExpandMode.NEIGHBOURS, radius=1, max_chars=20))
    assert (extent.first, extent.last, extent.truncated) == (1, 2, True), "the first chunk would fit as well"


def test_a_passage_may_be_as_long_as_is_allowed() -> None:
    document = _of_text((0, 10), (10, 20), (20, 30), (30, 40))
    found = [document.expand(1, Expansion(ExpandMode.PARENT, max_chars=size)) for size in (40, 39, 30, 29)]
    assert [(each.first, each.last, each.truncated) for each in found] == [
        (0, 3, False),
        (0, 2, True),
        (0, 2, True),
        (0, 1, True),
    ]


def test_a_cut_passage_ends_where_the_chunk_that_reaches_furthest_does() -> None:
    # The second chunk lies within the first.
    document = _of_text((0, 40), (20, 25), (25, 60), (60, 100))
    for requested in (0, 1):
        extent = document.expand(requested, Expansion(ExpandMode.PARENT, max_chars=40))
        assert (extent.first, extent.last, extent.start.char, extent.end.char) == (0, 1, 0, 40)


def test_a_section_that_is_too_long_is_cut_from_its_first_chunk_on() -> None:
    leaves = [ChunkLocation(n, Span(10 * n, 10 * n + 10, 10 * n, 10 * n + 10), (), parent=4) for n in range(4)]
    section = ChunkLocation(4, Span(10, 40, 10, 40), (), parent=None, upper=True)
    document = DocumentMap([*leaves, section], Place(40, 40))
    own = document.expand(4, Expansion(ExpandMode.NEIGHBOURS, radius=0, max_chars=25))
    assert (own.first, own.last, own.requested, own.truncated) == (1, 2, (4,), True)


def test_passages_that_become_one_hold_the_chunks_and_the_cuts_of_both() -> None:
    document = _of_text((0, 10), (10, 20), (20, 30), (30, 40))
    wide = document.expand(1, Expansion(ExpandMode.PARENT))
    narrow = document.expand(2, Expansion(ExpandMode.NEIGHBOURS, radius=0))
    (merged,) = document.merge([wide, narrow], 100)
    assert (merged.first, merged.last, merged.end.char, merged.requested) == (0, 3, 40, (1, 2))
    for cut, whole in ((0, 3), (3, 0)):
        extents = [document.expand(cut, Expansion(ExpandMode.PARENT, max_chars=20))]
        extents.append(document.expand(whole, Expansion(ExpandMode.NEIGHBOURS, radius=1)))
        (merged,) = document.merge(extents, 100)
        assert (merged.first, merged.last, merged.truncated) == (0, 3, True)


def test_a_passage_that_lies_in_a_longer_one_becomes_part_of_it_with_its_chunks() -> None:
    # The second chunk lies within the first, which alone is longer than a passage may be.
    document = _of_text((0, 40), (20, 25), (25, 60))
    extents = [document.expand(number, Expansion(ExpandMode.NEIGHBOURS, radius=0, max_chars=10)) for number in (0, 1)]
    (merged,) = document.merge(extents, 10)
    assert (merged.first, merged.last, merged.requested) == (0, 1, (0, 1))


def test_what_is_left_of_a_passage_is_none_where_its_chunk_is_in_the_one_before() -> None:
    document = _of_text(*((10 * number, 10 * number + 10) for number in range(6)))
    extents = [document.expand(number, Expansion(ExpandMode.NEIGHBOURS, radius=2, max_chars=50)) for number in (2, 3)]
    assert [(each.first, each.last, each.truncated) for each in extents] == [(0, 4, False), (1, 5, False)]
    (merged,) = document.merge(extents, 50)
    assert (merged.first, merged.last, merged.requested, merged.truncated) == (0, 4, (2, 3), True)


def test_a_window_is_as_wide_as_its_document_was_cut_for_and_of_sentences_alone() -> None:
    def place(number: int, sentence: int | None) -> ChunkLocation:
        span = Span(10 * number, 10 * number + 10, 10 * number, 10 * number + 10)
        return ChunkLocation(number, span, (), sentence_index=sentence, window_size=1)

    document = DocumentMap([place(0, None), *(place(number, number - 1) for number in range(1, 6))], Place(60, 60))
    found = [document.expand(number, Expansion(ExpandMode.WINDOW)) for number in (1, 3)]
    assert [(each.first, each.last) for each in found] == [(1, 2), (2, 4)]


def test_chunks_next_to_each_other_become_one_passage_though_white_space_is_between_them() -> None:
    places = [ChunkLocation(0, Span(0, 10, 0, 10), ()), ChunkLocation(1, Span(12, 20, 12, 20), ())]
    document = DocumentMap(places, Place(20, 20))
    single = [document.expand(number, Expansion(ExpandMode.NEIGHBOURS, radius=0)) for number in (0, 1)]
    (merged,) = document.merge(single, 100)
    assert (merged.start.char, merged.end.char, merged.requested) == (0, 20, (0, 1))


def test_headings_below_different_ones_are_not_in_common() -> None:
    paths = [("Sea", "Tides", "Causes"), ("Sea", "Waves", "Causes")]
    places = [
        ChunkLocation(number, Span(10 * number, 10 * number + 10, 10 * number, 10 * number + 10), path)
        for number, path in enumerate(paths)
    ]
    document = DocumentMap(places, Place(20, 20))
    whole = document.expand(0, Expansion(ExpandMode.PARENT))
    assert document.path_of(whole) == ("Sea",)
