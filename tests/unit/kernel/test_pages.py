"""Which pages a range of a text stands on."""

import pytest

from groundwire.kernel.spans import PageSpan, pages_between

PAGES = (PageSpan(1, 0, 10), PageSpan(2, 12, 12), PageSpan(3, 14, 20), PageSpan(4, 22, 30), PageSpan(5, 32, 32))


@pytest.mark.requirement("C14")
@pytest.mark.requirement("S1-76")
@pytest.mark.parametrize(
    ("start", "end", "numbers"),
    [
        (0, 10, (1,)),
        (9, 15, (1, 2, 3)),
        (10, 14, ()),
        (9, 14, (1,)),
        (10, 15, (3,)),
        (14, 30, (3, 4)),
        (0, 40, (1, 2, 3, 4)),
        (25, 40, (4,)),
        (31, 40, ()),
    ],
)
def test_pages_go_from_the_first_to_the_last_with_text_without_gaps(
    start: int, end: int, numbers: tuple[int, ...]
) -> None:
    assert pages_between(PAGES, start, end) == numbers


def test_formats_without_pages_have_none() -> None:
    assert pages_between((), 0, 10) == ()
