"""The text of an answer and its markers always agree."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.answer.answers import Composer
from groundwire.answer.evidence import Closest, Statement
from groundwire.answer.extractive.generator import ExtractiveGenerator
from groundwire.answer.grounding.sentence_vectors import SentenceVectors
from groundwire.embedders.hashing import HashingEmbedder
from groundwire.rpc.workers import Workers
from tests.unit.answer.builders import LocalEmbeddings, make_passage, make_statement

_MARKER = re.compile(r" \[(\d+)\]")


@pytest.fixture
def workers() -> Iterator[Workers]:
    running = Workers(1)
    yield running
    running.close()


@pytest.mark.requirement("S1-96")
def test_markers_are_numbered_in_order_of_first_use() -> None:
    one, two = make_passage("First fact."), make_passage("Second fact. Third fact.", rank=2)
    composer = Composer("docs", 2000)
    for statement in [make_statement(two, "Third fact."), make_statement(one, "First fact.")]:
        composer.add(statement)
    assert composer.content == "Third fact. [1] First fact. [2]"
    assert [citation.quote for citation in composer.citations] == ["Third fact.", "First fact."]


def test_the_same_span_has_the_same_marker_and_two_answer_spans() -> None:
    passage = make_passage("A fact.")
    composer = Composer("docs", 2000)
    composer.add(make_statement(passage, "A fact."))
    addition = composer.add(make_statement(passage, "A fact.", "\n"))
    assert composer.content == "A fact. [1]\nA fact. [1]"
    assert addition is not None
    assert addition.citations == ()
    assert [(span.start, span.end) for span in composer.citations[0].answer_spans] == [(0, 7), (12, 19)]


def test_a_source_of_several_statements_supports_as_well_as_it_does_the_best_of_them() -> None:
    (source,) = make_statement(make_passage("A fact."), "A fact.").sources
    composer = Composer("docs", 2000)
    for assessed in (0.3, 0.8, 0.5):
        composer.add(Statement("So it is.", (replace(source, assessed=assessed),)))
    (citation,) = composer.citations
    assert citation.support_score == pytest.approx(0.8)


def test_a_source_that_is_named_twice_for_one_statement_is_cited_once() -> None:
    (source,) = make_statement(make_passage("A fact."), "A fact.").sources
    composer = Composer("docs", 2000)
    composer.add(Statement("A fact.", (source, source)))
    assert composer.content == "A fact. [1]"
    assert len(composer.citations[0].answer_spans) == 1


@pytest.mark.requirement("S1-101")
def test_a_statement_with_two_sources_has_two_markers_and_a_joint_confidence() -> None:
    one, two = make_passage("Same fact.", relevance=0.5), make_passage("Same fact.", rank=2, relevance=0.4)
    sources = (*make_statement(one, "Same fact.").sources, *make_statement(two, "Same fact.").sources)
    composer = Composer("docs", 2000)
    composer.add(Statement("Same fact.", sources))
    assert composer.content == "Same fact. [1] [2]"
    assert list(composer.claims[0].markers) == [1, 2]
    assert composer.claims[0].confidence == pytest.approx(1 - 0.5 * 0.6)


@pytest.mark.requirement("T43")
@pytest.mark.requirement("S4-06")
def test_what_does_not_fit_is_left_out_whole() -> None:
    passage = make_passage(f"{'long ' * 30}end. Short.")
    composer = Composer("docs", 30)
    assert composer.add(make_statement(passage, "Short.")) is not None
    assert composer.add(make_statement(passage, f"{'long ' * 30}end.")) is None
    assert composer.content == "Short. [1]"
    assert composer.is_cut
    assert len(composer.citations) == 1


def test_an_answer_may_be_as_long_as_its_limit() -> None:
    composer = Composer("docs", 10)
    composer.add(make_statement(make_passage("Short."), "Short."))
    assert (composer.content, composer.is_cut) == ("Short. [1]", False)


def test_a_first_statement_without_a_source_is_cut_without_a_marker() -> None:
    composer = Composer("docs", 100)
    composer.add(Statement("A" + " word" * 60, ()))
    assert (composer.content, composer.is_cut) == ("A" + " word" * 19, True)


def test_a_first_word_that_is_too_long_is_cut_within() -> None:
    passage = make_passage("x" * 200)
    composer = Composer("docs", 100)
    composer.add(make_statement(passage, passage.content))
    assert composer.content == "x" * 96 + " [1]"


def test_a_first_statement_that_is_cut_keeps_all_sources_of_its_first_chunk() -> None:
    one, other = make_passage("**A** fact. Owls hunt."), make_passage("The owls.", rank=2)
    quotes = [(one, "**A** fact."), (other, "The owls."), (one, "Owls hunt.")]
    sources = [make_statement(passage, quote).sources[0] for passage, quote in quotes]
    composer = Composer("docs", 100)
    composer.add(Statement("A" + " word" * 60, tuple(sources)))
    assert [citation.quote for citation in composer.citations] == ["**A** fact.", "Owls hunt."]


def test_the_markers_of_a_claim_ascend_whatever_the_order_of_its_sources() -> None:
    one, two = (make_statement(make_passage("A fact.", rank=rank), "A fact.") for rank in (1, 2))
    composer = Composer("docs", 2000)
    composer.add(one)
    composer.add(Statement("A fact.", (*two.sources, *one.sources)))
    assert composer.content == "A fact. [1] A fact. [2] [1]"
    assert list(composer.claims[1].markers) == [1, 2]


def test_only_a_claim_that_needs_a_source_has_a_confidence_without_one() -> None:
    composer = Composer("docs", 2000)
    for needs_source in (True, False):
        composer.add(Statement("So it is.", (), needs_source=needs_source))
    assert [claim.HasField("confidence") for claim in composer.claims] == [True, False]
    assert composer.claims[0].confidence == 0.0


def test_a_claim_of_two_sources_that_is_too_long_is_cut_to_a_quote_of_the_first() -> None:
    one, two = make_passage("A" + " word" * 60), make_passage("The" + " word" * 60, rank=2)
    sources = (*make_statement(one, one.content).sources, *make_statement(two, two.content).sources)
    composer = Composer("docs", 100)
    composer.add(Statement(one.content, sources))
    (citation,) = composer.citations
    assert composer.content == f"{citation.quote} [1]"
    assert one.content.startswith(citation.quote)


def test_a_first_statement_that_is_too_long_is_cut_at_a_word_and_still_a_quote() -> None:
    passage = make_passage("é" + " wörd" * 60, start=10, start_byte=13)
    composer = Composer("docs", 100)
    composer.add(make_statement(passage, passage.content))
    citation = composer.citations[0]
    assert len(composer.content) <= 100
    assert composer.content == f"{citation.quote} [1]"
    assert citation.quote.endswith("wörd")
    assert passage.content[: citation.span.end - 10] == citation.quote
    assert citation.span.end_byte - citation.span.start_byte == len(citation.quote.encode())


def test_a_first_statement_in_plain_text_is_cut_too_and_its_citation_stays_whole() -> None:
    passage = make_passage("**A**" + " word" * 60)
    (source,) = make_statement(passage, passage.content).sources
    other = make_passage("The" + " word" * 60, rank=2)
    composer = Composer("docs", 100)
    composer.add(Statement("A" + " word" * 60, (source, *make_statement(other, other.content).sources)))
    assert composer.content == "A" + " word" * 18 + " [1]"
    assert [citation.quote for citation in composer.citations] == [passage.content]
    assert composer.is_cut


async def test_a_sentence_of_two_chunks_that_is_too_long_is_cut_and_cites_both(workers: Workers) -> None:
    first = make_passage("Reviews of owls are held annually, in the forest by day and at sea by night, and help the")
    second = make_passage(
        "owls to grow and to find the mice that they eat.", start=first.span.end + 1, start_byte=first.span.end_byte + 1
    )
    vectors = SentenceVectors(LocalEmbeddings(HashingEmbedder(16)))
    generator = ExtractiveGenerator(vectors=vectors, workers=workers, min_support=0.0)
    (drafted,) = [batch async for batch in generator.draft("When are reviews of owls held?", [first, second])]
    assert not isinstance(drafted, Closest)
    (statement,) = drafted
    composer = Composer("docs", 120)
    composer.add(statement)
    assert composer.content == f"{first.content} owls to grow and to [1] [2]"
    assert [each.quote for each in composer.citations] == [first.content, second.content]
    # Both halves are one source, which makes the claim no surer than it is.
    assert composer.claims[0].confidence == pytest.approx(statement.sources[0].support)


async def _drafted(workers: Workers, question: str, *contents: str) -> Sequence[Statement]:
    vectors = SentenceVectors(LocalEmbeddings(HashingEmbedder(64)))
    generator = ExtractiveGenerator(vectors=vectors, workers=workers, min_support=0.0)
    passages = [make_passage(content, rank=rank) for rank, content in enumerate(contents, start=1)]
    (drafted,) = [each async for each in generator.draft(question, passages)]
    assert not isinstance(drafted, Closest)
    return drafted


async def test_words_of_a_source_that_look_like_the_name_of_its_section_stay(workers: Workers) -> None:
    said = ["Note: owls hunt mice by night.", "Note: owls hunt voles by day."]
    drafted = await _drafted(workers, "What do owls hunt?", f"# Note\n\n{said[0]} {said[1]}")
    assert [each.text for each in drafted] == said


async def test_what_another_document_says_of_the_same_name_has_it_too(workers: Workers) -> None:
    one, other = "# MAX_OWLS\n\nHow many owls hunt mice.", "# MAX_OWLS\n\nHow many owls hunt voles."
    drafted = await _drafted(workers, "Which owls hunt mice and voles?", one, other)
    assert [each.text for each in drafted] == [
        "MAX_OWLS: How many owls hunt mice.",
        "MAX_OWLS: How many owls hunt voles.",
    ]


@pytest.mark.parametrize("name", ["owlbox", "OwlBox", "OWLBOX"])
@pytest.mark.parametrize(
    "installed",
    [
        "Install the package owlbox.",
        "Install the package owlbox, import owlbox, and start owlbox.",
        "Install the package owlbox from https://owlbox.example/owlbox/owlbox/owlbox or git://owlbox.example/owlbox.",
    ],
)
async def test_a_name_in_two_words_is_found_however_it_is_typed(workers: Workers, name: str, installed: str) -> None:
    content = f"{installed} OwlBox is a server for owls. Feed your OwlBox by night."
    drafted = await _drafted(workers, f"What is {name}?", content)
    assert [each.text for each in drafted] == ["OwlBox is a server for owls."]


async def test_a_name_is_typed_as_the_material_mostly_has_it(workers: Workers) -> None:
    content = "The owlbox is a server for owls. Put the owlbox on a table. One Owlbox is enough, and an OwlBox is not."
    drafted = await _drafted(workers, "What is the OWLBOX?", content)
    assert drafted[0].text == "The owlbox is a server for owls."


async def test_what_is_said_of_a_setting_has_its_name_once(workers: Workers) -> None:
    content = "# MAX_OWLS\n\nDefault: 12 owls\n\nOwls are counted by default at night."
    drafted = await _drafted(workers, "What default has MAX_OWLS?", content)
    assert [each.text for each in drafted] == ["MAX_OWLS: Default: 12 owls", "Owls are counted by default at night."]
    assert [[source.quote for source in each.sources] for each in drafted] == [
        ["Default: 12 owls", "# MAX_OWLS"],
        ["Owls are counted by default at night."],
    ]


_SENTENCES = st.lists(
    st.text(st.sampled_from("aé👩 \u0301x"), min_size=1, max_size=60).map(lambda s: f"S{s}."), max_size=12
)


@given(_SENTENCES, st.integers(100, 300))
def test_spans_markers_and_limit_hold_for_any_statements(sentences: list[str], limit: int) -> None:
    composer = Composer("docs", limit)
    streamed = ""
    for rank, sentence in enumerate(sentences, 1):
        addition = composer.add(make_statement(make_passage(sentence, rank=rank), sentence))
        if addition is not None:
            assert addition.start == len(streamed)
            streamed += addition.text
    assert streamed == composer.content
    assert len(composer.content) <= limit
    used = list(dict.fromkeys(int(number) for number in _MARKER.findall(composer.content)))
    assert used == list(range(1, len(composer.citations) + 1))
    utf8 = composer.content.encode()
    for claim in composer.claims:
        span = claim.answer_span
        assert composer.content[span.start : span.end] == claim.text == utf8[span.start_byte : span.end_byte].decode()
