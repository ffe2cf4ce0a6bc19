"""Check conditions that a model has written, and turn them into a filter."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from groundwire.kernel.collection import FieldDescription, FieldType
from groundwire.kernel.filters import And, Comparator, Comparison, Filter, Membership, Scalar
from groundwire.retrieve.domain.self_query.question import Extraction, Question

MAX_CONDITIONS = 16
MAX_VALUES = 32
MAX_VALUE_CHARS = 512

_COMPARATORS = {
    "eq": Comparator.EQ,
    "ne": Comparator.NE,
    "gt": Comparator.GT,
    "gte": Comparator.GTE,
    "lt": Comparator.LT,
    "lte": Comparator.LTE,
}
_ORDERINGS = {"gt", "gte", "lt", "lte"}
_MEMBERSHIPS = {"in": False, "nin": True}
OPERATORS = (*_COMPARATORS, *_MEMBERSHIPS)
_ORDERED = {FieldType.INTEGER, FieldType.NUMBER, FieldType.TIME, FieldType.INTEGER_LIST}
_PLAIN_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def to_extraction(written: object, question: Question) -> Extraction:
    """Return the extraction that a model has written as `{"query": …, "conditions": [{"field", "operator", "value"}]}`.

    Raises:
        ValueError: it has another form, an unknown field or operator, or a value that its field cannot have. One
            wrong condition spoils the whole.
    """
    if not isinstance(written, dict) or set(written) - {"query", "conditions"}:
        raise ValueError("must be an object of query and conditions")
    query, conditions = written.get("query"), written.get("conditions", [])
    if not isinstance(query, str) or not isinstance(conditions, list) or len(conditions) > MAX_CONDITIONS:
        raise ValueError(f"query must be a text, conditions a list of at most {MAX_CONDITIONS}")
    clauses = [_condition(condition, question) for condition in conditions]
    names = tuple(dict.fromkeys(condition["field"] for condition in conditions))
    where = None if not clauses else clauses[0] if len(clauses) == 1 else And(tuple(clauses))
    is_usable = bool(query.strip()) and len(query) <= len(question.text) * 2 and query.isprintable()
    return Extraction(query.strip() if is_usable else question.text, where, names)


def _condition(condition: object, question: Question) -> Filter:
    if not isinstance(condition, dict) or set(condition) != {"field", "operator", "value"}:
        raise ValueError("a condition must be an object of field, operator and value")
    field = question.described(condition["field"]) if isinstance(condition["field"], str) else None
    if field is None:
        raise ValueError(f"unknown field {condition['field']!r}")
    return _clause(field, condition)


def _clause(field: FieldDescription, condition: Mapping[str, Any]) -> Filter:
    operator, value = condition["operator"], condition["value"]
    if operator not in OPERATORS or (operator in _ORDERINGS and field.type not in _ORDERED):
        raise ValueError(f"operator {operator!r} does not work on {field.name!r}")
    if operator in _COMPARATORS:
        return Comparison(field.name, _COMPARATORS[operator], _value(field, value))
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_VALUES:
        raise ValueError(f"{operator!r} takes a list of 1 to {MAX_VALUES} values")
    return Membership(field.name, tuple(_value(field, each) for each in value), _MEMBERSHIPS[operator])


def _value(field: FieldDescription, value: object) -> Scalar:
    match field.type:
        case FieldType.STRING | FieldType.STRING_LIST:
            return _text(field, value)
        case FieldType.BOOLEAN if isinstance(value, bool):
            return value
        case FieldType.INTEGER | FieldType.INTEGER_LIST if isinstance(value, int) and not isinstance(value, bool):
            return value
        case FieldType.NUMBER if _is_number(value):
            return value  # type: ignore[return-value]  # checked by _is_number
        case FieldType.TIME:
            return _time(field, value)
    raise ValueError(f"{value!r} is no value of {field.name!r}")


def _text(field: FieldDescription, value: object) -> str:
    if not (isinstance(value, str) and 0 < len(value.strip()) <= MAX_VALUE_CHARS):
        raise ValueError(f"{field.name!r} takes a text")
    if not field.allowed_values:
        return value
    for allowed in field.allowed_values:
        if allowed.casefold() == value.strip().casefold():
            return allowed
    raise ValueError(f"{value!r} is not an allowed value of {field.name!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _time(field: FieldDescription, value: object) -> str:
    """Return a plain date or a time with an offset as it was written."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    if not isinstance(value, str) or moment is None or (moment.tzinfo is None and not _PLAIN_DATE.fullmatch(value)):
        raise ValueError(f"{field.name!r} takes a date such as 2024-07-01")
    return value


def describe(fields: Sequence[FieldDescription]) -> list[dict[str, object]]:
    """Return the fields as a model reads them."""
    return [
        {"name": field.name, "description": field.description, "type": field.type.value}
        | ({"allowed_values": list(field.allowed_values)} if field.allowed_values else {})
        for field in fields
    ]
