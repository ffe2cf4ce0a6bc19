"""The filter tree: which chunks a search may return.

A filter looks at the *payload* of a chunk: a flat mapping of field names to values. What each node
means is fixed by `groundwire.kernel.filter_evaluator`, the reference every engine is tested against.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

Scalar: TypeAlias = str | int | float | bool
Value: TypeAlias = Scalar | tuple[str, ...] | tuple[int, ...] | tuple[float, ...] | tuple[bool, ...]
"""What a payload field holds: a scalar or a non-empty list of scalars of one type."""
Payload: TypeAlias = Mapping[str, Value]
"""Filter keys of one chunk. A field without a value is absent, never None or empty."""


class Comparator(StrEnum):
    """How a field is compared with one value."""

    EQ = "$eq"
    NE = "$ne"
    GT = "$gt"
    GTE = "$gte"
    LT = "$lt"
    LTE = "$lte"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a caller wrote the parts of a condition, for error messages; no part of what it means."""

    field: str
    operator: str
    values: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """`field comparator value`; the four orderings take numbers or texts."""

    field: str
    comparator: Comparator
    value: Scalar
    place: Place | None = dataclasses.field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Membership:
    """The field is one of `values` (`$in`), or, `negated`, is none of them (`$nin`).

    `values` are of one type and may be empty: `$in` of nothing matches nothing, `$nin` of nothing everything.
    """

    field: str
    values: tuple[Scalar, ...]
    negated: bool = False
    place: Place | None = dataclasses.field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Containment:
    """The list or text field contains `value` (`$contains`), or does not (`negated`, `$not_contains`).

    On a list: an element equals the value. On a text: the value is a substring, case-sensitive.
    """

    field: str
    value: Scalar
    negated: bool = False
    place: Place | None = dataclasses.field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Like:
    """The text field, or an element of the list field, matches an SQL pattern: `%` any run, `_` any one character.

    Case-sensitive; backslash makes the next character literal.
    """

    field: str
    pattern: str
    place: Place | None = dataclasses.field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Exists:
    """The field is present (`present`), or absent."""

    field: str
    present: bool = True
    place: Place | None = dataclasses.field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class And:
    """Every clause matches; no clause at all matches everything."""

    clauses: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one clause matches; no clause at all matches nothing."""

    clauses: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The clause does not match."""

    clause: "Filter"


Leaf: TypeAlias = Comparison | Membership | Containment | Like | Exists
Filter: TypeAlias = Leaf | And | Or | Not


def leaves(condition: Filter) -> Iterator[Leaf]:
    """Yield the conditions on fields in the order in which they are written."""
    match condition:
        case And(clauses) | Or(clauses):
            for clause in clauses:
                yield from leaves(clause)
        case Not(clause):
            yield from leaves(clause)
        case _:
            yield condition


MAX_DEPTH = 8
"""Nesting levels of And, Or and Not that a request may have; an And at the top, to which services add, is none."""
MAX_TERMS = 256
"""Leaves, and values of one membership, that a request may have."""
MAX_VALUES = 4096
"""Values of all memberships together that a request may have."""
MAX_TEXT_CHARS = 8192
"""Longest text that a request may compare with, in code points: no stored value is longer."""
MAX_PATTERN_CHARS = 256
"""Longest pattern of `$like`, in code points."""
MAX_NAME_CHARS = 64
"""Longest name of a field, in code points: no stored name is longer."""
MAX_JSON_CHARS = 262_144
"""Longest JSON form of a filter that a request may have, in code points."""
