"""Compiles filters to Chroma's `where`, within the forms that version 1.5 evaluates exactly.

Chroma wants `$and` and `$or` with two members or more, no empty `$in`, and lists matched by `$contains`. It has
neither `$not` nor a test for presence, so negations are pushed down to the leaves, where `$ne`, `$nin`
and `$not_contains` keep records without the field, as ours do. The caller's own fields are matched by
their terms (`groundwire.vectorstores.stored_fields`).
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, assert_never

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
    kind_of,
)
from groundwire.vectorstores.stored_fields import LISTS, TERMS_FIELD, TEXTS, comparable, integer_bound

Where: TypeAlias = dict[str, Any] | bool
"""A `where` of Chroma, or True for no condition and False for one that nothing satisfies."""


def compile_filter(condition: Filter, *, negated: bool = False) -> Where:
    """Return the `where` that keeps exactly the records the reference evaluator keeps (or drops, `negated`).

    Raises:
        UnsupportedFilterError: for patterns, presence, substrings, and orderings of lists, of the caller's
            own fields and under a negation.
    """
    match condition:
        case And(clauses):
            return _combine([compile_filter(clause, negated=negated) for clause in clauses], is_and=not negated)
        case Or(clauses):
            return _combine([compile_filter(clause, negated=negated) for clause in clauses], is_and=negated)
        case Not(clause):
            return compile_filter(clause, negated=not negated)
        case Comparison(field, Comparator.EQ | Comparator.NE as comparator, value):
            return _one_of(field, (value,), is_excluded=negated is not (comparator is Comparator.NE))
        case Comparison(field, comparator, value):
            return _ordering(field, comparator, value, negated=negated)
        case Membership(field, values, is_excluded):
            return _one_of(field, values, is_excluded=negated is not is_excluded)
        case Containment(field, value, is_excluded):
            return _contains(field, value, is_excluded=negated is not is_excluded)
        case Like():
            raise _unsupported("$like")
        case Exists():
            raise _unsupported("$exists")
        case _:
            assert_never(condition)


def _combine(parts: list[Where], *, is_and: bool) -> Where:
    """Join by and (or by or): constants that decide alone win, others vanish, single members stand bare."""
    if any(part is (not is_and) for part in parts):
        return not is_and
    conditions = [part for part in parts if not isinstance(part, bool)]
    if len(conditions) > 1:
        return {"$and" if is_and else "$or": conditions}
    return conditions[0] if conditions else is_and


def _one_of(field: str, values: Sequence[Scalar], *, is_excluded: bool) -> Where:
    kind = BUILT_IN_FIELDS.get(field)
    candidates = comparable(field, values)
    if kind is None or kind in LISTS:
        holder, operator = TERMS_FIELD if kind is None else field, "$not_contains" if is_excluded else "$contains"
        return _combine([{holder: {operator: value}} for value in candidates], is_and=is_excluded)
    return {field: {"$nin" if is_excluded else "$in": candidates}} if candidates else is_excluded


def _ordering(field: str, comparator: Comparator, value: Scalar, *, negated: bool) -> Where:
    kind = BUILT_IN_FIELDS.get(field)
    if negated or kind is None or kind is FieldKind.INTEGER_LIST or (kind in TEXTS and isinstance(value, str)):
        raise _unsupported(f"{comparator} under a negation, on a list, a text or a metadata field")
    if kind in TEXTS or isinstance(value, str) or kind_of(value) is not float or math.isnan(value):
        return False
    bound, number = integer_bound(comparator, value)
    return {field: {f"${bound}": number}}


def _contains(field: str, value: Scalar, *, is_excluded: bool) -> Where:
    kind = BUILT_IN_FIELDS.get(field)
    if kind is None or kind is FieldKind.TEXT:
        raise _unsupported("$contains on a text or on a metadata field")
    if kind in LISTS:
        return _one_of(field, (value,), is_excluded=is_excluded)
    return is_excluded


def _unsupported(clause: str) -> UnsupportedFilterError:
    return UnsupportedFilterError(f"chroma cannot evaluate {clause}", clause=clause, engine="chroma")
