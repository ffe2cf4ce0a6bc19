"""Random payloads and filters, seeded, for comparing engines with the reference evaluator."""

import random

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
    Payload,
    Scalar,
    Value,
)

BUILT_IN = ("title", "chapter", "level", "date_created", "tags", "page_numbers")
CUSTOM = ("size", "flag", "mixed", "labels", "na me.x[0]\"'é")
FIELDS = (*BUILT_IN, *CUSTOM)

_TEXTS = (
    *("a", "ab", "abc", "A", "x y", 'quo"te', "ünï", "1", "true", "u\u0308", "𝄞\uffff", "a\nb*?[a]", "z" * 8192),
    *("", "50%_\\"),
)
_INTEGERS = (-1, 0, 1, 2, 3, 5)
_BIG = (2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 1, -(2**63))
_FLOATS = (-1.5, -0.0, 0.0, 1.0, 1.5, 2.0, 2.5, 0.1 + 0.2, 5e-324, float(2**53), float(2**63), 1e300)
_TRUTHS = (True, False)
_BOUNDS: tuple[Scalar, ...] = (*_INTEGERS, *_FLOATS, *_BIG, *_TEXTS, True)


def random_payload(rng: random.Random) -> Payload:
    """Make a payload where every field is missing at times and the custom ones mix types."""
    payload: dict[str, Value] = {}
    for field in FIELDS:
        if rng.random() < 0.35:
            continue
        payload[field] = _built_in_value(rng, field) if field in BUILT_IN_FIELDS else _custom_value(rng)
    return payload


def random_filter(rng: random.Random, depth: int = 3) -> Filter:
    """Make a filter of every kind of clause, nested up to `depth` times."""
    roll = rng.random()
    if depth == 0 or roll < 0.55:
        return _random_clause(rng)
    parts = tuple(random_filter(rng, depth - 1) for _ in range(rng.randrange(4)))
    if roll < 0.72:
        return And(parts)
    if roll < 0.89:
        return Or(parts)
    return Not(random_filter(rng, depth - 1))


def clauses_of(condition: Filter) -> list[Filter]:
    """Return the leaves of a filter."""
    match condition:
        case And(parts) | Or(parts):
            return [leaf for part in parts for leaf in clauses_of(part)]
        case Not(part):
            return clauses_of(part)
        case _:
            return [condition]


def _random_clause(rng: random.Random) -> Filter:
    field = rng.choice((*FIELDS, "absent"))
    match rng.randrange(12):
        case 0 | 1 | 2:
            return Comparison(field, rng.choice((Comparator.EQ, Comparator.NE)), _scalar(rng))
        case 3 | 4 | 5:
            ordering = rng.choice((Comparator.GT, Comparator.GTE, Comparator.LT, Comparator.LTE))
            return Comparison(field, ordering, rng.choice(_BOUNDS))
        case 6 | 7:
            kind: tuple[Scalar, ...] = rng.choice((_TEXTS, (*_INTEGERS, *_BIG, *_FLOATS), _FLOATS, _TRUTHS))
            values: tuple[Scalar, ...] = tuple(rng.choice(kind) for _ in range(rng.randrange(4)))
            return Membership(field, values, negated=rng.random() < 0.5)
        case 8 | 9:
            return Containment(field, _scalar(rng), negated=rng.random() < 0.5)
        case 10:
            return Exists(field, present=rng.random() < 0.5)
        case _:
            return Like(field, rng.choice(("a%", "%b%", "_", "50\\%%", "%", "%\\", "a%*?[a]", "_%_", "%Z%", "")))


def _scalar(rng: random.Random) -> Scalar:
    kind: tuple[Scalar, ...] = rng.choice((_TEXTS, _TEXTS, (*_INTEGERS, *_BIG), _FLOATS, _TRUTHS))
    return rng.choice(kind)


def _built_in_value(rng: random.Random, field: str) -> Value:
    match BUILT_IN_FIELDS[field]:
        case FieldKind.TEXT:
            return rng.choice(_TEXTS[:-2])
        case FieldKind.TEXT_LIST:
            return tuple(rng.sample(_TEXTS[:-2], rng.randint(1, 3)))
        case FieldKind.INTEGER_LIST:
            return tuple(sorted(rng.sample(_INTEGERS, rng.randint(1, 3))))
        case _:
            return rng.choice((*_INTEGERS, 2**53 - 1))


def _custom_value(rng: random.Random) -> Value:
    match rng.randrange(8):
        case 0 | 1:
            return rng.choice(_TEXTS)
        case 2:
            return rng.choice((*_INTEGERS, *_BIG))
        case 3:
            return rng.choice(_FLOATS)
        case 4:
            return rng.choice(_TRUTHS)
        case 5:
            return tuple(rng.sample(_TEXTS, rng.randint(1, 3)))
        case 6:
            return tuple(rng.sample((*_INTEGERS, *_BIG), rng.randint(1, 3)))
        case _:
            return tuple(rng.sample(_FLOATS, rng.randint(1, 3)))
