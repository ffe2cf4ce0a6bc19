"""Records: what is sorted and linked by of documents that are records, their links, and how often they were read."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    func,
    literal_column,
    or_,
    select,
    true,
    update,
)

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.database import Database, in_transaction
from groundwire.catalog.dialects import among, execute, replacing, upsert
from groundwire.catalog.encoding import encode_json
from groundwire.catalog.filters import to_sql
from groundwire.catalog.rows import (
    DOCUMENT_COLUMNS,
    IS_STORED,
    IS_VISIBLE,
    KEY_OF_UID,
    collection_key,
    optional_time,
    to_document,
)
from groundwire.catalog.schema import (
    chunks,
    collections,
    document_tags,
    documents,
    generations,
    record_links,
    record_quotes,
    records,
)
from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.errors import RecordNotFoundError
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.filters import And, Comparator, Comparison, Filter
from groundwire.kernel.identifiers import GLOBAL_SCOPE
from groundwire.kernel.records import (
    FOLLOWS_WINDOW,
    MAX_RELATED,
    QUOTED,
    LinkKind,
    RecordLinks,
    RecordOrder,
    StoredRecord,
    entity_of,
    record_id_of,
    record_time,
)

_INDEXED = frozenset({"record_id", "record_type", "scope", "entity", "conversation_id", "role"})
_r, _d = records.c, documents.c


# A missing value counts as 0: NULL compares with nothing, so that no page could go on behind it.
_VALUES: Mapping[RecordOrder, ColumnElement[int]] = {
    RecordOrder.TIMESTAMP_DESC: _r.time,
    RecordOrder.TIMESTAMP_ASC: _r.time,
    RecordOrder.IMPORTANCE_DESC: func.coalesce(_r.importance, 0),
    RecordOrder.TURN_ASC: func.coalesce(_r.turn_index, 0),
}
_FALLING = frozenset({RecordOrder.TIMESTAMP_DESC, RecordOrder.IMPORTANCE_DESC})


_RECORD_COLUMNS = (
    *("collection_key", "record_id", "record_type", "scope", "entity"),
    *("conversation_id", "role", "turn_index", "importance", "time"),
)
_DELETE = [delete(table).where(among(table.c.document_key, bindparam("keys"))) for table in (records, record_quotes)]


def set_records(
    connection: Connection,
    collection: int,
    fields: Sequence[tuple[int, str, DocumentFields]],
    known: Sequence[int],
) -> None:
    """Write what records are sorted and linked by, and what else they quote; nothing of other documents.

    Call it in the transaction that changes the fields; `collection` is the key of the collection, and `fields` are
    those of documents, given by key and source. The `known` ones among them were published before.
    """
    no_records = [key for key, _, each in fields if each.record is None and key in known]
    if no_records:
        for statement in _DELETE:
            connection.execute(statement, {"keys": encode_json(no_records)})
    rows, quotes = [], []
    for key, source, each in fields:
        record = each.record
        if record is not None:
            stated = (record.get(name) for name in ("conversation_id", "role", "turn_index", "importance"))
            named = (record_id_of(source), record["type"], record["scope"], entity_of(record))
            values = (collection, *named, *stated, epoch_ms(record_time(record)))
            rows.append({"document_key": key, **dict(zip(_RECORD_COLUMNS, values, strict=True))})
            quotes += [{"document_key": key, "document_id": quoted} for quoted in record.get(QUOTED, ())]
    if rows:
        execute(connection, replacing(connection, records, ("document_key",), _RECORD_COLUMNS), rows)
    if quotes:
        connection.execute(upsert(connection, record_quotes).on_conflict_do_nothing(), quotes)


def quoting_records(connection: Connection, collection: int, document_ids: Iterable[str]) -> set[str]:
    """Return the documents of the records that quote any of these, or quote a record that does, and so on.

    All are given by their ids, the collection by its key.
    """
    quoting: set[str] = set()
    new = set(document_ids)
    while new:
        # Starts from the quotes, which are few: in a join SQLite would test every record of the collection for each id.
        quotes = select(record_quotes.c.document_key).where(among(record_quotes.c.document_id, sorted(new)))
        statement = select(_d.document_id).where(_d.document_key.in_(quotes), _d.collection_key == collection)
        new = set(connection.execute(statement).scalars()) - quoting - {*document_ids}
        quoting |= new
    return quoting


def count_quoting(connection: Connection, collection: int, document_ids: Sequence[str]) -> int:
    """Return how many records of a collection, given by its key, quote any of the documents themselves."""
    quotes = select(record_quotes.c.document_key).where(among(record_quotes.c.document_id, document_ids))
    statement = select(func.count()).where(_d.document_key.in_(quotes), _d.collection_key == collection)
    return int(connection.execute(statement).scalar_one())


# The records of a collection, deleted ones too, in rows as `_to_record` reads them; each has one chunk.
_SELECT: Select[Any] = (
    select(
        *DOCUMENT_COLUMNS,
        chunks.c.content,
        chunks.c.token_count,
        chunks.c.embedding_hash,
        _r.access_count,
        _r.last_accessed,
    )
    .join_from(records, documents)
    .join(collections, _r.collection_key == collections.c.collection_key)
    .join(chunks, and_(chunks.c.document_key == _d.document_key, chunks.c.sequence_num == literal_column("0")))
    .join(generations)
    .where(
        collections.c.tenant == bindparam("tenant"),
        collections.c.name == bindparam("collection"),
        generations.c.state.in_((literal_column("'LIVE'"), literal_column("'DELETED'"))),
    )
)
_STORED = _SELECT.where(among(_r.record_id, bindparam("ids")), IS_STORED)
_STORED_IN_SCOPES = _STORED.where(among(_r.scope, bindparam("scopes")))
_FIGURES_AT = len(DOCUMENT_COLUMNS)


class Records(Aggregate):
    """Records of all tenants; each call sees those of one, and of the scopes that it is given (None: all)."""

    def find(
        self, tenant: str, collection: str, record_ids: Sequence[str], *, scopes: Sequence[str] | None = None
    ) -> dict[str, StoredRecord]:
        """Return those of the records that there are, deleted softly or not, by id and without links.

        There are none in a collection that does not exist.
        """
        given = {"tenant": tenant, "collection": collection, "ids": encode_json(list(record_ids))}
        if scopes is None:
            rows = self._database.rows(_STORED, given)
        else:
            rows = self._database.rows(_STORED_IN_SCOPES, given | {"scopes": encode_json(list(scopes))})
        return {record.record_id: record for record in (_to_record(row) for row in rows)}

    def at_numbers(self, tenant: str, collection: str, numbers: Sequence[int]) -> list[StoredRecord]:
        """Return the live records whose chunks have these numbers, in no order and without links."""
        statement = _SELECT.where(among(chunks.c.chunk_number, numbers), IS_VISIBLE)
        with self._database.read() as connection:
            collection_key(connection, tenant, collection)
            rows = connection.execute(statement, {"tenant": tenant, "collection": collection})
            return [_to_record(row) for row in rows]

    @in_transaction
    def suggest_contradictions(
        self, connection: Connection, tenant: str, collection: str, opposed: Mapping[str, Sequence[str]]
    ) -> None:
        """Say of records which others they seem to contradict, instead of what was suggested of them before.

        Records that are gone meanwhile are left out.
        """
        kind, link = LinkKind.SUGGESTED_CONTRADICTS.value, record_links.c
        ids = {*opposed, *(other for others in opposed.values() for other in others)}
        live = (
            select(_r.record_id, _r.document_key)
            .join_from(records, documents)
            .where(
                _r.collection_key == collection_key(connection, tenant, collection),
                among(_r.record_id, sorted(ids)),
                IS_VISIBLE,
            )
        )
        keys = {row.record_id: row.document_key for row in connection.execute(live)}
        sources = [keys[record_id] for record_id in opposed if record_id in keys]
        # Also those that are stored with the other record: a suggestion is mutual.
        mine = or_(among(link.document_key, sources), among(link.target_key, sources))
        connection.execute(delete(record_links).where(mine, link.kind == kind))
        pairs = {
            (keys[record_id], keys[other])
            for record_id, others in opposed.items()
            for other in others
            if record_id in keys and other in keys
        }
        if pairs:
            rows = [{"document_key": source, "kind": kind, "target_key": target} for source, target in pairs]
            connection.execute(upsert(connection, record_links).on_conflict_do_nothing(), rows)

    def get(
        self,
        tenant: str,
        collection: str,
        record_id: str,
        *,
        scopes: Sequence[str] | None = None,
        include_deleted: bool = False,
    ) -> StoredRecord:
        """Return a record with its links.

        Raises:
            RecordNotFoundError: the collection has no such record.
        """
        where = Comparison("record_id", Comparator.EQ, record_id)
        found = self.page(
            *(tenant, collection, where, RecordOrder.TIMESTAMP_ASC, None, 1),
            scopes=scopes,
            include_deleted=include_deleted,
        )
        if not found:
            raise RecordNotFoundError(record_id)
        return found[0][0]

    def page(
        self,
        tenant: str,
        collection: str,
        where: Filter | None,
        order: RecordOrder,
        after: tuple[int, int] | None,
        limit: int,
        *,
        scopes: Sequence[str] | None = None,
        include_deleted: bool = False,
    ) -> list[tuple[StoredRecord, tuple[int, int]]]:
        """Return up to `limit` records in order, with their links, and the position of each; those behind `after`.

        With `include_deleted` links that were added name deleted records, too: these have them again when restored.
        """
        value, is_falling = _VALUES[order], order in _FALLING
        shown = IS_STORED if include_deleted else IS_VISIBLE
        statement = (
            _SELECT.add_columns(value.label("value"))
            .where(shown, _allowed(scopes), _matching(where))
            .order_by(value.desc() if is_falling else value, _r.document_key)
            .limit(limit)
        )
        if after is not None:
            beyond = value < after[0] if is_falling else value > after[0]
            statement = statement.where(or_(beyond, and_(value == after[0], _r.document_key > after[1])))
        with self._database.read() as connection:
            key = collection_key(connection, tenant, collection)
            rows = connection.execute(statement, {"tenant": tenant, "collection": collection}).all()
            return [
                (_to_record(row, _links(connection, key, row, shown)), (row.value, row.document_key)) for row in rows
            ]

    def ids_matching(
        self, tenant: str, collection: str, where: Filter, *, scopes: Sequence[str] | None, include_deleted: bool
    ) -> list[str]:
        """Return the ids of all records that match, in no order."""
        shown = IS_STORED if include_deleted else IS_VISIBLE
        statement = _SELECT.with_only_columns(_r.record_id).where(shown, _allowed(scopes), _matching(where))
        with self._database.read() as connection:
            collection_key(connection, tenant, collection)
            return list(connection.execute(statement, {"tenant": tenant, "collection": collection}).scalars())

    def scope_of(self, tenant: str, *, document_id: str = "", chunk_id: str = "") -> str | None:
        """Return the scope of the record that a document, or the document of a chunk, holds; None if it holds none."""
        of_document = _d.document_id == document_id
        if chunk_id:
            of_chunk = chunks.c.tenant == tenant, chunks.c.chunk_id == chunk_id
            of_document = _d.document_key.in_(select(chunks.c.document_key).where(*of_chunk))
        statement = select(_r.scope).join_from(records, documents)
        return self._database.query(statement.where(_d.tenant == tenant, of_document).limit(1)).scalar()

    def last_turn(self, collection: Collection, conversation_id: str) -> int:
        """Return the highest number of an exchange in a conversation, 0 without any; deleted turns count."""
        ((last,),) = self._database.rows(_LAST_TURN, _of_conversation(collection, conversation_id))
        return last or 0

    @in_transaction
    def change_links(
        self,
        connection: Connection,
        tenant: str,
        collection: str,
        record_id: str,
        links: Sequence[tuple[LinkKind, str]],
        receipt: Receipt[RecordLinks] | None,
        *,
        scopes: Sequence[str] | None,
        removes: bool,
    ) -> RecordLinks:
        """Add links of a record to others, or remove them; return all that it has then.

        Raises:
            RecordNotFoundError: the collection has no such live record, or none of the targets.
        """
        key = collection_key(connection, tenant, collection)
        source = _live_key(connection, key, record_id, scopes)
        for kind, target_id in links:
            values = {"document_key": source, "kind": kind.value}
            if removes:
                of_target = select(_r.document_key).where(_r.collection_key == key, _r.record_id == target_id)
                link, target = record_links.c, of_target.scalar_subquery()
                this = and_(link.document_key == source, link.target_key == target)
                if kind is LinkKind.SUGGESTED_CONTRADICTS:  # visible from both records, but stored with one
                    this = or_(this, and_(link.document_key == target, link.target_key == source))
                connection.execute(delete(record_links).where(link.kind == kind.value, this))
            else:
                values |= {"target_key": _live_key(connection, key, target_id, scopes)}
                connection.execute(upsert(connection, record_links).values(values).on_conflict_do_nothing())
        statement = _SELECT.where(_r.document_key == source)
        row = connection.execute(statement, {"tenant": tenant, "collection": collection}).one()
        changed = _links(connection, key, row)
        self._audit.record(connection, tenant, "change_links", record_id, receipt, changed)
        return changed


_LAST_TURN = select(func.max(_r.turn_index)).where(
    _r.collection_key == KEY_OF_UID.scalar_subquery(),
    _r.conversation_id == bindparam("conversation"),
    _r.record_type == literal_column("'turn'"),
)


def last_turn(connection: Connection, collection: Collection, conversation_id: str) -> int:
    """Return the highest number of an exchange in a conversation, as a transaction sees it; see `Records.last_turn`."""
    return execute(connection, _LAST_TURN, _of_conversation(collection, conversation_id)).scalar() or 0


def _of_conversation(collection: Collection, conversation_id: str) -> dict[str, str]:
    return {"tenant": collection.tenant, "uid": collection.uid, "conversation": conversation_id}


def _live_key(connection: Connection, collection: int, record_id: str, scopes: Sequence[str] | None) -> int:
    statement = (
        select(_r.document_key)
        .join_from(records, documents)
        .where(_r.collection_key == collection, _r.record_id == record_id, IS_VISIBLE, _allowed(scopes))
    )
    found = connection.execute(statement).scalar()
    if found is None:
        raise RecordNotFoundError(record_id)
    return int(found)


def _allowed(scopes: Sequence[str] | None) -> ColumnElement[bool]:
    return true() if scopes is None else _r.scope.in_(scopes)


def _matching(where: Filter | None) -> ColumnElement[bool]:
    """Return the condition for records that match; what their own columns know is asked of those as well."""
    if where is None:
        return true()
    # The payload decides; the indexed columns narrow the rows down first, because JSON is parsed row by row.
    clauses = where.clauses if isinstance(where, And) else (where,)
    of_columns = [
        _r[clause.field] == clause.value
        for clause in clauses
        if isinstance(clause, Comparison) and clause.comparator is Comparator.EQ and clause.field in _INDEXED
    ]
    return and_(true(), *of_columns, to_sql(where, chunks.c.payload))


def _to_record(row: Row[Any], links: RecordLinks | None = None) -> StoredRecord:
    text, tokens, embedding_hash, accesses, accessed = row[_FIGURES_AT : _FIGURES_AT + 5]
    return StoredRecord(
        document=to_document(row),
        text=text,
        token_count=tokens,
        embedding_hash=embedding_hash,
        access_count=accesses,
        last_accessed=optional_time(accessed),
        links=links or RecordLinks(),
    )


def _links(
    connection: Connection, collection: int, row: Row[Any], shown: ColumnElement[bool] = IS_VISIBLE
) -> RecordLinks:
    """Return the links of a record: those added to what is `shown`, and those that follow from what is stored now."""
    record, key = to_document(row).fields, row.document_key
    metadata = record.record or {}
    conversation, scope = metadata.get("conversation_id"), metadata.get("scope", GLOBAL_SCOPE)
    live = (
        select(_r.record_id)
        .join_from(records, documents)
        .where(_r.collection_key == collection, _r.document_key != key, IS_VISIBLE)
    )
    follows: Select[Any] | None = None
    if conversation:
        time = epoch_ms(record_time(metadata))
        # Records with equal timestamps come in the order in which they were stored.
        earlier = or_(_r.time < time, and_(_r.time == time, _r.document_key < key))
        of_conversation = (_r.conversation_id == conversation, _r.record_type == metadata["type"], _r.scope == scope)
        follows = (
            live.where(*of_conversation, earlier, _r.time >= time - FOLLOWS_WINDOW // timedelta(milliseconds=1))
            .order_by(_r.time.desc(), _r.document_key.desc())
            .limit(1)
        )
    related: Select[Any] | None = None
    if record.tags:
        related = (
            live.join(document_tags, document_tags.c.document_key == _r.document_key)
            .where(document_tags.c.tag.in_(record.tags), _r.scope == scope)
            .group_by(_r.document_key, _r.record_id, _r.time)
            .order_by(func.count().desc(), _r.time.desc(), _r.document_key.desc())
            .limit(MAX_RELATED)
        )
    # Links that were added; suggestions show on both records.
    link = record_links.c
    suggested = and_(link.target_key == key, link.kind == LinkKind.SUGGESTED_CONTRADICTS.value)
    other = or_(
        and_(link.document_key == key, link.target_key == _r.document_key),
        and_(suggested, link.document_key == _r.document_key),
    )
    to_others = (
        select(link.kind, _r.record_id)
        .distinct()
        .join_from(record_links, records, other)
        .join(documents)
        .where(or_(link.document_key == key, link.target_key == key), shown, _r.scope.in_({scope, GLOBAL_SCOPE}))
        .order_by(_r.record_id)
    )
    added: dict[str, list[str]] = {kind.value: [] for kind in LinkKind}
    for kind, other_id in connection.execute(to_others):
        added[kind].append(other_id)
    return RecordLinks(
        context_of=[conversation] if conversation else [],
        follows=[] if follows is None else list(connection.execute(follows).scalars()),
        related_to=[] if related is None else list(connection.execute(related).scalars()),
        **added,
    )


_READ_KEY = select(_d.document_key).where(_d.tenant == bindparam("tenant"), _d.document_id == bindparam("id"))
_COUNT_ACCESSES = (
    update(records)
    .where(_r.document_key == _READ_KEY.scalar_subquery())
    .values(access_count=_r.access_count + bindparam("more"), last_accessed=bindparam("last"))
)


class RecordAccesses(Aggregate):
    """Counts in memory how often records are read, so that no reader waits for a write; `flush` writes the counts.

    Safe to use from many threads. What is not flushed is lost with the process.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._guard = threading.Lock()
        self._counts: dict[tuple[str, str], tuple[int, int]] = {}

    def note(self, tenant: str, document_ids: Iterator[str] | Sequence[str]) -> None:
        """Count an access of each record, given by the id of its document; other documents are ignored later."""
        now = self._now()
        with self._guard:
            for document_id in document_ids:
                count, _ = self._counts.get((tenant, document_id), (0, 0))
                self._counts[tenant, document_id] = (count + 1, now)

    def waiting(self, tenant: str, document_id: str) -> tuple[int, datetime | None]:
        """Return how many accesses of a record are not written yet, and when the last of them was."""
        with self._guard:
            count, last = self._counts.get((tenant, document_id), (0, None))
        return count, optional_time(last)

    def flush(self) -> int:
        """Write the counts; return of how many records. After a failure they are tried again."""
        with self._guard:
            counts, self._counts = self._counts, {}
        if not counts:
            return 0

        def work(connection: Connection) -> None:
            rows = [
                {"tenant": tenant, "id": document_id, "more": count, "last": last}
                for (tenant, document_id), (count, last) in counts.items()
            ]
            connection.execute(_COUNT_ACCESSES, rows)

        try:
            self._database.write(work)
        except BaseException:
            with self._guard:
                for key, (count, last) in counts.items():
                    # Added up, because accesses were counted while the write was tried.
                    more, later = self._counts.get(key, (0, last))
                    self._counts[key] = (count + more, max(last, later))
            raise
        return len(counts)
