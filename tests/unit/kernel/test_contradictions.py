"""Which statements cannot both hold."""

import time

import pytest

from benchmarks.quality_sets.contradictions import precision_and_recall, read_pairs
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


def test_the_rules_hold_on_the_pairs_that_they_were_not_made_on() -> None:
    pairs = read_pairs()[1::2]
    assert (len(pairs), sum(label for label, _, _ in pairs)) == (50, 25)
    precision, recall = precision_and_recall(pairs)
    assert precision >= 0.9
    assert recall >= 0.8


def test_the_time_grows_with_the_length_alone() -> None:
    def seconds(repeats: int) -> float:
        text = "The limit of the queue is 30 and Ada lives not in Berlin but in Rome. " * repeats
        began = time.process_time()
        contradiction(text, text.replace("30", "40"))
        return time.process_time() - began

    assert seconds(40) < 40 * max(seconds(4), 0.01)
