"""When a question leans on what was said, and what that adds to the search."""

from datetime import UTC, datetime

import pytest

from groundwire.answer.intent import leans_on_context, search_context, search_text
from groundwire.answer.question import read_question
from groundwire.answer.sessions import Message
from groundwire.kernel.session import Role

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _window(*questions: str) -> list[Message]:
    messages = []
    for number, question in enumerate(questions):
        messages.append(Message(f"q{number}", Role.USER, question, _NOW))
        messages.append(Message(f"a{number}", Role.ASSISTANT, "It is as it is.", _NOW, f"q{number}"))
    return messages


@pytest.mark.requirement("S4-41")
@pytest.mark.parametrize(
    "question",
    [
        "Tell me more about it",
        "Why?",
        "How does it work?",
        "What about them?",
        "And then?",
        "Is that safe?",
        "How do I create one?",
        "Can I register it with a prefix?",
    ],
)
def test_questions_that_lean_get_the_earlier_subject(question: str) -> None:
    found = search_text(question, _window("What is the borrow checker?"), 500)
    assert found == f"borrow checker: {question}"
    assert read_question(found).kind is read_question(question).kind


@pytest.mark.parametrize("question", ["Can you show me an example?", "For example?", "Show me another example."])
def test_an_example_is_asked_of_the_earlier_subject(question: str) -> None:
    assert search_text(question, _window("What is the borrow checker?"), 500) == "an example of borrow checker"


@pytest.mark.parametrize(
    "question",
    [
        "What is a trait?",
        "How do I create a project with Cargo?",
        "Is it possible to borrow a value mutably twice in one scope?",
        "Can threads share data?",
        "How do I stop a server and restart it?",
        "Which values implement traits that have methods?",
    ],
)
def test_questions_that_stand_alone_stay_as_they_are(question: str) -> None:
    assert not leans_on_context(question)
    assert search_text(question, _window("What is the borrow checker?"), 500) == question


def test_the_last_question_with_a_subject_counts() -> None:
    window = _window("What is ownership?", "What is a trait?", "Tell me more")
    assert search_text("Why?", window, 500) == "trait: Why?"
    window = _window("What is ownership?", "Can it have borrowers?")
    assert search_text("How do I prove it?", window, 500) == "ownership: How do I prove it?"
    # Of what was said before there may be nothing left.
    assert search_text("How do I prove it?", window[2:], 500) == "borrowers: How do I prove it?"


def test_nothing_to_lean_on_changes_nothing() -> None:
    assert search_text("Why?", [], 500) == "Why?"


@pytest.mark.requirement("C15")
def test_the_search_text_fits_its_limit_in_whole_words() -> None:
    window = _window(" ".join(f"subject{number}" for number in range(60)))
    found = search_text("Tell me more about it", window, 100)
    assert len(found) <= 100
    assert found.endswith(" Tell me more about it")
    assert all(word.startswith("subject") for word in found.split()[:5])
    assert len(search_text("x" * 500, window, 500)) == 500


@pytest.mark.requirement("S4-41")
def test_a_question_goes_on_from_the_words_that_its_user_said_most_often() -> None:
    window = _window("Can threads share memory?", "Do threads need locks?", "Are channels faster than locks?")
    assert search_context("Which costs more?", window, 500).split()[:2] == ["locks", "threads"]
    assert "as" not in search_context("Which costs more?", window, 500).split(), "what the answers say does not count"
    many = _window(*(f"subject{number} subject{number + 1}" for number in range(20)))
    assert len(search_context("Which costs more?", many, 500).split()) == 8
    assert len(search_context("Which costs more?", many, 30)) <= 30


def test_a_question_that_has_the_subject_before_it_and_a_first_one_go_on_from_nothing() -> None:
    window = _window("What is the borrow checker?")
    assert search_context("Tell me more about it", window, 500) == ""
    assert search_context("Which costs more?", [], 500) == ""
