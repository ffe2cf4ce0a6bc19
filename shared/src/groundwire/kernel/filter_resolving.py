"""Check a filter against the fields of a collection and put it into canonical form."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import assert_never

from groundwire.kernel.errors import FieldViolation, InvalidFilterError
from groundwire.kernel.filter_evaluator import kind_of
from groundwire.kernel.filter_fields import ALIASES, BUILT_IN_FIELDS, FieldKind
from groundwire.kernel.filter_times import EXPECTED, compare_time, one_of_times, parse_time
from groundwire.kernel.filters import (
    MAX_TERMS,
    MAX_VALUES,
    And,
    Comparator,
    Comparison,
    Containment,
    Exists,
    Filter,
    Leaf,
    Like,
    Membership,
    Not,
    Or,
    Place,
    Scalar,
    leaves,
)

_TEXTUAL = {FieldKind.TEXT, FieldKind.TEXT_LIST}
_LISTS = {FieldKind.TEXT_LIST, FieldKind.INTEGER_LIST}
_NAMED = 8
"""Keys of a collection that an error names; a field of an error has room for 200 bytes."""
_ORDERINGS = {Comparator.GT, Comparator.GTE, Comparator.LT, Comparator.LTE}


def custom_fields(condition: Filter) -> set[str]:
    """Return the field names of a filter that are neither built in nor aliases."""
    return {name for name in _fields(condition) if name not in BUILT_IN_FIELDS and name not in ALIASES}


def resolve_filter(condition: Filter, custom: Mapping[str, FieldKind], path: str = "filter") -> Filter:
    """Return the filter with canonical field names and times as milliseconds since 1970.

    Args:
        condition: as the caller wrote it; what is compared with time fields is ISO 8601 with an offset, a plain
            date, or already milliseconds.
        custom: the collection's own metadata fields. They may hold values of any kind, so they can be compared
            with any; values of another kind just do not match.
        path: name of the whole filter in error messages, and of conditions that no caller wrote.

    Raises:
        InvalidFilterError: naming every unknown field and every value that cannot match its field.
    """
    _check_terms(condition, path)
    resolver = _Resolver({**custom, **BUILT_IN_FIELDS}, path)
    resolved = resolver.resolve(condition)
    if resolver.violations:
        raise InvalidFilterError(resolver.violations)
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

    def __init__(self, kinds: Mapping[str, FieldKind], path: str) -> None:
        self._kinds = kinds
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
                if field in self._kinds:
                    return self._leaf(condition, _numeric(field, condition), place)
                self._refuse(place.field, f"unknown field {condition.field!r}{self._suggestion(condition.field)}")
                return condition

    def _suggestion(self, name: str) -> str:
        """Return what a misspelt name was probably meant to be, else keys that there are; empty if there are none."""
        near = get_close_matches(name.casefold(), [*self._kinds, *ALIASES], n=1)
        if near:
            return f"; did you mean {near[0]!r}?"
        own = sorted(self._kinds.keys() - BUILT_IN_FIELDS.keys())
        return f"; keys of the collection are {', '.join(own[:_NAMED])}" if own else ""

    def _leaf(self, leaf: Leaf, field: str, place: Place) -> Filter:
        kind = self._kinds[field]
        match leaf:
            case Comparison(_, comparator, value):
                return self._comparison(field, comparator, value, place)
            case Membership(_, values, negated):
                return self._membership(field, values, place.values, negated=negated)
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
            return compare_time(field, comparator, self._time(value, place.values))
        if comparator in _ORDERINGS:
            return self._ordering(field, comparator, value, place)
        return Comparison(field, comparator, self._value(field, value, place.values))

    def _ordering(self, field: str, comparator: Comparator, value: Scalar, place: Place) -> Filter:
        if field in BUILT_IN_FIELDS:
            if self._kinds[field] in _TEXTUAL:
                self._refuse(place.operator, "compares numbers and times only")
                return Comparison(field, comparator, value)
            return Comparison(field, comparator, self._value(field, value, place.values))
        if self._kinds[field] not in _TEXTUAL:  # metadata keep times as numbers
            return compare_time(field, comparator, self._time(value, place.values))
        if not isinstance(value, str):
            self._refuse(place.values, "must be a text: this collection has only texts in the field")
        return Comparison(field, comparator, value)

    def _membership(self, field: str, values: tuple[Scalar, ...], place: str, *, negated: bool) -> Filter:
        if BUILT_IN_FIELDS.get(field) is FieldKind.TIME:
            return one_of_times(field, [self._time(value, place) for value in values], negated=negated)
        return Membership(field, tuple(self._value(field, value, place) for value in values), negated)

    def _time(self, value: Scalar, place: str) -> float | range:
        time = parse_time(value)
        if time is None:
            self._refuse(place, f"must be {EXPECTED}")
            return 0
        return time

    def _value(self, field: str, value: Scalar, place: str) -> Scalar:
        kind = BUILT_IN_FIELDS.get(field)
        if kind is None:
            return value
        parse, expected = _VALUES[kind]
        parsed = parse(value)
        if parsed is None:
            self._refuse(place, f"must be {expected}")
            return value
        return parsed

    def _refuse(self, place: str, description: str) -> None:
        self.violations.append(FieldViolation(place, description))


def _numeric(field: str, leaf: Leaf) -> str:
    """Return the field that is meant: chunk ids that are whole numbers are the numbers of chunks (requirement C03)."""
    match leaf:
        case Comparison(_, _, value) if field == "chunk_id" and kind_of(value) is float:
            return "chunk_number"
        case Membership(_, values) if field == "chunk_id" and values and kind_of(values[0]) is float:
            return "chunk_number"
        case _:
            return field


def _text(value: Scalar) -> Scalar | None:
    return value if isinstance(value, str) else None


def _number(value: Scalar) -> Scalar | None:
    return value if kind_of(value) is float else None


_VALUES: dict[FieldKind, tuple[Callable[[Scalar], Scalar | None], str]] = {
    FieldKind.TEXT: (_text, "a text"),
    FieldKind.TEXT_LIST: (_text, "a text"),
    FieldKind.INTEGER: (_number, "a number"),
    FieldKind.INTEGER_LIST: (_number, "a number"),
    FieldKind.TIME: (_number, EXPECTED),
}


def _fields(condition: Filter) -> Iterable[str]:
    return (leaf.field for leaf in leaves(condition))
