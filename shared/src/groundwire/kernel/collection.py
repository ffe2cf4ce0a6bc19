"""Collections and the profiles that set their rules (requirements C01, C05, C15, C28)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from groundwire.kernel.embedder import EmbeddingIdentity


class ProfileName(StrEnum):
    """The shipped profiles, one for each source design."""

    DOCUMENTS = "documents"
    CONVERSATIONS = "conversations"
    MEMORY = "memory"
    WEB = "web"
    BOOK = "book"


class SearchMode(StrEnum):
    """Which legs a search runs."""

    HYBRID = "hybrid"
    VECTOR = "vector"
    LEXICAL = "lexical"


class ChunkUnit(StrEnum):
    """What chunk sizes count: tokens of the embedding model or code points."""

    TOKENS = "tokens"
    CHARS = "chars"


@dataclass(frozen=True, slots=True)
class ChunkingPolicy:
    """How texts are cut. Sizes are in `unit`, 1 <= minimum <= target <= maximum.

    `overlap_ratio` is a share of `target` in [0, 0.5). Chunks shorter than `min_chars` code points are
    merged into a neighbour, or flagged undersized when that would break `maximum`.
    """

    unit: ChunkUnit
    target: int
    minimum: int
    maximum: int
    overlap_ratio: float
    min_chars: int


@dataclass(frozen=True, slots=True)
class RetrievalDefaults:
    """What a search uses when the request does not say.

    `dense_weight` is the share of the dense leg in [0, 1]; the rest goes to the lexical leg.
    """

    mode: SearchMode
    top_k: int
    min_relevance: float
    dense_weight: float


@dataclass(frozen=True, slots=True)
class Profile:
    """A named bundle of rules a collection starts from."""

    name: ProfileName
    chunking: ChunkingPolicy
    retrieval: RetrievalDefaults


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection of one tenant; the embedding identity never changes.

    `uid` is a random UUID: a deleted and re-created name is another collection. `engine_name` is the
    collection's name in the vector store.
    """

    uid: str
    tenant: str
    name: str
    engine_name: str
    profile: ProfileName
    identity: EmbeddingIdentity
    chunking: ChunkingPolicy
    retrieval: RetrievalDefaults
    created_time: datetime


def _tokens(target: int, minimum: int, maximum: int, overlap_ratio: float, min_chars: int) -> ChunkingPolicy:
    return ChunkingPolicy(ChunkUnit.TOKENS, target, minimum, maximum, overlap_ratio, min_chars)


def _retrieval(min_relevance: float) -> RetrievalDefaults:
    return RetrievalDefaults(SearchMode.HYBRID, top_k=5, min_relevance=min_relevance, dense_weight=0.75)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(ProfileName.DOCUMENTS, _tokens(512, 100, 1024, 0.15, 10), _retrieval(0.0)),
        Profile(ProfileName.CONVERSATIONS, _tokens(400, 1, 800, 0.0, 1), _retrieval(0.0)),
        Profile(ProfileName.MEMORY, _tokens(400, 100, 800, 0.0, 1), _retrieval(0.0)),
        Profile(ProfileName.WEB, ChunkingPolicy(ChunkUnit.CHARS, 1200, 10, 2000, 0.1, 10), _retrieval(0.3)),
        Profile(ProfileName.BOOK, _tokens(750, 500, 1000, 0.0, 10), _retrieval(0.3)),
    )
}
"""The sizes are those of the source designs (C05); the dense weight is the one measured best on a book (Q6)."""
