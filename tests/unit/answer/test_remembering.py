"""What a summary quotes, and which sentences of a conversation are worth keeping."""

from datetime import UTC, datetime

import pytest

from groundwire.answer.consolidation import asks_nothing, derive_memories, says_the_same
from groundwire.answer.summaries import Turn, summarise, without_hearsay
from groundwire.kernel.session import Role

TIME = datetime(2026, 3, 1, tzinfo=UTC)


def user(text: str, index: int = 1) -> Turn:
    return Turn(f"turn-{index}-user", Role.USER, text, index, TIME)


def assistant(text: str, index: int = 1, *, is_refusal: bool = False) -> Turn:
    return Turn(f"turn-{index}-assistant", Role.ASSISTANT, text, index, TIME, is_refusal=is_refusal)


def test_a_summary_quotes_facts_in_their_order_and_nothing_twice() -> None:
    turns = [
        user("Hello there! I moved to Bonn in May 2024."),
        assistant("Noted."),
        user("What is the limit of the queue?", 2),
        assistant("The limit of the queue is 30 entries [1]. As stated, the limit of the queue is 30 entries.", 2),
        user("How do I fly to the moon?", 3),
        assistant("I could not find anything about the moon in Kiel.", 3, is_refusal=True),
    ]
    lines = summarise(turns).text.splitlines()
    assert lines.index("User: I moved to Bonn in May 2024.") < lines.index(
        "Assistant: The limit of the queue is 30 entries."
    )
    assert not any("As stated" in line or "Kiel" in line for line in lines)


def test_a_summary_has_at_most_so_many_characters_and_is_never_empty() -> None:
    turns = [user(f"Number {number} is the code of door {number}.", number) for number in range(1, 60)]
    assert 0 < len(summarise(turns, 200).text) <= 200
    assert summarise([user("Why? " * 200)], 100).text == ("User: " + "Why? " * 200)[:100]


@pytest.mark.parametrize(
    ("said", "memory", "kind"),
    [
        ("I prefer short answers.", "I prefer short answers.", "preference"),
        ("Well, I am allergic to peanuts.", "I am allergic to peanuts.", "fact"),
        ("Please remember that my flight leaves at 9.", "My flight leaves at 9.", "fact"),
        ("We decided to use PostgreSQL for the catalog.", "We decided to use PostgreSQL for the catalog.", "decision"),
        ("I go swimming every Tuesday.", "I go swimming every Tuesday.", "pattern"),
        ("The launch of Atlas is on 3 March 2026.", "The launch of Atlas is on 3 March 2026.", "fact"),
        ("We sail to Helgoland on 14 July 2026.", "We sail to Helgoland on 14 July 2026.", "fact"),
        ("What I like is tea.", "What I like is tea.", "preference"),
        ("What is the limit of the queue?", "", ""),
        ("what kind of car do I have", "", ""),
        ("Do I have a meeting on Monday", "", ""),
        ("Show me my invoices.", "", ""),
        ("Use British spelling in my letters.", "Use British spelling in my letters.", "fact"),
        ("It is slow in Bonn.", "", ""),
        ("I have a question about snapshots.", "", ""),
        ("Thanks, that helps me a lot.", "", ""),
        ("Show me the commands of Atlas.", "", ""),
        ("I am looking for the settings of Atlas.", "", ""),
        ("Snapshots are nice.", "", ""),
    ],
)
def test_what_outlives_a_conversation_is_kept(said: str, memory: str, kind: str) -> None:
    derived = [(each.text, each.kind) for each in derive_memories([user(said)])]
    assert derived == ([(memory, kind)] if memory else [])


def test_the_assistant_says_nothing_to_remember() -> None:
    assert derive_memories([assistant("I prefer short answers, and Ada lives in Bonn.")]) == []


def test_what_was_asked_to_be_remembered_and_what_is_dangerous_is_important() -> None:
    told, usual = derive_memories([user("Remember that I am allergic to nuts."), user("I prefer tea.", 2)])
    assert (told.importance, usual.importance) == (5, 3)
    assert told.turn.index == 1


def test_what_is_said_twice_is_kept_in_its_last_form() -> None:
    derived = derive_memories([user("I prefer tea."), user("I really prefer tea!", 2), user("I prefer coffee.", 3)])
    assert [(each.text, each.turn.index) for each in derived] == [("I really prefer tea!", 2), ("I prefer coffee.", 3)]
    assert not says_the_same("The limit is 20 entries.", "The limit is 30 entries.")
    assert not says_the_same("I eat meat.", "I do not eat meat.")


@pytest.mark.parametrize("said", ["Hello", "Hi there!", "Good morning, hello!", "Thanks a lot.", "OK, thank you. Bye!"])
def test_greetings_and_thanks_ask_nothing_and_are_not_kept(said: str) -> None:
    assert asks_nothing(said)
    assert derive_memories([user(said)]) == []


@pytest.mark.parametrize(
    "said", ["Hello, where is my cat?", "Hello world", "Thanks, show me more.", "Great Britain", ""]
)
def test_what_only_begins_like_a_greeting_may_ask_something(said: str) -> None:
    assert not asks_nothing(said)


def test_wishes_are_no_statements_of_the_user_in_a_summary() -> None:
    text = summarise([user("I live in Bonn. Show me my invoices of May 2024.")]).text
    assert text.splitlines() == ["User: I live in Bonn.", "User asked: Show me my invoices of May 2024."]
    assert without_hearsay(text).strip() == "User: I live in Bonn."


def test_a_summary_stands_on_the_turns_whose_sentences_it_has() -> None:
    """However many documents the turns quote, it can be written: it goes only with those whose text it holds."""
    quoted = frozenset(f"document-{number}" for number in range(2000))
    chatter = Turn("turn-9-assistant", Role.ASSISTANT, "Noted.", 9, TIME, quoted=quoted)
    summary = summarise([user("I moved to Bonn in May 2024."), chatter, user("I work at Globex in Kiel.", 2)], 80)
    assert [each.record_id for each in summary.turns] == ["turn-1-user", "turn-2-user"]
