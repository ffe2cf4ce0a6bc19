"""What a text says for sure, and what speaks against a claim resting on a source."""

import pytest

from groundwire.kernel.facts import FactKind, discrepancies, names_in, read
from tests.growth import LINEAR, growth


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It holds 1,200 people and 3.5 tons.", ["1200", "3.5"]),
        ("twenty-one guests and Five dogs", ["21", "5"]),
        ("2.5 million euros, three hundred men", ["2500000", "300"]),
        ("version 3.1.2, at 10:30", ["3.1.2", "10:30"]),
        ("one hundred or one million", ["100", "1000000"]),
        ("the 21st century, utf8, v2", ["21"]),
        ("-5 degrees, 41.3 %", ["-5", "41.3"]),
        ("two thousand five hundred", ["2500"]),
    ],
)
def test_numbers_are_read_whatever_their_spelling(text: str, numbers: list[str]) -> None:
    assert [fact.values[0] for fact in read(text).of(FactKind.NUMBER)] == numbers


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("on 2023-03-05", [("2023", "3", "5")]),
        ("on March 5, 2023 and on the 6th of May 2024", [("2023", "3", "5"), ("2024", "5", "6")]),
        ("in March 2023", [("2023", "3", "")]),
        ("on Sept. 9", [("", "9", "9")]),
        ("in 1999 and the 1950s", [("1999", "", ""), ("1950", "", "")]),
        ("you may march", []),
    ],
)
def test_dates_are_read_with_what_they_say(text: str, dates: list[tuple[str, str, str]]) -> None:
    assert [fact.values for fact in read(text).of(FactKind.DATE)] == dates


def test_names_are_capitalised_words_that_do_not_open_a_sentence_alone() -> None:
    assert names_in("The firm of Ada Lovelace. Later it moved to Bonn in May 2020.") == ["ada", "lovelace", "bonn"]
    assert names_in("Ada Lovelace set max_retries on HTTP2.") == ["ada", "lovelace", "max_retries", "http2"]


SOURCE = "The first shop of Ada Lovelace opened on 5 March 2023 in Bonn with 1,200 books."


@pytest.mark.parametrize(
    ("claim", "kind"),
    [
        ("The shop of Ada opened in March 2023 with 1200 books in Bonn.", None),
        ("It opened on 2023-03-05.", None),
        ("It opened with about 1,190 books.", None),
        ("It opened with 1,300 books.", FactKind.NUMBER),
        ("It opened with about 1,300 books.", FactKind.NUMBER),
        ("It opened with 1,200 lamps and 5 books.", FactKind.NUMBER),
        ("It opened on 6 March 2023.", FactKind.DATE),
        ("It opened in April 2023.", FactKind.DATE),
        ("It opened in Berlin.", FactKind.NAME),
        ("The first shop was closed in Bonn.", FactKind.DIRECTION),
        ("The last shop opened in Bonn.", FactKind.DIRECTION),
        ("It never opened in Bonn.", FactKind.NEGATION),
        ("The first office of Ada Lovelace opened in Bonn.", FactKind.WORD),
        ("The first office of Ada Lovelace started in Bonn.", None),
        ("Instead Charles opened the first shop.", FactKind.NAME),
        ("Neither did Ada Lovelace open the shop.", FactKind.NEGATION),
    ],
)
def test_what_a_claim_says_and_its_source_does_not(claim: str, kind: FactKind | None) -> None:
    found = discrepancies(read(claim), [read(SOURCE)])
    assert [each.kind for each in found] == ([] if kind is None else [kind])


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("The UN met in Geneva.", "The United Nations met in Geneva."),
        ("The United Nations met in Geneva.", "The UN met in Geneva."),
        ("An Indian firm won.", "A firm in India won."),
        ("It isn't supported.", "It is unsupported."),
        ("Set MAX_SIZE and MAX_AGE.", "With MAX_SIZE and MAX_AGE, old files go."),
        ("Instead Rust has an option.", "As such, Rust has an option."),
        ("An ABC may be abstract.", "ABCs may be abstract."),
        ("Neither do annual physicals.", "Annual physicals do not require an authorization."),
    ],
)
def test_other_words_for_the_same_are_no_discrepancy(claim: str, source: str) -> None:
    assert discrepancies(read(claim), [read(source)]) == ()


def test_a_negation_of_the_source_that_a_claim_drops_is_named() -> None:
    (found,) = discrepancies(read("Files are removed from backups."), [read("Files are not removed from backups.")])
    assert (found.kind, found.text, found.instead) == (FactKind.NEGATION, "", "not")


@pytest.mark.parametrize(
    "source",
    [
        "It is not true that foxes hunt mice by night.",
        "Never say that foxes hunt mice by night.",
        "Nobody believes that foxes hunt mice by night.",
        "Foxes no longer hunt mice by night.",
        "Foxes hunt mice by night no more.",
        "Owls sleep, and foxes hunt mice by night no longer, as all say.",
    ],
)
def test_what_denies_a_whole_statement_is_a_negation(source: str) -> None:
    (found,) = discrepancies(read("Foxes hunt mice by night."), [read(source)])
    assert (found.kind, found.text) == (FactKind.NEGATION, "")
    assert discrepancies(read(source), [read("Foxes do not hunt mice by night.")]) == ()


@pytest.mark.parametrize("source", ["Foxes, no birds at all, hunt mice.", "Foxes hunt mice, no more than two."])
def test_what_denies_something_else_is_none(source: str) -> None:
    assert discrepancies(read("Foxes hunt mice."), [read(source)]) == ()


def test_what_is_not_only_or_not_limited_to_something_is_no_negation() -> None:
    for said in ("not limited to", "not only", "not just"):
        assert discrepancies(read("Files include letters."), [read(f"Files include, {said} letters.")]) == ()


@pytest.mark.parametrize("word", ["hundred", "dozen", "million"])
def test_a_number_in_words_has_an_end(word: str) -> None:
    numbers = read(f"{word} " * 5000).of(FactKind.NUMBER)
    assert len(numbers) > 100
    assert max(len(fact.values[0]) for fact in numbers) < 100


def test_a_long_text_is_read_in_time_that_grows_with_its_length() -> None:
    assert growth(lambda count: "Ann has mice and 3 hens " * count, read, 500) < LINEAR
