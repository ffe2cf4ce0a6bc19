"""docs/filters.md is true: its examples are filters, its tables are the fields, aliases and limits."""

import re
from pathlib import Path

import pytest

from groundwire.kernel.filter_fields import ALIASES, BUILT_IN_FIELDS, FieldKind
from groundwire.kernel.filter_json import parse_filter_text
from groundwire.kernel.filter_resolving import resolve_filter
from groundwire.kernel.filters import (
    MAX_DEPTH,
    MAX_NAME_CHARS,
    MAX_PATTERN_CHARS,
    MAX_TERMS,
    MAX_TEXT_CHARS,
    MAX_VALUES,
)

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "filters.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```json\n(.*?)\n```", TEXT, flags=re.DOTALL)
OWN = {"review_date": FieldKind.TEXT, "type": FieldKind.TEXT, "importance": FieldKind.INTEGER}
KINDS = {
    "text": FieldKind.TEXT,
    "integer": FieldKind.INTEGER,
    "time": FieldKind.TIME,
    "list of text": FieldKind.TEXT_LIST,
    "list of integers": FieldKind.INTEGER_LIST,
}


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading, without its head."""
    part = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_filter(example: str) -> None:
    resolved = resolve_filter(parse_filter_text(example), OWN)
    assert resolve_filter(resolved, OWN) == resolved


@pytest.mark.requirement("C21")
def test_the_fields_and_their_aliases_are_all_there() -> None:
    told = {cells[0].strip("`"): cells for cells in rows("Fields")}
    kinds = {name: KINDS[re.split("[:;]", cells[1])[0]] for name, cells in told.items()}
    assert kinds == BUILT_IN_FIELDS
    aliases = {alias: name for name, cells in told.items() for alias in re.findall("`([a-z_]+)`", cells[2])}
    assert aliases == ALIASES


def test_the_limits_are_those_of_the_code() -> None:
    told = " ".join(cells[1] for cells in rows("Limits")).replace(",", "")
    limits = [int(number) for number in re.findall(r"\d+", told)]
    expected = [MAX_DEPTH, MAX_TERMS, MAX_TERMS, MAX_VALUES, MAX_TEXT_CHARS, MAX_PATTERN_CHARS, MAX_NAME_CHARS, 64]
    assert limits == expected
