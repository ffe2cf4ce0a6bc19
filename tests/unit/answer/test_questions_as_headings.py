"""Questions in texts are the headings of their answers: those of lists, and paragraphs that only ask."""

import pytest

from groundwire.answer.evidence import Markup
from tests.unit.answer.builders import excerpts_of


@pytest.mark.parametrize(
    "content",
    [
        "Q: When do owls sleep?\nA: They sleep by day.\n\nQ: What do they eat?\nA: They eat mice.",
        "**Question 1: When do owls sleep?**\n\nAnswer: They sleep by day.\n\nQ: What do they eat?\nA) They eat mice.",
    ],
)
def test_questions_of_a_list_are_the_headings_of_their_answers(content: str) -> None:
    assert [(each.text, each.heading, each.opens) for each in excerpts_of(content)] == [
        ("They sleep by day.", "When do owls sleep?", True),
        ("They eat mice.", "What do they eat?", True),
    ]


@pytest.mark.parametrize("markup", [Markup.MARKDOWN, Markup.BLOCKS, Markup.RST])
def test_a_paragraph_that_only_asks_is_the_heading_of_its_answer(markup: Markup) -> None:
    asked = "(2) My owl sleeps by day. Is it ill?"
    content = f"They hunt by night.\n\n{asked}\n\nNo. Owls sleep by day.\n\nDo they see?\n\n- They see by night."
    found = [(each.text, each.heading) for each in excerpts_of(content, markup)]
    assert found[0][0] == "They hunt by night."
    assert found[1:3] == [
        ("No. Owls sleep by day.", "My owl sleeps by day. Is it ill?"),
        ("They see by night.", "Do they see?"),
    ]


@pytest.mark.parametrize(
    "asked",
    [
        "Owls : Owl (, Owl)* ,?",
        '"Do owls sleep by day?"',
        "Why?",
        f"Do owls {'really ' * 30}sleep?",
        "Do owls sleep? By day.",
        "Do owls sleep?\nThey sleep by day.",
    ],
)
def test_what_is_no_question_or_more_than_that_is_no_heading(asked: str) -> None:
    content = f"{asked}\n\nThey sleep by day."
    assert {each.heading for each in excerpts_of(content, Markup.MARKDOWN)} == {"Title 1"}


def test_a_question_of_plain_text_or_above_code_is_no_heading() -> None:
    asked = "Do owls sleep by day?\n\n"
    for content, markup in (("They sleep by day.", Markup.NONE), ("```\nowl.sleep()\n```", Markup.MARKDOWN)):
        headings = {each.heading for each in excerpts_of(f"{asked}{content}", markup)}
        assert len(headings) == 1
        assert headings <= {"Title 1", "Heading"}


def test_other_questions_and_letters_are_no_list() -> None:
    assert [(each.text, each.heading) for each in excerpts_of("When do they sleep?\nA: They sleep by day.")] == [
        ("A: They sleep by day.", "Title 1")
    ]
    assert [(each.text, each.heading) for each in excerpts_of("Q: They sleep here.\n\nA: They sleep by day.")] == [
        ("Q: They sleep here.", "Title 1"),
        ("A: They sleep by day.", "Title 1"),
    ]
