"""How the filter keys of a chunk are written to engines that have their own ideas of types.

The built-in fields keep their names and values: each holds one kind of value, so an engine cannot
mix types up. The caller's own fields may hold anything, and engines differ on it (qdrant-edge takes
`True` for 1, Chroma cuts 1.5 to 1 when it compares with integers). Their values are written as
*terms* instead: texts like `["size",5]` in one list field, which is exact on every engine, and indexed
although nobody can know the fields beforehand.
"""

import json
from typing import TypeAlias

from groundwire.kernel.filters import BUILT_IN_FIELDS, Payload, Scalar, Value, elements

TERMS_FIELD = "terms"
"""The list field that holds the terms."""

Stored: TypeAlias = dict[str, str | int | float | bool | list[str] | list[int] | list[float] | list[bool]]
"""What an engine stores beside a vector."""

LAYOUT = 1
"""Version of this encoding; a store of another version has to be rebuilt from the catalog."""


def stored_fields(payload: Payload) -> Stored:
    """Return what to store for a payload: the built-in fields as they are, the others as terms."""
    stored: Stored = {
        field: list(value) if isinstance(value, tuple) else value  # type: ignore[misc] # lists are of one type
        for field, value in payload.items()
        if field in BUILT_IN_FIELDS
    }
    terms = [term for field in payload if field not in BUILT_IN_FIELDS for term in _terms(payload, field)]
    return stored | {TERMS_FIELD: terms} if terms else stored


def restored_payload(stored: Stored) -> Payload:
    """Return a payload that filters take for the one that was stored: the terms turned into fields again."""
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
    own = {field: tuple(found) if len(found) > 1 else found[0] for field, found in values.items() if found}
    return payload | own  # type: ignore[return-value] # lists are of one type


def presence_term(field: str) -> str:
    """Return the term of every chunk that has the field."""
    return json.dumps([field], ensure_ascii=False)


def value_term(field: str, value: Scalar) -> str:
    """Return the term of a value; integers and floats of the same value have the same."""
    canonical = int(value) if isinstance(value, float) and value.is_integer() else value
    return json.dumps([field, canonical], ensure_ascii=False)


def _terms(payload: Payload, field: str) -> set[str]:
    return {presence_term(field), *(value_term(field, value) for value in elements(payload, field))}
