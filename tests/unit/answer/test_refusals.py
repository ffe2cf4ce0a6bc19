"""What a refusal says: where to look, and what came closest."""

import pytest

from groundwire.answer.answers import refusal_text
from groundwire.answer.evidence import Passage, Source, Statement
from groundwire.api.answer.v1 import answer_pb2
from tests.unit.answer.builders import make_passage

WEAK = answer_pb2.REFUSAL_REASON_WEAK_SUPPORT
ONE = make_passage("Foxes eat mice.", rank=1)
TWO = make_passage("Owls hunt at night.", rank=2)


def closest(passage: Passage, text: str = "") -> Statement:
    quote = text or passage.content
    return Statement(quote, (Source(passage, passage.span, passage.content),))


def test_what_came_closest_is_quoted_first_with_its_place() -> None:
    text, documents = refusal_text(WEAK, [ONE, TWO], 2000, closest(TWO))
    assert text == (
        "The material does not clearly answer this question. "
        'Closest to it, in 2.md (Heading): "Owls hunt at night." See also 1.md (Heading).'
    )
    assert documents == {"doc_1", "doc_2"}


def test_the_quote_stays_longer_than_other_places_and_is_never_cut() -> None:
    whole, _ = refusal_text(WEAK, [ONE, TWO], 2000, closest(TWO))
    short, documents = refusal_text(WEAK, [ONE, TWO], len(whole) - 1, closest(TWO))
    assert short.endswith('in 2.md (Heading): "Owls hunt at night."')
    assert documents == {"doc_2"}
    places, documents = refusal_text(WEAK, [ONE, make_passage("x" * 300, rank=2)], 200, closest(TWO, "Owls. " * 60))
    assert places.endswith("well enough. Closest to it: 2.md (Heading), 1.md (Heading).")
    assert documents == {"doc_1", "doc_2"}
    assert refusal_text(WEAK, [ONE], 100, closest(TWO))[0].endswith("well enough.")


@pytest.mark.parametrize(
    "said", [closest(TWO, "As [1] says."), closest(make_passage("Owls.", rank=2, source_uri="notes[3].md"))]
)
def test_nothing_in_a_refusal_reads_like_the_marker_of_a_citation(said: Statement) -> None:
    text, _ = refusal_text(WEAK, [ONE], 2000, said)
    assert "does not cover" in text
    assert "[" not in text


def test_three_places_are_named_at_most() -> None:
    passages = [make_passage("Nothing.", rank=rank) for rank in range(1, 6)]
    text, documents = refusal_text(WEAK, passages, 2000)
    assert text.endswith("Closest to it: 1.md (Heading), 2.md (Heading), 3.md (Heading).")
    assert documents == {"doc_1", "doc_2", "doc_3"}
    shorter, documents = refusal_text(WEAK, passages, len(text) - 1)
    assert shorter.endswith("Closest to it: 1.md (Heading), 2.md (Heading).")
    assert documents == {"doc_1", "doc_2"}
    assert refusal_text(WEAK, passages, len(text))[0] == text
    shortest, _ = refusal_text(WEAK, passages[:1], 2000)
    assert shortest.endswith("Closest to it: 1.md (Heading).")


@pytest.mark.parametrize(
    ("source", "heading", "named"),
    [
        ("backup.md", "backup", "backup.md"),
        ("record:abc", "What Ann said", "What Ann said"),
        ("x" * 117 + ".md", "", "x" * 117 + ".md"),
        ("x" * 118 + ".md", "", "x" * 118 + ".\u2026"),
    ],
)
def test_a_place_has_a_name_for_people_of_120_characters_at_most(source: str, heading: str, named: str) -> None:
    text, _ = refusal_text(WEAK, [make_passage("Nothing.", source_uri=source, section_heading=heading)], 2000)
    assert text.endswith(f"Closest to it: {named}.")


def test_other_refusals_quote_nothing() -> None:
    text, documents = refusal_text(answer_pb2.REFUSAL_REASON_UNSUPPORTED_CLAIMS, [ONE], 2000, closest(ONE))
    assert "Foxes" not in text
    assert documents == frozenset()
