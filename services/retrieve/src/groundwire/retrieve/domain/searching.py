"""What a search takes and what it gives."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from groundwire.kernel.collection import Collection, SearchMode
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filters import Filter
from groundwire.kernel.hit import StoredChunk
from groundwire.kernel.query_log import QueryType
from groundwire.retrieve.domain.chapter_rules import ChapterRules
from groundwire.retrieve.domain.fusion import FusedScore
from groundwire.retrieve.domain.query_types import QueryStrategy
from groundwire.retrieve.domain.screening import Screen


class ResultOrder(StrEnum):
    """In which order results are shown; they are always selected by relevance."""

    RELEVANCE = "relevance"
    TIMESTAMP_DESC = "timestamp_desc"
    TIMESTAMP_ASC = "timestamp_asc"


class SearchState(StrEnum):
    """How far a search has come (requirement S3-28), in this order."""

    RECEIVED = "RECEIVED"
    EMBEDDING = "EMBEDDING"
    SEARCHING = "SEARCHING"
    RANKED = "RANKED"
    VALIDATED = "VALIDATED"
    COMPLETED = "COMPLETED"


@dataclass(frozen=True, slots=True)
class PreparedVector:
    """A query's vector by this server's model, and the seconds it took."""

    vector: Vectors
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A checked request. None means: what the collection says.

    `query` is the caller's text, unchanged. `top_k` >= 1; `min_relevance` and `dense_weight` are in [0, 1].
    `where` has the caller's field names, which are checked against the collection during the search.
    `vector` is the caller's own embedding of the query: float32, finite, of any length. `prepared` is this server's
    own, made beforehand together with others. `query_types` are preferred, most wanted first; empty means all.
    """

    tenant: str
    collection: str
    query: str
    where: Filter | None = None
    top_k: int | None = None
    min_relevance: float | None = None
    mode: SearchMode | None = None
    dense_weight: float | None = None
    order: ResultOrder = ResultOrder.RELEVANCE
    collapse_duplicates: bool = True
    vector: Vectors | None = None
    prepared: PreparedVector | None = None
    query_types: tuple[QueryType, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """A request with every default filled in and its filter in canonical form.

    `terms` and `phrases` are what the lexical leg looks for; both are empty when it does not run. `query_type` is what
    the query was classified as, `applied_type` the one whose `strategy` applies.
    """

    collection: Collection
    vector: Vectors
    where: Filter | None
    mode: SearchMode
    top_k: int
    min_relevance: float
    dense_weight: float
    rules: ChapterRules
    query_type: QueryType
    applied_type: QueryType
    strategy: QueryStrategy
    screen: Screen
    terms: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One result; `rank` counts from 1."""

    rank: int
    score: FusedScore
    stored: StoredChunk


@dataclass(frozen=True, slots=True)
class SearchCounts:
    """What became of the candidates that did not become results.

    Of `candidates`, `stale` were not live any more, `duplicates` repeated the text of a better one,
    `below_threshold` stayed under the smallest relevance, `rejected` have a source that is not approved, and
    `incomplete` lack required metadata.
    """

    candidates: int
    stale: int
    duplicates: int
    below_threshold: int
    rejected: int = 0
    incomplete: int = 0


@dataclass(frozen=True, slots=True)
class SearchTimes:
    """Seconds; `total_s` >= `embedding_s` + `search_s`. `states` has the moment each of the six states was reached."""

    embedding_s: float
    search_s: float
    total_s: float
    states: tuple[tuple[SearchState, datetime], ...]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Results in the order asked for, with what was applied and how it went.

    `coverage` is the share of the query's distinct words that occur in the results, in [0, 1].
    """

    hits: tuple[SearchHit, ...]
    plan: SearchPlan
    counts: SearchCounts
    coverage: float
    times: SearchTimes
