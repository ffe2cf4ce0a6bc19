"""Rare names and codes lead the search; ordinary questions do not change its balance."""

import pytest

from groundwire.retrieve.queries import KEYWORD_DENSE_WEIGHT, dense_weight_for, parse_query


def _weight(query: str, default: float = 0.75, chunk_count: int = 1000, **frequencies: int) -> float:
    """Words are in 400 chunks and phrases in none unless `frequencies` says otherwise."""
    parsed = parse_query(query)
    usual = {**dict.fromkeys(parsed.phrases, 0), **dict.fromkeys(parsed.terms, 400)}
    counted = {text: frequencies.get(f"_{text}".replace(" ", "_"), count) for text, count in usual.items()}
    return dense_weight_for(default, parsed, counted, chunk_count)


@pytest.mark.requirement("S1-42")
@pytest.mark.parametrize(
    ("query", "frequencies"),
    [
        ("OPS-306", {"_306": 1}),
        ("xylophone", {"_xylophone": 2}),
        ("why did the nightly deployment of staging fail with OPS-306", {"_306": 5}),
        ("which of the many services answers with e4711 when the disk is full", {"_e4711": 1}),
        ("xylophone", {"_xylophone": 3, "chunk_count": 20}),
        ('why does the "borrow checker" reject this peculiar program', {"_borrow_checker": 90}),
    ],
)
def test_words_lead_when_a_rare_word_decides(query: str, frequencies: dict[str, int]) -> None:
    assert _weight(query, **frequencies) == KEYWORD_DENSE_WEIGHT < 0.5


@pytest.mark.parametrize(
    ("query", "frequencies"),
    [
        ("borrow checker", {}),
        ("why does the borrow checker reject this peculiar program", {"_peculiar": 1}),
        ("what happened to the borrow checker of the compiler in 2024", {"_2024": 1}),
        ("xylophone", {"_xylophone": 0}),
        ("xylophone", {"_xylophone": 6}),
        ("xylophone", {"_xylophone": 4, "chunk_count": 20}),
        ('why does the "borrow checker" reject this peculiar program', {}),
        ("why does the borrow-checker reject this peculiar program", {"_borrow_checker": 90}),
    ],
)
def test_other_queries_keep_the_balance(query: str, frequencies: dict[str, int]) -> None:
    assert _weight(query, **frequencies) == 0.75


def test_a_smaller_default_is_kept() -> None:
    assert _weight("OPS-306", default=0.1, _306=1) == 0.1
    assert _weight('"borrow checker"', default=0.1, _borrow_checker=1) == 0.1
