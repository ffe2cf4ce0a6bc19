"""Rules that several messages share: values of enums, control characters, and how a broken rule is reported."""

import unicodedata
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

from groundwire.kernel.errors import FieldViolation, InvalidRequestError

EnumT = TypeVar("EnumT", bound=Enum)

_ALLOWED_CONTROLS = "\t\n\r"
WITHOUT_CONTROLS = "must not contain control characters except tab, newline and return"


def has_controls(text: str) -> bool:
    """Tell whether a text has control characters other than tab, newline and return."""
    return any(unicodedata.category(char) == "Cc" and char not in _ALLOWED_CONTROLS for char in text)


def numbers_of(enum: Any, prefix: str, kind: type[EnumT]) -> dict[int, EnumT]:
    """Map the numbers of a protobuf enum to the members of ours, which have the same names behind the prefix."""
    return {enum.Value(f"{prefix}_{each.name}"): each for each in kind}


def known(values: Mapping[int, EnumT], number: int, field: str) -> EnumT | None:
    """Return the member for the number of an enum, None for 0, which stands for an unset field.

    Raises:
        InvalidRequestError: a newer client sent a number that this version does not know.
    """
    if number and number not in values:
        raise InvalidRequestError.of(field, f"unknown value {number}")
    return values.get(number)


def refuse_broken(prefix: str, rules: Mapping[str, bool] | Iterable[tuple[str, bool]]) -> None:
    """Raise InvalidRequestError naming every rule that does not hold; a rule begins with the name of its field."""
    pairs = rules.items() if isinstance(rules, Mapping) else rules
    broken = [rule.partition(" ") for rule, holds in pairs if not holds]
    if broken:
        raise InvalidRequestError([FieldViolation(f"{prefix}{name}", said) for name, _, said in broken])
