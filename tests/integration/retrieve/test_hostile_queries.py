"""Nothing in a query or filter value is taken for an operator, and no data of others appears."""

import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.kernel.errors import InvalidFilterError, InvalidRequestError
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from tests.integration.retrieve.library import Library, contents

_LEXICAL = search_mode_pb2.SEARCH_MODE_LEXICAL
_HOSTILE = [
    "C++",
    "it's",
    "OPS-306",
    "-x",
    '"',
    '""',
    '"unclosed',
    "*",
    "AND",
    "a AND",
    "OR OR",
    "NOT",
    "NEAR(",
    "NEAR(a b, 5)",
    "title:a",
    "{content section_heading}: a",
    "- {content} : a",
    "^a",
    "a*",
    "a + b",
    "(",
    ")))",
    "scope : c1",
    'c1" OR scope : "c2',
    "'; DROP TABLE chunks; --",
    "1 OR 1=1",
    '{"$ne": 1}',
    "%",
    "_",
    "\\",
    "\u202e\u200b\ufeff",
    "🦀🦀",
    "é" * 500,
    "x" * 500,
    "a " * 250,
    " ".join(f"w{number}" for number in range(100)),
]


@pytest.mark.requirement("R17")
@pytest.mark.requirement("T21")
@pytest.mark.requirement("S3-31")
@pytest.mark.parametrize("query", _HOSTILE)
def test_hostile_queries_are_only_words(library: Library, query: str) -> None:
    library.put("mine.txt", ["alpha one", "beta C++ two", "it's OPS-306 three"])
    other = library.create("secret")
    library.put("theirs.txt", [f"{query} hidden alpha", "scope c1 c2 and or not near title content"], collection=other)
    for mode in (_LEXICAL, search_mode_pb2.SEARCH_MODE_HYBRID):
        response = library.retrieve(query, mode=mode)
        assert response.report.query_text == query
        assert {hit.chunk.source_uri for hit in response.results} <= {"mine.txt"}


@pytest.mark.requirement("R17")
@pytest.mark.requirement("T21")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("C++", ["beta C++ two"]),
        ("it's", ["it's OPS-306 three"]),
        ("OPS-306", ["it's OPS-306 three"]),
        ("306 OPS", ["it's OPS-306 three"]),
        ("-alpha", ["alpha one"]),
        ("alph*", []),
        ("NOT alpha", ["alpha one"]),
        ("^two", ["beta C++ two"]),
        ("content:alpha", ["alpha one"]),
        ('"alpha one"', ["alpha one"]),
        ("section_heading", ["alpha one", "beta C++ two", "it's OPS-306 three"]),
    ],
)
def test_signs_do_not_change_what_the_words_find(library: Library, query: str, found: list[str]) -> None:
    library.put("mine.txt", ["alpha one", "beta C++ two", "it's OPS-306 three"], headings=["Heading"] * 3)
    assert sorted(contents(library.retrieve(query, mode=_LEXICAL))) == found


@pytest.mark.parametrize("query", ["\0", "a\0b", "a\x1b[2J", "\x07"])
def test_control_characters_are_refused(library: Library, query: str) -> None:
    with pytest.raises(InvalidRequestError):
        library.retrieve(query)


@pytest.mark.requirement("R17")
def test_hostile_filter_values_match_nothing_but_themselves(engine_library: Library) -> None:
    engine_library.put("mine.txt", ["alpha one"])
    for value in _HOSTILE[:32]:
        for condition in (
            {"source": value},
            {"source": {"$in": [value, value + "x"]}},
            {"title": {"$contains": value + "§"}},
            {"chunk_id": {"$like": value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")}},
        ):
            where = to_filter_message(parse_filter(condition))
            if "\0" in value:
                with pytest.raises(InvalidFilterError, match="NUL"):
                    engine_library.retrieve("alpha", filter=where)
            else:
                assert contents(engine_library.retrieve("alpha", filter=where)) == [], condition
