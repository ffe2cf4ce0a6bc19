"""How a filter is read: its JSON form, and the check against the fields of a collection.

People write filters as JSON: `{"tags": "rust", "level": {"$gte": 2}}` (design D8). An object maps a field to a value
(equality) or to an object of operators; `$and` and `$or` take a list of objects, `$not` takes one. Several keys of one
object must all hold. `parse_filter` and `filter_to_json` are exact inverses for trees that came out of `parse_filter`.

`resolve_filter` then puts a tree into canonical form: names of fields instead of aliases, and milliseconds since 1970
instead of times in ISO 8601, where a plain date is the whole day in UTC.
"""

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, TypeAlias, assert_never

from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.errors import FieldViolation, InvalidFilterError, InvalidRequestError
from groundwire.kernel.filters import (
    ALIASES,
    BUILT_IN_FIELDS,
    MAX_DEPTH,
    MAX_TERMS,
    MAX_VALUES,
    ORDERINGS,
    RECORD_ALIASES,
    RECORD_FIELDS,
    And,
    Comparator,
    Comparison,
    Containment,
    Exists,
    FieldKind,
    Filter,
    Leaf,
    Like,
    Membership,
    Not,
    Or,
    Place,
    Scalar,
    kind_of,
    leaves,
)

JsonFilter: TypeAlias = dict[str, Any]
"""What `json.loads` makes of a filter object."""

INT64 = range(-(2**63), 2**63)
"""The range of SQL and the engines; Python itself would accept any integer."""
_COMPARATORS = frozenset(comparator.value for comparator in Comparator)
_OPERATORS = (
    *(comparator.value for comparator in Comparator),
    *("$in", "$nin", "$contains", "$not_contains", "$like", "$exists", "$and", "$or", "$not"),
)


_TEXTUAL = {FieldKind.TEXT, FieldKind.TEXT_LIST}
_LISTS = {FieldKind.TEXT_LIST, FieldKind.INTEGER_LIST}
# Keys of a collection that an error names; a field of an error has room for 200 bytes.
_NAMED_KEYS = 8
_TIME = "a number or a time in ISO 8601 with an offset, like 2026-02-10T12:00:00Z, or a plain date, like 2026-02-10"
_LEAST_MS = 10_000_000_000
"""Fewer milliseconds, which end in April 1970, are a year or seconds by mistake."""
# What built-in fields may be compared with, as `kind_of` returns it and as error messages call it.
_VALUES: dict[FieldKind, tuple[type, str]] = {
    FieldKind.TEXT: (str, "a text"),
    FieldKind.TEXT_LIST: (str, "a text"),
    FieldKind.INTEGER: (float, "a number"),
    FieldKind.INTEGER_LIST: (float, "a number"),
    FieldKind.NUMBER: (float, "a number"),
    FieldKind.TIME: (float, _TIME),
}
_PLAIN_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAY_MS = timedelta(days=1) // timedelta(milliseconds=1)


def parse_filter(document: object, path: str = "filter", depth: int = 0) -> Filter:
    """Return the filter tree of a decoded JSON object; an empty object matches everything.

    Field names and kinds of values are not checked here: the server knows the fields of a collection.

    Args:
        document: what `json.loads` returned.
        path: name of the whole filter in error messages.
        depth: levels above it.

    Raises:
        InvalidFilterError: naming the place, as in `filter.$and[1].importance.$foo`.
    """
    # An And at the top is no level (`MAX_DEPTH`): services add one around what the caller wrote.
    is_and = isinstance(document, Mapping) and set(document) == {"$and"}
    return _parse_object(document, path, depth - 1 if is_and else depth)


def parse_filter_text(text: str, path: str = "filter", depth: int = 0) -> Filter:
    """Return the filter tree of JSON text.

    Raises:
        InvalidFilterError: it is not JSON, an object names a key twice, or `parse_filter` refuses it.
    """

    def unique(pairs: list[tuple[str, object]]) -> JsonFilter:
        document = dict(pairs)
        if len(document) < len(pairs):
            raise InvalidFilterError.of(path, "has an object that names a key twice; use $and")
        return document

    try:
        document = json.loads(text, object_pairs_hook=unique)
    except RecursionError:  # the JSON parser gives up before the depth is checked
        raise InvalidFilterError.of(path, f"is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise InvalidFilterError.of(path, f'is not JSON, such as {{"year": 2024}}: {error}') from error
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
    clauses: list[Filter] = []
    for key, value in document.items():
        name = str(key)
        place = f"{path}.{name}"
        match name:
            case "$and":
                clauses.append(And(_parse_clauses(value, place, depth + 1)))
            case "$or":
                clauses.append(Or(_parse_clauses(value, place, depth + 1)))
            case "$not":
                clauses.append(Not(_parse_object(value, place, depth + 1)))
            case "":
                raise InvalidFilterError.of(path, "has an empty field name")
            case _ if name.startswith("$"):
                raise _not_an_operator(name, place)
            case _ if isinstance(value, Mapping):
                if not value:
                    raise InvalidFilterError.of(place, "must name an operator")
                field = _text(name, place)
                clauses.append(_all_of([_parse_operator(field, str(each), value[each], place) for each in value]))
            case _:
                whole = Place(place, place, place)
                clauses.append(Comparison(_text(name, place), Comparator.EQ, _scalar(value, place), whole))
    return _all_of(clauses)


def _parse_clauses(value: object, path: str, depth: int) -> tuple[Filter, ...]:
    if not isinstance(value, list):
        raise InvalidFilterError.of(path, "must be a list of objects")
    return tuple(_parse_object(clause, f"{path}[{position}]", depth) for position, clause in enumerate(value))


def _parse_operator(field: str, name: str, operand: object, path: str) -> Filter:
    at = f"{path}.{name}"
    place = Place(path, at, at)
    match name:
        case "$in" | "$nin":
            if not isinstance(operand, list):
                raise InvalidFilterError.of(at, "must be a list")
            values = tuple(_scalar(value, f"{at}[{position}]") for position, value in enumerate(operand))
            if len({kind_of(value) for value in values}) > 1:
                raise InvalidFilterError.of(at, "must hold values of one kind")
            return Membership(field, values, name == "$nin", place)
        case "$contains" | "$not_contains":
            return Containment(field, _scalar(operand, at), name == "$not_contains", place)
        case "$like":
            return Like(field, _text(operand, at), place)
        case "$exists":
            if not isinstance(operand, bool):
                raise InvalidFilterError.of(at, "must be true or false")
            return Exists(field, operand, place)
        case _ if name in _COMPARATORS:
            return Comparison(field, Comparator(name), _scalar(operand, at), place)
        case _:
            raise _not_an_operator(name, at)


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
    # JSON can spell half a character, which neither UTF-8 nor any engine can hold.
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidFilterError.of(place, "must not contain lone surrogates")
    return value


def _scalar(value: object, place: str) -> Scalar:
    match value:
        case bool():
            return value
        case int() if value in INT64:
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
            must = "must be a text, such as 2026-02-10 for a date, a number, true or false"
            raise InvalidFilterError.of(place, f"{must}; use $exists for absence")


# Against the fields of a collection


def custom_fields(condition: Filter) -> set[str]:
    """Return the field names of a filter that only the metadata of the collection can explain.

    A field of records is among them where it is compared with a value that no record can have in it.
    """
    names = set[str]()
    for leaf in leaves(condition):
        if leaf.field in BUILT_IN_FIELDS or leaf.field in ALIASES:
            continue
        values: tuple[Scalar, ...] = ()
        match leaf:
            case Comparison(_, _, value) | Containment(_, value):
                values = (value,)
            case Membership(_, values):
                pass
        kind = RECORD_FIELDS.get(leaf.field)
        if kind is None or any(kind_of(value) is not _VALUES[kind][0] for value in values):
            names.add(leaf.field)
    return names


def resolve_filter(condition: Filter, custom: Mapping[str, FieldKind], path: str = "filter") -> Filter:
    """Return the filter with canonical field names and times as milliseconds since 1970.

    Args:
        condition: as the caller wrote it; what is compared with time fields is ISO 8601 with an offset, a plain
            date, or already milliseconds.
        custom: the collection's own metadata fields, those of `custom_fields` at least. They may hold values of
            any kind, so they can be compared with any; values of another kind just do not match.
        path: name of the whole filter in error messages, and of conditions that no caller wrote.

    Raises:
        InvalidFilterError: naming every unknown field and every value that cannot match its field.
    """
    _check_terms(condition, path)
    resolver = _Resolver(custom, path)
    resolved = resolver.resolve(condition)
    if resolver.violations:
        raise InvalidFilterError(resolver.violations)
    # Each time may become two comparisons, and engines must be able to evaluate the result.
    _check_terms(resolved, path)
    return resolved


def _check_terms(condition: Filter, path: str) -> None:
    conditions = list(leaves(condition))
    counts = [len(leaf.values) for leaf in conditions if isinstance(leaf, Membership)]
    if len(conditions) > MAX_TERMS or max(counts, default=0) > MAX_TERMS:
        raise InvalidFilterError.of(path, f"has more than {MAX_TERMS} terms or values in one list")
    if sum(counts) > MAX_VALUES:
        raise InvalidFilterError.of(path, f"has more than {MAX_VALUES} values in all lists together")


class _Resolver:
    """Walks one filter and collects what is wrong with it."""

    def __init__(self, custom: Mapping[str, FieldKind], path: str) -> None:
        self._custom = custom.keys() - BUILT_IN_FIELDS.keys()
        self._kinds = {**RECORD_FIELDS, **custom, **BUILT_IN_FIELDS}
        self._nowhere = Place(path, path, path)
        self.violations: list[FieldViolation] = []

    def resolve(self, condition: Filter) -> Filter:
        match condition:
            case And(clauses):
                return And(tuple(map(self.resolve, clauses)))
            case Or(clauses):
                return Or(tuple(map(self.resolve, clauses)))
            case Not(clause):
                return Not(self.resolve(clause))
            case _:
                place = condition.place or self._nowhere
                field = ALIASES.get(condition.field, condition.field)
                if field not in self._kinds:
                    field = RECORD_ALIASES.get(field, field)
                if field not in self._kinds:
                    hint, own = "", sorted(self._custom)[:_NAMED_KEYS]
                    # `metadata.year` is how requests that set the key name it.
                    written = condition.field.casefold().removeprefix("metadata.")
                    if near := get_close_matches(written, [*self._kinds, *ALIASES], n=1):
                        hint = f"; did you mean {near[0]!r}?"
                    elif own:
                        hint = f"; keys of the collection are {', '.join(own)}"
                    # Collected instead of raised, so that one answer names every mistake of the filter.
                    self._refuse(place.field, f"unknown field {condition.field!r}{hint}")
                    return condition
                match condition:
                    case Comparison(_, _, value) | Membership(_, (value, *_)):
                        # Chunk ids that are whole numbers are the numbers of chunks (requirement C03).
                        is_number = field == "chunk_id" and kind_of(value) is float
                        field = "chunk_number" if is_number else field
                return self._leaf(condition, field, place)

    def _leaf(self, leaf: Leaf, field: str, place: Place) -> Filter:
        kind = self._kinds[field]
        match leaf:
            case Comparison(_, comparator, value):
                return self._comparison(field, comparator, value, place)
            case Membership(_, values, negated):
                if BUILT_IN_FIELDS.get(field) is FieldKind.TIME:
                    times = [self._time(each, place.values) for each in values]
                    moments = tuple(time for time in times if not isinstance(time, range))
                    days = [_during(field, time) for time in times if isinstance(time, range)]
                    if not days:
                        return Membership(field, moments, negated)
                    member = Or((*([Membership(field, moments)] if moments else []), *days))
                    return Not(member) if negated else member
                return Membership(field, tuple(self._value(field, each, place.values) for each in values), negated)
            case Containment(_, value, negated):
                if field in BUILT_IN_FIELDS and kind not in _TEXTUAL | _LISTS:
                    self._refuse(place.operator, "works on lists and texts only")
                return Containment(field, self._value(field, value, place.values), negated)
            case Like(_, pattern):
                if field in BUILT_IN_FIELDS and kind not in _TEXTUAL:
                    self._refuse(place.operator, "works on texts only")
                return Like(field, pattern)
            case Exists(_, present):
                return Exists(field, present)
            case _:
                assert_never(leaf)

    def _comparison(self, field: str, comparator: Comparator, value: Scalar, place: Place) -> Filter:
        if BUILT_IN_FIELDS.get(field) is FieldKind.TIME:
            return _compare_time(field, comparator, self._time(value, place.values))
        if comparator in ORDERINGS:
            if field in BUILT_IN_FIELDS and self._kinds[field] in _TEXTUAL:
                self._refuse(place.operator, "compares numbers and times only")
                return Comparison(field, comparator, value)
            if field not in self._custom:
                return Comparison(field, comparator, self._value(field, value, place.values))
            if field in RECORD_FIELDS and kind_of(value) is _VALUES[RECORD_FIELDS[field]][0]:
                return Comparison(field, comparator, value)  # means the field of records, not metadata of this name
            # A metadata key may hold values of any kind, so numbers are refused only where all values are texts.
            if self._kinds[field] not in _TEXTUAL:  # metadata keep times as numbers
                return _compare_time(field, comparator, self._time(value, place.values, is_own_key=True))
            if not isinstance(value, str):
                self._refuse(place.values, "must be a text: this collection has only texts in the field")
            return Comparison(field, comparator, value)
        return Comparison(field, comparator, self._value(field, value, place.values))

    def _time(self, value: Scalar, place: str, *, is_own_key: bool = False) -> float | range:
        """Return milliseconds since 1970: a number as it is, a moment as one, a plain date as the range of its day.

        An own key may hold any number. As a time, a year or seconds would match all or nothing without a word.
        """
        if not isinstance(value, str):
            if kind_of(value) is float:
                if 0 < value < _LEAST_MS and not is_own_key:
                    self._refuse(place, f"is a moment early in 1970 as {value:g} milliseconds; write a date as a text")
                return value
        else:
            with suppress(ValueError):  # also of a time without an offset
                if _PLAIN_DATE.fullmatch(value):
                    start = epoch_ms(datetime.fromisoformat(value).replace(tzinfo=UTC))
                    return range(start, start + _DAY_MS)
                return epoch_ms(datetime.fromisoformat(value))
        self._refuse(place, f"must be {_TIME}")
        return 0

    def _value(self, field: str, value: Scalar, place: str) -> Scalar:
        if field in self._custom:
            return value
        # A built-in field has values of one kind, so a comparison with another kind would never hold: it is a mistake.
        expected_kind, expected = _VALUES[self._kinds[field]]
        if kind_of(value) is not expected_kind:
            self._refuse(place, f"must be {expected}")
        return value

    def _refuse(self, place: str, description: str) -> None:
        self.violations.append(FieldViolation(place, description))


# Times. Stored ones are whole milliseconds, so that the last one of a day is `stop - 1`.


def _compare_time(field: str, comparator: Comparator, time: float | range) -> Filter:
    """Return the comparison of a time field with a parsed time; after a day means after its end."""
    if not isinstance(time, range):
        return Comparison(field, comparator, time)
    match comparator:
        case Comparator.GTE:
            return Comparison(field, Comparator.GTE, time.start)
        case Comparator.GT:
            return Comparison(field, Comparator.GTE, time.stop)
        case Comparator.LT:
            return Comparison(field, Comparator.LT, time.start)
        case Comparator.LTE:
            return Comparison(field, Comparator.LT, time.stop)
        case Comparator.EQ:
            return _during(field, time)
        case _:
            return Not(_during(field, time))


def _during(field: str, day: range) -> Filter:
    return And((Comparison(field, Comparator.GTE, day.start), Comparison(field, Comparator.LT, day.stop)))
