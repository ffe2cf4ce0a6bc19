"""Filters by the words of a question: dates, values, authors, tags, pages, sections, numbers; and nothing else."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.collection import FieldDescription, FieldType
from groundwire.kernel.filter_parsing import filter_to_json
from groundwire.retrieve.self_query.dates import find_date_range
from groundwire.retrieve.self_query.extractors import to_extraction
from groundwire.retrieve.self_query.questions import BUILT_IN_REGISTRY, Extraction, Question
from groundwire.retrieve.self_query.rules import extract_by_rules
from tests.growth import LINEAR, growth

_ASKED = datetime(2025, 2, 15, 12, tzinfo=UTC)
_TODAY = _ASKED.date()

COMPANY = (
    FieldDescription("department", "Department that made the document", FieldType.STRING),
    FieldDescription("date", "Creation date", FieldType.TIME),
    FieldDescription("category", "Kind of document", FieldType.STRING, ("report", "memo", "contract", "email")),
    FieldDescription("review_date", "When it was reviewed", FieldType.TIME),
    FieldDescription("importance", "1 to 5", FieldType.INTEGER),
    FieldDescription("rating", "0 to 5", FieldType.NUMBER),
    FieldDescription("is_public", "Whether everyone may read it", FieldType.BOOLEAN),
)
VOCABULARY = {
    "department": ("finance", "legal", "human resources", "it"),
    "creators": ("Klabnik, Steve", "Carol Nichols", "Ada Lovelace", "Simone de Beauvoir", "Simone Weil"),
    "tags": ("rust", "Release-Notes", "quarterly"),
    "project": ("apollo", "gemini"),
    "chapter": ("Chapter 4: Ownership", "Chapter 14: Crates", "Traits"),
    "section": ("Lifetimes", "References"),
}


def _ask(text: str, *, described: bool = True, fields: tuple[FieldDescription, ...] | None = None) -> Extraction:
    chosen = fields or (COMPANY if described else BUILT_IN_REGISTRY)
    return extract_by_rules(Question(text, _ASKED, chosen, described, VOCABULARY))


def _where(text: str, **options: bool) -> object:
    found = _ask(text, **options).where  # type: ignore[arg-type]  # described only
    return None if found is None else filter_to_json(found)


@pytest.mark.requirement("S1-38")
def test_the_sentence_of_the_source_gives_its_filter() -> None:
    found = _ask("Show me finance reports from Q3 2024")
    assert found.semantic_query == "finance reports"
    assert found.field_names == ("department", "date")
    assert found.where is not None
    assert filter_to_json(found.where) == {
        "$and": [
            {"department": {"$eq": "finance"}},
            {"$and": [{"date": {"$gte": "2024-07-01"}}, {"date": {"$lt": "2024-10-01"}}]},
        ]
    }


@pytest.mark.requirement("S1-38")
@pytest.mark.parametrize(
    ("text", "first", "end"),
    [
        ("reports of Q3 2024", "2024-07-01", "2024-10-01"),
        ("2024 Q1 numbers", "2024-01-01", "2024-04-01"),
        ("numbers of Q1", "2025-01-01", "2025-04-01"),
        ("numbers of Q2", "2024-04-01", "2024-07-01"),
        ("in the third quarter of 2023", "2023-07-01", "2023-10-01"),
        ("in the 1st quarter of 2023", "2023-01-01", "2023-04-01"),
        ("in the 2nd quarter of 2023", "2023-04-01", "2023-07-01"),
        ("in the 3rd quarter of 2023", "2023-07-01", "2023-10-01"),
        ("in the 4th quarter of 2023", "2023-10-01", "2024-01-01"),
        ("H2 2022 results", "2022-07-01", "2023-01-01"),
        ("the first half of 2024", "2024-01-01", "2024-07-01"),
        ("in 2021", "2021-01-01", "2022-01-01"),
        ("during March 2024", "2024-03-01", "2024-04-01"),
        ("in Dec. 2023", "2023-12-01", "2024-01-01"),
        ("on July 4, 2024", "2024-07-04", "2024-07-05"),
        ("on 4 July 2024", "2024-07-04", "2024-07-05"),
        ("2024-02-29", "2024-02-29", "2024-03-01"),
        ("since 2023", "2023-01-01", None),
        ("from 2020 onwards", "2020-01-01", None),
        ("after 2024-05-01", "2024-05-02", None),
        ("before June 2024", None, "2024-06-01"),
        ("until 2020", None, "2021-01-01"),
        ("between March 2024 and May 2024", "2024-03-01", "2024-06-01"),
        ("from 2019 to 2021", "2019-01-01", "2022-01-01"),
        ("last year", "2024-01-01", "2025-01-01"),
        ("this year", "2025-01-01", "2026-01-01"),
        ("last month", "2025-01-01", "2025-02-01"),
        ("last quarter", "2024-10-01", "2025-01-01"),
        ("last week", "2025-02-03", "2025-02-10"),
        ("yesterday", "2025-02-14", "2025-02-15"),
        ("the last 3 months", "2024-11-15", "2025-02-16"),
        ("in the past 30 days", "2025-01-16", "2025-02-16"),
        ("two years ago", "2023-01-01", "2024-01-01"),
        ("10 weeks ago", "2024-12-02", "2024-12-09"),
        ("2 quarters ago", "2024-07-01", "2024-10-01"),
        ("3 months ago", "2024-11-01", "2024-12-01"),
        ("in July", "2024-07-01", "2024-08-01"),
        ("in January", "2025-01-01", "2025-02-01"),
    ],
)
def test_stretches_of_time_are_understood(text: str, first: str | None, end: str | None) -> None:
    found = find_date_range(text, _TODAY)
    assert found is not None
    assert (found.first and found.first.isoformat(), found.end and found.end.isoformat()) == (first, end)


@pytest.mark.parametrize(
    "text",
    [
        "Rust 2021 edition",
        "chapter 2024",
        "2024-02-31",
        "in 2024-13",
        "in 2024-00",
        "version 2024.1",
        "port 2049",
        "call 2024:30",
        "may I",
        "a 1984 x",
    ],
)
def test_numbers_that_are_no_times_stay_what_they_are(text: str) -> None:
    assert find_date_range(text, _TODAY) is None


@pytest.mark.parametrize("number", ["9" * 24, "-" + "9" * 24, "9" * 5000, "9" * 400 + ".5"])
@pytest.mark.parametrize("name", ["importance", "rating"])
def test_numbers_that_no_field_holds_make_no_filter(name: str, number: str) -> None:
    assert _where(f"{name} at least {number} reports") is None
    assert _where(f"{name} at least 12 reports") == {name: {"$gte": 12}}


def test_a_number_that_no_page_has_makes_no_filter() -> None:
    assert _where("see page 1234567", described=False) is None


def test_a_question_of_many_years_takes_linear_time() -> None:
    assert growth(lambda size: "2024 " * size, lambda text: find_date_range(text, _TODAY), 400) < LINEAR


def test_days_that_no_calendar_has_do_no_harm() -> None:
    assert find_date_range("the last 9999 years", _TODAY) is None
    assert find_date_range("last month", date(2025, 1, 31)) == find_date_range("last month", date(2025, 1, 1))
    leap = find_date_range("the last 12 months", date(2024, 2, 29))
    assert leap is not None
    assert leap.first == date(2023, 2, 28)


@pytest.mark.requirement("S1-39")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a memo of the legal team", {"$and": [{"category": {"$eq": "memo"}}, {"department": {"$eq": "legal"}}]}),
        ("contracts, not memo", {"category": {"$ne": "memo"}}),
        ("report or memo", {"category": {"$in": ["report", "memo"]}}),
        ("HUMAN-RESOURCES handbook", {"department": {"$eq": "human resources"}}),
        ("what is it about", None),
        (
            "reviewed in 2024",
            {"$and": [{"review_date": {"$gte": "2024-01-01"}}, {"review_date": {"$lt": "2025-01-01"}}]},
        ),
        ("importance at least 4", {"importance": {"$gte": 4}}),
        ("importance: 5", {"importance": {"$eq": 5}}),
        ("rating above 3.5", {"rating": {"$gt": 3.5}}),
        ("importance of 4.5", None),
        ("public papers", {"is_public": {"$eq": True}}),
        ("not public papers", {"is_public": {"$eq": False}}),
        ("financial planning", None),
        ("Who can finance a house?", None),
        ("Can it be legal to copy it?", None),
        ("documents that are legal", {"department": {"$eq": "legal"}}),
        ("department finance", {"department": {"$eq": "finance"}}),
        ("by Steve Klabnik", None),
    ],
)
def test_described_fields_and_no_others_are_used(text: str, expected: object) -> None:
    assert _where(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("articles by Steve Klabnik", {"creators": {"$eq": "Klabnik, Steve"}}),
        ("written by Nichols", {"creators": {"$eq": "Carol Nichols"}}),
        ("by Nobody Known", None),
        ("papers by Simone de Beauvoir on ethics", {"creators": {"$eq": "Simone de Beauvoir"}}),
        ("notes tagged rust", {"tags": {"$contains": "rust"}}),
        ("everything with tag release-notes", {"tags": {"$contains": "Release-Notes"}}),
        ("#quarterly numbers", {"tags": {"$contains": "quarterly"}}),
        ("how to learn rust", None),
        ("on page 12", {"page_numbers": {"$eq": 12}}),
        ("pages 5-9", {"$and": [{"page_numbers": {"$gte": 5}}, {"page_numbers": {"$lte": 9}}]}),
        ("pages 5-1234567", None),
        ("page 1234567", None),
        ("after page 10", {"page_numbers": {"$gt": 10}}),
        ("What does chapter 4 say?", {"chapter": {"$eq": "Chapter 4: Ownership"}}),
        ("the section on lifetimes", {"section": {"$eq": "Lifetimes"}}),
        ("chapter 99", None),
        ("plans of project apollo", {"project": {"$eq": "apollo"}}),
        ("the gemini project", {"project": {"$eq": "gemini"}}),
        ("apollo landed", None),
        ("in 2024", {"$and": [{"date_created": {"$gte": "2024-01-01"}}, {"date_created": {"$lt": "2025-01-01"}}]}),
    ],
)
def test_without_descriptions_the_built_in_fields_need_a_word_that_names_them(text: str, expected: object) -> None:
    assert _where(text, described=False) == expected


STATUS = (
    FieldDescription("status", "Status of the PEP", FieldType.STRING, ("Draft", "Final", "Active")),
    FieldDescription("type", "Kind of PEP", FieldType.STRING, ("Process", "Informational")),
)


@pytest.mark.requirement("S1-39")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How do I draft a PEP?", None),
        ("What is the final statement of a loop?", None),
        ("How does the import process work?", None),
        ("Which PEPs are active?", {"status": {"$eq": "Active"}}),
        ("draft PEPs about typing", {"status": {"$eq": "Draft"}}),
        ("status final", {"status": {"$eq": "Final"}}),
        ("informational PEPs", {"type": {"$eq": "Informational"}}),
    ],
)
def test_an_everyday_word_is_a_value_only_beside_its_field_or_what_the_documents_are(
    text: str, expected: object
) -> None:
    found = _ask(text, fields=STATUS).where
    assert (None if found is None else filter_to_json(found)) == expected


@pytest.mark.parametrize(
    ("text", "semantic"),
    [
        ("Show me finance reports from Q3 2024", "finance reports"),
        ("What changed in the borrow checker since 2023?", "What changed in the borrow checker ?"),
        ("in 2024", "in 2024"),
        ("Show me what happened last year", "what happened"),
        ("nothing to filter", "nothing to filter"),
    ],
)
def test_what_the_filter_says_is_not_searched_for(text: str, semantic: str) -> None:
    assert _ask(text).semantic_query == semantic


@given(st.text(max_size=200))
def test_any_text_gives_an_extraction_with_described_fields_only(text: str) -> None:
    if not text.strip():
        return
    found = _ask(text)
    assert found.semantic_query.strip()
    assert set(found.field_names) <= {field.name for field in COMPANY}


def _written(conditions: object, query: object = "reports") -> Extraction:
    return to_extraction(
        {"query": query, "conditions": conditions},
        Question("reports", _ASKED, COMPANY, is_described=True, vocabulary=VOCABULARY),
    )


@pytest.mark.requirement("S1-39")
def test_conditions_of_a_model_become_a_filter() -> None:
    found = _written(
        [
            {"field": "department", "operator": "eq", "value": "finance"},
            {"field": "date", "operator": "gte", "value": "2024-07-01"},
            {"field": "category", "operator": "in", "value": ["Report", "memo"]},
            {"field": "category", "operator": "nin", "value": ["email"]},
            {"field": "importance", "operator": "gt", "value": 3},
        ]
    )
    assert found.where is not None
    assert filter_to_json(found.where) == {
        "$and": [
            {"department": {"$eq": "finance"}},
            {"date": {"$gte": "2024-07-01"}},
            {"category": {"$in": ["report", "memo"]}},
            {"category": {"$nin": ["email"]}},
            {"importance": {"$gt": 3}},
        ]
    }
    assert found.field_names == ("department", "date", "category", "importance")


@pytest.mark.requirement("S1-40")
@pytest.mark.parametrize(
    "written",
    [
        None,
        [],
        "text",
        {"conditions": []},
        {"query": "q", "conditions": [], "sql": "DROP TABLE"},
        {"query": 5, "conditions": []},
        {"query": "q", "conditions": {}},
        {"query": "q", "conditions": [{}]},
        {"query": "q", "conditions": [{"field": "colour", "operator": "eq", "value": "red"}]},
        {"query": "q", "conditions": [{"field": ["date"], "operator": "eq", "value": "red"}]},
        {"query": "q", "conditions": [{"field": "department", "operator": "$where", "value": "x"}]},
        {"query": "q", "conditions": [{"field": "department", "operator": ["eq"], "value": "x"}]},
        {"query": "q", "conditions": [{"field": "department", "operator": "gt", "value": "x"}]},
        {"query": "q", "conditions": [{"field": "department", "operator": "eq", "value": ""}]},
        {"query": "q", "conditions": [{"field": "department", "operator": "eq", "value": "x" * 600}]},
        {"query": "q", "conditions": [{"field": "category", "operator": "eq", "value": "novel"}]},
        {"query": "q", "conditions": [{"field": "date", "operator": "eq", "value": "soon"}]},
        {"query": "q", "conditions": [{"field": "date", "operator": "eq", "value": "2024-07-01T10:00:00"}]},
        {"query": "q", "conditions": [{"field": "importance", "operator": "eq", "value": True}]},
        {"query": "q", "conditions": [{"field": "importance", "operator": "eq", "value": 1.5}]},
        {"query": "q", "conditions": [{"field": "importance", "operator": "in", "value": [2**63]}]},
        {"query": "q", "conditions": [{"field": "importance", "operator": "gte", "value": -(2**63) - 1}]},
        {"query": "q", "conditions": [{"field": "rating", "operator": "eq", "value": float("nan")}]},
        {"query": "q", "conditions": [{"field": "rating", "operator": "eq", "value": 10**400}]},
        {"query": "q", "conditions": [{"field": "department", "operator": "eq", "value": "half \ud83d"}]},
        {"query": "q", "conditions": [{"field": "department", "operator": "eq", "value": "a\0b"}]},
        {"query": "q", "conditions": [{"field": "is_public", "operator": "eq", "value": "yes"}]},
        {"query": "q", "conditions": [{"field": "category", "operator": "in", "value": []}]},
        {"query": "q", "conditions": [{"field": "category", "operator": "in", "value": "memo"}]},
        {"query": "q", "conditions": [{"field": "importance", "operator": "eq", "value": 1}] * 17},
    ],
)
def test_whatever_else_a_model_writes_is_refused_whole(written: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        to_extraction(written, Question("reports", _ASKED, COMPANY, is_described=True, vocabulary=VOCABULARY))


@pytest.mark.parametrize("query", ["r", "x" * 14])
def test_a_model_may_say_up_to_twice_as_much_as_the_question(query: str) -> None:
    assert _written([], query).semantic_query == query
    assert _written([], "x" * 15).semantic_query == "reports"


def test_a_model_may_write_the_largest_number_that_a_field_holds() -> None:
    found = _written([{"field": "importance", "operator": "lt", "value": 2**63 - 1}])
    assert found.where is not None
    assert filter_to_json(found.where) == {"importance": {"$lt": 2**63 - 1}}


@pytest.mark.parametrize("query", ["", "  ", "x" * 100, "a\0b"])
def test_a_query_that_cannot_be_searched_for_is_replaced_by_the_question(query: str) -> None:
    assert _written([], query).semantic_query == "reports"
