"""What a check of the store asks the catalog: its file, its tables, texts, points and bookkeeping; and its backlog."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from sqlalchemy import (
    Connection,
    Select,
    and_,
    bindparam,
    case,
    func,
    literal,
    or_,
    select,
    text,
    true,
    union,
)

from groundwire.catalog.audit import Aggregate, first_broken
from groundwire.catalog.database import Database
from groundwire.catalog.dialects import among, file_problems, interruptible
from groundwire.catalog.encoding import encode_json
from groundwire.catalog.idempotency import ANSWER_RETENTION
from groundwire.catalog.rows import IS_INDEXED, IS_LIVE, KEY_OF_UID, GenerationState, key_of, to_payload
from groundwire.catalog.schema import (
    audit,
    chunks,
    collections,
    deletions,
    documents,
    embeddings,
    generations,
    index_builds,
    messages,
    operations,
    outbox,
    requests,
    sessions,
    text_segments,
)
from groundwire.catalog.sessions import in_state
from groundwire.catalog.texts import Segment, cut
from groundwire.catalog.vectors import forget_embeddings, has_vector, lacks_vector, to_vector, with_vectors
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import MAX_CHUNK_CHARS
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import DataLossError, GroundwireError, StoreUnavailableError
from groundwire.kernel.filters import Payload
from groundwire.kernel.session import SessionState
from groundwire.kernel.store_findings import FindingKind, StoreFinding

_CHUNK_FINDINGS = 20
# Per rule; nobody works through a longer list.
_FINDINGS_OF_EACH = 1000
_BYTES_PER_NUMBER = 4
_LENGTH_TOLERANCE = 0.01
OVERDUE_AFTER = timedelta(seconds=60)
"""How soon the vectors of a deleted document are gone while the vector store answers."""
_AUDIT_ROWS = 1000


# Invariants: a kind, what to say, and the statement that yields `collection_key` and `document_id` of violations.
_RULES = (
    (
        FindingKind.GENERATION_INCONSISTENT,
        "a live generation that has not the chunks it counts",
        """SELECT d.collection_key, document_id FROM generations AS g JOIN documents AS d USING (document_key)
        WHERE state = 'LIVE' AND g.chunk_count <>
        (SELECT count(*) FROM chunks AS c WHERE c.generation_key = g.generation_key AND upper = 0)""",
    ),
    (
        FindingKind.GENERATION_INCONSISTENT,
        "a superseded generation that still has chunks and is not kept",
        """SELECT d.collection_key, document_id FROM generations AS g JOIN documents AS d USING (document_key)
        WHERE state = 'SUPERSEDED' AND superseded_time IS NULL AND EXISTS
        (SELECT 1 FROM chunks AS c WHERE c.generation_key = g.generation_key)""",
    ),
    (
        FindingKind.GENERATION_INCONSISTENT,
        "a gap in the sequence numbers of a generation",
        """SELECT d.collection_key, document_id FROM chunks AS c JOIN documents AS d USING (document_key)
        GROUP BY generation_key, d.collection_key, document_id
        HAVING min(sequence_num) <> 0 OR max(sequence_num) <> count(*) - 1""",
    ),
    (
        FindingKind.TEXT_DIFFERS,
        "a generation that has not the text it counts",
        """SELECT d.collection_key, document_id FROM generations AS g JOIN documents AS d USING (document_key)
        WHERE g.total_chars <> coalesce(
        (SELECT sum(length(content)) FROM text_segments AS s WHERE s.generation_key = g.generation_key), 0)""",
    ),
    (
        FindingKind.GENERATION_INCONSISTENT,
        "a visible document whose live generation is another one",
        """SELECT collection_key, document_id FROM documents AS d
        WHERE live_generation > 0 AND live_generation IS DISTINCT FROM
        (SELECT generation FROM generations AS g WHERE g.document_key = d.document_key AND state = 'LIVE')""",
    ),
    (
        FindingKind.GENERATION_INCONSISTENT,
        "a live generation of a document that is not visible",
        """SELECT d.collection_key, document_id FROM documents AS d JOIN generations USING (document_key)
        WHERE d.live_generation = 0 AND state = 'LIVE'""",
    ),
    (
        FindingKind.GENERATION_INCONSISTENT,
        "an invisible document without a generation",
        """SELECT collection_key, document_id FROM documents AS d WHERE live_generation = 0 AND NOT EXISTS
        (SELECT 1 FROM generations AS g WHERE g.document_key = d.document_key)""",
    ),
)


@dataclass(frozen=True, slots=True)
class ExpectedPoint:
    """A point as the catalog has it. `vector` is float32, None when the catalog has none that can be right."""

    number: int
    chunk_id: str
    document_id: str
    embedding_hash: str
    payload: Payload
    vector: Vectors | None


_EXPECTED = (
    select(
        chunks.c.chunk_number,
        chunks.c.chunk_id,
        documents.c.document_id,
        chunks.c.embedding_hash,
        chunks.c.payload,
        embeddings.c.vector,
    )
    .join_from(chunks, generations)
    .join(documents, chunks.c.document_key == documents.c.document_key)
    .outerjoin(embeddings, has_vector(bindparam("digest")))
    .where(generations.c.collection_key == KEY_OF_UID.scalar_subquery(), IS_LIVE, IS_INDEXED)
    .order_by(chunks.c.chunk_number)
    .limit(bindparam("limit"))
)
_EXPECTED_BEHIND = _EXPECTED.where(chunks.c.chunk_number > bindparam("after"))
_EXPECTED_OF = _EXPECTED.where(among(chunks.c.chunk_number, bindparam("numbers")))
_EXPECTED_OF_DOCUMENT = _EXPECTED.where(documents.c.document_id == bindparam("document"))


class Inspection(Aggregate):
    """Reads what a check compares: the whole file, which takes seconds for a large one, or batches of snapshots."""

    def file_problems(self, budget: Budget) -> list[StoreFinding]:
        """Return the findings of the database about its own file."""

        def find(connection: Connection) -> Iterator[StoreFinding]:
            for subject, message in file_problems(connection):
                yield StoreFinding(FindingKind.CATALOG_DAMAGED, "", subject, message)

        return self._read(find, budget)

    def table_problems(self, budget: Budget, tenant: str | None = None) -> list[StoreFinding]:
        """Return where tables contradict one another about collections of a tenant, or about all."""

        def find(connection: Connection) -> Iterator[StoreFinding]:
            for kind, message, violations in _RULES:
                broken = text(violations).columns(documents.c.collection_key, documents.c.document_id).subquery()
                of_collections = broken.c.collection_key == collections.c.collection_key
                statement = select(collections.c.name, broken.c.document_id).join(broken, of_collections)
                if tenant is not None:
                    statement = statement.where(collections.c.tenant == tenant)
                for name, document_id in connection.execute(statement.limit(_FINDINGS_OF_EACH)):
                    yield StoreFinding(kind, name, document_id, message)

        return self._read(find, budget)

    def _read(self, find: Callable[[Connection], Iterator[StoreFinding]], budget: Budget) -> list[StoreFinding]:
        """Return the findings of a check of the whole file, which takes long and ends with the budget."""

        def is_over() -> bool:
            try:
                budget.check()
            except GroundwireError:
                return True
            return False

        budget.check()
        try:
            with self._database.read() as connection, interruptible(connection, is_over):
                return list(find(connection))
        except StoreUnavailableError:
            budget.check()  # the database says that it was interrupted; the budget says why
            raise
        except DataLossError as error:
            return [StoreFinding(FindingKind.CATALOG_DAMAGED, "", "", error.message)]

    def next_generation(self, tenant: str, collection: str, after: int) -> int | None:
        """Return the key of the next published generation behind `after`, None when there is none."""
        statement = (
            select(generations.c.generation_key)
            .join_from(generations, collections)
            .where(
                collections.c.tenant == tenant,
                collections.c.name == collection,
                generations.c.state != "PENDING",
                generations.c.generation_key > after,
            )
            .order_by(generations.c.generation_key)
            .limit(1)
        )
        return self._database.query(statement).scalar()

    def text_problems(self, collection: str, key: int) -> list[StoreFinding]:
        """Return the problems of a text: its digest, its parts, or chunks that are not the text of their spans."""
        with self._database.read() as connection:
            generation = (
                connection.execute(
                    select(documents.c.document_id, generations.c.generation, generations.c.text_hash)
                    .join_from(generations, documents)
                    .where(generations.c.generation_key == key)
                )
                .mappings()
                .first()
            )
            if generation is None:
                return []
            columns = (
                text_segments.c.number,
                text_segments.c.char_start,
                text_segments.c.byte_start,
                text_segments.c.content,
            )
            statement = select(*columns).where(text_segments.c.generation_key == key).order_by(text_segments.c.number)
            parts = [Segment(*row) for row in connection.execute(statement)]
            text = "".join(part.content for part in parts)
            name, problems = f"the text of generation {generation['generation']}", list[tuple[str, str]]()
            if hashlib.sha256(text.encode("utf-8")).hexdigest() != generation["text_hash"]:
                problems.append(("", f"{name} is not the one that was stored"))
            elif parts != list(cut(text)):  # slices look for their parts by these places
                problems.append(("", f"the parts of {name} are at wrong places"))
            c = chunks.c
            spans = (c.char_start, c.char_end, c.byte_start, c.byte_end)
            statement = select(c.chunk_id, c.content, c.content_hash, *spans, c.upper).where(c.generation_key == key)
            wrong = []
            for row in connection.execute(statement.order_by(c.sequence_num)).mappings():
                start, end, content = row["char_start"], row["char_end"], row["content"]
                is_left_out = row["upper"] and end - start > MAX_CHUNK_CHARS
                if content != ("" if is_left_out else text[start:end]):
                    wrong.append((row["chunk_id"], f"the chunk is not the text of its span {start}..{end}"))
                elif hashlib.sha256(content.encode("utf-8")).hexdigest() != row["content_hash"]:
                    wrong.append((row["chunk_id"], "the content of the chunk has another digest than stored"))
                elif len(text[start:end].encode("utf-8")) != row["byte_end"] - row["byte_start"]:
                    wrong.append((row["chunk_id"], "the byte offsets of the chunk do not fit its text"))
            # A damaged text makes all of its chunks wrong, so a few of them are enough.
            problems += wrong[:_CHUNK_FINDINGS]
        return [
            StoreFinding(
                FindingKind.TEXT_DIFFERS,
                collection,
                subject or generation["document_id"],
                f"{message}; ingest the document again",
            )
            for subject, message in problems
        ]

    def expected(self, collection: Collection, after: int, limit: int) -> list[ExpectedPoint]:
        """Return up to `limit` points that should exist, with numbers above `after`, ascending."""
        return self._expected(collection, _EXPECTED_BEHIND, {"after": after}, limit)

    def expected_of(self, collection: Collection, numbers: Sequence[int]) -> list[ExpectedPoint]:
        """Return those of the points that should exist, ascending."""
        return self._expected(collection, _EXPECTED_OF, {"numbers": encode_json(list(numbers))}, len(numbers))

    def of_document(self, collection: Collection, document_id: str, limit: int) -> list[int]:
        """Return the numbers of up to `limit` points that should exist of a document, ascending."""
        given = {"document": document_id}
        return [point.number for point in self._expected(collection, _EXPECTED_OF_DOCUMENT, given, limit)]

    def unexplained(self, collection: Collection, numbers: Sequence[int]) -> list[int]:
        """Return those of the points that no chunk has, none is being written for, and no task will remove."""
        owned = (
            select(chunks.c.chunk_number)
            .join_from(chunks, generations)
            .where(
                among(chunks.c.chunk_number, numbers),
                generations.c.collection_key == key_of(collection),
                or_(generations.c.state == GenerationState.PENDING.value, and_(IS_LIVE, IS_INDEXED)),
            )
        )
        with self._database.read() as connection:
            # A pending task explains the difference: the point is about to be rewritten or removed.
            known = {*connection.execute(owned).scalars(), *_waiting(connection, collection)}
        return [number for number in numbers if number not in known]

    def lost_vectors(self, collection: Collection, after: int, limit: int) -> list[tuple[int, str]]:
        """Return number and id of up to `limit` chunks without a point that lack the vector they may come to need.

        Those are chunks of sections and documents, repeated ones, and those of softly deleted documents, with numbers
        above `after`, ascending.
        """
        statement = select(chunks.c.chunk_number, chunks.c.chunk_id).where(
            lacks_vector(collection), ~and_(IS_LIVE, IS_INDEXED), chunks.c.chunk_number > after
        )
        statement = with_vectors(statement, collection).order_by(chunks.c.chunk_number).limit(limit)
        return [(row.chunk_number, row.chunk_id) for row in self._database.query(statement)]

    def engine_collections(self) -> set[str]:
        """Return the engine collections, of all tenants, that serve, are being built, or will be dropped by a task."""
        statement = union(
            select(collections.c.engine_name), select(index_builds.c.engine_name), select(outbox.c.engine_name)
        )
        return set(self._database.query(statement).scalars())

    def waiting(self, collection: Collection) -> set[int]:
        """Return the numbers of points that a task will write or remove."""
        with self._database.read() as connection:
            return _waiting(connection, collection)

    def changed_position(self, collection: Collection) -> int | None:
        """Return the position of the collection's last change, None when it is gone or another index serves it."""
        statement = select(collections.c.changed_position).where(
            collections.c.uid == collection.uid, collections.c.engine_name == collection.engine_name
        )
        return self._database.query(statement).scalar()

    def forget_vectors(self, identity_digest: str, embedding_hashes: Sequence[str]) -> None:
        """Remove stored vectors, so that they are embedded again."""
        self._database.write(lambda connection: forget_embeddings(connection, identity_digest, embedding_hashes))

    def _expected(
        self, collection: Collection, statement: Select[Any], given: Mapping[str, Any], limit: int
    ) -> list[ExpectedPoint]:
        digest = collection.identity.digest
        of_this = {"tenant": collection.tenant, "uid": collection.uid, "digest": digest, "limit": limit}
        found = self._database.rows(statement, {**of_this, **given})
        expected = []
        for number, chunk_id, document_id, embedding_hash, payload, held in found:
            vector = None
            if held is not None and len(held) == collection.identity.dimensions * _BYTES_PER_NUMBER:
                stored = to_vector(held)
                # In double precision, so that rounding does not count as a wrong length.
                length = float(np.linalg.norm(stored.astype(np.float64)))
                is_unit = abs(length - 1.0) <= _LENGTH_TOLERANCE or not stored.any()
                vector = stored if is_unit and np.isfinite(stored).all() else None
            expected.append(ExpectedPoint(number, chunk_id, document_id, embedding_hash, to_payload(payload), vector))
        return expected

    def overdue(self, tenant: str) -> list[StoreFinding]:
        oldest = self._database.steady.now_ms() - OVERDUE_AFTER // timedelta(milliseconds=1)
        statement = (
            select(outbox.c.id, outbox.c.kind, outbox.c.engine_name)
            .where(outbox.c.tenant == tenant, outbox.c.queued_steady < oldest)
            .order_by(outbox.c.id)
            .limit(_FINDINGS_OF_EACH)
        )
        return [
            StoreFinding(FindingKind.OUTBOX_OVERDUE, "", row.engine_name, f"task {row.id} ({row.kind}) is overdue")
            for row in self._database.query(statement)
        ]

    def repeated_requests(self, tenant: str) -> list[StoreFinding]:
        """Return the requests that changed the same thing twice, or whose answer is missing."""
        kept_ms = ANSWER_RETENTION // timedelta(milliseconds=1)
        # A minute less than the retention, so that an answer that is just expiring is no finding.
        recent = self._database.steady.now_ms() - kept_ms + 60_000
        # An id may be reused once its answer has expired.
        twice = (
            select(audit.c.request_id, literal("took effect twice"))
            .where(audit.c.tenant == tenant, audit.c.request_id != "")
            .group_by(audit.c.request_id, audit.c.action, audit.c.resource)
            .having(func.count() > 1, func.max(audit.c.steady_time) - func.min(audit.c.steady_time) < kept_ms)
        )
        unknown = (
            select(audit.c.request_id, literal("took effect, but its answer is not remembered"))
            .outerjoin(requests, (requests.c.tenant == audit.c.tenant) & (requests.c.request_id == audit.c.request_id))
            .where(
                audit.c.tenant == tenant,
                audit.c.request_id != "",
                audit.c.steady_time > recent,
                requests.c.request_id.is_(None),
            )
        )
        with self._database.read() as connection:
            found = [
                *connection.execute(twice.limit(_FINDINGS_OF_EACH)),
                *connection.execute(unknown.limit(_FINDINGS_OF_EACH)),
            ]
        return [
            StoreFinding(FindingKind.REQUEST_REPEATED, "", request_id, f"the request {what}")
            for request_id, what in found
        ]

    def incomplete_sessions(self, tenant: str) -> list[StoreFinding]:
        """Return the sessions that lack messages, or whose last message is not the session's head."""
        gap = func.coalesce(func.max(messages.c.sequence), 0) != func.count(messages.c.sequence)
        end = func.coalesce(func.max(messages.c.sequence), 0) != sessions.c.message_count
        statement = (
            select(
                sessions.c.collection, sessions.c.session_id, case((gap, "have a gap"), else_="do not reach the end")
            )
            .outerjoin(messages)
            .where(sessions.c.tenant == tenant)
            .group_by(sessions.c.session_key)
            .having(or_(gap, end))
            .limit(_FINDINGS_OF_EACH)
        )
        return [
            StoreFinding(FindingKind.SESSION_INCOMPLETE, collection, session_id, f"the messages of the session {what}")
            for collection, session_id, what in self._database.query(statement)
        ]

    def broken_audit(self, tenant: str, budget: Budget) -> list[StoreFinding]:
        """Return the first row of the audit log that was changed, or that follows a removed one."""
        last_id, last_hash = 0, ""
        # In batches: the whole log may not fit into memory.
        while rows := self._audit.rows(tenant, last_id, _AUDIT_ROWS):
            budget.check()
            broken = first_broken(rows, last_hash)
            if broken is not None:
                message = "the record of changes was altered at or before this row"
                return [StoreFinding(FindingKind.AUDIT_BROKEN, "", str(broken.id), message)]
            last_id, last_hash = rows[-1].id, rows[-1].hash
        return []


def _waiting(connection: Connection, collection: Collection) -> set[int]:
    tasks = select(outbox.c.numbers).where(outbox.c.engine_name == collection.engine_name)
    return {number for numbers in connection.execute(tasks).scalars() for number in numbers}


@dataclass(frozen=True, slots=True)
class Backlog:
    """Figures of all tenants together; `outbox_age_s` is that of the oldest task in seconds of service, 0 of none."""

    outbox: int
    outbox_age_s: float
    operations: int
    index_builds: int
    deletions: int
    sessions: int


def read_backlog(database: Database) -> Backlog:
    """Count in one snapshot.

    Raises:
        StoreUnavailableError: the catalog cannot be read.
    """
    now_ms, with_downtime_ms = database.steady.now_ms(), database.steady.with_downtime_ms()
    # Sessions age while no server runs, too.
    open_states = (SessionState.CREATED, SessionState.ACTIVE)
    is_open = or_(*(in_state(state, with_downtime_ms) for state in open_states))
    # One snapshot, so that the figures are consistent.
    with database.read() as connection:
        tasks = select(func.count(), func.min(outbox.c.queued_steady)).select_from(outbox)
        waiting, oldest = connection.execute(tasks).one()
        counts = [
            int(connection.execute(select(func.count()).select_from(table).where(condition)).scalar_one())
            for table, condition in (
                (operations, operations.c.end_time.is_(None)),
                (index_builds, true()),
                (deletions, deletions.c.complete_time.is_(None)),
                (sessions, is_open),
            )
        ]
    age_s = 0.0 if oldest is None else max(0, now_ms - oldest) / 1000
    return Backlog(waiting, age_s, *counts)
