"""Which chunks of some generations match a filter, deciding what concerns whole documents once for each of them."""

from sqlalchemy import ColumnElement, Select, and_, select, true

from groundwire.catalog.filters_sql import to_sql
from groundwire.catalog.tables import chunks, documents, generations
from groundwire.kernel.filters import And, Filter, Not, Or

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
    clauses = where.clauses if isinstance(where, And) else (where,)
    of_documents = And(tuple(clause for clause in clauses if _concerns_documents(clause)))
    of_chunks = [to_sql(clause, chunks.c.payload) for clause in clauses if not _concerns_documents(clause)]
    keys = generation_keys
    if of_documents.clauses:
        first = chunks.alias("first")
        keys = select(first.c.generation_key).where(
            first.c.generation_key.in_(keys), first.c.sequence_num == 0, to_sql(of_documents, first.c.payload)
        )
    return and_(true(), chunks.c.generation_key.in_(keys), *of_chunks)


def has_chunk_matching(collection_key: int, where: Filter, *, include_hidden: bool) -> ColumnElement[bool]:
    """Return the condition on `documents` for those of a collection with a chunk that matches.

    `include_hidden` looks at the chunks of documents that were deleted softly, too.
    """
    states = ("LIVE", "DELETED") if include_hidden else ("LIVE",)
    keys = select(generations.c.generation_key).where(
        generations.c.collection_key == collection_key, generations.c.state.in_(states)
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
