"""Queries are classified by their words, and the classes change the ranking as documented."""

import pytest

from groundwire.kernel.collection import ProfileName, SearchMode
from groundwire.kernel.query_log import QueryType
from groundwire.retrieve.queries import classify, find_section_reference
from groundwire.retrieve.ranking import RankingRules, rules_for

_CONCEPTUAL, _FACTUAL, _SECTION = QueryType.CONCEPTUAL, QueryType.FACTUAL, QueryType.SECTION_BASED


@pytest.mark.requirement("S3-03")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Why does the borrow checker reject this?", _CONCEPTUAL),
        ("Explain ownership and borrowing", _CONCEPTUAL),
        ("How do lifetimes relate to references?", _CONCEPTUAL),
        ("What is the difference between a String and a &str?", _CONCEPTUAL),
        ("What is ownership?", _CONCEPTUAL),
        ("Does a panic unwind the stack by default?", _CONCEPTUAL),
        ("Who wrote the foreword?", _FACTUAL),
        ("How many bytes does a char take?", _FACTUAL),
        ("What is the default port of the server?", _FACTUAL),
        ("In which year was it released?", _FACTUAL),
        ("OPS-306", _FACTUAL),
        ("borrow checker", _FACTUAL),
        ("What does chapter 4 say about ownership?", _SECTION),
        ("Summarize the section on lifetimes", _SECTION),
        ("what is in § 2.1", _SECTION),
        ("Appendix B operators", _SECTION),
        ('show me the "Error Handling" chapter', _SECTION),
        ("the lifetimes section", _SECTION),
        ("which chapter explains traits?", _FACTUAL),
        ("part of speech tagging", _FACTUAL),
        ("which part i like", _FACTUAL),
        ("E0382 borrow of moved value here", _FACTUAL),
        ("the next section", _FACTUAL),
    ],
)
def test_a_query_has_the_type_its_words_say(query: str, expected: QueryType) -> None:
    assert classify(query) is expected


@pytest.mark.requirement("C19")
def test_words_weigh_more_for_facts_and_vectors_for_concepts() -> None:
    factual, conceptual, unnamed = (
        rules_for(ProfileName.DOCUMENTS, SearchMode.HYBRID, None, kind, "no section named here at all")
        for kind in (_FACTUAL, _CONCEPTUAL, _SECTION)
    )
    assert factual == RankingRules(weight_shift=-0.05)
    assert conceptual == RankingRules(weight_shift=0.05, neighbours=0.2)
    assert unnamed == RankingRules()


@pytest.mark.parametrize(
    ("query", "headings", "expected"),
    [
        ("chapter 4", ["Chapter 4: Ownership"], True),
        ("chapter 4", ["4. Ownership"], True),
        ("chapter 4", ["Chapter 14: Crates"], False),
        ("chapter 4", ["Section 4"], False),
        ("§ 4", ["Chapter 4: Ownership"], True),
        ("section 4.2", ["4.2 References"], True),
        ("subsection 4.2", ["4.2 References"], True),
        ("section 4.2", ["4.20 Others"], False),
        ("Appendix B", ["Appendix B: Operators"], True),
        ("Appendix B", ["B tree"], False),
        ("part IV", ["Part IV"], True),
        ("the section on lifetimes", ["Validating References with Lifetimes"], True),
        ("the section on lifetimes", ["Traits"], False),
        ("the section on unsafe functions", ["Functions"], False),
        ("what does the section on lifetimes say about structs", ["Lifetimes"], True),
        ('the "Error Handling" chapter', ["Intro", "Error Handling"], True),
    ],
)
def test_a_named_section_means_the_headings_it_should(query: str, headings: list[str], expected: bool) -> None:
    reference = find_section_reference(query)
    assert reference is not None
    assert reference.means(headings) is expected


@pytest.mark.parametrize("ending", ["chapter 4", "definition of"])
def test_what_follows_the_first_thousand_characters_does_not_change_the_type(ending: str) -> None:
    assert classify("alpha " * 200 + ending) is classify("alpha " * 200) is _CONCEPTUAL
    assert find_section_reference("alpha " * 200 + ending) is None


@pytest.mark.parametrize("query", ["a participant", "x" * 500, "section " * 60, "§" * 500, '"' * 500, "a " * 250])
def test_odd_queries_are_classified_quickly(query: str) -> None:
    assert classify(query) in QueryType
