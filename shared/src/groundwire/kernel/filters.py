"""Filters: which chunks a search may return, over which fields, and what each condition means.

A filter looks at the *payload* of a chunk: a flat mapping of field names to values. `matches` is the reference
meaning, plain Python over one payload, and every engine and catalog is tested against it. It fixes what they differ on:

* A missing field satisfies `$ne`, `$nin`, `$not_contains` and nothing else, except `Exists(present=False)`.
* On a list field a comparison, membership or pattern holds when any element satisfies it; `$ne` and
  `$nin` are the exact negations of `$eq` and `$in`.
* Types never mix: text, truth values and numbers are three kinds; values of different kinds are unequal and
  unordered. Integers and floats are one kind and compare by value. Texts are ordered by code points, truth
  values are not ordered.
"""

import dataclasses
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeAlias, assert_never

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


# The fields that every chunk has


class FieldKind(StrEnum):
    """What values a filter field holds."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"
    TEXT_LIST = "text_list"
    INTEGER_LIST = "integer_list"
    NUMBER_LIST = "number_list"
    BOOLEAN_LIST = "boolean_list"


BUILT_IN_FIELDS = {
    "document_id": FieldKind.TEXT,
    "record_type": FieldKind.TEXT,
    "chunk_id": FieldKind.TEXT,
    "chunk_number": FieldKind.INTEGER,
    "source": FieldKind.TEXT,
    "format": FieldKind.TEXT,
    "title": FieldKind.TEXT,
    "creators": FieldKind.TEXT_LIST,
    "subjects": FieldKind.TEXT_LIST,
    "date_created": FieldKind.TIME,
    "language": FieldKind.TEXT,
    "category": FieldKind.TEXT,
    "tags": FieldKind.TEXT_LIST,
    "project": FieldKind.TEXT,
    "chapter": FieldKind.TEXT,
    "section": FieldKind.TEXT,
    "section_title": FieldKind.TEXT,
    "level": FieldKind.INTEGER,
    "sequence_num": FieldKind.INTEGER,
    "page_numbers": FieldKind.INTEGER_LIST,
    "page_start": FieldKind.INTEGER,
    "page_end": FieldKind.INTEGER,
    "char_start": FieldKind.INTEGER,
    "char_end": FieldKind.INTEGER,
    "ingested_at": FieldKind.TIME,
}

ALIASES = {
    "doc_id": "document_id",
    "source_path": "source",
    "source_uri": "source",
    "source_url": "source",
    "url": "source",
    "doc_type": "format",
    "doc_title": "title",
    "author": "creators",
    "creator": "creators",
    "subject": "subjects",
    "date": "date_created",
    "section_heading": "section_title",
    "chunk_index": "sequence_num",
    "page": "page_numbers",
    "pages": "page_numbers",
    "timestamp": "ingested_at",
    "created": "ingested_at",
    "created_at": "ingested_at",
    "create_time": "ingested_at",
    "ingest_time": "ingested_at",
    "ingestion_date": "ingested_at",
    "ingestion_time": "ingested_at",
}
"""Names of the contract and of the source designs for built-in fields; a filter may use either."""

RECORD_FIELDS = {
    "record_id": FieldKind.TEXT,
    "scope": FieldKind.TEXT,
    "entity": FieldKind.TEXT,
    "origin": FieldKind.TEXT,
    "topic": FieldKind.TEXT,
    "version": FieldKind.TEXT,
    "_version": FieldKind.TEXT,
    "_specialist_name": FieldKind.TEXT,
    "importance": FieldKind.INTEGER,
    "kind": FieldKind.TEXT,
    "confidence": FieldKind.NUMBER,
    "conversation_id": FieldKind.TEXT,
    "role": FieldKind.TEXT,
    "turn_index": FieldKind.INTEGER,
    "turn_range": FieldKind.TEXT,
    "summary_index": FieldKind.INTEGER,
}
"""Fields that records have beside the built-in ones. Documents without `record_type` may have metadata of these names,
with values of any kind, so that they are stored and compared like metadata."""

RECORD_ALIASES = {"type": "record_type", "memory_kind": "kind", "specialist_name": "_specialist_name"}
"""Names of the source designs for fields of records, where no metadata of the collection have these names."""

# The names in responses of built-in fields that have other names in the catalog and the engines.
_CONTRACT_NAMES = {"source": "source_uri", "section_title": "section_heading", "ingested_at": "ingest_time"}


def contract_name(field: str) -> str:
    return _CONTRACT_NAMES.get(field, field)


# What a filter means

ORDERINGS: dict[Comparator, Callable[[Any, Any], Any]] = {
    Comparator.GT: operator.gt,
    Comparator.GTE: operator.ge,
    Comparator.LT: operator.lt,
    Comparator.LTE: operator.le,
}


def matches(condition: Filter, payload: Payload) -> bool:
    match condition:
        case And(clauses):
            return all(matches(clause, payload) for clause in clauses)
        case Or(clauses):
            return any(matches(clause, payload) for clause in clauses)
        case Not(clause):
            return not matches(clause, payload)
        case Exists(field, present):
            return (field in payload) is present
        case Comparison(field, Comparator.EQ | Comparator.NE as comparator, value):
            return _any_equal(elements(payload, field), (value,)) is (comparator is Comparator.EQ)
        case Comparison(field, comparator, value):
            kind, holds = kind_of(value), ORDERINGS[comparator]
            # Python would order booleans, and compare them with numbers.
            return kind is not bool and any(
                kind_of(element) is kind and holds(element, value) for element in elements(payload, field)
            )
        case Membership(field, values, negated):
            return _any_equal(elements(payload, field), values) is not negated
        case Containment(field, value, negated):
            held = payload.get(field)
            if isinstance(held, str):
                return (isinstance(value, str) and value in held) is not negated
            return (isinstance(held, tuple) and _any_equal(held, (value,))) is not negated
        case Like(field, pattern):
            regex = like_regex(pattern)
            return any(isinstance(each, str) and regex.fullmatch(each) for each in elements(payload, field))
        case _:
            assert_never(condition)


def elements(payload: Payload, field: str) -> tuple[Scalar, ...]:
    """Return the values of a field as a tuple, empty when it is absent."""
    value = payload.get(field, ())
    return value if isinstance(value, tuple) else (value,)


def kind_of(value: Scalar) -> type:
    """Return the comparison kind of a value: bool, str or float (all numbers)."""
    if isinstance(value, bool):  # first, because bool is an int in Python
        return bool
    return str if isinstance(value, str) else float


@lru_cache(maxsize=256)
def like_regex(pattern: str) -> re.Pattern[str]:
    """Translate an SQL LIKE pattern (backslash escapes) to a regular expression for `fullmatch`.

    Between two `%` the leftmost match is as good as any other, so it is never given up again (an atomic group): the
    time stays proportional to pattern times text, whatever the pattern.
    """
    parts = [""]
    for piece in re.findall(r"\\.|[%_]|[^\\%_]+|\\", pattern, flags=re.DOTALL):
        if piece == "%":
            parts.append("")
        else:
            # A backslash escapes the next character; at the end of a pattern it stands for itself.
            literal = piece[1:] if piece.startswith("\\") and len(piece) > 1 else piece
            parts[-1] += "." if piece == "_" else re.escape(literal)
    first, *others = parts
    if not others:
        return re.compile(first, flags=re.DOTALL)
    *middle, last = others
    between = "".join(f"(?>.*?{part})" for part in middle if part)
    return re.compile(f"{first}{between}.*{last}", flags=re.DOTALL)


def _any_equal(values: tuple[Scalar, ...], others: tuple[Scalar, ...]) -> bool:
    # Only within one kind: in Python True equals 1 and False equals 0.
    return any(kind_of(value) is kind_of(other) and value == other for value in values for other in others)
