"""Claims bound to sources."""

from datetime import UTC, datetime

import pytest

from groundwire.answer.evidence import Markup, Source
from groundwire.answer.ground_text import ground_response
from groundwire.answer.grounding.claims import split_claims
from groundwire.answer.grounding.grounder import (
    LITERAL_SUPPORT,
    BoundSource,
    GroundedClaim,
    Match,
    TextComparison,
    Verdict,
)
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CallCancelledError, InvalidRequestError
from tests.unit.answer.builders import ground, make_passage


def test_what_stands_there_letter_for_letter_is_found_at_its_place() -> None:
    passage = make_passage("Überall steht: The fox hunts at night. It sleeps by day.", start=40, start_byte=44)
    (grounded,) = ground("The fox hunts at night.", passage)
    (bound,) = grounded.sources
    assert (grounded.verdict, bound.match, bound.similarity) == (Verdict.SUPPORTED, Match.EXACT, 1.0)
    assert bound.source.quote == "The fox hunts at night."
    assert (bound.source.span.start, bound.source.span.start_byte) == (55, 60)


def test_marks_line_breaks_and_case_do_not_matter_and_the_quote_is_the_stored_text() -> None:
    passage = make_passage("Note that **the fox\nhunts** mice at [night](n.md), mostly.", markup=Markup.MARKDOWN)
    (grounded,) = ground("The fox hunts mice at night.", passage)
    (bound,) = grounded.sources
    assert (grounded.verdict, bound.match) == (Verdict.SUPPORTED, Match.NORMALIZED)
    assert bound.source.quote == "the fox\nhunts** mice at [night"


def test_a_claim_may_rest_on_several_sentences_of_a_document() -> None:
    passage = make_passage("The fox hunts mice at night. Rain falls. The same fox raises four cubs in a den.")
    (grounded,) = ground("The fox hunts mice at night raising four cubs.", passage)
    assert grounded.verdict is Verdict.SUPPORTED
    assert [each.source.quote for each in grounded.sources] == [
        "The fox hunts mice at night.",
        "The same fox raises four cubs in a den.",
    ]
    assert {each.match for each in grounded.sources} == {Match.SEMANTIC}


def test_a_row_of_a_table_says_what_its_columns_are_called() -> None:
    table = "| Profile | Overlap | Smallest chunk |\n|---|---|---|\n| general | none | 20 tokens |\n"
    passage = make_passage(f"{table}| documents | 15 % | 100 tokens |\n", markup=Markup.MARKDOWN)
    (grounded,) = ground("The documents profile has an overlap of 15 %.", passage)
    assert grounded.verdict is Verdict.SUPPORTED
    assert [each.source.quote for each in grounded.sources] == ["| documents | 15 % | 100 tokens |"]


@pytest.mark.requirement("S1-101", "S1-106")
def test_each_further_document_that_says_the_same_adds_a_source_and_support() -> None:
    first = make_passage("The fox hunts mice at night.", rank=1)
    second = make_passage("At night, the fox hunts mice.", rank=2)
    (alone,) = ground("The fox hunts mice at night.", first)
    (both,) = ground("The fox hunts mice at night.", second, first)
    assert [each.source.passage.document_id for each in both.sources] == ["doc_1", "doc_2"]
    assert 0.9 < alone.support < both.support <= 1.0
    more = [make_passage("The fox hunts mice at night.", rank=rank) for rank in range(1, 5)]
    (three,) = ground("The fox hunts mice at night.", *more)
    assert [each.source.passage.document_id for each in three.sources] == ["doc_1", "doc_2", "doc_3"]


def test_a_document_that_says_otherwise_is_named_with_what_it_says_the_newest_first() -> None:
    old = make_passage("The search times out after 20 seconds.", rank=1, date_created=datetime(2020, 1, 1, tzinfo=UTC))
    new = make_passage("The search times out after 60 seconds.", rank=2, date_created=datetime(2024, 1, 1, tzinfo=UTC))
    newest = make_passage(
        "The search never times out after 20 seconds.", rank=3, date_created=datetime(2025, 1, 1, tzinfo=UTC)
    )
    (grounded,) = ground("The search times out after 20 seconds.", old, new, newest)
    assert grounded.verdict is Verdict.DISPUTED
    assert [each.source.passage.document_id for each in grounded.sources] == ["doc_1"]
    assert [(each.source.passage.document_id, each.discrepancy.instead) for each in grounded.opposing] == [
        ("doc_3", "never"),
        ("doc_2", "60"),
    ]
    (contradicted,) = ground("The search times out after 20 seconds.", new)
    assert contradicted.verdict is Verdict.CONTRADICTED
    assert contradicted.opposing[0].source.quote == "The search times out after 60 seconds."


def test_a_long_sentence_that_has_the_words_of_a_claim_and_a_negation_does_not_oppose_it() -> None:
    refusal = make_passage("A refusal has a confidence of 0.", rank=1)
    listing = make_passage(
        "The keys of the output are answer, grounded, confidence, citations, generator, session and message,"
        " where grounded says that it is no refusal, related the number of a question, and 0 stands for unknown.",
        rank=2,
    )
    (grounded,) = ground("A refusal has a confidence of 0.", refusal, listing)
    assert (grounded.verdict, grounded.opposing) == (Verdict.SUPPORTED, ())


def test_a_further_document_counts_half_because_documents_copy_one_another() -> None:
    (claim,) = ground(
        "The fox hunts mice at night.", *(make_passage("The fox hunts mice at night.", rank=rank) for rank in (1, 2))
    )
    assert claim.support == pytest.approx(1 - (1 - LITERAL_SUPPORT) * (1 - LITERAL_SUPPORT / 2))


def test_a_claim_rests_on_at_most_three_sentences_of_a_document() -> None:
    passage = make_passage("The fox hunts small mice. It sleeps in dens. It swims in lakes. It climbs tall oaks.")
    (claim,) = ground("The fox hunts small mice, sleeps in dens, swims in lakes, climbs tall oaks.", passage)
    assert len(claim.sources) == 3


def test_of_equal_sentences_the_one_beside_the_closest_supports_a_claim() -> None:
    far = make_passage("It eats berries in autumn.", rank=1)
    near = make_passage(
        "The fox hunts mice at night. It eats berries in autumn.", start=500, rank=2, document_id="doc_1"
    )
    (claim,) = ground("The fox hunts mice at night and eats berries in autumn.", far, near)
    assert [bound.source.passage.rank for bound in claim.sources] == [2, 2]


@pytest.mark.parametrize(
    ("text", "other", "verdict"),
    [
        (
            "The search times out after 20 seconds.",
            "The upload times out after 60 seconds.",
            Verdict.UNSUPPORTED,
        ),
        (
            "The long stored search of pages times out after 20 seconds.",
            "The stored search of pages times out after 60 seconds.",
            Verdict.CONTRADICTED,
        ),
    ],
    ids=["of something else", "of the same"],
)
def test_what_says_otherwise_has_nearly_all_other_words_of_the_claim(text: str, other: str, verdict: Verdict) -> None:
    (claim,) = ground(text, make_passage(other), make_passage("A long day ends.", rank=2))
    assert claim.verdict is verdict


def test_what_says_otherwise_without_a_date_comes_last_and_the_better_hit_first() -> None:
    text = "The search times out after 60 seconds."
    dated = make_passage(text, rank=3, date_created=datetime(2020, 1, 1, tzinfo=UTC))
    (claim,) = ground(
        "The search times out after 20 seconds.", make_passage(text, rank=2), make_passage(text, rank=1), dated
    )
    assert [opposing.source.passage.rank for opposing in claim.opposing] == [3, 1, 2]


@pytest.mark.parametrize(("text", "match"), [("Foxes sleep.", Match.EXACT), ("```\nsleep\n```", Match.SEMANTIC)])
def test_two_words_are_found_literally_and_one_is_not(text: str, match: Match) -> None:
    (claim,) = ground(text, make_passage("Foxes sleep. They do so by day."))
    assert claim.closest is not None
    assert claim.closest.match is match


def test_what_a_sentence_denies_is_not_found_literally_in_it() -> None:
    denial = make_passage("It does not mean that the search times out after 20 seconds.")
    (claim,) = ground("The search times out after 20 seconds.", denial)
    assert claim.verdict is Verdict.CONTRADICTED


def test_what_no_passage_speaks_of_is_unsupported_and_what_claims_nothing_needs_none() -> None:
    thanks, claim = ground("Thanks for asking! Whales sing below the ice.", make_passage("The fox hunts at night."))
    assert (thanks.verdict, thanks.support, thanks.sources) == (Verdict.NOT_NEEDED, 0.0, ())
    assert (claim.verdict, claim.sources) == (Verdict.UNSUPPORTED, ())
    assert claim.closest is not None
    (without,) = ground("Whales sing below the ice.")
    assert (without.verdict, without.support, without.closest) == (Verdict.UNSUPPORTED, 0.0, None)


def test_a_name_may_stand_in_the_title_instead_of_the_sentence() -> None:
    passage = make_passage("It was founded by two brothers in a garage.", title="Kestrel")
    (named,) = ground("Kestrel was founded by two brothers in a garage.", passage)
    (foreign,) = ground("The firm Merlin was founded by two brothers in a garage.", passage)
    assert (named.verdict, foreign.verdict) == (Verdict.SUPPORTED, Verdict.UNSUPPORTED)


def test_a_cancelled_call_stops() -> None:
    budget = Budget()
    budget.cancel()
    claims = split_claims("The fox hunts at night.")
    with pytest.raises(CallCancelledError):
        TextComparison(claims, [[make_passage("The fox.")]], budget)


def test_a_text_whose_citations_do_not_fit_into_a_response_is_refused() -> None:
    (claim,) = split_claims("The fox hunts at night.")
    grounded = []
    for rank in range(1, 51):
        passage = make_passage("a" * 70_000, rank=rank)
        bound = BoundSource(Source(passage, passage.span, passage.content), Match.EXACT, 1.0)
        grounded.append(GroundedClaim(claim, Verdict.SUPPORTED, 0.9, (bound,)))
    with pytest.raises(InvalidRequestError) as caught:
        ground_response("docs", grounded, ())
    assert [each.field for each in caught.value.violations] == ["text"]
    assert len(ground_response("docs", grounded[:40], ()).citations) == 40
