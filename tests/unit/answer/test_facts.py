"""What a text says for sure, and what speaks against a claim resting on a source."""

import pytest

from groundwire.answer.facts import Conflicts, Date, conflicts, facts_of, names_in, numbers_in


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It holds 1,200 people and 3.5 tons.", ["1200", "3.5"]),
        ("twenty-one guests and Five dogs", ["21", "5"]),
        ("2.5 million euros, three hundred men", ["2500000", "300"]),
        ("version 3.10, not 3.1.2", ["3.10", "3.1.2"]),
        ("on 05 May", ["5"]),
        ("one of them, but one hundred or one-million", ["100", "1000000"]),
        ("the 21st century, utf8, v2", ["21"]),
    ],
)
def test_numbers_are_read_whatever_their_spelling(text: str, numbers: list[str]) -> None:
    assert list(numbers_in(text)) == numbers


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("on 2023-03-05", (Date(2023, 3, 5),)),
        ("on March 5, 2023 and on the 6th of May 2024", (Date(2023, 3, 5), Date(2024, 5, 6))),
        ("in March 2023", (Date(2023, 3, 0),)),
        ("on Sept. 9", (Date(0, 9, 9),)),
        ("you may 5 times", (Date(0, 5, 5),)),
        ("in 1999", ()),
    ],
)
def test_dates_are_read_with_what_they_say(text: str, dates: tuple[Date, ...]) -> None:
    assert set(facts_of(text).dates) == set(dates)


def test_names_are_capitalised_words_inside_a_sentence() -> None:
    assert names_in("The firm of Ada Lovelace. Later it moved to Bonn in May.") == ["Ada", "Lovelace", "Bonn"]
    assert facts_of("the firm of Ada Lovelace").names == {"ada", "lovelac"}


SOURCE = "The first shop of Ada Lovelace opened on 5 March 2023 in Bonn with 1,200 books."


@pytest.mark.parametrize(
    ("claim", "kind"),
    [
        ("The shop of Ada opened in March 2023 with 1200 books in Bonn.", None),
        ("It opened on 2023-03-05.", None),
        ("It opened with 1,300 books.", "numbers"),
        ("It opened on 6 March 2023.", "dates"),
        ("It opened in April 2023.", "dates"),
        ("It opened in Berlin.", "names"),
        ("The first shop was closed in Bonn.", "opposites"),
        ("The last shop in Bonn.", "opposites"),
        ("It never opened in Bonn.", "negation"),
    ],
)
def test_what_a_claim_says_and_its_source_does_not(claim: str, kind: str | None) -> None:
    found = conflicts(facts_of(claim), facts_of(SOURCE))
    assert bool(found) is (kind is not None)
    assert kind is None or getattr(found, kind) != getattr(Conflicts(), kind)


def test_a_source_that_has_a_word_and_its_opposite_speaks_against_neither() -> None:
    assert not conflicts(facts_of("it rose after it closed"), facts_of("it opened, closed and rose"))
    assert conflicts(facts_of("it was open"), facts_of("it was closed")).opposites == {"open"}
