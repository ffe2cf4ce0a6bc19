"""What can be quoted of records and rows: of CSV, JSON Lines, and plain text in columns or fields."""

import pytest

from groundwire.answer.evidence import Markup
from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.kernel.sentences import BlockKind
from tests.unit.answer.builders import make_passage

LONG = "It hunts by night over the fields and sleeps by day in a barn. " * 12


def _find(content: str) -> list[tuple[BlockKind, str, str]]:
    """Return kind, text and exact source of each excerpt."""
    found = find_excerpts([make_passage(content, markup=Markup.RECORDS)])
    return [(each.kind, each.text, each.passage.content[each.start : each.end]) for each in found]


def _texts(content: str) -> list[str]:
    return [text for _, text, _ in _find(content)]


def test_a_short_record_is_quoted_whole_as_a_row_of_a_table() -> None:
    owl, vole = "Bird: Barn owl\nNests: 14\nSeen: 2021-05-03\nin the barn", "Bird: Long-eared owl\nNests: 2"
    assert _find(f"{owl}\n\n{vole}") == [
        (BlockKind.TABLE, "Bird Barn owl: Nests: 14; Seen: 2021-05-03 in the barn", owl),
        (BlockKind.TABLE, "Bird Long-eared owl: 2", vole),
    ]


def test_a_record_of_one_field_keeps_its_colon() -> None:
    assert _texts("Bird: Barn owl of the north\n\nBird: Eagle owl") == [
        "Bird: Barn owl of the north",
        "Bird: Eagle owl",
    ]


def test_of_a_long_record_its_sentences_and_short_fields_are_quoted() -> None:
    content = f"Bird: Barn owl\nHabits: {LONG.strip()}\nNests: 14"
    first, second, *_, last = find_excerpts([make_passage(content, markup=Markup.RECORDS)])
    assert (first.kind, first.text) == (BlockKind.PROSE, LONG[: LONG.index(".") + 1])
    assert (first.heading, first.about) == ("Barn owl", "Barn owl")
    assert (first.opens, second.opens, last.opens) == (True, False, False)
    assert content[first.start : first.end] == first.text
    assert (last.kind, last.text, last.heading) == (BlockKind.TABLE, "Barn owl: Nests: 14", "Barn owl")
    assert [content[start:end] for _, start, end in last.header] == ["Bird: Barn owl"]


def test_six_words_of_a_long_record_are_a_field_and_seven_are_sentences_of_three_words_and_more() -> None:
    fields = "Nests: In barns and in old trees\nEats: It eats mice every single day. It chews. Owls never\nsing."
    found = [(kind, text) for kind, text, _ in _find(f"Bird: Barn owl\nHabits: {LONG.strip()}\n{fields}")]
    assert found[-3:] == [
        (BlockKind.TABLE, "Barn owl: Nests: In barns and in old trees"),
        (BlockKind.PROSE, "It eats mice every single day."),
        (BlockKind.PROSE, "Owls never sing."),
    ]
    *_, (kind, text, _) = _find(f"Bird: Barn owl\nHabits: {LONG.strip()}\nEats: It eats five mice every single day.")
    assert (kind, text) == (BlockKind.PROSE, "It eats five mice every single day.")


def test_a_record_is_quoted_whole_from_three_words_to_the_length_of_a_sentence() -> None:
    assert _texts("Bird: Owl") == []
    assert _texts("Bird: Barn owl") == ["Bird: Barn owl"]
    longest = "x" * (700 - len("Bird Barn owl: "))
    assert _texts(f"Bird: Barn owl\nCode: {longest}") == [f"Bird Barn owl: {longest}"]
    assert _texts(f"Bird: Barn owl\nCode: {longest}x") == [f"Barn owl: Code: {longest}x"]
    longer = "owls " * 140
    assert _texts(f"Bird: Barn owl\nSays: {longer}hunt. They sleep by day.") == ["They sleep by day."]


@pytest.mark.parametrize(
    ("length", "text"), [(60, "{name} 14: Bird: Barn owl; Seen: 2021"), (61, "Bird Barn owl: 2021")]
)
def test_a_name_has_sixty_characters_at_most(length: int, text: str) -> None:
    name = "a" * length
    assert _texts(f"{name}: 14\nBird: Barn owl\nSeen: 2021") == [text.format(name=name)]


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
    code = "```\nx = 1\n\nname: owls bite by night\n```"
    between = f"{code}\n\n{entries}\n\nMind: voles bite by day."
    assert _shown(between) == [*_shown(code), *_shown(entries), "Mind: voles bite by day."]
    assert _shown(entries.partition("\n\n")[0]) == ["Name: Ada", "Role: Owl keeper", "Phone: 555"]
