"""The reference meaning of a filter: plain Python over one payload. Engines must agree with it exactly.

Rules that engines differ on, fixed here:

* A missing field satisfies `$ne`, `$nin`, `$not_contains` and nothing else, except `Exists(present=False)`.
* On a list field a comparison, membership or pattern holds when any element satisfies it; `$ne` and
  `$nin` are the exact negations of `$eq` and `$in`.
* Types never mix: text, truth values and numbers are three kinds; values of different kinds are unequal and
  unordered. Integers and floats are one kind and compare by value. Texts are ordered by code points, truth
  values are not ordered.
"""

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, assert_never

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
    Payload,
    Scalar,
)

_ORDER: dict[Comparator, Callable[[Any, Any], bool]] = {
    Comparator.GT: operator.gt,
    Comparator.GTE: operator.ge,
    Comparator.LT: operator.lt,
    Comparator.LTE: operator.le,
}


def matches(condition: Filter, payload: Payload) -> bool:
    """Tell whether a payload satisfies a filter."""
    match condition:
        case And(clauses):
            return all(matches(clause, payload) for clause in clauses)
        case Or(clauses):
            return any(matches(clause, payload) for clause in clauses)
        case Not(clause):
            return not matches(clause, payload)
        case Exists(field, present):
            return (field in payload) is present
        case Comparison(field, comparator, value):
            return _compare(elements(payload, field), comparator, value)
        case Membership(field, values, negated):
            return _any_equal(elements(payload, field), values) is not negated
        case Containment(field, value, negated):
            return _contains(payload, field, value) is not negated
        case Like(field, pattern):
            found = elements(payload, field)
            return any(isinstance(element, str) and like_regex(pattern).fullmatch(element) for element in found)
        case _:
            assert_never(condition)


def elements(payload: Payload, field: str) -> tuple[Scalar, ...]:
    """Return the values of a field as a tuple, empty when it is absent."""
    value = payload.get(field, ())
    return value if isinstance(value, tuple) else (value,)


def kind_of(value: Scalar) -> type:
    """Return the comparison kind of a value: bool, str or float (all numbers)."""
    if isinstance(value, bool):
        return bool
    return str if isinstance(value, str) else float


@lru_cache(maxsize=256)
def like_regex(pattern: str) -> re.Pattern[str]:
    """Translate an SQL LIKE pattern (backslash escapes) to a regular expression for `fullmatch`.

    Between two `%` the leftmost match is as good as any other, so it is never given up again (an atomic group): the
    time stays proportional to pattern times text, whatever the pattern.
    """
    parts = [_literal_regex(part) for part in _split_at_percent(pattern)]
    first, *others = parts
    if not others:
        return re.compile(first, flags=re.DOTALL)
    *middle, last = others
    between = "".join(f"(?>.*?{part})" for part in middle if part)
    return re.compile(f"{first}{between}.*{last}", flags=re.DOTALL)


def _split_at_percent(pattern: str) -> list[str]:
    """Return what stands between the unescaped `%`; one part more than there are of them."""
    parts = [""]
    for piece in re.findall(r"\\.|%|[^\\%]+|\\", pattern, flags=re.DOTALL):
        if piece == "%":
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _literal_regex(part: str) -> str:
    pieces = re.findall(r"\\.|_|[^\\_]+|\\", part, flags=re.DOTALL)
    return "".join("." if piece == "_" else re.escape(_unescape(piece)) for piece in pieces)


def _unescape(part: str) -> str:
    return part[1:] if part.startswith("\\") and len(part) > 1 else part


def _equal(left: Scalar, right: Scalar) -> bool:
    return kind_of(left) is kind_of(right) and left == right


def _any_equal(found: tuple[Scalar, ...], values: tuple[Scalar, ...]) -> bool:
    return any(_equal(element, value) for element in found for value in values)


def _compare(found: tuple[Scalar, ...], comparator: Comparator, value: Scalar) -> bool:
    if comparator is Comparator.EQ:
        return _any_equal(found, (value,))
    if comparator is Comparator.NE:
        return not _any_equal(found, (value,))
    holds = _ORDER[comparator]
    kind = kind_of(value)
    return kind is not bool and any(kind_of(element) is kind and holds(element, value) for element in found)


def _contains(payload: Payload, field: str, value: Scalar) -> bool:
    held = payload.get(field)
    if isinstance(held, str):
        return isinstance(value, str) and value in held
    return isinstance(held, tuple) and _any_equal(held, (value,))
