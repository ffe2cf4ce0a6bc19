"""The chapters and sections of documents, and the chunks whose vectors stand for them."""

from groundwire.kernel.chunk import OutlineChunk, Section, sections_of
from tests.growth import LINEAR, growth


def _chunks(sections: int, *, with_uppers: bool = True) -> list[OutlineChunk]:
    """Return two leaves for each section of one chapter, then the chunks of the document, the chapter and sections."""
    leaves = [_chunk(number, 10 * number, 10 * number + 9, f"s{number // 2}", 3) for number in range(2 * sections)]
    if not with_uppers:
        return leaves
    count, end = len(leaves), 20 * sections
    whole = [_chunk(count, 0, end, None, 0), _chunk(count + 1, 0, end, None, 1)]
    return [*leaves, *whole, *(_chunk(count + 2 + n, 20 * n, 20 * n + 19, f"s{n}", 2) for n in range(sections))]


def _chunk(number: int, start: int, end: int, section: str | None, level: int) -> OutlineChunk:
    return OutlineChunk("doc", "a.md", number, number, start, end, "c", section, level, upper=level < 3)


def test_a_section_has_the_vector_of_its_own_chunk_else_of_its_first() -> None:
    places = [("c",), ("c", "s0"), ("c", "s1")]
    ranges = [(0, 3), (0, 1), (2, 3)]
    for leads, with_uppers in (([5, 6, 7], True), ([0, 0, 2], False)):
        expected = [
            Section("doc", "a.md", path, lead, *between)
            for path, lead, between in zip(places, leads, ranges, strict=True)
        ]
        assert sections_of(_chunks(2, with_uppers=with_uppers)) == expected


def test_many_sections_take_linear_time() -> None:
    assert growth(lambda size: "x" * size, lambda text: sections_of(_chunks(len(text))), 1500) < LINEAR
