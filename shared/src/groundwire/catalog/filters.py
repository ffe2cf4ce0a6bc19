"""Filters as SQL over the payload of a chunk, equal to `groundwire.kernel.filters`."""

import math
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias, assert_never

from sqlalchemy import (
    ColumnElement,
    Select,
    TableValuedAlias,
    and_,
    exists,
    false,
    literal,
    not_,
    or_,
    select,
    true,
)

from groundwire.catalog.dialects import as_text, contains, elements_of, is_like, number_among, number_holds, type_of
from groundwire.catalog.schema import chunk_pages, chunks, documents, generations, records
from groundwire.kernel.document import Document
from groundwire.kernel.filters import (
    ORDERINGS,
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
    Scalar,
)

Condition: TypeAlias = ColumnElement[bool]
Element: TypeAlias = TableValuedAlias
Number: TypeAlias = int | float
Ordering: TypeAlias = Callable[[Any, Any], Any]


def to_sql(condition: Filter, payload: ColumnElement[Any]) -> Condition:
    """Return an expression that is true, else false, never NULL, for a column that holds a payload."""
    match condition:
        case And(clauses):
            # With `true`, because SQLAlchemy drops an AND without members.
            return and_(true(), *(to_sql(clause, payload) for clause in clauses))
        case Or(clauses):
            return or_(false(), *(to_sql(clause, payload) for clause in clauses))
        case Not(clause):
            return not_(to_sql(clause, payload).self_group())
        case Exists(field, present):
            is_absent = type_of(payload, field).is_(None)
            return not_(is_absent) if present else is_absent
        case Comparison(field, Comparator.EQ | Comparator.NE as comparator, value):
            equal = _some_element(payload, field, lambda each: _is_one_of(each, (value,)))
            return equal if comparator is Comparator.EQ else not_(equal)
        case Comparison(field, comparator, value):
            if isinstance(value, bool):  # truth values have no order
                return false()
            return _some_element(payload, field, lambda each: _ordered(each, comparator, value))
        case Membership(field, values, negated):
            found = _some_element(payload, field, lambda each: _is_one_of(each, values))
            return not_(found) if negated else found
        case Containment(field, value, negated):
            # A list contains its elements, a text its parts.
            kind = type_of(payload, field)
            element = and_(
                kind.is_not_distinct_from("array"),
                _some_element(payload, field, lambda each: _is_one_of(each, (value,))),
            )
            if not isinstance(value, str):
                found = element
            else:
                part = _some_element(payload, field, lambda each: contains(each.c.value, value))
                found = or_(element, and_(kind.is_not_distinct_from("text"), part))
            return not_(found) if negated else found
        case Like(field, pattern):
            return _some_element(
                payload, field, lambda each: and_(each.c.type == "text", is_like(each.c.value, pattern))
            )
        case _:
            assert_never(condition)


def _some_element(payload: ColumnElement[Any], field: str, holds: Callable[[Element], Condition]) -> Condition:
    each = elements_of(payload, field)
    return exists(select(literal(1)).select_from(each).where(holds(each)))


def _is_one_of(each: Element, values: tuple[Scalar, ...]) -> Condition:
    texts = [value for value in values if isinstance(value, str)]
    # Before the numbers: True is a number in Python, but not in JSON.
    truths = [str(value).lower() for value in values if isinstance(value, bool)]
    numbers = [value for value in values if not isinstance(value, (str, bool)) and not _is_nan(value)]
    return or_(
        false(),
        *([and_(each.c.type == "text", each.c.value.in_(texts))] if texts else []),
        *([each.c.type.in_(truths)] if truths else []),
        *([number_among(each, numbers)] if numbers else []),
    )


def _ordered(each: Element, comparator: Comparator, value: str | Number) -> Condition:
    """Compare with a text, by code points, or with a number."""
    holds: Ordering = ORDERINGS[comparator]
    if isinstance(value, str):
        return and_(each.c.type == "text", holds(as_text(each.c.value), value))
    if _is_nan(value):  # NaN compares with nothing
        return false()
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    nearest_holds = holds
    # Rounding may move the bound: whether the bound itself counts then follows from the exact value.
    upwards = comparator in {Comparator.GT, Comparator.GTE}
    if nearest > value:
        nearest_holds = operator.ge if upwards else operator.lt
    elif nearest < value:
        nearest_holds = operator.gt if upwards else operator.le
    return number_holds(each, (holds, value), (nearest_holds, nearest))


def _is_nan(value: Number) -> bool:
    return isinstance(value, float) and math.isnan(value)


DOCUMENT_FIELDS = frozenset(
    {
        "document_id",
        "source",
        "format",
        "title",
        "creators",
        "subjects",
        "date_created",
        "language",
        "category",
        "project",
    }
)
"""Built-in fields with one value for all chunks of a generation."""


def chunks_matching(generation_keys: Select[tuple[int]], where: Filter) -> ColumnElement[bool]:
    """Return the condition on `chunks` for the chunks of some generations that match.

    A document's own clauses are evaluated on its first chunk; with some fifty chunks to a document that is most
    of the work saved.
    """
    # Only clauses of a conjunction: within an Or a clause about the document decides nothing by itself.
    clauses = where.clauses if isinstance(where, And) else (where,)
    of_documents = And(tuple(clause for clause in clauses if _concerns_documents(clause)))
    of_chunks = [_of_chunk(clause) for clause in clauses if not _concerns_documents(clause)]
    keys = generation_keys
    if of_documents.clauses:
        first = chunks.alias("first")
        keys = select(first.c.generation_key).where(
            first.c.generation_key.in_(keys), first.c.sequence_num == 0, to_sql(of_documents, first.c.payload)
        )
    return and_(true(), chunks.c.generation_key.in_(keys), *of_chunks)


def _of_chunk(clause: Filter) -> Condition:
    """Return a clause as a condition on `chunks`; pages have a table, which takes less time than to read a payload."""
    match clause:
        case Comparison("page_numbers", Comparator.EQ, value) | Containment("page_numbers", value, False):
            wanted: tuple[Scalar, ...] = (value,)
        case Membership("page_numbers", wanted, False):
            pass
        case _:
            return to_sql(clause, chunks.c.payload)
    numbers = [value for value in wanted if isinstance(value, (int, float)) and not isinstance(value, bool)]
    # A chunk is on no fractional page, and on none that the column cannot hold.
    pages = [int(value) for value in numbers if 0 < value < 2**63 and value == int(value)]
    is_one = and_(chunk_pages.c.chunk_number == chunks.c.chunk_number, chunk_pages.c.page.in_(pages))
    return exists(select(literal(1)).select_from(chunk_pages).where(is_one))


def has_chunk_matching(collection_key: int, where: Filter) -> ColumnElement[bool]:
    """Return the condition on `documents` for those of a collection, live or deleted softly, with a chunk that matches.

    A document has one generation of these states.
    """
    keys = select(generations.c.generation_key).where(
        generations.c.collection_key == collection_key, generations.c.state.in_(("LIVE", "DELETED"))
    )
    return documents.c.document_key.in_(select(chunks.c.document_key).where(chunks_matching(keys, where)))


def _concerns_documents(clause: Filter) -> bool:
    match clause:
        case And(clauses) | Or(clauses):
            return all(_concerns_documents(part) for part in clauses)
        case Not(part):
            return _concerns_documents(part)
        case _:
            return clause.field in DOCUMENT_FIELDS


Scopes = tuple[str, ...]
"""Scopes that are seen, each once and ascending."""


@lru_cache(maxsize=1000)
def in_scopes(document_key: ColumnElement[Any], scopes: Scopes | None) -> ColumnElement[bool]:
    """Return the condition for documents that are no records or stand in one of the scopes now; None is all scopes."""
    if scopes is None:
        return true()
    # Row by row: most statements look at few rows, and a list of all foreign records would be long.
    own = records.alias("own")  # also where the statement around it reads records
    foreign = select(own.c.document_key).where(own.c.document_key == document_key, own.c.scope.not_in(scopes))
    return not_(foreign.exists())


def scope_filter(scopes: Scopes) -> Filter:
    """Return the same condition for payloads, which hold the scope that a generation was stored with."""
    return Or((Exists("record_type", present=False), Membership("scope", scopes)))


def is_in_scopes(document: Document, scopes: Scopes | None) -> bool:
    """Tell whether a document is no record, or stands in one of the scopes; None is all scopes."""
    record = document.fields.record
    return scopes is None or record is None or record["scope"] in scopes
