"""Collections and the profiles that set their rules (requirements C01, C05, C15, C28)."""

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from groundwire.kernel.chunk import MAX_CHUNK_CHARS
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.identifiers import etag_of

MAX_CHARS_PER_TOKEN = 8
"""Most code points that one token counts for."""


class ProfileName(StrEnum):
    """The shipped profiles: one for any material, and one for each source design."""

    GENERAL = "general"
    DOCUMENTS = "documents"
    CONVERSATIONS = "conversations"
    MEMORY = "memory"
    WEB = "web"
    BOOK = "book"


class SearchMode(StrEnum):
    """Which retrievers a search runs."""

    HYBRID = "hybrid"
    VECTOR = "vector"
    LEXICAL = "lexical"


class ChunkUnit(StrEnum):
    """What chunk sizes count: tokens of the embedding model or code points."""

    TOKENS = "tokens"
    CHARS = "chars"


MAX_CHUNK_SIZES = {ChunkUnit.TOKENS: MAX_CHUNK_CHARS // MAX_CHARS_PER_TOKEN, ChunkUnit.CHARS: MAX_CHUNK_CHARS}
"""The largest maximum a policy may have; no chunk then has more than MAX_CHUNK_CHARS code points."""


class ChunkerKind(StrEnum):
    """How the borders of chunks are found."""

    STRUCTURE = "structure"
    SENTENCE = "sentence"
    HIERARCHY = "hierarchy"
    FIXED = "fixed"


class DuplicateChunkPolicy(StrEnum):
    """How chunks of equal content are treated: all are indexed, or only the first of a document or collection."""

    KEEP = "keep"
    SKIP_IN_DOCUMENT = "skip_in_document"
    SKIP_IN_COLLECTION = "skip_in_collection"


class FieldType(StrEnum):
    """What a described metadata field holds."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"
    STRING_LIST = "string_list"
    INTEGER_LIST = "integer_list"


@dataclass(frozen=True, slots=True)
class ChunkingPolicy:
    """How texts are cut. Sizes are those of `size_of`, 1 <= minimum <= target <= maximum <= MAX_CHUNK_SIZES[unit].

    `overlap_ratio` is a share of `target` in [0, 0.5). Chunks shorter than `min_chars` code points are
    merged into a neighbour, or flagged undersized when that would break `maximum`. `window_size` is the number of
    sentences on each side that belong to a sentence chunk when it is expanded.
    """

    unit: ChunkUnit
    target: int
    minimum: int
    maximum: int
    overlap_ratio: float
    min_chars: int
    chunker: ChunkerKind = ChunkerKind.STRUCTURE
    window_size: int = 2

    def size_of(self, chars: int, tokens: int) -> int:
        """Return the size of a text, at least 1, in the unit of the policy, given its code points and tokens.

        A tokenizer that skips white space, or has one token for any unknown word, would otherwise make chunks without
        bound: a token counts for at most MAX_CHARS_PER_TOKEN code points.
        """
        if self.unit is ChunkUnit.CHARS:
            return chars
        return max(1, tokens, -(-chars // MAX_CHARS_PER_TOKEN))  # rounded up

    @property
    def digest(self) -> str:
        """Return the SHA-256 (hex) of all rules; a text cut by equal rules has equal chunks."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class MemoryWeights:
    """How much similarity, importance and recency count where memories are ranked, each in [0, 10] (requirement C10).

    The bonus for recency halves every `half_life_days`, in [0.01, 36500].
    """

    similarity: float = 0.5
    importance: float = 0.5
    recency: float = 0.1
    half_life_days: float = 30.0


@dataclass(frozen=True, slots=True)
class RetrievalDefaults:
    """What a search uses when the request does not say.

    `dense_weight` is the share of the dense retriever in [0, 1]; the rest goes to the lexical retriever.
    """

    mode: SearchMode
    top_k: int
    min_relevance: float
    dense_weight: float
    memory: MemoryWeights = MemoryWeights()


@dataclass(frozen=True, slots=True)
class CollectionLimits:
    """What a collection takes: code points of a query, bytes of a document (None: the server's limit).

    With `require_url` a source must be an absolute http or https URL.
    """

    max_query_chars: int = 500
    max_document_bytes: int | None = None
    require_url: bool = False


@dataclass(frozen=True, slots=True)
class FieldDescription:
    """A metadata field that filters derived from questions may use; no `allowed_values` means any value."""

    name: str
    description: str
    type: FieldType
    allowed_values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """The rules of a collection.

    `approved_source_prefixes` bounds which sources may be ingested and returned; empty means all. Replaced
    generations stay searchable as of a snapshot for `generation_retention`. `content_description` and
    `field_descriptions` are for deriving filters from questions; fields that are not described are never used.
    """

    chunking: ChunkingPolicy
    retrieval: RetrievalDefaults
    limits: CollectionLimits = CollectionLimits()
    approved_source_prefixes: tuple[str, ...] = ()
    generation_retention: timedelta = timedelta(0)
    duplicate_chunks: DuplicateChunkPolicy = DuplicateChunkPolicy.KEEP
    content_description: str = ""
    field_descriptions: tuple[FieldDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection of one tenant; its profile never changes.

    `uid` is a random UUID: a deleted and re-created name is another collection. `engine_name` is the
    collection's name in the vector store. `update_time` is when its settings were last changed.
    """

    uid: str
    tenant: str
    name: str
    engine_name: str
    profile: ProfileName
    identity: EmbeddingIdentity
    settings: CollectionSettings
    create_time: datetime
    update_time: datetime

    @property
    def etag(self) -> str:
        """Return an etag of what calls can change: its settings and its model."""
        return etag_of((self.uid, asdict(self.settings), self.identity.digest))


def _settings(
    chunking: ChunkingPolicy, min_relevance: float, *, require_url: bool = False, top_k: int = 5
) -> CollectionSettings:
    retrieval = RetrievalDefaults(SearchMode.HYBRID, top_k, min_relevance, dense_weight=0.5)
    return CollectionSettings(chunking, retrieval, CollectionLimits(require_url=require_url))


def _tokens(target: int, minimum: int, maximum: int, overlap_ratio: float, min_chars: int) -> ChunkingPolicy:
    return ChunkingPolicy(ChunkUnit.TOKENS, target, minimum, maximum, overlap_ratio, min_chars)


PROFILES = {
    ProfileName.GENERAL: _settings(_tokens(96, 20, 192, 0.0, 10), 0.0, top_k=10),
    ProfileName.DOCUMENTS: _settings(_tokens(512, 100, 1024, 0.15, 10), 0.0),
    ProfileName.CONVERSATIONS: _settings(_tokens(400, 1, 800, 0.0, 1), 0.0),
    ProfileName.MEMORY: _settings(_tokens(400, 100, 800, 0.0, 1), 0.0),
    ProfileName.WEB: _settings(ChunkingPolicy(ChunkUnit.CHARS, 1200, 10, 2000, 0.1, 10), 0.3, require_url=True),
    ProfileName.BOOK: _settings(_tokens(750, 500, 1000, 0.0, 10), 0.3),
}
"""The settings that collections start from. The sizes are those of the source designs (C05), but for those of the
general profile (docs/adr/0019)."""
DEFAULT_PROFILE = ProfileName.GENERAL
