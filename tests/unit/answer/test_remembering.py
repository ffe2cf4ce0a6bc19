"""What a summary quotes, and which sentences of a conversation are worth keeping."""

from datetime import UTC, datetime

import pytest

from groundwire.answer.consolidation import asks_nothing, confirmed, derive_memories, says_the_same
from groundwire.answer.summaries import Turn, shortened, summarise, without_hearsay, without_questions
from groundwire.kernel.session import Role

TIME = datetime(2026, 3, 1, tzinfo=UTC)


def user(text: str, index: int = 1) -> Turn:
    return Turn(f"turn-{index}-user", Role.USER, text, TIME)


def assistant(text: str, index: int = 1, *, is_refusal: bool = False) -> Turn:
    return Turn(f"turn-{index}-assistant", Role.ASSISTANT, text, TIME, is_refusal=is_refusal)


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
    # With something new in each sentence only the room is short.
    several = "I moved to Bonn. My sister Ada plays the violin. Helgoland has red cliffs. Our cat eats herrings."
    assert len(summarise([user(several)]).text.splitlines()) == 4
    assert len(summarise([user(several)], 60).text) <= 60
    # A question is none of the user's statements, even where it is all that there is.
    assert summarise([user("Why? " * 200)], 100).text == ("User asked: " + "Why? " * 200)[:100]
    ten = "Ada builds boats. Bert sells tea. Cleo paints walls. Dora hunts foxes. Emil bakes bread. Finn mends shoes."
    ten += " Gina sails north. Hugo plays chess. Ida grows roses. Jan studies bees."
    assert len(summarise([user(ten)]).text.splitlines()) == 8


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
        ("Write that Atlas starts in Kiel.", "", ""),
        ("We are who we are.", "", ""),
    ],
)
def test_what_outlives_a_conversation_is_kept(said: str, memory: str, kind: str) -> None:
    derived = [(each.text, each.kind) for each in derive_memories([user(said)])]
    assert derived == ([(memory, kind)] if memory else [])


def test_the_assistant_says_nothing_to_remember() -> None:
    assert derive_memories([assistant("I prefer short answers, and Ada lives in Bonn.")]) == []


def test_what_stands_in_pasted_code_or_is_as_long_as_a_page_is_not_remembered() -> None:
    long = f"I prefer {' and '.join(f'tea number {each}' for each in range(40))}."
    assert derive_memories([user(f"```\nI prefer tea.\n```\n\n{long}")]) == []


def test_what_was_asked_to_be_remembered_and_what_is_dangerous_is_important() -> None:
    told, usual, decided = derive_memories(
        [user("Remember that I am allergic to nuts."), user("I prefer tea.", 2), user("We decided to use PostgreSQL.")]
    )
    assert (told.importance, usual.importance, decided.importance) == (5, 3, 4)
    assert told.turn.record_id == "turn-1-user"


@pytest.mark.parametrize("asked", ["Remember that", "Hi, please remember that", "Also, don't forget that", "Note:"])
def test_what_is_to_be_remembered_is_kept_though_it_is_of_the_moment(asked: str) -> None:
    (kept,) = derive_memories([user(f"{asked} I am in Bonn today.")])
    assert (kept.text, kept.importance) == ("I am in Bonn today.", 4)


def test_what_rules_derive_is_never_certain_until_it_is_said_again() -> None:
    named, usual, other = derive_memories(
        [user("I moved to Bonn on 3 May 2024."), user("I prefer tea."), user("Atlas is due on 3 March 2026.")]
    )
    assert (named.confidence, usual.confidence, other.confidence) == (0.9, 0.8, 0.7)
    assert (confirmed(usual.confidence), confirmed(0.95)) == (0.9, 1.0)


def test_what_is_said_twice_is_kept_in_its_last_form() -> None:
    derived = derive_memories([user("I prefer tea."), user("I really prefer tea!", 2), user("I prefer coffee.", 3)])
    said = [("I really prefer tea!", "turn-2-user"), ("I prefer coffee.", "turn-3-user")]
    assert [(each.text, each.turn.record_id) for each in derived] == said
    assert not says_the_same("The limit is 20 entries.", "The limit is 30 entries.")
    assert not says_the_same("I eat meat.", "I do not eat meat.")
    launch = "The launch of Atlas in the harbour is on 3 March"
    assert not says_the_same(f"{launch}.", f"{launch} 2026.")
    work = "Each Monday I work as a senior engineer in the new platform team of Globex at the large office in"
    assert says_the_same(f"{work} Bonn.", f"{work} Bonn again.")
    assert not says_the_same(f"{work} Bonn.", f"{work} Kiel.")


@pytest.mark.parametrize("said", ["Hello", "Hi there!", "Good morning, hello!", "Thanks a lot.", "OK, thank you. Bye!"])
def test_greetings_and_thanks_ask_nothing_and_are_not_kept(said: str) -> None:
    assert asks_nothing(said)
    assert derive_memories([user(said)]) == []


@pytest.mark.parametrize(
    "said",
    [
        "Hello, where is my cat?",
        "Hello world",
        "Thanks, show me more.",
        "Great Britain",
        "I like tea (or milk?) at 9.",
        "",
    ],
)
def test_what_only_begins_like_a_greeting_may_ask_something(said: str) -> None:
    assert not asks_nothing(said)


def test_a_summary_quotes_no_code_and_no_sentence_as_long_as_a_page() -> None:
    code = "```\natlas = open('kiel.txt')\n```\n\n| name | city |\n|---|---|\n| Atlas | Kiel |\n"
    assert summarise([user(f"I moved to Bonn.\n\n{code}")]).text == "User: I moved to Bonn."
    pasted = f"Globex sails to {' and '.join(f'Kiel {number}' for number in range(60))}."
    assert summarise([user(f"I live in Bonn. {pasted}")]).text == "User: I live in Bonn."


@pytest.mark.parametrize(
    ("turns", "room", "quoted"),
    [
        (
            [user("What is the limit of the queue of Atlas in Kiel in May 2024? I moved to Bonn by train.")],
            80,
            "User: I moved to Bonn by train.",
        ),
        (
            [assistant("Atlas sails to Kiel on 14 May."), user("Globex builds large boats on 14 June.")],
            50,
            "User: Globex builds large boats on 14 June.",
        ),
    ],
)
def test_where_there_is_room_for_one_sentence_the_user_is_quoted_with_a_statement(
    turns: list[Turn], room: int, quoted: str
) -> None:
    assert summarise(turns, room).text == quoted


def test_wishes_are_no_statements_of_the_user_in_a_summary() -> None:
    text = summarise([user("I live in Bonn. Show me my invoices of May 2024.")]).text
    assert text.splitlines() == ["User: I live in Bonn.", "User asked: Show me my invoices of May 2024."]
    assert without_hearsay(text).strip() == "User: I live in Bonn."


def test_a_question_of_the_assistant_is_its_own_in_a_summary() -> None:
    text = summarise([assistant("Do you live in Bonn near Ada?"), user("I work at Globex.")]).text
    assert text.splitlines() == ["Assistant: Do you live in Bonn near Ada?", "User: I work at Globex."]


def test_what_is_left_out_of_lines_leaves_all_else_in_its_place() -> None:
    lines = "User asked: Show me the invoices.\nAssistant: Noted.\nDo you live in Kiel?\nUser: I live in Bonn."
    for left, gone in ((without_hearsay(lines), "Noted"), (without_questions(lines), "Kiel")):
        assert gone not in left
        assert "invoices" not in left
        assert left.index("User: I live in Bonn.") == lines.index("User: I live in Bonn.")


def test_only_a_turn_that_is_longer_than_a_summary_is_shortened() -> None:
    code = "See:\n\n```\nx = 1\n```"
    assert shortened(user(code)) == code
    assert shortened(user(f"{code}\n\nI live in Bonn. {'Well. ' * 400}")).startswith("I live in Bonn.")


def test_a_summary_stands_on_the_turns_whose_sentences_it_has() -> None:
    """However many documents the turns quote, it can be written: it goes only with those whose text it holds."""
    quoted = frozenset(f"document-{number}" for number in range(2000))
    chatter = Turn("turn-9-assistant", Role.ASSISTANT, "Noted.", TIME, quoted=quoted)
    summary = summarise([user("I moved to Bonn in May 2024."), chatter, user("I work at Globex in Kiel.", 2)], 80)
    assert [each.record_id for each in summary.turns] == ["turn-1-user", "turn-2-user"]
