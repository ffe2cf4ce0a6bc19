"""What can be quoted of records, which are extracted from tables and JSON Lines."""

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
