"""Documents, their generations, and the descriptive fields that travel with them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from groundwire.kernel.bounded_cache import bytes_of
from groundwire.kernel.filters import Scalar, Value
from groundwire.kernel.identifiers import etag_of

MAX_NAME_CHARS, MAX_DESCRIPTION_CHARS, MAX_ENTRIES = 1024, 8192, 64
"""Most code points of a title, name, tag, category or project, of a description, and most entries of a list."""
MAX_LIST = 256
"""Most elements of a list in metadata."""
MAX_METADATA_BYTES = 256 * 1024
"""Most bytes of the keys and values of metadata in one request, so that a document always fits into a page."""
ALIASES_SHOWN = 100
"""A document may get any number of aliases, and has to fit into a page."""
_CODES = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en "
    "eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv "
    "ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne "
    "ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss "
    "st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
ISO_639_1 = frozenset(_CODES.split())
"""Two-letter codes of ISO 639-1, `bh` and `sh` included, which it has withdrawn and old records still have."""


def scalar_problem(value: Scalar) -> str:
    """Return what is wrong with a metadata value or list element; empty if nothing is."""
    if isinstance(value, str) and (len(value) > MAX_DESCRIPTION_CHARS or "\x00" in value):
        return f"must have at most {MAX_DESCRIPTION_CHARS} characters and no NUL"
    return "must be a finite number" if isinstance(value, float) and not math.isfinite(value) else ""


class DocumentFormat(StrEnum):
    """File format of the source; the value is the stored spelling (requirements S1-64 and C07, ADR 0008)."""

    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    PDF = "pdf"
    DOCX = "docx"
    RST = "rst"
    CSV = "csv"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class DocumentFields:
    """What the caller says about a document (Dublin Core names, requirements S1-59 to S1-70).

    Lengths keep the bounds above. `language` is an ISO 639-1 code. `tags` are trimmed, non-empty, unique, without
    commas, in the caller's order. `metadata` holds the caller's own flat keys; none is a name of a built-in field.
    `record` is the metadata of a record as `groundwire.schemas.validate_metadata` returns it, without tags and the
    caller's own keys, which are the fields beside it; None of a document that is no record.
    """

    title: str | None = None
    creators: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    description: str | None = None
    date_created: datetime | None = None
    language: str = "en"
    category: str | None = None
    tags: tuple[str, ...] = ()
    project: str | None = None
    metadata: Mapping[str, Value] = field(default_factory=dict)
    record: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class DocumentReference:
    """Names a document of a collection by its id, or by its source or an alias; one of the two is empty."""

    document_id: str = ""
    source_uri: str = ""

    def __str__(self) -> str:
        return self.document_id or self.source_uri


@dataclass(frozen=True, slots=True)
class Document:
    """A document as stored: identity, fields, and the figures of its live generation.

    `generation` counts from 1 per document. `source_hash` is the SHA-256 of the original bytes in
    lower-case hex; `total_chars` counts code points and `total_bytes` UTF-8 bytes of the canonical text.
    `chunk_count` leaves out chunks that stand for whole sections. `rules_digest` identifies the rules, and the reader,
    that the chunks were made by, `tokenizer` the counter of their tokens. `encoding` is that of the original bytes,
    empty where they are no text.
    `delete_time` is set while it is deleted softly; its generation is then the one that a restoration brings back.
    `alias_uris` are the first ALIASES_SHOWN of the `alias_count` other sources that stand for it, in rising order;
    `alias_changes` counts how often these changed. `source_version` is the highest that it was
    ingested with. `memo` keeps what others derive from it, such as its message.
    """

    document_id: str
    collection: str
    source_uri: str
    format: DocumentFormat
    source_hash: str
    fields: DocumentFields
    generation: int
    chunk_count: int
    total_chars: int
    total_bytes: int
    embedding_model: str
    ingest_time: datetime
    update_time: datetime
    rules_digest: str = ""
    tokenizer: str = ""
    encoding: str = ""
    delete_time: datetime | None = None
    alias_uris: tuple[str, ...] = ()
    source_version: int | None = None
    alias_count: int = 0
    alias_changes: int = 0
    # No argument, so that `replace` makes a document without what was derived from the other one.
    memo: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def etag(self) -> str:
        """Return an etag of what callers can change: content, fields, sources and deletion."""
        # The aliases by how often they changed, because only the first of them are loaded.
        fields = {name: getattr(self.fields, name) for name in DocumentFields.__slots__}
        identity = (self.document_id, self.source_uri, self.alias_changes)
        return etag_of((identity, self.generation, self.delete_time is None, fields))

    @property
    def held_bytes(self) -> int:
        """Return roughly the memory that its large parts take."""
        fields = self.fields
        return bytes_of(
            *(self.source_uri, self.alias_uris, fields.title, fields.creators, fields.subjects),
            *(fields.description, fields.tags, fields.metadata, fields.record),
        )

    @property
    def display_title(self) -> str:
        """Return the title, or the last segment of the source."""
        return self.fields.title or file_name(self.source_uri)


def file_name(source_uri: str) -> str:
    """Return the last segment of a source, or all of it when that is empty; never empty."""
    return source_uri.rstrip("/").rsplit("/", 1)[-1] or source_uri
