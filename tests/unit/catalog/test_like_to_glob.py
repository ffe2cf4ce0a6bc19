"""LIKE patterns as GLOB patterns."""

import pytest

from groundwire.catalog.sqlite import like_to_glob


@pytest.mark.parametrize(
    ("like", "glob"),
    [
        ("a%", "a*"),
        ("_b", "?b"),
        ("50\\%", "50%"),
        ("a\\_b", "a_b"),
        ("a*b?c[d]", "a[*]b[?]c[[]d]"),
        ("\\*", "[*]"),
        ("end\\", "end\\"),
        ("\\\\", "\\"),
        ("%%", "**"),
        ("", ""),
    ],
)
def test_wildcards_are_translated_and_the_rest_is_literal(like: str, glob: str) -> None:
    assert like_to_glob(like) == glob
