"""Documents: finding them, and writing their generations."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import (
    Connection,
    RowMapping,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    false,
    func,
    or_,
    select,
    tuple_,
    update,
)

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.database import Database, advance_position, in_transaction
from groundwire.catalog.deletions import (
    Deleted,
    Deletion,
    delete_documents,
    hide_documents,
    insert_deletion,
    quoting_rows,
    trace_documents,
)
from groundwire.catalog.dialects import among, upsert
from groundwire.catalog.encoding import encode_json
from groundwire.catalog.filters import Scopes, chunks_matching, has_chunk_matching, in_scopes
from groundwire.catalog.generations import (
    CHUNKS_PER_TRANSACTION,
    GenerationDraft,
    PendingGeneration,
    Prepared,
    change_fields,
    changed,
    expiry,
    insert_chunks,
    insert_generations,
    owners_of_sources,
    publish_generations,
    refuse_full_tenant,
    refuse_stale_version,
    rename_chapter,
    rewrite_payloads,
    take_back_generation,
)
from groundwire.catalog.lexical_index import remove_chunks
from groundwire.catalog.operations import count_done
from groundwire.catalog.records import last_turn
from groundwire.catalog.rows import (
    IS_HIDDEN,
    IS_LIVE,
    IS_STORED,
    IS_VISIBLE,
    SELECT_DOCUMENTS_AND_HIDDEN,
    SELECT_DOCUMENTS_OF_COLLECTION,
    SELECT_LIVE_CHUNKS,
    SELECT_VISIBLE_DOCUMENT,
    GenerationState,
    collection_key,
    count_aliases,
    document_rows,
    refuse_other_etag,
    require_collection,
    to_collection,
    to_document,
    to_fields,
    to_stored_chunks,
    visible_document,
    visible_row,
)
from groundwire.catalog.schema import chunks, collections, document_aliases, documents, generations
from groundwire.catalog.sessions import gone_documents
from groundwire.catalog.texts import check_chunks, measure
from groundwire.catalog.vectors import NewVectors, insert_vectors
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import Chunk, StoredChunk
from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document, DocumentFields, DocumentReference
from groundwire.kernel.errors import (
    ChunkNotFoundError,
    DocumentChangedError,
    DocumentNotFoundError,
    InvalidRequestError,
)
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.filters import Filter
from groundwire.kernel.identifiers import new_document_id, prefixed_chunk_id
from groundwire.kernel.identity import current_identity
from groundwire.kernel.records import QUOTED, record_id_of

_GENERATIONS_PER_TRANSACTION = 20

_BY_SOURCE = SELECT_DOCUMENTS_OF_COLLECTION.where(documents.c.source_path == bindparam("value"))
_BY_ALIAS = SELECT_DOCUMENTS_OF_COLLECTION.join(
    document_aliases, document_aliases.c.document_key == documents.c.document_key
).where(
    document_aliases.c.collection_key == collections.c.collection_key,
    document_aliases.c.source_path == bindparam("value"),
)
# When the source of a softly deleted document is ingested again, the document gets a new generation.
_HIDDEN = (
    select(documents.c.source_path, documents.c.document_id)
    .join_from(documents, collections)
    .where(
        collections.c.tenant == bindparam("tenant"),
        collections.c.uid == bindparam("uid"),
        among(documents.c.source_path, bindparam("sources")),
        IS_HIDDEN,
    )
    # The last one of a source counts: of several documents that had it the newest.
    .order_by(documents.c.document_key)
)
_HIDDEN_BY_SOURCE = SELECT_DOCUMENTS_AND_HIDDEN.where(
    IS_HIDDEN,
    or_(
        documents.c.source_path == bindparam("value"),
        documents.c.document_key.in_(
            select(document_aliases.c.document_key).where(document_aliases.c.source_path == bindparam("value"))
        ),
    ),
).order_by(documents.c.document_key)
_BY_HASH = (
    SELECT_DOCUMENTS_OF_COLLECTION.where(documents.c.source_hash == bindparam("value"), documents.c.record.is_(None))
    .order_by(documents.c.document_key)
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class FieldChange:
    """New fields of a document that has this etag."""

    document_id: str
    etag: str
    fields: DocumentFields


@dataclass(frozen=True, slots=True)
class PublishedRecords:
    """The documents of records by source, and the tasks of the outbox that bring the engine up to changed fields."""

    documents: Mapping[str, Document]
    tasks: tuple[int, ...]


class Documents(Aggregate):
    """Documents of all tenants; each call sees those of one.

    A call for one document raises DocumentNotFoundError where the collection has none of the id that readers see.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._under_way: Counter[int] = Counter()

    @property
    def under_way(self) -> frozenset[int]:
        """Return the keys of the pending generations that are being written through this object."""
        return frozenset(self._under_way)

    def find_by_source(self, tenant: str, collection: str, source_uri: str) -> Document | None:
        """Return the document with this source, or the one it is an alias of."""
        with self._database.read() as connection:
            return _of_source(connection, tenant, collection, source_uri)

    def find_by_hash(self, tenant: str, collection: str, source_hash: str) -> Document | None:
        """Return the oldest document made of these bytes, which is no record: that may be of a scope, and changes."""
        return self._first(_BY_HASH, {"tenant": tenant, "collection": collection, "value": source_hash})

    def get(self, tenant: str, collection: str, document_id: str) -> Document:
        given = {"tenant": tenant, "collection": collection, "value": document_id}
        found = self._first(SELECT_VISIBLE_DOCUMENT, given)
        if found is None:
            raise DocumentNotFoundError(document_id)
        return found

    def find(self, tenant: str, collection: str, reference: DocumentReference) -> Document:
        """Return the document with this id, or with this source or alias."""
        if reference.document_id:
            return self.get(tenant, collection, reference.document_id)
        found = self.find_by_source(tenant, collection, reference.source_uri)
        if found is None:
            raise DocumentNotFoundError(reference.source_uri)
        return found

    def id_with_deleted(self, tenant: str, collection: str, reference: DocumentReference) -> str:
        """Return the id that a reference gives, or that of the live document, else the deleted one, of its source.

        Raises:
            DocumentNotFoundError: the collection has no document of the source.
            InvalidRequestError: several documents of the source were deleted softly, and none is live.
        """
        if reference.document_id:
            return reference.document_id
        live = self.find_by_source(tenant, collection, reference.source_uri)
        if live is not None:
            return live.document_id
        given = {"tenant": tenant, "collection": collection, "value": reference.source_uri}
        found = [to_document(row).document_id for row in self._database.query(_HIDDEN_BY_SOURCE, given)]
        if not found:
            raise DocumentNotFoundError(reference.source_uri)
        if len(found) > 1:
            several = f"is the source of several deleted documents: give an id, {' or '.join(found)}"
            raise InvalidRequestError.of("reference.source_uri", several)
        return found[0]

    def locate(
        self, tenant: str, document_ids: Sequence[str], scopes: Scopes | None
    ) -> tuple[dict[str, tuple[str, int]], set[str]]:
        """Return collection and live generation of each document that has one, and which were deleted for good.

        Records are looked for in the scopes. Of what is gone nobody knows any more in which scope it was.
        """
        statement = (
            select(documents.c.document_id, collections.c.name, documents.c.live_generation)
            .join_from(documents, collections)
            .where(
                documents.c.tenant == tenant,
                among(documents.c.document_id, document_ids),
                IS_VISIBLE,
                in_scopes(documents.c.document_key, scopes),
            )
        )
        with self._database.read() as connection:
            live = {document_id: (name, number) for document_id, name, number in connection.execute(statement)}
            return live, set(gone_documents(connection, tenant, document_ids))

    def page(
        self,
        tenant: str,
        collection: str,
        after: tuple[str, str] | None,
        limit: int,
        *,
        scopes: Scopes | None = None,
        where: Filter | None = None,
        include_hidden: bool = False,
        ingested_by: datetime | None = None,
    ) -> list[Document]:
        """Return up to `limit` documents by (source_uri, document_id), those above `after`, and records of the scopes.

        `where` keeps documents with a chunk whose payload matches. `include_hidden` adds those that were deleted
        softly, `ingested_by` leaves out those that were first ingested later.
        """
        order = (documents.c.source_path, documents.c.document_id)
        base = SELECT_DOCUMENTS_AND_HIDDEN if include_hidden else SELECT_DOCUMENTS_OF_COLLECTION
        # By place, not by offset: what comes and goes between two pages shifts nothing.
        statement = base.where(in_scopes(documents.c.document_key, scopes)).order_by(*order).limit(limit)
        if after is not None:
            statement = statement.where(tuple_(*order) > tuple_(*after))
        with self._database.read() as connection:
            key = collection_key(connection, tenant, collection)
            if where is not None:
                statement = statement.where(has_chunk_matching(key, where))
            if ingested_by is not None:
                statement = statement.where(documents.c.ingestion_date <= epoch_ms(ingested_by))
            rows = connection.execute(statement, {"tenant": tenant, "collection": collection}).all()
        return [to_document(row) for row in rows]

    def count(self, tenant: str, collection: str, where: Filter | None, ingested_by: datetime) -> int:
        """Return how many documents `page` lists with the same arguments, those that were deleted softly too."""
        with self._database.read() as connection:
            key = collection_key(connection, tenant, collection)
            statement = select(func.count()).where(
                documents.c.collection_key == key,
                documents.c.ingestion_date <= epoch_ms(ingested_by),
                IS_STORED,
            )
            if where is not None:
                statement = statement.where(has_chunk_matching(key, where))
            return int(connection.execute(statement).scalar_one())

    @in_transaction
    def add_alias(
        self,
        connection: Connection,
        tenant: str,
        collection: str,
        document_id: str,
        source_uri: str,
        moved_from: str = "",
    ) -> None:
        """Let a document be found by one more source; the same call again changes nothing.

        `moved_from` is the id of the document that gives the source up, of which it is an alias so far.

        Raises:
            DocumentChangedError: the source belongs to another document.
        """
        key = collection_key(connection, tenant, collection)
        row = visible_row(connection, tenant, collection, document_id)
        if owners_of_sources(connection, key, [source_uri]).get(source_uri, document_id) != document_id:
            raise changed(document_id)
        alias = document_aliases.c
        this_alias = and_(alias.collection_key == key, alias.source_path == source_uri)
        # Invisible documents (softly deleted, or still being written) have to give the source up too.
        gives_up = or_(~IS_VISIBLE, documents.c.document_id == moved_from)
        giving_up = select(documents.c.document_key).where(documents.c.collection_key == key, gives_up)
        given_up = and_(this_alias, alias.document_key.in_(giving_up))
        count_aliases(connection, select(alias.document_key).where(given_up), -1)
        connection.execute(delete(document_aliases).where(given_up))
        if source_uri != row["source_path"]:
            values = {"collection_key": key, "source_path": source_uri, "document_key": row["document_key"]}
            new = upsert(connection, document_aliases).values(values).on_conflict_do_nothing()
            if connection.execute(new.returning(document_aliases.c.source_path)).first() is not None:
                count_aliases(connection, [row["document_key"]], 1)
        owner = connection.execute(select(alias.document_key).where(this_alias)).scalar()
        if owner not in {None, row["document_key"]}:
            raise changed(document_id)
        # Searches cache documents, with their sources and etags, until the position of the collection moves.
        advance_position(connection, key, keeps_history=True)

    @in_transaction
    def raise_source_version(
        self, connection: Connection, document: Document, tenant: str, source_version: int
    ) -> Document:
        """Note that a document is unchanged in a later version; return it as it is then.

        Raises:
            StaleSourceVersionError: it is of a still later version by now.
        """
        of_this = (documents.c.tenant == tenant, documents.c.document_id == document.document_id)
        stored = connection.execute(select(documents.c.source_version).where(*of_this)).scalar()
        refuse_stale_version(document.document_id, source_version, stored)
        raised = update(documents).where(*of_this).values(source_version=source_version)
        for key in connection.execute(raised.returning(documents.c.collection_key)).scalars().all():
            advance_position(connection, key, keeps_history=True)  # as for an alias
        return replace(document, source_version=source_version)

    def refuse_full_tenant(self, tenant: str, *, adds_document: bool) -> None:
        """Return if the tenant may store something more; the transaction that writes it looks again.

        Raises:
            QuotaExceededError: the caller may not make the tenant store any more.
        """
        quota = current_identity().quota
        if quota.documents is not None or quota.stored_bytes is not None:
            with self._database.read() as connection:
                refuse_full_tenant(connection, tenant, has_new_documents=adds_document, is_written=False)

    def begin(
        self, collection: Collection, drafts: Sequence[GenerationDraft], embedded: Mapping[str, int] | None = None
    ) -> list[PendingGeneration]:
        """Write generations of different documents that nobody sees yet: text, chunks, filter keys and chunk numbers.

        After a crash of the process `leftovers` lists them. A power cut may undo them until they are published: points
        of theirs that the engine has synced by then are found and removed when it is compared with the catalog. After
        an error there are none. `embedded` is what `VectorCache.times` returned for the texts of the chunks; the
        vectors that are not in it are made now.

        Raises:
            DocumentChangedError: a live generation is not the expected one, or a visible document has the source.
            StaleSourceVersionError: a document, perhaps softly deleted, is of a later version.
            AlreadyExistsError: a document id is in use in another collection, or a chunk id in another document.
            ValueError: a chunk is not exactly the text of its span (a bug of ours).
        """
        now = self._database.clock.now()
        # Records come with the document of their id, deleted ones too.
        unknown = [each.source_uri for each in drafts if each.document_id is None and each.fields.record is None]
        given = {"tenant": collection.tenant, "uid": collection.uid, "sources": encode_json(unknown)}
        hidden_ids: dict[str, str] = dict(self._database.rows(_HIDDEN, given)) if unknown else {}
        # Everything is computed beforehand, so that the single writer only has to insert rows.
        prepared = []
        for given_draft in drafts:
            check_chunks(given_draft.text, given_draft.chunks)
            draft = replace(given_draft, document_id=given_draft.document_id or hidden_ids.get(given_draft.source_uri))
            document_id = draft.document_id or new_document_id()
            numbers = self._database.take_chunk_numbers(len(draft.chunks))
            chunk_ids = draft.chunk_ids or [prefixed_chunk_id(document_id, each.sequence_num) for each in draft.chunks]
            pending = PendingGeneration(
                key=0,
                document_id=document_id,
                generation=0,
                expected_generation=draft.expected_generation,
                collection=collection,
                numbers=numbers,
                chunk_ids=chunk_ids,
                payloads=draft.payloads(document_id, numbers, chunk_ids, now),
                source_version=draft.source_version,
            )
            made = Prepared(draft, pending, measure(draft.text), epoch_ms(now), embedded or {})
            prepared.append(made.indexed_from(0))
        written: list[PendingGeneration] = []

        def insert(connection: Connection) -> None:
            written[:] = insert_generations(connection, prepared)
            # Inside the transaction: as soon as it commits the sweeper may see the rows, and must see these keys too.
            self._under_way.update(each.key for each in written)

        try:
            # A sync takes as long as the rest, on a busy disk ten times as long; the one of publishing covers this.
            self._database.write(insert, syncs=False)
        except BaseException:
            # The keys may belong to other generations by now: after a rollback the database hands them out again.
            for each in written:
                self._ended(each.key)
            raise
        try:
            # A generation is never visible in part: it stays pending until all of its rows and points are written.
            for made, pending in zip(prepared, written, strict=True):
                for start in range(CHUNKS_PER_TRANSACTION, len(made.draft.chunks), CHUNKS_PER_TRANSACTION):
                    part = replace(made, pending=pending).indexed_from(start)
                    self._database.write(partial(insert_chunks, prepared=part, start=start), syncs=False)
        except BaseException:
            for pending in written:
                self.abandon(pending)
            raise
        return written

    def _ended(self, key: int) -> None:
        self._under_way[key] -= 1
        if self._under_way[key] <= 0:
            del self._under_way[key]

    def publish(
        self, pending: PendingGeneration, receipt: Receipt[Document] | None = None, vectors: NewVectors | None = None
    ) -> Document:
        """Make a generation the live one, in one transaction with its traces; call it when the engine has all points.

        `vectors` are those of its chunks that were not stored before.
        The generation before keeps its text; its chunks are gone and their points queued for deletion.

        Raises:
            DocumentChangedError: someone else changed the document meanwhile; `abandon` the generation.
            ConflictError: the same request was completed meanwhile; `abandon`, then ask the ledger.
        """
        tenant, document_id = pending.collection.tenant, pending.document_id

        def work(connection: Connection) -> Document:
            (document,) = self._publish(connection, [pending], vectors)
            self._audit.record(connection, tenant, "publish_document", document_id, receipt, document)
            return document

        published = self._database.write(work)
        self._ended(pending.key)
        return published

    def publish_records(
        self,
        collection: Collection,
        pending: Sequence[PendingGeneration],
        vectors: NewVectors | None,
        changes: Sequence[FieldChange],
        turns: Mapping[str, int],
        receipt: Receipt[PublishedRecords] | None,
    ) -> PublishedRecords:
        """Make generations of records the live ones and change fields of others, all in one transaction.

        `vectors` are those of their chunks that were not stored before, `turns` the highest number of an exchange that
        each conversation had when numbers behind it were given.

        Raises:
            DocumentChangedError: a document was changed meanwhile, a conversation has got further exchanges, or a
                document that a record quotes was deleted for good.
        """
        tenant, name = collection.tenant, collection.name

        def work(connection: Connection) -> PublishedRecords:
            # Another process may have added exchanges to the same conversation in the meantime.
            for conversation_id, last in turns.items() if self._database.is_shared else ():
                if last_turn(connection, collection, conversation_id) != last:
                    raise changed(conversation_id)
            written, tasks = self._publish(connection, pending, vectors), list[int]()
            for change in changes:
                row = visible_row(connection, tenant, name, change.document_id)
                refuse_other_etag(connection, row, change.etag)
                tasks += change_fields(connection, row, change.fields, self._now())
                written.append(visible_document(connection, tenant, name, change.document_id))
            # Inside the transaction, because a purge may have run since the plan was made.
            quoted = sorted({each for document in written for each in (document.fields.record or {}).get(QUOTED, ())})
            for gone in gone_documents(connection, tenant, quoted) if quoted else ():
                raise changed(gone)
            ids = [record_id_of(document.source_uri) for document in written]
            self._audit.record_all(connection, tenant, "put_record", ids)
            published = PublishedRecords({document.source_uri: document for document in written}, tuple(tasks))
            self._audit.settle(connection, tenant, receipt, published)
            return published

        published = self._database.write(work)
        for each in pending:
            self._ended(each.key)
        return published

    def _publish(
        self, connection: Connection, pending: Sequence[PendingGeneration], vectors: NewVectors | None
    ) -> list[Document]:
        now, steady_ms = self._now(), self._database.steady.now_ms()
        if vectors is not None:
            insert_vectors(connection, vectors, now, steady_ms)
        return publish_generations(connection, pending, now, steady_ms) if pending else []

    def abandon(self, pending: PendingGeneration) -> None:
        """Remove a generation that was not published and queue its points; repeatable; leaves a published one alone."""
        try:
            self._database.write(lambda connection: take_back_generation(connection, pending))
        finally:
            self._ended(pending.key)

    @in_transaction
    def change(
        self,
        connection: Connection,
        tenant: str,
        collection: str,
        document_id: str,
        change: Callable[[DocumentFields], DocumentFields],
        receipt: Receipt[Document] | None = None,
        *,
        etag: str = "",
    ) -> tuple[Document, Sequence[int]]:
        """Give a document the fields that `change` makes of its own, and its chunks the filter keys that follow.

        Return it with the tasks of the outbox that bring the engine up to it, none when nothing changed. An error of
        `change` leaves everything as it was.
        """
        row = visible_row(connection, tenant, collection, document_id)
        refuse_other_etag(connection, row, etag)
        tasks = change_fields(connection, row, change(to_fields(dict(row))), self._now())
        document = visible_document(connection, tenant, collection, document_id)
        self._audit.record(connection, tenant, "update_document", document_id, receipt, document)
        return document, tasks

    @in_transaction
    def change_chunk(
        self,
        connection: Connection,
        tenant: str,
        collection: str,
        chunk_id: str,
        change: Callable[[Chunk], Chunk],
        receipt: Receipt[StoredChunk] | None = None,
        *,
        etag: str = "",
    ) -> tuple[StoredChunk, Sequence[int]]:
        """Do the same with the tags and metadata of a live chunk; nothing else of it can change.

        Raises:
            ChunkNotFoundError: the collection has no such live chunk.
        """
        statement = SELECT_LIVE_CHUNKS.where(chunks.c.tenant == tenant, chunks.c.chunk_id == chunk_id)
        stored = next(to_stored_chunks(connection.execute(statement)), None)
        if stored is None or stored.document.collection != collection:
            raise ChunkNotFoundError(chunk_id)
        if etag and stored.etag != etag:
            message = "the chunk has another etag by now: read it again"
            raise DocumentChangedError(message, document_id=stored.document.document_id)
        after = change(stored.chunk)
        # Readers see the tags of the document on its chunks: sent back with the others, they are not the chunk's own.
        inherited = set(stored.document.fields.tags) - set(stored.chunk.tags)
        own = {"tags": [tag for tag in after.tags if tag not in inherited], "metadata": dict(after.metadata)}
        tasks: list[int] = []
        if own != {"tags": list(stored.chunk.tags), "metadata": dict(stored.chunk.metadata)}:
            this = chunks.c.chunk_number == stored.chunk_number
            connection.execute(update(chunks).where(this).values(own))
            row = visible_row(connection, tenant, collection, stored.document.document_id)
            tasks = rewrite_payloads(connection, row, this)
            stored = next(to_stored_chunks(connection.execute(statement)))
        self._audit.record(connection, tenant, "update_chunk", chunk_id, receipt, stored)
        return stored, tasks

    @in_transaction
    def drop_source(
        self,
        connection: Connection,
        tenant: str,
        collection: str,
        source_uri: str,
        receipt: Receipt[Deletion] | None = None,
        *,
        permanent: bool,
        etag: str = "",
    ) -> Deleted | None:
        """Take one of several sources from a live document, which stays; None when it has no other, or is not there.

        When it is the first one, the next in order takes its place.
        """
        serving = require_collection(connection, tenant, collection)
        document = _of_source(connection, tenant, collection, source_uri)
        if document is None:
            return None
        row, now = visible_row(connection, tenant, collection, document.document_id), self._now()
        key, names = row["document_key"], document_aliases.c
        aliases = select(names.source_path).where(names.document_key == key).order_by(names.source_path).limit(1)
        next_source = connection.execute(aliases).scalar()
        if next_source is None:
            return None
        refuse_other_etag(connection, row, etag)
        # A document has a first source and aliases; when the first goes, an alias takes its place.
        is_first = source_uri == row["source_path"]
        alias = next_source if is_first else source_uri
        connection.execute(
            delete(document_aliases).where(names.collection_key == row["collection_key"], names.source_path == alias)
        )
        count_aliases(connection, [key], -1)
        tasks: list[int] = []
        if is_first:
            renamed = {"source_path": next_source}
            of_document = documents.c.document_key == key
            connection.execute(update(documents).where(of_document).values(**renamed, last_modified=now))
            connection.execute(update(generations).where(generations.c.document_key == key, IS_LIVE).values(renamed))
            rename_chapter(connection, row, (source_uri, document.fields), (next_source, document.fields))
            tasks = rewrite_payloads(connection, row, chunks.c.document_key == key)
        else:
            # Searches cache documents, with their sources, until the position of the collection moves.
            advance_position(connection, row["collection_key"], keeps_history=True)
        # The document stays, so that nothing has to be verified as gone.
        nothing = select(generations.c.generation_key).where(false())
        traces = trace_documents(connection, serving, [], nothing, permanent=permanent)
        deleted = Deleted.now(traces, tasks, now)
        insert_deletion(connection, deleted, self._database.steady.now_ms())
        self._audit.record(connection, tenant, "drop_source", document.document_id, receipt, deleted.deletion)
        return deleted

    @in_transaction
    def delete(
        self,
        connection: Connection,
        tenant: str,
        collection: str,
        document_id: str,
        receipt: Receipt[Deletion] | None = None,
        *,
        permanent: bool = True,
        etag: str = "",
        where: Filter | None = None,
        operation_id: str = "",
    ) -> Deleted:
        """Delete a document with all its generations, for good or so that it can be restored.

        No reader finds any part of it afterwards. It counts as done by the operation, if one is given, with the records
        that are deleted because they quote it.

        Raises:
            DocumentChangedError: its etag is not the given one, or no chunk of it matches `where`, if these are given.
        """
        if where is not None:
            # The etag of a document does not cover its chunks.
            of_this = (
                documents.c.collection_key == collection_key(connection, tenant, collection),
                documents.c.document_id == document_id,
            )
            keys = (
                select(generations.c.generation_key)
                .join_from(generations, documents)
                .where(*of_this, generations.c.state.in_(("LIVE", "DELETED")))
            )
            if not connection.execute(select(exists().where(chunks_matching(keys, where)))).scalar_one():
                raise changed(document_id)
        which = IS_STORED if permanent else IS_VISIBLE
        rows = document_rows(connection, tenant, collection, [document_id], which)
        if not rows:
            raise DocumentNotFoundError(document_id)
        refuse_other_etag(connection, rows[0], etag)
        serving = require_collection(connection, tenant, collection)
        deleted = self._delete(connection, serving, rows, receipt, permanent=permanent)
        if operation_id:
            count_done(connection, tenant, operation_id, deleted.deletion.documents)
        return deleted

    @in_transaction
    def delete_all(
        self,
        connection: Connection,
        collection: Collection,
        document_ids: Sequence[str],
        receipt: Receipt[Deletion] | None = None,
        *,
        permanent: bool,
        unfinished_id: str = "",
        is_last: bool = True,
    ) -> Deleted:
        """Delete several documents in one transaction; those that are gone already are left out.

        Of a deletion in several steps each has the same `unfinished_id`, and returns what all so far deleted. The one
        that `is_last` stores the answer.
        """
        serving = require_collection(connection, collection.tenant, collection.name)
        which = IS_STORED if permanent else IS_VISIBLE
        rows = document_rows(connection, collection.tenant, collection.name, document_ids, which)
        return self._delete(
            connection, serving, rows, receipt, permanent=permanent, unfinished_id=unfinished_id, is_last=is_last
        )

    def _delete(
        self,
        connection: Connection,
        collection: Collection,
        rows: Sequence[RowMapping],
        receipt: Receipt[Deletion] | None,
        *,
        permanent: bool,
        unfinished_id: str = "",
        is_last: bool = True,
    ) -> Deleted:
        deleted = (delete_documents if permanent else hide_documents)(connection, collection, rows, self._now())
        document_ids = deleted.traces.document_ids
        now = self._database.steady.now_ms()
        deleted = insert_deletion(connection, deleted, now, unfinished_id=unfinished_id, is_last=is_last)
        if is_last:
            self._audit.settle(connection, collection.tenant, receipt, deleted.deletion)
        action = "delete_document" if permanent else "hide_document"
        request_id = receipt.key.request_id if receipt else ""
        self._audit.record_all(connection, collection.tenant, action, document_ids, request_id)
        return deleted

    def refuse_unseen_quotes(self, collection: Collection, document_ids: Sequence[str]) -> None:
        """Return if the caller may delete documents for good, with the records that quote them.

        Raises:
            PermissionDeniedError: as `delete_all` does, which looks at each step again.
        """
        with self._database.read() as connection:
            quoting_rows(connection, collection, document_ids)

    def leftovers(self) -> list[PendingGeneration]:
        """Return the pending generations that nobody writes any more, oldest first, without their payloads."""
        is_pending = generations.c.state == GenerationState.PENDING.value
        with self._database.read() as connection:
            rows = connection.execute(select(generations.c.generation_key, generations.c.owner).where(is_pending)).all()
            others = self._database.other_owners(connection)
        pending = {row.generation_key for row in rows if row.owner not in others}
        # `under_way` is read after the rows, so that it covers everything still being written, and before the rows are
        # read again: a generation that was published in between is no longer pending.
        unwritten = pending - self.under_way
        g, d = generations.c, documents.c
        statement = (
            select(g.generation_key, g.generation, d.document_id, d.live_generation, *collections.c)
            .join_from(generations, documents)
            .join(collections, g.collection_key == collections.c.collection_key)
            .where(is_pending, g.generation_key.in_(unwritten))
            .order_by(g.generation_key)
        )
        numbers = select(chunks.c.chunk_number, chunks.c.chunk_id).order_by(chunks.c.sequence_num)
        found = []
        with self._database.read() as connection:
            for row in connection.execute(statement).mappings().all():
                of_this = chunks.c.generation_key == row[g.generation_key]
                written = connection.execute(numbers.where(of_this)).all()
                found.append(
                    PendingGeneration(
                        key=row[g.generation_key],
                        document_id=row[d.document_id],
                        generation=row[g.generation],
                        expected_generation=row[d.live_generation],
                        collection=to_collection(row),
                        numbers=[each.chunk_number for each in written],
                        chunk_ids=[each.chunk_id for each in written],
                        payloads=(),
                    )
                )
        return found

    def collections_with_expiry(self) -> list[Collection]:
        """Return the collections of all tenants that have superseded generations with chunks."""
        past = select(generations.c.collection_key).where(generations.c.superseded_time.is_not(None))
        statement = select(collections).where(collections.c.collection_key.in_(past))
        return [to_collection(row) for row in self._database.query(statement).mappings()]

    def sweep_generations(self, uid: str, budget: Budget) -> int:
        """Remove the chunks of generations of a collection whose retention has passed; return of how many."""

        def sweep_some(connection: Connection) -> int:
            row = connection.execute(select(collections).where(collections.c.uid == uid)).mappings().first()
            if row is None:
                return 0
            key = row[collections.c.collection_key]
            expired = (
                select(generations.c.generation_key, generations.c.live_to)
                .where(
                    generations.c.collection_key == key,
                    generations.c.state == GenerationState.SUPERSEDED.value,
                    generations.c.superseded_time <= expiry(to_collection(row), self._database.steady.now_ms()),
                )
                .order_by(generations.c.live_to)
                .limit(_GENERATIONS_PER_TRANSACTION)
            )
            found = connection.execute(expired).all()
            if not found:
                return 0
            keys, up_to = [each.generation_key for each in found], found[-1].live_to
            remove_chunks(connection, chunks.c.generation_key.in_(keys))
            connection.execute(delete(chunks).where(chunks.c.generation_key.in_(keys)))
            connection.execute(
                update(generations).where(generations.c.generation_key.in_(keys)).values(superseded_time=None)
            )
            # At earlier positions readers of the past would miss these chunks.
            of_collection = (collections.c.collection_key == key, collections.c.readable_from < up_to)
            connection.execute(update(collections).where(*of_collection).values(readable_from=up_to))
            return len(found)

        done = 0
        # A few at a time, so that others can write in between and a shutdown waits for one batch only.
        while count := self._database.write(sweep_some):
            done += count
            budget.check()
        return done

    def _first(self, statement: Select[Any], given: Mapping[str, str]) -> Document | None:
        rows = self._database.rows(statement, given)
        return to_document(rows[0]) if rows else None


def _of_source(connection: Connection, tenant: str, collection: str, source_uri: str) -> Document | None:
    """Return the visible document with this source, or the one it is an alias of."""
    given = {"tenant": tenant, "collection": collection, "value": source_uri}
    # Sources first: lookups by an alias are rare.
    row = connection.execute(_BY_SOURCE, given).first() or connection.execute(_BY_ALIAS, given).first()
    return None if row is None else to_document(row)
