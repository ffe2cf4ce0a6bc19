"""Keep records: store them, change, delete and restore them, and link them with one another."""

import hashlib
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TypeAlias

import structlog

from groundwire.catalog.catalog import Catalog
from groundwire.catalog.deletions import Deletion
from groundwire.catalog.documents import FieldChange, PublishedRecords
from groundwire.catalog.generations import GenerationDraft
from groundwire.ingest.changes import DocumentUpkeep
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.writing import GenerationWriter, Written
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import Collection
from groundwire.kernel.contradictions import contradiction
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import (
    AlreadyExistsError,
    DocumentChangedError,
    DocumentNotFoundError,
    GroundwireError,
    InvalidRequestError,
    RecordNotFoundError,
    UnsupportedFilterError,
)
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.filter_parsing import custom_fields, resolve_filter
from groundwire.kernel.filters import And, Comparator, Comparison, Filter
from groundwire.kernel.identifiers import GLOBAL_SCOPE
from groundwire.kernel.identity import Identity
from groundwire.kernel.records import (
    HISTORY,
    MAX_QUOTED,
    MEMORY,
    QUOTED,
    LinkKind,
    RecordLinks,
    StoredRecord,
    new_record_id,
    record_source,
)
from groundwire.kernel.spans import Span

_NEIGHBOURS = 20
# Asked for where the engine cannot look among the memories of the scope alone.
_NEIGHBOURS_OF_ALL = 200
_DELETED_AT_ONCE = 200
# How often a write starts over because somebody else changed one of its records meanwhile.
_ATTEMPTS = 5

_log = structlog.get_logger(__name__)


class RecordOutcome(StrEnum):
    """What a write did to a record; CREATED also where it was deleted softly before."""

    CREATED = "CREATED"
    REPLACED = "REPLACED"
    UNCHANGED = "UNCHANGED"


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to be stored, which keeps the rules of its type.

    `record_id` empty makes a new id. `fields.record` is set; a turn without number gets the next one of its
    conversation. `etag` is that of the stored record, empty for any.
    """

    record_id: str
    text: str
    token_count: int
    fields: DocumentFields
    etag: str = ""

    @property
    def metadata(self) -> Mapping[str, object]:
        """Return its metadata but for tags and the caller's own keys."""
        return self.fields.record or {}

    @property
    def quoted(self) -> Sequence[str]:
        """Return the ids of the documents whose text it holds."""
        quoted: Sequence[str] = (self.fields.record or {}).get(QUOTED, ())
        return quoted


@dataclass(frozen=True, slots=True)
class WrittenRecord:
    """What a write did to a record; `embedded` says whether a vector was made."""

    record_id: str
    outcome: RecordOutcome
    document: Document
    token_count: int
    embedded: bool = False


UpsertItem: TypeAlias = NewRecord | GroundwireError
WriteOutcome: TypeAlias = WrittenRecord | GroundwireError
"""What became of one of several records, which may be refused alone."""


@dataclass(frozen=True, slots=True)
class RecordUpkeep:
    """Records are documents of one chunk: all of a batch become visible in one transaction, as everything else does.

    `conversations` are the locks of those who number the exchanges of a conversation.
    """

    catalog: Catalog
    documents: DocumentUpkeep
    writer: GenerationWriter
    conversations: KeyedLocks

    def upsert(
        self,
        identity: Identity,
        collection: str,
        items: Sequence[UpsertItem],
        budget: Budget,
        receipt: Receipt[list[WriteOutcome]] | None = None,
        *,
        allow_partial: bool = False,
    ) -> list[WriteOutcome]:
        """Store records of different ids, all of them or, with `allow_partial`, those that can be stored.

        Items that are errors already stay what they are.

        Raises:
            EmbeddingMismatchError: the collection belongs to another model.
            PermissionDeniedError: the scope of a record is none of the caller's.
            InvalidRequestError: a record is to become one of another type.
            AlreadyExistsError: the id of a record is taken by one that the caller may not see.
            DocumentNotFoundError: a document that a record quotes was deleted for good.
        """
        found = self.catalog.collections.get(identity.tenant, collection)
        self.writer.embedder.refuse_other_model(found)
        turns = (item for item in items if isinstance(item, NewRecord) and _wants_number(item))
        with ExitStack() as stack:
            # In one order, so that two batches cannot wait for one another.
            for name in sorted({str(turn.metadata["conversation_id"]) for turn in turns}):
                stack.enter_context(self.conversations.hold((found.uid, name), budget))
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    plan = self._plan(identity, found, items, allow_partial=allow_partial)
                    return self._write(found, plan, budget, receipt)
                except DocumentChangedError:
                    if attempt == _ATTEMPTS:
                        raise
        raise AssertionError("the last attempt raises")

    def update(
        self,
        identity: Identity,
        collection: str,
        record_id: str,
        change: Callable[[StoredRecord], NewRecord],
        budget: Budget,
        receipt: Receipt[WrittenRecord] | None = None,
    ) -> WrittenRecord:
        """Store what `change` makes of a live record.

        Raises:
            RecordNotFoundError: the collection has no such record that the caller may see.
            GroundwireError: whatever `upsert` or `change` raises.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            stored = self.catalog.records.get(identity.tenant, collection, record_id, scopes=identity.scopes)
            changed = change(stored)
            try:
                # Even without an etag of the caller: what is not changed is to stay as it is, and not as it was read.
                item = replace(changed, etag=changed.etag or stored.document.etag)
                of_batch: Receipt[list[WriteOutcome]] | None = receipt and receipt.made_from(_only)
                return _only(self.upsert(identity, collection, [item], budget, of_batch))
            except DocumentChangedError:
                if changed.etag or attempt == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt raises")

    def selected(
        self,
        identity: Identity,
        collection: str,
        selection: Sequence[str] | Filter,
        *,
        include_deleted: bool,
        skips_missing: bool = False,
    ) -> list[StoredRecord]:
        """Return the records of these ids, or those that match a filter.

        Raises:
            RecordNotFoundError: an id is that of no record that the caller may see.
            InvalidFilterError: the filter does not fit the fields of the collection.
        """
        tenant, scopes = identity.tenant, identity.scopes
        if isinstance(selection, Sequence):
            ids = list(selection)
        else:
            where = self.resolved(tenant, collection, selection)
            ids = self.catalog.records.ids_matching(
                tenant, collection, where, scopes=scopes, include_deleted=include_deleted
            )
        found = self.catalog.records.find(tenant, collection, ids, scopes=scopes)
        for record_id in ids if isinstance(selection, Sequence) else ():
            is_there = record_id in found and (include_deleted or found[record_id].document.delete_time is None)
            if not (is_there or skips_missing):
                self.catalog.collections.get(tenant, collection)  # it may be the collection that is not there
                raise RecordNotFoundError(record_id)
        return [found[record_id] for record_id in ids if record_id in found]

    def count_tokens(self, text: str) -> int:
        """Return the tokens of a text by the tokenizer of the server's model."""
        return self.writer.embedder.embedder.tokenizer.count(text)

    def vector(self, tenant: str, collection: str, record: StoredRecord) -> Vectors:
        """Return the vector of a record, float32, shape (d,), of length 1.

        Raises:
            DataLossError: the catalog has lost it.
        """
        digest = self.catalog.collections.get(tenant, collection).identity.digest
        vector: Vectors = self.catalog.embeddings.rows(digest, [record.embedding_hash])[0]
        return vector

    def resolved(self, tenant: str, collection: str, where: Filter) -> Filter:
        """Return a filter for the fields of the collection as they are now.

        Raises:
            InvalidFilterError: the filter does not fit them.
        """
        own = self.catalog.chunks.fields(tenant, collection) if custom_fields(where) else {}
        return resolve_filter(where, own, "filter")

    def delete(
        self,
        identity: Identity,
        collection: str,
        selection: Sequence[str] | Filter,
        budget: Budget,
        receipt: Receipt[Deletion] | None = None,
        *,
        permanent: bool,
    ) -> Deletion:
        """Delete records, some hundred in a transaction, so that others can write in between.

        What stops half-way goes on when the same request comes again: its receipt counts all.

        Raises:
            GroundwireError: whatever `selected` raises.
            PermissionDeniedError: a record that would be deleted with them is of a scope that is none of the caller's.
        """
        found = self.catalog.collections.get(identity.tenant, collection)
        unfinished_id, goes_on = str(uuid.uuid4()), False
        if receipt is not None:
            key = receipt.key
            unfinished_id = str(uuid.uuid5(uuid.UUID(key.request_id), found.uid + key.body_digest))
            goes_on = self.catalog.deletions.find(identity.tenant, unfinished_id) is not None
        chosen = self.selected(identity, collection, selection, include_deleted=permanent, skips_missing=goes_on)
        ids = [record.document.document_id for record in chosen]
        if permanent:
            self.catalog.documents.refuse_unseen_quotes(found, ids)
        *parts, last = [ids[start : start + _DELETED_AT_ONCE] for start in range(0, len(ids), _DELETED_AT_ONCE)] or [[]]
        delete = partial(
            self.catalog.documents.delete_all, found, receipt=receipt, permanent=permanent, unfinished_id=unfinished_id
        )
        try:
            for part in parts:
                self.documents.upkeep.finish(delete(part, is_last=False).tasks, budget)
                budget.check()
            deleted = delete(last)
        finally:
            self.documents.upkeep.after_write(found, bool(chosen))
        if not parts:
            return self.documents.upkeep.complete(deleted, budget)
        # Completing a large deletion rewrites files, which would hold up other writes now: housekeeping does it later.
        self.documents.upkeep.finish(deleted.tasks, budget)
        return deleted.deletion

    def restore(
        self, identity: Identity, collection: str, record_ids: Sequence[str], budget: Budget
    ) -> list[WrittenRecord]:
        """Bring back records that were deleted softly, all at once; live ones stay as they are.

        Raises:
            RecordNotFoundError: one of them is not there; none is restored then.
            GroundwireError: whatever restoring documents raises.
        """
        chosen = self.selected(identity, collection, record_ids, include_deleted=True)
        hidden = [record.document.document_id for record in chosen if record.document.delete_time is not None]
        restored = {
            document.document_id: document
            for document in (self.documents.restore_all(identity.tenant, collection, hidden, budget) if hidden else ())
        }
        if len(restored) < len(hidden):  # another call has brought some back since they were read
            chosen = self.selected(identity, collection, record_ids, include_deleted=True)
        return [
            WrittenRecord(
                record.record_id,
                RecordOutcome.CREATED if record.document.document_id in restored else RecordOutcome.UNCHANGED,
                restored.get(record.document.document_id, record.document),
                record.token_count,
            )
            for record in chosen
        ]

    def change_links(
        self,
        identity: Identity,
        collection: str,
        record_id: str,
        links: Sequence[tuple[LinkKind, str]],
        receipt: Receipt[RecordLinks] | None,
        *,
        removes: bool,
    ) -> RecordLinks:
        """Add links of a record to others, or remove them; return all that it has then.

        Raises:
            RecordNotFoundError: the record, or a target to be added, is not there.
            InvalidRequestError: a target is of another scope that is not global.
        """
        tenant = identity.tenant
        ids = [record_id, *(target for _, target in links if not removes)]
        source, *targets = self.selected(identity, collection, ids, include_deleted=False)
        for number, target in enumerate(targets):
            if target.metadata["scope"] not in {source.metadata["scope"], GLOBAL_SCOPE}:
                # Whoever reads the record would learn of a record that it may not see.
                raise InvalidRequestError.of(f"links[{number}].target_record_id", "is a record in another scope")
        return self.catalog.records.change_links(
            *(tenant, collection, record_id, links, receipt), scopes=identity.scopes, removes=removes
        )

    def _plan(
        self,
        identity: Identity,
        collection: Collection,
        items: Sequence[UpsertItem],
        *,
        allow_partial: bool,
    ) -> "_Plan":
        """Work out what becomes of each record, given what is stored now."""
        now = self.catalog.database.clock.now()
        named: list[UpsertItem] = [
            item
            if isinstance(item, GroundwireError) or item.record_id
            else replace(item, record_id=new_record_id(str(item.metadata["type"]), now))
            for item in items
        ]
        # An id that was just made is nobody's, except that those of memories are short enough to meet another one.
        ids = [
            item.record_id
            for given, item in zip(items, named, strict=True)
            if isinstance(item, NewRecord) and (given is item or item.metadata["type"] == MEMORY)
        ]
        plan = _Plan(self.catalog.records.find(identity.tenant, collection.name, ids) if ids else {}, {}, [])
        quoted = sorted({each for item in named if isinstance(item, NewRecord) for each in item.quoted})
        # Whatever the caller may see of them: what was deleted for good must not come back as a quote.
        gone = self.catalog.documents.locate(identity.tenant, quoted, None)[1] if quoted else set()
        turns = _Turns(lambda name: self.catalog.records.last_turn(collection, name))
        for number, (given, item) in enumerate(zip(items, named, strict=True)):
            if isinstance(item, GroundwireError) or isinstance(given, GroundwireError):
                plan.items.append(item)
                continue
            stored = plan.stored.get(item.record_id)
            # The id that was made for it is taken: another attempt makes another one.
            if stored is not None and not given.record_id:
                raise DocumentChangedError("a new id is taken already", document_id=item.record_id)
            try:
                _refuse(identity, item, stored, f"records[{number}]")
                for document_id in gone.intersection(item.quoted):
                    raise DocumentNotFoundError(document_id)
            except GroundwireError as error:
                if not allow_partial:
                    raise
                plan.items.append(error)
                continue
            current = item if stored is None else _with_history_of(item, stored)
            plan.items.append(turns.numbered(current, stored) if _wants_number(current) else current)
        return replace(plan, turns=turns.before)

    def _write(
        self,
        collection: Collection,
        plan: "_Plan",
        budget: Budget,
        receipt: Receipt[list[WriteOutcome]] | None,
    ) -> list[WriteOutcome]:
        drafts, changes = plan.drafts(), plan.changes()
        # No transaction then: whoever runs the call stores its answer.
        if not drafts and not changes:
            return plan.outcomes({}, frozenset())

        def publish(written: Written) -> list[WriteOutcome]:
            def outcomes(published: PublishedRecords) -> list[WriteOutcome]:
                return plan.outcomes(published.documents, written.new_texts)

            of_published: Receipt[PublishedRecords] | None = receipt and receipt.made_from(outcomes)
            published = self.catalog.documents.publish_records(
                collection, written.pending, written.vectors, changes, plan.turns, of_published
            )
            tasks.extend(published.tasks)
            return outcomes(published)

        tasks: list[int] = []
        leaves_work = True  # after a failure: points that nobody needs
        try:
            done = self.writer.write(collection, drafts, publish, budget) if drafts else publish(Written())
            written = [each.document for each in done if isinstance(each, WrittenRecord)]
            # Points of the generations before, and what the engine does not do of `tasks`.
            leaves_work = bool(tasks) or any(document.generation > 1 for document in written)
        finally:
            self.documents.upkeep.after_write(collection, leaves_work)
        if tasks:
            self.documents.upkeep.finish(tasks, budget)
        self._suggest_contradictions(collection, plan.new_memories(), budget)
        return done

    def _suggest_contradictions(self, collection: Collection, record_ids: Sequence[str], budget: Budget) -> None:
        """Link each of the live memories to those of its scope that it seems to contradict; links of an old text go.

        The engine finds what is about the same, and rules find what opposes it. A failure is logged and not raised: the
        memories are written.
        """
        if not record_ids:
            return
        try:
            written = self.catalog.records.find(collection.tenant, collection.name, record_ids)
            vectors = self.catalog.embeddings.get(
                collection.identity.digest, [each.embedding_hash for each in written.values()]
            )
            suggested: dict[str, list[str]] = {}
            for record_id, record in written.items():
                vector = vectors.get(record.embedding_hash)
                if vector is None:
                    continue
                scope = record.metadata["scope"]
                of_scope = And(
                    (Comparison("record_type", Comparator.EQ, MEMORY), Comparison("scope", Comparator.EQ, scope))
                )
                try:
                    points = self.writer.vectors.search(
                        collection.engine_name, vector, _NEIGHBOURS, budget, where=of_scope
                    )
                except UnsupportedFilterError:
                    points = self.writer.vectors.search(collection.engine_name, vector, _NEIGHBOURS_OF_ALL, budget)
                numbers = [point.number for point in points]
                near = self.catalog.records.at_numbers(collection.tenant, collection.name, numbers)
                # Type and scope once more: the engine may have searched without them, or lag behind a change of them.
                suggested[record_id] = [
                    other.record_id
                    for other in near
                    if other.record_id != record_id
                    and (other.metadata["type"], other.metadata["scope"]) == (MEMORY, scope)
                    and contradiction(record.text, other.text) is not None
                ]
            self.catalog.records.suggest_contradictions(collection.tenant, collection.name, suggested)
        except GroundwireError as error:
            _log.warning("memories are not compared with others", collection=collection.name, error=str(error))


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is stored of some records, and what becomes of them, in the order of the request.

    `turns` are the highest numbers of exchanges that conversations had when others were given.
    """

    stored: Mapping[str, StoredRecord]
    turns: Mapping[str, int]
    items: list[UpsertItem]

    def drafts(self) -> list[GenerationDraft]:
        """Return the generations to be written: of new records and of new texts."""
        drafts = []
        for item in self._records():
            if self._text_changes(item):
                live, stored = self._live(item), self.stored.get(item.record_id)
                draft = GenerationDraft(
                    # A record that was deleted softly and is stored again gets a new generation.
                    document_id=None if stored is None else stored.document.document_id,
                    source_uri=record_source(item.record_id),
                    format=DocumentFormat.TEXT,
                    source_hash=hashlib.sha256(item.text.encode()).hexdigest(),
                    fields=item.fields,
                    text=item.text,
                    chunks=[_chunk(item)],
                    expected_generation=0 if live is None else live.document.generation,
                )
                drafts.append(draft)
        return drafts

    def new_memories(self) -> list[str]:
        """Return the ids of the memories that are new or have a new text."""
        return [
            item.record_id for item in self._records() if item.metadata["type"] == MEMORY and self._text_changes(item)
        ]

    def changes(self) -> list[FieldChange]:
        """Return the new fields of records whose texts stay."""
        changes = []
        for item in self._records():
            live = self._live(item)
            if live is not None and not self._text_changes(item) and live.document.fields != item.fields:
                changes.append(FieldChange(live.document.document_id, live.document.etag, item.fields))
        return changes

    def outcomes(self, documents: Mapping[str, Document], new_texts: frozenset[str]) -> list[WriteOutcome]:
        """Return what became of the records, given the documents that were written, by source, and the new texts."""
        outcomes: list[WriteOutcome] = []
        for item in self.items:
            if isinstance(item, GroundwireError):
                outcomes.append(item)
                continue
            document = documents.get(record_source(item.record_id))
            if document is None:
                stored = self.stored[item.record_id].document
                outcomes.append(WrittenRecord(item.record_id, RecordOutcome.UNCHANGED, stored, item.token_count))
                continue
            outcome = RecordOutcome.CREATED if self._live(item) is None else RecordOutcome.REPLACED
            embedded = self._text_changes(item) and _chunk(item).embedding_hash in new_texts
            outcomes.append(WrittenRecord(item.record_id, outcome, document, item.token_count, embedded))
        return outcomes

    def _records(self) -> Iterator[NewRecord]:
        return (item for item in self.items if isinstance(item, NewRecord))

    def _live(self, item: NewRecord) -> StoredRecord | None:
        stored = self.stored.get(item.record_id)
        return stored if stored is not None and stored.document.delete_time is None else None

    def _text_changes(self, item: NewRecord) -> bool:
        live = self._live(item)
        return live is None or live.text != item.text


class _Turns:
    """Numbers the exchanges of one batch: both sides share a number, and a side that speaks again begins the next one.

    `before` are the highest numbers that the conversations had, as far as numbers were given.
    """

    def __init__(self, last: Callable[[str], int]) -> None:
        self._last = last
        self.before: dict[str, int] = {}
        self._spoken: defaultdict[str, list[set[str]]] = defaultdict(list)

    def numbered(self, item: NewRecord, stored: StoredRecord | None) -> NewRecord:
        """Return the turn with its number: the one that it has already, else the next of its conversation."""
        name, role = str(item.metadata["conversation_id"]), str(item.metadata["role"])
        number = None if stored is None else stored.metadata.get("turn_index")
        if number is None:
            if name not in self.before:
                self.before[name] = self._last(name)
            exchanges = self._spoken[name]
            if not exchanges or role in exchanges[-1]:
                exchanges.append(set())
            exchanges[-1].add(role)
            number = self.before[name] + len(exchanges)
        return replace(item, fields=replace(item.fields, record={**item.metadata, "turn_index": number}))


def _wants_number(item: NewRecord) -> bool:
    return item.metadata["type"] == "turn" and item.metadata.get("turn_index") is None


def _refuse(identity: Identity, item: NewRecord, stored: StoredRecord | None, place: str) -> None:
    """Return if the record may be written over what is stored under its id, if anything is."""
    identity.require_scope(str(item.metadata["scope"]))
    if stored is not None and not identity.allows_scope(stored.metadata["scope"]):
        raise AlreadyExistsError(f"the id {item.record_id!r} is taken", resource=item.record_id)
    if stored is not None and stored.metadata["type"] != item.metadata["type"]:
        raise InvalidRequestError.of(f"{place}.record_type", f"the record is of the type {stored.metadata['type']}")
    if stored is not None and len({*stored.metadata.get(QUOTED, ()), *item.quoted}) > MAX_QUOTED:
        said = f"would be more than {MAX_QUOTED}, together with those that earlier texts of the record quote"
        raise InvalidRequestError.of(f"{place}.quoted_document_ids", said)
    if item.etag and (stored is None or stored.document.etag != item.etag):
        raise DocumentChangedError("the record has changed since: read it again", document_id=item.record_id)


def _with_history_of(item: NewRecord, stored: StoredRecord) -> NewRecord:
    """Return a record with the history of the one that it replaces: what is stored here is known here.

    It goes on quoting what that one quotes, because the earlier text stays for its citations.
    """
    record = {key: value for key, value in item.metadata.items() if key != HISTORY}
    if HISTORY in stored.metadata:
        record[HISTORY] = stored.metadata[HISTORY]
    if QUOTED in stored.metadata:
        record[QUOTED] = list(dict.fromkeys([*stored.metadata[QUOTED], *item.quoted]))
    return replace(item, fields=replace(item.fields, record=record))


def _chunk(item: NewRecord) -> Chunk:
    """Return the one chunk of a record; its topic, else its type, stands where others have a heading."""
    span = Span.of(item.text)
    heading = str(item.metadata.get("topic") or item.metadata["type"])
    return Chunk(0, span, item.text, item.token_count, heading, None, (), 0)


def _only(written: list[WriteOutcome]) -> WrittenRecord:
    (one,) = written
    if isinstance(one, GroundwireError):
        raise one
    return one
