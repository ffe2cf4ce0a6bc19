"""Which statements cannot both hold."""

import time

import pytest

from benchmarks.quality_sets.contradictions import FILES, precision_and_recall, read_pairs
from groundwire.kernel.contradictions import contradiction


@pytest.mark.parametrize(
    ("newer", "older", "values"),
    [
        ("The deadline was moved to 20 May.", "The deadline is 12 May.", ("20 May", "12 May")),
        ("I moved to Hamburg.", "I live in Berlin.", ("Hamburg", "Berlin")),
        ("The team has nine members.", "The team has seven members.", ("nine", "seven")),
        ("The user prefers long answers.", "The user prefers short answers.", ("long", "short")),
    ],
)
def test_what_differs_is_told_from_both_sides(newer: str, older: str, values: tuple[str, str]) -> None:
    for one, other, (text, instead) in ((newer, older, values), (older, newer, values[::-1])):
        found = contradiction(one, other)
        assert found is not None
        assert found.text.strip(".") == text
        assert found.instead.strip(".") in {instead, instead[:-1]}


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("I gave up coffee.", "I drink three coffees a day."),
        ("I can't stand olives.", "I love olives."),
        ("We've moved from Leeds to York.", "We live in Leeds."),
        ("The stand-up was moved to 10:00.", "The stand-up is at 14:00."),
        ("Ada prefers green tea in the morning now.", "Ada prefers black coffee in the morning."),
    ],
)
def test_a_state_that_has_ended_contradicts_the_state(newer: str, older: str) -> None:
    assert contradiction(newer, older) is not None
    assert contradiction(older, newer) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I work out on Mondays.", "I work out on Thursdays."),
        ("I've been to Japan twice.", "I've been to Korea once."),
        ("Ada prefers tea in the morning.", "Ada prefers wine in the evening."),
        ("I can't stand olives.", "I love anchovies."),
        ("Ada is married to Tim.", "Ben is married to Tim."),
        ("Backups of Falcon are encrypted.", "Backups of Onyx are encrypted."),
        ("Project Falcon stores its data in Redis.", "Project Onyx stores its data in Redis."),
    ],
)
def test_what_can_hold_beside_the_other_is_no_contradiction(one: str, other: str) -> None:
    assert contradiction(one, other) is None


@pytest.mark.parametrize(("file", "least_recall"), list(zip(FILES, (0.9, 0.75), strict=True)))
def test_the_rules_hold_on_the_pairs_that_they_were_not_made_on(file: str, least_recall: float) -> None:
    pairs = read_pairs(file)[1::2]
    assert (len(pairs), sum(label for label, _, _ in pairs)) == (50, 25)
    precision, recall = precision_and_recall(pairs)
    assert precision >= 0.9
    assert recall >= least_recall


def test_long_texts_take_no_time() -> None:
    def seconds(repeats: int) -> float:
        text = "The limit of the queue is 30 and Ada lives not in Berlin but in Rome. " * repeats
        began = time.process_time()
        contradiction(text, text.replace("30", "40"))
        return time.process_time() - began

    assert seconds(400) < 4 * max(seconds(8), 0.05)
