"""Collections, chunks and drafts with defaults, and the catalog's parts on one file."""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from groundwire.catalog.audit import Audit
from groundwire.catalog.chunks import Chunks
from groundwire.catalog.collections import Collections
from groundwire.catalog.database import Database
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import GenerationDraft, PendingGeneration
from groundwire.catalog.idempotency import Ledger
from groundwire.catalog.lexical_index import LexicalCheck
from groundwire.catalog.operations import Operations
from groundwire.catalog.outbox import Outbox
from groundwire.catalog.search_view import SearchViews
from groundwire.catalog.sessions import Sessions
from groundwire.catalog.texts import Texts
from groundwire.catalog.vectors import VectorCache
from groundwire.kernel.chunk import Chunk, StoredChunk, embedding_text
from groundwire.kernel.collection import PROFILES, Collection, ProfileName
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.filters import Filter
from groundwire.kernel.identifiers import RequestKey
from groundwire.kernel.session import Session, SessionState, Transition
from groundwire.kernel.spans import OffsetMap
from tests.catalogs import open_database
from tests.manual_clock import ManualClock

TENANT = "default"
DIMENSIONS = 4
IDENTITY = EmbeddingIdentity("test", "tiny", "1", DIMENSIONS, 256, normalized=True, probe_digest="0" * 64)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def new_session(session_id: str, now: datetime, idle_timeout: timedelta, **fields: Any) -> Session[Any]:
    """Make a session about `docs`."""
    begun = (Transition(None, SessionState.CREATED, now),)
    return Session(session_id, "docs", idle_timeout, now, now, transitions=begun, **fields)


@dataclass(frozen=True)
class LexicalMatch:
    """A chunk with its score."""

    number: int
    score: float


class FullText:
    """The words of one collection, each call on a view of its own."""

    def __init__(self, views: SearchViews) -> None:
        self._views = views

    def search(
        self, tenant: str, collection: str, terms: Sequence[str], phrases: Sequence[str], limit: int
    ) -> Sequence[LexicalMatch]:
        view = self._views.open(tenant, collection)
        found = view.lexical(terms, phrases, limit)
        return [LexicalMatch(*pair) for pair in zip(found.numbers.tolist(), found.scores.tolist(), strict=True)]

    def document_frequencies(self, tenant: str, collection: str, terms: Sequence[str]) -> Mapping[str, int]:
        view = self._views.open(tenant, collection)
        return view.frequencies(terms)

    def live_chunks(self, tenant: str, collection: str) -> int:
        view = self._views.open(tenant, collection)
        return view.chunk_count()


@dataclass
class Catalog:
    """Every part of the catalog on one file."""

    database: Database
    clock: ManualClock

    def __post_init__(self) -> None:
        self.collections = Collections(self.database)
        self.documents = Documents(self.database)
        self.chunks = Chunks(self.database)
        self.views = SearchViews(self.database)
        self.full_text = FullText(self.views)
        self.texts = Texts(self.database)
        self.vectors = VectorCache(self.database)
        self.ledger = Ledger(self.database)
        self.operations = Operations(self.database)
        self.outbox = Outbox(self.database)
        self.recovery = Documents(self.database)  # knows of nothing that is being written, like a new process
        self.audit = Audit(self.database)
        self.sessions = Sessions(self.database)
        self.lexical_check = LexicalCheck(self.database)

    def begin(self, collection: Collection, draft: GenerationDraft) -> PendingGeneration:
        """Write a generation that nobody sees yet."""
        return self.documents.begin(collection, [draft])[0]

    def put(self, collection: Collection, draft: GenerationDraft) -> tuple[Document, PendingGeneration]:
        """Write and publish a generation with random vectors."""
        pending = self.begin(collection, draft)
        chance = np.random.default_rng(pending.numbers[0] if pending.numbers else 0)
        vectors = chance.standard_normal((len(pending.numbers), DIMENSIONS)).astype(np.float32)
        self.vectors.put(collection.identity.digest, [chunk.embedding_hash for chunk in draft.chunks], vectors)
        return self.documents.publish(pending), pending

    def live(self, tenant: str, collection: str, numbers: Sequence[int]) -> dict[int, StoredChunk]:
        """Return those of the chunks that are live, by number, in the order given."""
        with self.chunks.passages(tenant, collection) as reader:
            return {stored.chunk_number: stored for stored in reader.live(numbers)}

    def slice(
        self, tenant: str, collection: str, document_id: str, generation: int, spans: Sequence[tuple[int, int]]
    ) -> list[str]:
        """Return spans of a stored text."""
        reader = self.texts.spans(tenant, collection)
        parts = [reader.at(document_id, generation, *span) for span in spans]
        return [part.text for part in parts if part is not None]

    def numbers_for(self, collection: Collection, word: str) -> list[int]:
        """Return the numbers of the chunks that full-text search finds, ascending."""
        found = self.full_text.search(collection.tenant, collection.name, [word], [], 1000)
        return sorted(match.number for match in found)


def matching(catalog: Catalog, tenant: str, collection: str, where: Filter, limit: int = 10_000) -> list[int]:
    """Return the numbers of the first chunks that match."""
    listed = catalog.chunks.listed(
        tenant, collection, document_id="", where=where, after=0, limit=limit, include_vectors=False
    )
    return [stored.chunk_number for stored in listed.chunks]


def open_catalog(path: Path) -> Catalog:
    clock = ManualClock(NOON)
    return Catalog(open_database(path, clock), clock)


def make_collection(name: str = "docs", tenant: str = TENANT, uid: str | None = None) -> Collection:
    uid = uid or f"uid-{tenant}-{name}"
    return Collection(
        uid=uid,
        tenant=tenant,
        name=name,
        engine_name=f"gw-{uid}",
        profile=ProfileName.DOCUMENTS,
        identity=IDENTITY,
        settings=PROFILES[ProfileName.DOCUMENTS],
        create_time=NOON,
        update_time=NOON,
    )


def make_draft(
    *parts: str,
    source: str = "a.md",
    expected: int = 0,
    document_id: str | None = None,
    fields: DocumentFields | None = None,
    joiner: str = "\n",
) -> GenerationDraft:
    """Make a draft whose text is the parts joined, one chunk for each."""
    text = joiner.join(parts)
    return GenerationDraft(
        document_id=document_id,
        source_uri=source,
        format=DocumentFormat.MARKDOWN,
        source_hash=sha256(text),
        fields=fields or DocumentFields(title="A title"),
        text=text,
        chunks=make_chunks(text, parts, joiner),
        expected_generation=expected,
    )


def make_chunks(text: str, parts: tuple[str, ...], joiner: str = "\n") -> list[Chunk]:
    offsets, start, chunks = OffsetMap(text), 0, []
    for number, part in enumerate(parts):
        chunks.append(
            Chunk(
                sequence_num=number,
                span=offsets.span(start, start + len(part)),
                content=part,
                token_count=len(part.split()),
                chapter="Chapter 1",
                section="1.1",
                hierarchy_path=("Chapter 1", f"Heading {number}"),
                level=2,
                page_numbers=(number + 1, number + 2),
            )
        )
        start += len(part) + len(joiner)
    return chunks


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def vector_key(text: str, number: int = 0) -> str:
    """Return the embedding hash of chunk `number` of `make_chunks` when its content is `text`."""
    return sha256(embedding_text(("Chapter 1", f"Heading {number}"), text))


def request_key(request_id: str = "r-1", digest: str = "d", method: str = "Ingest") -> RequestKey:
    return RequestKey(request_id, method, digest)


def receipt(encode: Callable[[Any], bytes] = lambda _: b"answer", digest: str = "d") -> Receipt[Any]:
    return Receipt(request_key(digest=digest), encode)


WORDS = "tide moon harbour granite yeast comet lantern orchard compass glacier meadow anvil élan naïve 東京".split()  # noqa: SIM905 - easier to read


def random_words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(WORDS, k=count))
