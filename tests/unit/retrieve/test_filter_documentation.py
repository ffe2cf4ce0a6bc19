"""docs/reference/filters.md is true: its examples are filters, its tables are the fields, aliases and limits."""

import re
from pathlib import Path

import pytest

from groundwire.kernel.filter_parsing import parse_filter_text, resolve_filter
from groundwire.kernel.filters import (
    ALIASES,
    BUILT_IN_FIELDS,
    MAX_DEPTH,
    MAX_JSON_CHARS,
    MAX_NAME_CHARS,
    MAX_PATTERN_CHARS,
    MAX_TERMS,
    MAX_TEXT_CHARS,
    MAX_VALUES,
    RECORD_ALIASES,
    RECORD_FIELDS,
    FieldKind,
    contract_name,
)

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs/reference/filters.md").read_text(encoding="utf-8")
PROTO = (ROOT / "protos/groundwire/api/common/v1/filter.proto").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```json\n(.*?)\n```", TEXT, flags=re.DOTALL)
OWN = {"review_date": FieldKind.TEXT, "type": FieldKind.TEXT, "importance": FieldKind.INTEGER}
KINDS = {
    "text": FieldKind.TEXT,
    "integer": FieldKind.INTEGER,
    "number": FieldKind.NUMBER,
    "time": FieldKind.TIME,
    "list of text": FieldKind.TEXT_LIST,
    "list of integers": FieldKind.INTEGER_LIST,
}


def rows(heading: str, head: str = "") -> list[list[str]]:
    """Return the cells of the table under a heading that begins with this cell, without its head."""
    part = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = re.search(rf"^\| {head}.*\n(?:^\|.*\n)+", part, flags=re.MULTILINE)
    assert table
    lines = table[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_filter(example: str) -> None:
    resolved = resolve_filter(parse_filter_text(example), OWN)
    assert resolve_filter(resolved, OWN) == resolved


@pytest.mark.requirement("C21")
def test_the_fields_and_their_aliases_are_all_there() -> None:
    told = {cells[0].strip("`"): cells for cells in rows("Fields")}
    kinds = {name: KINDS[re.split("[:;,]", cells[1])[0]] for name, cells in told.items()}
    assert kinds == {contract_name(field): kind for field, kind in BUILT_IN_FIELDS.items()}
    names = {**dict.fromkeys(BUILT_IN_FIELDS), **ALIASES}
    others = {name: contract_name(field or name) for name, field in names.items()}
    aliases = {alias: name for name, cells in told.items() for alias in re.findall("`([a-z_]+)`", cells[2])}
    of_records = {alias: field for alias, field in RECORD_ALIASES.items() if field in BUILT_IN_FIELDS}
    assert aliases == {name: field for name, field in others.items() if name != field} | of_records


def test_the_fields_of_records_are_all_there() -> None:
    cells = rows("Fields", head="Field of records")
    kinds = {
        name: KINDS[re.split("[:;,]", cell[1])[0]] for cell in cells for name in re.findall("`([a-z_]+)`", cell[0])
    }
    assert kinds == RECORD_FIELDS
    aliases = {alias for cell in cells for alias in re.findall("alias `([a-z_]+)`", cell[1])}
    assert aliases == {alias for alias, field in RECORD_ALIASES.items() if field in RECORD_FIELDS}


def test_the_comment_of_the_contract_lists_the_same_fields_and_aliases() -> None:
    comment = re.sub(r"\n// ?", " ", PROTO.split("// Fields, with their aliases in parentheses:")[1].split("\n//\n")[0])
    listed = {
        name: sorted(re.findall("`([a-z_]+)`", aliases))
        for name, aliases in re.findall(r"`([a-z_]+)`(?: \(([^)]*)\))?[,. ]", comment)
    }
    told = {cells[0].strip("`"): sorted(re.findall("`([a-z_]+)`", cells[2])) for cells in rows("Fields")}
    assert listed == told


def test_the_limits_are_those_of_the_code() -> None:
    told = " ".join(cells[1] for cells in rows("Limits")).replace(",", "")
    limits = [int(number) for number in re.findall(r"\d+", told)]
    texts = [MAX_TEXT_CHARS, MAX_PATTERN_CHARS, MAX_NAME_CHARS]
    assert limits == [MAX_DEPTH, MAX_TERMS, MAX_TERMS, MAX_VALUES, *texts, 64, MAX_JSON_CHARS]
