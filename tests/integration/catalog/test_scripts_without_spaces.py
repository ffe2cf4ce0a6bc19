"""Texts in scripts without spaces are found by their words; so are words that a sign makes another."""

from pathlib import Path

import pytest

from groundwire.kernel.chunk import MAX_CHUNK_CHARS
from groundwire.kernel.collection import Collection
from groundwire.retrieve.queries import parse_query, select_terms
from tests.catalogs import problems_of
from tests.integration.catalog.drafts import TENANT, Catalog, make_draft

QUESTIONS = Path(__file__).with_name("east_asian.tsv")
"""Language, passage, and a question that only this passage answers; written for this test."""


def _ranked(catalog: Catalog, question: str) -> list[int]:
    """Return the best chunks for a question by its words alone, as a search chooses these."""
    parsed = parse_query(question)
    frequencies = catalog.full_text.document_frequencies(TENANT, "docs", parsed.terms)
    chunk_count = catalog.full_text.live_chunks(TENANT, "docs")
    terms = select_terms(frequencies, chunk_count, max_share=0.25, max_terms=12)
    return [match.number for match in catalog.full_text.search(TENANT, "docs", terms, [], 5)]


@pytest.mark.parametrize(
    ("language", "first", "among_five"), [("zh", 0.95, 0.95), ("ja", 0.95, 1.0), ("th", 0.75, 1.0), ("ko", 0.75, 1.0)]
)
def test_questions_find_their_passages_by_words(
    catalog: Catalog, docs: Collection, language: str, first: float, among_five: float
) -> None:
    rows = [line.split("\t") for line in QUESTIONS.read_text("utf-8").splitlines()]
    _, pending = catalog.put(docs, make_draft(*(passage for _, passage, _ in rows)))
    ranks = [
        (ranked.index(number) if number in (ranked := _ranked(catalog, question)) else 5)
        for number, (spoken, _, question) in zip(pending.numbers, rows, strict=True)
        if spoken == language
    ]
    assert sum(rank == 0 for rank in ranks) >= first * len(ranks)
    assert sum(rank < 5 for rank in ranks) >= among_five * len(ranks)


@pytest.mark.parametrize(
    ("query", "passage"),
    [
        ("What did AT&T buy?", "In 2016 AT&T bought another company."),
        ("V&A", "The V&A is a museum in London."),
        ("R&D", "Our R&D has twelve engineers."),
        ("C++", "Templates are a part of C++."),
        ("C#", "LINQ came with C# 3."),
        (".NET", "The server runs on .NET."),
    ],
)
def test_a_word_that_a_sign_makes_another_finds_its_passage_first(
    catalog: Catalog, docs: Collection, query: str, passage: str
) -> None:
    others = ["At three, a T junction buys a net.", "C is not D.", "A net of R, V and C.", "Vitamin C, grade A."]
    _, pending = catalog.put(docs, make_draft(*others, passage, *others))
    assert _ranked(catalog, query)[0] == pending.numbers[len(others)]


def test_phrases_around_words_with_signs_stay(catalog: Catalog, docs: Collection) -> None:
    _, pending = catalog.put(docs, make_draft("the C++ standard library", "library of the standard", "東京都の人口"))
    found = [
        [match.number for match in catalog.full_text.search(TENANT, "docs", [], [phrase], 5)]
        for phrase in ("C++ standard library", "standard library", "東京都の", "京都市")
    ]
    assert found == [[pending.numbers[0]], [pending.numbers[0]], [pending.numbers[2]], []]


def test_a_chunk_of_characters_that_are_two_each_is_found_and_deleted(catalog: Catalog, docs: Collection) -> None:
    # Each is a ligature of two letters: 65,536 of them are more words than a chunk has characters.
    draft = make_draft("ໜ" * MAX_CHUNK_CHARS, "ຫນ and tide")
    document, pending = catalog.put(docs, draft)
    assert catalog.numbers_for(docs, "ໜໜ") == [pending.numbers[0]]
    assert problems_of(catalog.database) == []
    catalog.put(docs, make_draft("ໜໜ moon", source="b.md"))
    catalog.documents.delete(TENANT, "docs", document.document_id)
    assert len(catalog.numbers_for(docs, "ໜໜ")) == 1
