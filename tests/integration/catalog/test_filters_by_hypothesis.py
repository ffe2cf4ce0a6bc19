"""Filters in SQL mean what the reference evaluator means, whatever texts and numbers are in them."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Column, Connection, Integer, MetaData, Table, delete, insert, select

from groundwire.catalog.dialects import BinaryJson
from groundwire.catalog.filters import to_sql
from groundwire.kernel.filter_parsing import filter_to_json, parse_filter
from groundwire.kernel.filters import (
    MAX_DEPTH,
    And,
    Comparator,
    Comparison,
    Containment,
    Exists,
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

PAYLOADS = Table("payloads", MetaData(), Column("id", Integer, primary_key=True), Column("payload", BinaryJson))

_FIELDS = st.sampled_from(["a", "b", "tags", "x.y-z_0"])
_CHARS = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
_TEXTS = st.one_of(st.text("ab%_\\*?[]", max_size=4), st.text(_CHARS, max_size=6), st.sampled_from(["z" * 8192, "1"]))
_INTEGERS = st.one_of(
    st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1])
)
_FLOATS = st.one_of(
    st.sampled_from([-0.0, 0.0, 1.0, 0.5, 2.0**53, 2.0**63, 1e300]), st.floats(allow_nan=False, allow_infinity=False)
)
_SCALARS: st.SearchStrategy[Scalar] = st.one_of(_TEXTS, _INTEGERS, _FLOATS, st.booleans())
_LISTS: st.SearchStrategy[tuple[Scalar, ...]] = st.one_of(
    *(st.lists(each, max_size=4).map(tuple) for each in (_TEXTS, _INTEGERS, _FLOATS, st.booleans()))
)
_VALUES: st.SearchStrategy[Value] = st.one_of(_SCALARS, _LISTS.filter(bool))
_PAYLOADS: st.SearchStrategy[Payload] = st.dictionaries(_FIELDS, _VALUES, max_size=4)
_LEAVES: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Comparison, _FIELDS, st.sampled_from(Comparator), _SCALARS),
    st.builds(Membership, _FIELDS, _LISTS, st.booleans()),
    st.builds(Containment, _FIELDS, _SCALARS, st.booleans()),
    st.builds(Like, _FIELDS, _TEXTS.map(lambda text: text[:256])),
    st.builds(Exists, _FIELDS, st.booleans()),
)
_FILTERS: st.SearchStrategy[Filter] = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, max_size=3).map(lambda clauses: And(tuple(clauses))),
        st.lists(inner, max_size=3).map(lambda clauses: Or(tuple(clauses))),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory, database_kind: str) -> Iterator[Connection]:
    with catalogs_are(database_kind):
        storage = new_storage(tmp_path_factory.mktemp("filters") / "payloads.db")
    with storage.writing.connect() as connection:
        PAYLOADS.create(connection)
        yield connection
    storage.close()


def _values_of(payloads: list[Payload]) -> list[Scalar]:
    return [each for payload in payloads for value in payload.values() for each in _elements(value)]


def _depth(condition: Filter) -> int:
    match condition:
        case And(clauses) | Or(clauses):
            return 1 + max(map(_depth, clauses), default=0)
        case Not(clause):
            return 1 + _depth(clause)
        case _:
            return 0


def _elements(value: Value) -> tuple[Scalar, ...]:
    return value if isinstance(value, tuple) else (value,)


def _check(connection: Connection, payloads: list[Payload], condition: Filter) -> None:
    connection.execute(delete(PAYLOADS))
    connection.execute(insert(PAYLOADS), [{"id": row, "payload": payload} for row, payload in enumerate(payloads)])
    found = connection.execute(select(PAYLOADS.c.id).where(to_sql(condition, PAYLOADS.c.payload))).scalars().all()
    expected = [row for row, payload in enumerate(payloads) if matches(condition, payload)]
    assert sorted(found) == expected


@given(st.lists(_PAYLOADS, min_size=1, max_size=4), _FILTERS)
def test_sql_agrees_with_the_reference_evaluator(
    connection: Connection, payloads: list[Payload], condition: Filter
) -> None:
    _check(connection, payloads, condition)


@given(st.data())
def test_sql_agrees_on_the_very_values_that_are_stored(connection: Connection, data: st.DataObject) -> None:
    payloads = data.draw(st.lists(_PAYLOADS.filter(bool), min_size=1, max_size=4))
    value = data.draw(st.sampled_from(_values_of(payloads)))
    field = data.draw(_FIELDS)
    for comparator in Comparator:
        _check(connection, payloads, Comparison(field, comparator, value))
    _check(connection, payloads, Containment(field, value))
    _check(connection, payloads, Membership(field, (value,), negated=True))


@given(_FILTERS.filter(lambda condition: _depth(condition) <= MAX_DEPTH), _PAYLOADS)
def test_the_json_form_means_the_same(condition: Filter, payload: Payload) -> None:
    assert matches(parse_filter(filter_to_json(condition)), payload) is matches(condition, payload)
