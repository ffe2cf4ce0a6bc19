"""The JSON form of filters, as people write it: `{"tags": "rust", "level": {"$gte": 2}}` (design D8).

Grammar: an object maps a field to a value (equality) or to an object of operators; `$and` and `$or` take a
list of objects, `$not` takes one. Several keys of one object must all hold. `parse_filter` and
`filter_to_json` are exact inverses for trees that came out of `parse_filter`.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, assert_never

from groundwire.kernel.errors import InvalidFilterError, InvalidRequestError
from groundwire.kernel.filter_evaluator import kind_of
from groundwire.kernel.filters import (
    MAX_DEPTH,
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
    Place,
    Scalar,
)

JsonFilter: TypeAlias = dict[str, Any]
"""What `json.loads` makes of a filter object."""

_INT64 = range(-(2**63), 2**63)
_OPERATORS = (
    *(comparator.value for comparator in Comparator),
    *("$in", "$nin", "$contains", "$not_contains", "$like", "$exists", "$and", "$or", "$not"),
)


def parse_filter(document: object, path: str = "filter", depth: int = 0) -> Filter:
    """Return the filter tree of a decoded JSON object; an empty object matches everything.

    Field names and the kinds of values are not judged here: the server knows the fields of a collection.

    Args:
        document: what `json.loads` returned.
        path: name of the whole filter in error messages.
        depth: levels above it.

    Raises:
        InvalidFilterError: naming the place, as in `filter.$and[1].importance.$foo`.
    """
    is_and = isinstance(document, Mapping) and set(document) == {"$and"}
    return _parse_object(document, path, depth - 1 if is_and else depth)


def parse_filter_text(text: str, path: str = "filter", depth: int = 0) -> Filter:
    """Return the filter tree of JSON text.

    Raises:
        InvalidFilterError: it is no JSON, an object names a key twice, or `parse_filter` refuses it.
    """

    def unique(pairs: list[tuple[str, object]]) -> JsonFilter:
        document = dict(pairs)
        if len(document) < len(pairs):
            raise InvalidFilterError.of(path, "has an object that names a key twice; use $and")
        return document

    try:
        document = json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise InvalidFilterError.of(path, f"is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise InvalidFilterError.of(path, f"is not JSON: {error}") from error
    return parse_filter(document, path, depth)


def filter_to_json(condition: Filter) -> JsonFilter:
    """Return the JSON form of a filter tree, always with explicit operators."""
    match condition:
        case And(clauses):
            return {"$and": [filter_to_json(clause) for clause in clauses]}
        case Or(clauses):
            return {"$or": [filter_to_json(clause) for clause in clauses]}
        case Not(clause):
            return {"$not": filter_to_json(clause)}
        case Comparison(field, comparator, value):
            return {field: {comparator.value: value}}
        case Membership(field, values, negated):
            return {field: {"$nin" if negated else "$in": list(values)}}
        case Containment(field, value, negated):
            return {field: {"$not_contains" if negated else "$contains": value}}
        case Like(field, pattern):
            return {field: {"$like": pattern}}
        case Exists(field, present):
            return {field: {"$exists": present}}
        case _:
            assert_never(condition)


def _parse_object(document: object, path: str, depth: int) -> Filter:
    if depth > MAX_DEPTH:
        raise InvalidFilterError.of(path, f"is nested deeper than {MAX_DEPTH} levels")
    if not isinstance(document, Mapping):
        raise InvalidFilterError.of(path, "must be an object")
    return _all_of([_parse_entry(str(key), value, path, depth) for key, value in document.items()])


def _parse_entry(key: str, value: object, path: str, depth: int) -> Filter:
    place = f"{path}.{key}"
    match key:
        case "$and":
            return And(_parse_clauses(value, place, depth + 1))
        case "$or":
            return Or(_parse_clauses(value, place, depth + 1))
        case "$not":
            return Not(_parse_object(value, place, depth + 1))
        case "":
            raise InvalidFilterError.of(path, "has an empty field name")
        case _ if key.startswith("$"):
            raise _not_an_operator(key, place)
        case _ if isinstance(value, Mapping):
            return _parse_operators(_text(key, place), value, place)
        case _:
            return Comparison(_text(key, place), Comparator.EQ, _scalar(value, place), Place(place, place, place))


def _parse_clauses(value: object, path: str, depth: int) -> tuple[Filter, ...]:
    if not isinstance(value, list):
        raise InvalidFilterError.of(path, "must be a list of objects")
    return tuple(_parse_object(clause, f"{path}[{position}]", depth) for position, clause in enumerate(value))


def _parse_operators(field: str, operators: Mapping[Any, object], path: str) -> Filter:
    if not operators:
        raise InvalidFilterError.of(path, "must name an operator")
    return _all_of([_parse_operator(field, str(name), operand, path) for name, operand in operators.items()])


def _parse_operator(field: str, name: str, operand: object, path: str) -> Filter:
    place = f"{path}.{name}"
    parse = _FIELD_OPERATORS.get(name)
    if parse is None:
        raise _not_an_operator(name, place)
    return parse(field, operand, Place(path, place, place))


def _all_of(clauses: list[Filter]) -> Filter:
    return clauses[0] if len(clauses) == 1 else And(tuple(clauses))


def _not_an_operator(name: str, place: str) -> InvalidRequestError:
    known = " ".join(_OPERATORS)
    if name in _OPERATORS:
        return InvalidFilterError.of(place, f"operator {name} does not belong here", operator=name)
    return InvalidFilterError.of(place, f"unknown operator {name!r}; known are {known}", operator=name)


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise InvalidFilterError.of(place, "must be a text")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidFilterError.of(place, "must not contain lone surrogates")
    return value


def _scalar(value: object, place: str) -> Scalar:
    match value:
        case bool():
            return value
        case int() if value in _INT64:
            return value
        case float() if math.isfinite(value):
            return value
        case str():
            return _text(value, place)
        case int() | float():
            raise InvalidFilterError.of(place, "must be a finite number, integers within 64 bits")
        case list():
            raise InvalidFilterError.of(place, "must not be a list; use $in or $contains")
        case _:
            raise InvalidFilterError.of(place, "must be a text, a number, true or false; use $exists for absence")


def _comparison(comparator: Comparator) -> "_ParseOperator":
    def parse(field: str, operand: object, place: Place) -> Filter:
        return Comparison(field, comparator, _scalar(operand, place.values), place)

    return parse


def _membership(*, negated: bool) -> "_ParseOperator":
    def parse(field: str, operand: object, place: Place) -> Filter:
        if not isinstance(operand, list):
            raise InvalidFilterError.of(place.values, "must be a list")
        values = tuple(_scalar(value, f"{place.values}[{position}]") for position, value in enumerate(operand))
        if len({kind_of(value) for value in values}) > 1:
            raise InvalidFilterError.of(place.values, "must hold values of one kind")
        return Membership(field, values, negated, place)

    return parse


def _containment(*, negated: bool) -> "_ParseOperator":
    def parse(field: str, operand: object, place: Place) -> Filter:
        return Containment(field, _scalar(operand, place.values), negated, place)

    return parse


def _like(field: str, operand: object, place: Place) -> Filter:
    return Like(field, _text(operand, place.values), place)


def _exists(field: str, operand: object, place: Place) -> Filter:
    if not isinstance(operand, bool):
        raise InvalidFilterError.of(place.values, "must be true or false")
    return Exists(field, operand, place)


_ParseOperator: TypeAlias = Callable[[str, object, Place], Filter]
_FIELD_OPERATORS: dict[str, _ParseOperator] = {
    **{comparator.value: _comparison(comparator) for comparator in Comparator},
    "$in": _membership(negated=False),
    "$nin": _membership(negated=True),
    "$contains": _containment(negated=False),
    "$not_contains": _containment(negated=True),
    "$like": _like,
    "$exists": _exists,
}
