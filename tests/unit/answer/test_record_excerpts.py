"""What can be quoted of records and rows: of CSV, JSON Lines, and plain text in columns or fields."""

from groundwire.answer.evidence import Markup
from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.kernel.sentences import BlockKind
from tests.unit.answer.builders import make_passage

LONG = "It hunts by night over the fields and sleeps by day in a barn. " * 12


def _find(content: str) -> list[tuple[BlockKind, str, str]]:
    """Return kind, text and exact source of each excerpt."""
    found = find_excerpts([make_passage(content, markup=Markup.RECORDS)])
    return [(each.kind, each.text, each.passage.content[each.start : each.end]) for each in found]


def test_a_short_record_is_quoted_whole_as_a_row_of_a_table() -> None:
    owl, vole = "Bird: Barn owl\nNests: 14\nSeen: 2021-05-03\nin the barn", "Bird: Long-eared owl\nNests: 2"
    assert _find(f"{owl}\n\n{vole}") == [
        (BlockKind.TABLE, "Bird Barn owl: Nests: 14; Seen: 2021-05-03 in the barn", owl),
        (BlockKind.TABLE, "Bird Long-eared owl: 2", vole),
    ]


def test_of_a_long_record_its_sentences_and_short_fields_are_quoted() -> None:
    content = f"Bird: Barn owl\nHabits: {LONG.strip()}\nNests: 14"
    first, *_, last = find_excerpts([make_passage(content, markup=Markup.RECORDS)])
    assert (first.kind, first.text) == (BlockKind.PROSE, LONG[: LONG.index(".") + 1])
    assert (first.heading, first.opens, last.opens) == ("Barn owl", True, False)
    assert content[first.start : first.end] == first.text
    assert (last.kind, last.text) == (BlockKind.TABLE, "Barn owl: Nests: 14")
    assert [content[start:end] for _, start, end in last.header] == ["Bird: Barn owl"]


def test_the_question_of_a_record_is_the_heading_of_its_answer() -> None:
    content = "id: 7\nquestion: When do owls sleep?\nanswer: They sleep by day, in a tree or in a barn."
    (answer,) = (
        each for each in find_excerpts([make_passage(content, markup=Markup.RECORDS)]) if each.kind is BlockKind.PROSE
    )
    assert (answer.text, answer.heading) == ("They sleep by day, in a tree or in a barn.", "When do owls sleep?")


def test_what_is_no_field_is_not_quoted() -> None:
    assert _find("nothing of the kind\n\nBird:\n\nNests: 14") == []


def _shown(content: str) -> list[str]:
    return [each.text for each in find_excerpts([make_passage(content)])]


def test_lines_in_columns_are_the_rows_of_a_table() -> None:
    content = (
        "Prices of the year\n\nFood        Unit     Price\n-------------------------\nMice        bag       2.50\n"
        "Dead voles  piece        1\n\nSet to  full  lines  is no table.\nIt  goes  on here.\n\nOne   row   alone."
    )
    mice, voles, names, *prose = find_excerpts([make_passage(content, markup=Markup.NONE)])
    assert [each.text for each in (mice, voles, names)] == [
        "Food Mice: Unit: bag; Price: 2.50",
        "Food Dead voles piece: 1",
        "Food: Mice, Dead voles piece.",
    ]
    assert content[mice.start : mice.end] == "Mice        bag       2.50"
    assert [content[start:end] for _, start, end in mice.header] == ["Food        Unit     Price"]
    assert not any(each.kind is BlockKind.TABLE for each in prose)
    bare = find_excerpts([make_passage("Mice    bag     2.50\nVoles   piece   1.00", markup=Markup.NONE)])
    assert [each.text for each in bare] == ["Mice: bag; 2.50", "Voles: piece; 1.00"]


def test_entries_that_begin_with_the_same_field_are_records() -> None:
    entries = "Name: Ada\nRole: Owl keeper\nPhone: 555\n\nName: Ben\nRole: Cook\nPhone: 777"
    assert _shown(entries) == ["Name Ada: Role: Owl keeper; Phone: 555", "Name Ben: Role: Cook; Phone: 777"]
    assert _shown(entries.partition("\n\n")[0]) == ["Name: Ada", "Role: Owl keeper", "Phone: 555"]
