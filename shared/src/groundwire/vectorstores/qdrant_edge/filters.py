"""Compiles filters to the condition trees of Qdrant, in the JSON form that its servers document.

Exact by construction: negations are `must_not`, which also keeps points without the field (`MatchExcept`
would drop them); the caller's own fields are matched by their terms (`groundwire.vectorstores.stored_fields`).
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, assert_never

from groundwire.kernel.errors import UnsupportedFilterError
from groundwire.kernel.filter_evaluator import kind_of
from groundwire.kernel.filter_fields import BUILT_IN_FIELDS, FieldKind
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
    Scalar,
)
from groundwire.vectorstores.stored_fields import TERMS_FIELD, presence_term, value_term

Condition: TypeAlias = dict[str, Any]
"""A filter or a condition of Qdrant: `must`, `should`, `must_not`, or `key` with `match` or `range`, or `is_empty`."""

EVERYTHING: Condition = {"must": []}
NOTHING: Condition = {"must_not": [EVERYTHING]}

_TEXTS = (FieldKind.TEXT, FieldKind.TEXT_LIST)
_LISTS = (FieldKind.TEXT_LIST, FieldKind.INTEGER_LIST)
_INTEGER_BOUND = 2**53
"""Built-in integers are below it (the contract's ids are safe for JavaScript), and float64 holds them exactly."""


def compile_filter(condition: Filter) -> Condition:
    """Return the Qdrant filter that keeps exactly the points the reference evaluator keeps.

    Raises:
        UnsupportedFilterError: for patterns, and for orderings and containment on the caller's own fields.
    """
    match condition:
        case And(clauses):
            return {"must": [compile_filter(clause) for clause in clauses]}
        case Or(clauses):
            return _any_of([compile_filter(clause) for clause in clauses])
        case Not(clause):
            return _not(compile_filter(clause))
        case Exists(field, present):
            return _exists(field) if present else _not(_exists(field))
        case Comparison(field, Comparator.EQ | Comparator.NE as comparator, value):
            equal = _one_of(field, (value,))
            return equal if comparator is Comparator.EQ else _not(equal)
        case Comparison(field, comparator, value):
            return _ordering(field, comparator, value)
        case Membership(field, values, negated):
            member = _one_of(field, values)
            return _not(member) if negated else member
        case Containment(field, value, negated):
            contains = _contains(field, value)
            return _not(contains) if negated else contains
        case Like():
            raise _unsupported("$like")
        case _:
            assert_never(condition)


def _not(condition: Condition) -> Condition:
    return {"must_not": [condition]}


def _any_of(conditions: list[Condition]) -> Condition:
    # An empty `should` would match everything.
    return {"should": conditions} if conditions else NOTHING


def _exists(field: str) -> Condition:
    if field in BUILT_IN_FIELDS:
        return _not({"is_empty": {"key": field}})
    return _match_any(TERMS_FIELD, [presence_term(field)])


def _one_of(field: str, values: Iterable[Scalar]) -> Condition:
    kind = BUILT_IN_FIELDS.get(field)
    if kind is None:
        return _match_any(TERMS_FIELD, [value_term(field, value) for value in values if value == value])  # noqa: PLR0124 - NaN equals nothing
    if kind in _TEXTS:
        return _match_any(field, [value for value in values if isinstance(value, str)])
    return _match_any(field, [int(value) for value in values if _is_possible_integer(value)])


def _match_any(field: str, values: Sequence[str] | Sequence[int]) -> Condition:
    return {"key": field, "match": {"any": list(values)}} if values else NOTHING


def _is_possible_integer(value: Scalar) -> bool:
    """Tell whether a value may equal a built-in integer: a whole number within their bounds, of either type."""
    if isinstance(value, (str, bool)) or not math.isfinite(value):
        return False
    return value == int(value) and abs(value) <= _INTEGER_BOUND


def _ordering(field: str, comparator: Comparator, value: Scalar) -> Condition:
    kind = BUILT_IN_FIELDS.get(field)
    if kind is None:
        raise _unsupported(f"{comparator} on a metadata field")
    if kind in _TEXTS or isinstance(value, str) or kind_of(value) is not float or math.isnan(value):
        return NOTHING
    bounded = max(-_INTEGER_BOUND, min(_INTEGER_BOUND, value))
    # The engine cuts the bounds of an integer index to integers, so they are rounded the right way here.
    match comparator:
        case Comparator.GT:
            return _range(field, "gte", math.floor(bounded) + 1)
        case Comparator.GTE:
            return _range(field, "gte", math.ceil(bounded))
        case Comparator.LT:
            return _range(field, "lte", math.ceil(bounded) - 1)
        case _:
            return _range(field, "lte", math.floor(bounded))


def _range(field: str, bound: str, value: int) -> Condition:
    return {"key": field, "range": {bound: float(value)}}


def _contains(field: str, value: Scalar) -> Condition:
    kind = BUILT_IN_FIELDS.get(field)
    if kind is None:
        raise _unsupported("$contains on a metadata field")
    if kind in _LISTS:
        return _one_of(field, (value,))
    if kind is not FieldKind.TEXT or not isinstance(value, str):
        return NOTHING
    return {"key": field, "match": {"substring": value}} if value else _exists(field)


def _unsupported(clause: str) -> UnsupportedFilterError:
    return UnsupportedFilterError(f"qdrant-edge cannot evaluate {clause}", clause=clause, engine="qdrant-edge")
