"""The shapes that filters take for engines; their meaning is checked by tests/conformance."""

import pytest

from groundwire.kernel.errors import UnsupportedFilterError
from groundwire.kernel.filters import (
    And,
    Comparator,
    Comparison,
    Containment,
    Exists,
    Filter,
    Like,
    Membership,
    Not,
    Or,
)
from groundwire.vectorstores.chroma import filters as chroma
from groundwire.vectorstores.qdrant_edge import filters as qdrant

CHAPTER = Comparison("chapter", Comparator.EQ, "One")
LEVEL = Comparison("level", Comparator.GT, 1.5)


def test_qdrant_negations_are_must_not() -> None:
    assert qdrant.compile_filter(Comparison("chapter", Comparator.NE, "One")) == {
        "must_not": [{"key": "chapter", "match": {"any": ["One"]}}]
    }


def test_qdrant_bounds_of_integers_are_rounded_inwards() -> None:
    bounds = {comparator: qdrant.compile_filter(Comparison("level", comparator, 1.5))["range"] for comparator in ORDERS}
    assert bounds == {
        Comparator.GT: {"gte": 2.0},
        Comparator.GTE: {"gte": 2.0},
        Comparator.LT: {"lte": 1.0},
        Comparator.LTE: {"lte": 1.0},
    }


ORDERS = (Comparator.GT, Comparator.GTE, Comparator.LT, Comparator.LTE)


@pytest.mark.parametrize(
    "condition",
    [
        Or(()),
        Membership("chapter", ()),
        Comparison("level", Comparator.EQ, "1"),
        Comparison("level", Comparator.EQ, 1.5),
    ],
)
def test_what_cannot_match_compiles_to_nothing(condition: Filter) -> None:
    assert qdrant.compile_filter(condition) == qdrant.NOTHING
    assert chroma.compile_filter(condition) is False
    assert chroma.compile_filter(Not(condition)) is True


@pytest.mark.requirement("S0-57")
def test_chroma_gets_and_and_or_with_two_members_or_more() -> None:
    chapter = {"chapter": {"$in": ["One"]}}
    level = {"level": {"$gte": 2}}
    assert chroma.compile_filter(And(())) is True
    assert chroma.compile_filter(And((CHAPTER,))) == chapter
    assert chroma.compile_filter(And((CHAPTER, LEVEL))) == {"$and": [chapter, level]}
    assert chroma.compile_filter(Or((CHAPTER, And(())))) is True
    assert chroma.compile_filter(And((CHAPTER, Or(())))) is False


def test_chroma_negations_are_pushed_to_the_leaves() -> None:
    assert chroma.compile_filter(Not(Or((CHAPTER, Containment("tags", "a"))))) == {
        "$and": [{"chapter": {"$nin": ["One"]}}, {"tags": {"$not_contains": "a"}}]
    }
    assert chroma.compile_filter(Not(Not(CHAPTER))) == {"chapter": {"$in": ["One"]}}


@pytest.mark.requirement("S1-33")
@pytest.mark.parametrize("condition", [Like("title", "a%"), Not(And((CHAPTER, Like("size", "a%"))))])
def test_patterns_are_left_to_the_catalog(condition: Filter) -> None:
    for engine in (qdrant, chroma):
        with pytest.raises(UnsupportedFilterError) as refused:
            engine.compile_filter(condition)
        assert refused.value.metadata["clause"] == "$like"


@pytest.mark.parametrize("condition", [Exists("title"), Not(LEVEL), Containment("title", "a")])
def test_chroma_leaves_more_to_the_catalog_than_qdrant(condition: Filter) -> None:
    assert qdrant.compile_filter(condition)
    with pytest.raises(UnsupportedFilterError):
        chroma.compile_filter(condition)
