"""How the filter keys of a chunk are stored in engines, whose types differ.

The built-in fields keep their names and values: each holds one kind of value, so an engine cannot
mix types up. The caller's own fields may hold anything, and engines differ on it (qdrant-edge takes
`True` for 1, Chroma cuts 1.5 to 1 when it compares with integers). Their values are written as
*terms* instead: texts like `["size",5]` in one list field, which is exact on every engine, and indexed
although nobody can know the fields beforehand.
"""

import json
import math
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from groundwire.kernel.filters import (
    BUILT_IN_FIELDS,
    Comparator,
    FieldKind,
    Payload,
    Scalar,
    Value,
    elements,
    kind_of,
)

TERMS_FIELD = "terms"
"""The list field that holds the terms."""

Stored: TypeAlias = dict[str, str | int | float | bool | list[str] | list[int] | list[float] | list[bool]]
"""What an engine stores beside a vector."""

LAYOUT = 1
"""Version of this encoding; a store of another version has to be rebuilt from the catalog."""


TEXTS: Final = (FieldKind.TEXT, FieldKind.TEXT_LIST)
LISTS: Final = (FieldKind.TEXT_LIST, FieldKind.INTEGER_LIST)
# Built-in integers are below it (the contract's ids are safe for JavaScript), and float64 holds them exactly.
_INTEGER_BOUND = 2**53


def stored_fields(payload: Payload) -> Stored:
    """Return what to store for a payload: the built-in fields as they are, the others as terms."""
    stored: Stored = {
        field: list(value) if isinstance(value, tuple) else value  # type: ignore[misc] # lists are of one type
        for field, value in payload.items()
        if field in BUILT_IN_FIELDS
    }
    terms = [
        term
        for field in payload
        if field not in BUILT_IN_FIELDS
        # Each once: a value that a list has twice is found by one term.
        for term in {presence_term(field), *(value_term(field, value) for value in elements(payload, field))}
    ]
    return stored | {TERMS_FIELD: terms} if terms else stored


def restored_payload(stored: Stored) -> Payload:
    """Return a payload equal to the stored one for filters, with the terms turned back into fields."""
    payload: dict[str, Value] = {
        field: tuple(value) if isinstance(value, list) else value  # type: ignore[misc] # lists are of one type
        for field, value in stored.items()
        if field != TERMS_FIELD
    }
    terms = stored.get(TERMS_FIELD)
    values: dict[str, list[Scalar]] = {}
    for term in terms if isinstance(terms, list) else ():
        field, *rest = json.loads(str(term))
        values.setdefault(field, []).extend(rest)
    return payload | {field: tuple(found) for field, found in values.items()}  # type: ignore[return-value] # lists are of one type


def presence_term(field: str) -> str:
    return json.dumps([field], ensure_ascii=False)


def value_term(field: str, value: Scalar) -> str:
    """Return the term of a value; integers and floats of the same value have the same."""
    canonical = int(value) if isinstance(value, float) and value.is_integer() else value
    return json.dumps([field, canonical], ensure_ascii=False)


def comparable(field: str, values: Iterable[Scalar]) -> list[str] | list[int]:
    """Return those of the values that a field may equal, as they are stored: terms for the caller's own fields."""
    kind = BUILT_IN_FIELDS.get(field)
    if kind is None:
        return [value_term(field, value) for value in values]
    if kind in TEXTS:
        return [value for value in values if isinstance(value, str)]
    # A whole number within their bounds, of either type, may equal a built-in integer.
    numbers = (value for value in values if not isinstance(value, (str, bool)))
    return [int(value) for value in numbers if value == int(value) and abs(value) <= _INTEGER_BOUND]


def integer_bound(kind: FieldKind, comparator: Comparator, value: Scalar) -> tuple[Literal["gte", "lte"], int] | None:
    """Return an ordering of a built-in field as an inclusive bound of integers, None where nothing satisfies it.

    Engines cut a fraction that is compared with integers, so it is rounded the right way here.
    """
    if kind in TEXTS or isinstance(value, str) or kind_of(value) is not float:
        return None
    bounded = max(-_INTEGER_BOUND, min(_INTEGER_BOUND, value))
    match comparator:
        case Comparator.GT:
            return "gte", math.floor(bounded) + 1
        case Comparator.GTE:
            return "gte", math.ceil(bounded)
        case Comparator.LT:
            return "lte", math.ceil(bounded) - 1
        case _:
            return "lte", math.floor(bounded)
