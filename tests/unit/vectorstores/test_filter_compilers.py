"""The shapes that filters take for engines; their meaning is checked by tests/conformance."""

import pytest

from groundwire.kernel.errors import UnsupportedFilterError
from groundwire.kernel.filters import (
    BUILT_IN_FIELDS,
    And,
    Comparator,
    Comparison,
    Containment,
    Exists,
    FieldKind,
    Filter,
    Like,
    Membership,
    Not,
    Or,
    Scalar,
)
from groundwire.vectorstores.chroma import records as chroma
from groundwire.vectorstores.qdrant_conditions import ConditionCompiler

EDGE = ConditionCompiler("qdrant-edge", matches_substrings=True)
SERVER = ConditionCompiler("qdrant", matches_substrings=False)
CHAPTER = Comparison("chapter", Comparator.EQ, "One")
LEVEL = Comparison("level", Comparator.GT, 1.5)


def test_qdrant_negations_are_must_not() -> None:
    assert EDGE(Comparison("chapter", Comparator.NE, "One")) == {
        "must_not": [{"key": "chapter", "match": {"any": ["One"]}}]
    }


def test_qdrant_bounds_of_integers_are_rounded_inwards() -> None:
    compiled = {comparator: EDGE(Comparison("level", comparator, 1.5)) for comparator in ORDERS}
    assert compiled == {
        Comparator.GT: {"key": "level", "range": {"gte": 2.0}},
        Comparator.GTE: {"key": "level", "range": {"gte": 2.0}},
        Comparator.LT: {"key": "level", "range": {"lte": 1.0}},
        Comparator.LTE: {"key": "level", "range": {"lte": 1.0}},
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
    assert EDGE(condition) is False
    assert chroma.compile_filter(condition) is False
    assert EDGE(Not(condition)) is True
    assert EDGE(And((CHAPTER, condition))) is False
    assert EDGE(Or((CHAPTER, Not(condition)))) is True
    assert EDGE(Or((CHAPTER, condition))) == {"should": [EDGE(CHAPTER)]}
    assert chroma.compile_filter(Not(condition)) is True


@pytest.mark.parametrize(("field", "value"), [("level", "1"), ("level", True), ("title", 1), ("tags", 1)])
def test_orderings_of_different_kinds_compile_to_nothing(field: str, value: Scalar) -> None:
    condition = Comparison(field, Comparator.GT, value)
    assert EDGE(condition) is False
    assert chroma.compile_filter(condition) is False


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
    for compile_filter in (EDGE, SERVER, chroma.compile_filter):
        with pytest.raises(UnsupportedFilterError) as refused:
            compile_filter(condition)
        assert refused.value.metadata["clause"] == "$like"


@pytest.mark.parametrize("condition", [Exists("title"), Not(LEVEL), Containment("title", "a")])
def test_chroma_leaves_more_to_the_catalog_than_qdrant(condition: Filter) -> None:
    assert EDGE(condition)
    with pytest.raises(UnsupportedFilterError):
        chroma.compile_filter(condition)


def test_servers_of_qdrant_are_not_asked_for_substrings() -> None:
    with pytest.raises(UnsupportedFilterError):
        SERVER(Containment("title", "a"))
    assert SERVER(Containment("title", "")) == EDGE(Exists("title"))


@pytest.mark.parametrize("field", ["title", "tags", "mine"])
def test_orderings_of_texts_are_left_to_the_catalog(field: str) -> None:
    for compile_filter in (EDGE, SERVER, chroma.compile_filter):
        with pytest.raises(UnsupportedFilterError):
            compile_filter(Comparison(field, Comparator.GTE, "M"))


def test_the_compilers_know_the_kind_of_every_built_in_field() -> None:
    known = {FieldKind.TEXT, FieldKind.TEXT_LIST, FieldKind.INTEGER, FieldKind.INTEGER_LIST, FieldKind.TIME}
    assert set(BUILT_IN_FIELDS.values()) <= known
