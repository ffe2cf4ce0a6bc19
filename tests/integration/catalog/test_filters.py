"""Filters in SQL mean what the reference evaluator means."""

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, insert, select

from groundwire.catalog.dialects import BinaryJson
from groundwire.catalog.filters import chunks_matching, to_sql
from groundwire.catalog.rows import collection_key, visible_generation_keys
from groundwire.catalog.schema import chunks
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.kernel.filters import (
    And,
    Comparator,
    Comparison,
    Containment,
    Exists,
    FieldKind,
    Filter,
    Like,
    Membership,
    Not,
    Or,
    Payload,
    Scalar,
    Value,
    matches,
)
from tests.catalogs import catalogs_are, new_storage
from tests.conformance.filters import random_filter, random_payload
from tests.integration.catalog.drafts import TENANT, Catalog, make_collection, make_draft, matching

PAYLOADS = Table("payloads", MetaData(), Column("id", Integer, primary_key=True), Column("payload", BinaryJson))
HUGE = (2**63, -(2**63) - 1, 2**64, 2**70 + 1, 10**400, -(10**400))
ODD = (math.inf, -math.inf, math.nan, -0.0, 5e-324, 1e308, 0.1 + 0.2, 9007199254740993.0)
PATTERNS = ("%", "_%", "a\\%b", "\\", "%\\", "a*b", "[a]", "?", "A%", "é_", "a_c", "%\n%", "\\\\%", "a[]", "^", "*")
TEXTS = (
    "a%b",
    "a*b",
    "aXb",
    "[a]",
    "a",
    "A",
    "é!",
    "abc",
    "x\ny",
    "\\",
    "?",
    "東京",
    "🦀",
    "",
    "a[]",
    "' OR 1=1 --",
    "*",
)


@pytest.fixture
def connection(tmp_path: Path, database_kind: str) -> Iterator[Connection]:
    with catalogs_are(database_kind):
        storage = new_storage(tmp_path / "payloads.db")
    with storage.writing.begin() as opened:
        PAYLOADS.create(opened)
        yield opened
    storage.close()


def _assert_agree(connection: Connection, payloads: list[Payload], filters: list[Filter]) -> None:
    connection.execute(insert(PAYLOADS), [{"id": i, "payload": dict(each)} for i, each in enumerate(payloads)])
    for condition in filters:
        statement = select(PAYLOADS.c.id).where(to_sql(condition, PAYLOADS.c.payload)).order_by(PAYLOADS.c.id)
        expected = [i for i, each in enumerate(payloads) if matches(condition, each)]
        assert list(connection.execute(statement).scalars()) == expected, condition


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.requirement("C12")
def test_random_filters_agree_with_the_reference(connection: Connection, seed: int) -> None:
    rng = random.Random(seed)
    payloads = [random_payload(rng) for _ in range(150)]
    filters = [random_filter(rng) for _ in range(250)]
    _assert_agree(connection, payloads, filters)


def test_every_ordering_of_odd_numbers_agrees_with_the_reference(connection: Connection) -> None:
    finite = [value for value in ODD if math.isfinite(value)]
    whole = (0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63), 2**62 + 1)
    scalars: tuple[Scalar, ...] = (*finite, *whole, True, False, "1", "")
    payloads: list[Payload] = [{"f": value} for value in scalars]
    payloads += [{}, {"f": (1, 2**63 - 1)}, {"f": (0.5, 1e300)}, {"f": (True, False)}]
    payloads += [{"f": float(2**power)} for power in (53, 62, 63)]
    bounds = (*ODD, *whole, *HUGE, True, False, "1")
    filters: list[Filter] = [Comparison("f", comparator, bound) for comparator in Comparator for bound in bounds]
    filters += [Membership("f", (bound,), negated=negated) for bound in bounds for negated in (True, False)]
    filters += [Containment("f", bound, negated=negated) for bound in bounds for negated in (True, False)]
    _assert_agree(connection, payloads, filters)


def test_patterns_and_substrings_agree_with_the_reference(connection: Connection) -> None:
    payloads: list[Payload] = [{"f": text} for text in TEXTS]
    payloads += [{"f": (left, right)} for left in TEXTS for right in TEXTS[:4]]
    payloads += [{"f": 1}, {"f": True}, {}]
    filters: list[Filter] = [Like("f", pattern) for pattern in (*PATTERNS, *TEXTS)]
    filters += [Containment("f", text, negated=negated) for text in TEXTS for negated in (True, False)]
    filters += [Not(each) for each in filters]
    _assert_agree(connection, payloads, filters)


@pytest.mark.parametrize("field", ['a"b', "a.b", "a[0]", "é", "a\\b", "$", "'", "a b", "#-1", "", '"', "🦀", "\t"])
def test_a_field_name_is_a_name_whatever_its_characters(connection: Connection, field: str) -> None:
    _assert_agree(
        connection,
        [{field: 1}, {field: "x"}, {"other": 1}, {"a": (1, 2)}],
        [Exists(field), Comparison(field, Comparator.EQ, 1), Like(field, "%"), Exists(field, present=False)],
    )


def test_empty_trees_agree_with_the_reference(connection: Connection) -> None:
    _assert_agree(
        connection,
        [{"f": 1}, {}],
        [
            And(()),
            Or(()),
            Not(And(())),
            Not(Or(())),
            Membership("f", ()),
            Membership("f", (), negated=True),
            And((Or(()),)),
        ],
    )


def test_matching_finds_the_live_chunks_that_the_reference_finds(catalog: Catalog, docs: Collection) -> None:
    rng = random.Random(5)
    payloads: dict[int, Payload] = {}
    for number in range(25):
        fields = DocumentFields(
            title=rng.choice((None, "One", "Two")),
            category=rng.choice((None, "a", "b")),
            tags=tuple(rng.sample(("x", "y", "z"), rng.randrange(3))),
            project=rng.choice((None, "p")),
            metadata={"size": rng.choice((1, 1.0, "1", True)), "labels": ("k", rng.choice("mn"))},
        )
        parts = [f"part {number}.{part}" for part in range(rng.randrange(1, 4))]
        _, pending = catalog.put(docs, make_draft(*parts, source=f"{number}.md", fields=fields))
        payloads |= dict(zip(pending.numbers, pending.payloads, strict=True))
    catalog.begin(docs, make_draft("pending", source="pending.md"))
    clauses: list[Filter] = [
        Comparison("category", Comparator.EQ, "a"),
        Comparison("category", Comparator.NE, "a"),
        Comparison("sequence_num", Comparator.GT, 0),
        Comparison("size", Comparator.EQ, 1),
        Membership("tags", ("x", "z")),
        Membership("tags", ("x",), negated=True),
        Containment("labels", "m"),
        Like("title", "T%"),
        Exists("project", present=False),
        Comparison("section_title", Comparator.EQ, "Heading 1"),
        Comparison("page_numbers", Comparator.GTE, 3),
    ]
    for _ in range(80):
        some = tuple(rng.sample(clauses, rng.randrange(4)))
        condition: Filter = rng.choice((And(some), Or(some), Not(Or(some)), And((Or(some), rng.choice(clauses)))))
        expected = sorted(number for number, payload in payloads.items() if matches(condition, payload))
        assert matching(catalog, TENANT, "docs", condition) == expected, condition
        assert matching(catalog, TENANT, "docs", condition, 3) == expected[:3]


def test_a_condition_on_documents_finds_those_of_the_collection_alone(catalog: Catalog, docs: Collection) -> None:
    fields = DocumentFields(category="a")
    theirs = [make_collection("other"), make_collection("docs", "another tenant")]
    for collection in (docs, *map(catalog.collections.create, theirs)):
        catalog.put(collection, make_draft("tide", fields=fields))
    own = matching(catalog, TENANT, "docs", And(()))
    condition = Comparison("category", Comparator.EQ, "a")
    assert len(own) == 1
    assert matching(catalog, TENANT, "docs", condition) == own
    with catalog.database.read() as connection:
        keys = visible_generation_keys(collection_key(connection, TENANT, "docs"))
        found = connection.execute(select(chunks.c.chunk_number).where(chunks_matching(keys, condition)))
        assert list(found.scalars()) == own


def test_of_given_chunks_those_of_the_collection_match_that_are_visible_and_indexed(
    catalog: Catalog, docs: Collection
) -> None:
    replaced, old = catalog.put(docs, make_draft("tide one", source="a.md"))
    draft = make_draft(
        "tide two", "tide three", "tide four", source="a.md", document_id=replaced.document_id, expected=1
    )
    unindexed = replace(draft, chunks=[*draft.chunks[:2], replace(draft.chunks[2], indexed=False)])
    _, new = catalog.put(docs, unindexed)
    other = catalog.collections.create(make_collection("other"))
    _, elsewhere = catalog.put(other, make_draft("tide five"))
    pending = catalog.begin(docs, make_draft("tide six", source="pending.md"))
    given = [*old.numbers, *new.numbers, *elsewhere.numbers, *pending.numbers, 999_999]
    first = Comparison("sequence_num", Comparator.EQ, 0)
    in_docs, in_other = (catalog.views.open(TENANT, name) for name in ("docs", "other"))
    assert in_docs.among(None, given) == set(new.numbers[:2])
    assert in_docs.among(first, given) == {new.numbers[0]}
    assert in_other.among(None, given) == set(elsewhere.numbers)
    assert list(catalog.live(TENANT, "other", given)) == list(elsewhere.numbers)
    assert list(catalog.live(TENANT, "docs", given)) == list(new.numbers)


def test_matching_in_an_unknown_collection_is_an_error(catalog: Catalog) -> None:
    with pytest.raises(CollectionNotFoundError):
        matching(catalog, TENANT, "unknown", And(()))


def test_fields_are_those_that_visible_documents_brought(catalog: Catalog, docs: Collection) -> None:
    assert catalog.chunks.fields(TENANT, "docs") == {}
    given: dict[str, Value] = {"n": 1, "word": "w", "words": ("a", "b"), "counts": (1, 2), "mixed": 1}
    given |= {"share": 0.5, "shares": (0.5, 1.0), "done": True, "checks": (True, False)}
    first, _ = catalog.put(docs, make_draft("one", fields=DocumentFields(metadata=given)))
    expected = {
        "n": FieldKind.INTEGER,
        "word": FieldKind.TEXT,
        "words": FieldKind.TEXT_LIST,
        "counts": FieldKind.INTEGER_LIST,
        "mixed": FieldKind.INTEGER,
        "share": FieldKind.NUMBER,
        "shares": FieldKind.NUMBER_LIST,
        "done": FieldKind.BOOLEAN,
        "checks": FieldKind.BOOLEAN_LIST,
    }
    assert catalog.chunks.fields(TENANT, "docs") == expected
    for source in ("b", "c"):
        catalog.put(docs, make_draft(source, source=source, fields=DocumentFields(metadata={"mixed": "text"})))
    assert catalog.chunks.fields(TENANT, "docs") == expected
    catalog.documents.delete(TENANT, "docs", first.document_id)
    assert catalog.chunks.fields(TENANT, "docs") == {"mixed": FieldKind.TEXT}


def test_a_field_of_whole_numbers_and_others_holds_numbers(catalog: Catalog, docs: Collection) -> None:
    catalog.put(docs, make_draft("one", source="a", fields=DocumentFields(metadata={"n": 1.5})))
    catalog.put(docs, make_draft("two", source="b", fields=DocumentFields(metadata={"n": 2})))
    assert catalog.chunks.fields(TENANT, "docs") == {"n": FieldKind.NUMBER}


def test_fields_of_single_chunks_are_fields_too(catalog: Catalog, docs: Collection) -> None:
    draft = make_draft("one", "two")
    own = replace(draft.chunks[1], tags=("mine",), metadata={"reviewed": True})
    _, pending = catalog.put(docs, replace(draft, chunks=[draft.chunks[0], own]))
    assert catalog.chunks.fields(TENANT, "docs") == {"reviewed": FieldKind.BOOLEAN}
    found = matching(catalog, TENANT, "docs", Comparison("reviewed", Comparator.EQ, value=True))
    assert found == [pending.numbers[1]]
    assert matching(catalog, TENANT, "docs", Containment("tags", "mine")) == found
    (stored,) = catalog.chunks.find(TENANT, [pending.numbers[1]])
    assert (stored.tags, stored.metadata) == (("mine",), {"reviewed": True})


def test_pages_of_chunks_agree_with_the_reference(catalog: Catalog, docs: Collection) -> None:
    pages = [(1,), (1, 2), (), (3,), (2, 3, 4), (2**31,)]
    draft = make_draft(*(f"text {number}" for number in range(len(pages))))
    parts = [replace(chunk, page_numbers=each) for chunk, each in zip(draft.chunks, pages, strict=True)]
    catalog.put(docs, replace(draft, chunks=parts))
    first, *rest = catalog.chunks.listed(
        TENANT, "docs", document_id="", where=None, after=0, limit=100, include_vectors=False
    ).chunks
    numbers = [first.chunk_number, *(each.chunk_number for each in rest)]
    values: tuple[Scalar, ...] = (1, 2, 3.0, 2.5, 2**31, 0, -1, True, "1", math.inf, math.nan, 2**63, 10**400)
    filters: list[Filter] = [
        Comparison("page_numbers", comparator, value)
        for comparator in (Comparator.EQ, Comparator.NE)
        for value in values
    ]
    filters += [Containment("page_numbers", value, negated=negated) for value in values for negated in (True, False)]
    filters += [
        Membership("page_numbers", some, negated=negated)
        for some in ((1, 3), (2.0, "x", True), (), (math.nan, 4), (True,))
        for negated in (True, False)
    ]
    filters += [Not(each) for each in filters]
    filters += [And((Comparison("page_numbers", Comparator.EQ, 3), Comparison("page_numbers", Comparator.EQ, 4)))]
    found = [matching(catalog, TENANT, "docs", each) for each in filters]
    expected = [
        [number for number, own in zip(numbers, pages, strict=True) if matches(each, {"page_numbers": own})]
        for each in filters
    ]
    # Not by filter: those for True, 1 and 1.0 are equal in Python.
    assert [pair for pair in zip(filters, found, expected, strict=True) if pair[1] != pair[2]] == []
    assert {len(each) for each in found} >= {0, 1, 2, 4, 5, 6}
