"""What a search takes and what it gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from groundwire.catalog.filters import Scopes
from groundwire.kernel.chunk import StoredChunk
from groundwire.kernel.collection import Collection, SearchMode
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filters import Filter
from groundwire.kernel.identifiers import GLOBAL_SCOPE
from groundwire.kernel.query_log import QueryType
from groundwire.retrieve.queries import ChosenSection, distinct_words
from groundwire.retrieve.ranking import Fate, MemoryScore, RankingRules, Score, Scores
from groundwire.retrieve.vector_search import VectorPlan


class ResultOrder(StrEnum):
    """In which order results are shown; they are always selected by relevance."""

    RELEVANCE = "relevance"
    TIMESTAMP_DESC = "timestamp_desc"
    TIMESTAMP_ASC = "timestamp_asc"


class Ranking(StrEnum):
    """What results are ranked by."""

    RELEVANCE = "relevance"
    MEMORY = "memory"


class StageKind(StrEnum):
    """The steps of a search, in this order."""

    EMBED = "EMBED"
    LEXICAL = "LEXICAL"
    DENSE = "DENSE"
    FUSION = "FUSION"
    JOIN = "JOIN"
    RERANK = "RERANK"
    VALIDATE = "VALIDATE"


@dataclass(frozen=True, slots=True)
class StageTrace:
    """What a step did: candidates that came out, seconds, and of the search by vector its plan.

    `resolved_clause` is the clause that the engine cannot evaluate, if one decided the path.
    """

    kind: StageKind
    count: int
    elapsed_s: float
    path: VectorPlan | None = None
    resolved_clause: str = ""


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

    `query` is the caller's text, unchanged; `context` is what it goes on from, empty for nothing. Records are found in
    `scopes` alone, None for all.
    `top_k` >= 1; `min_relevance` and `dense_weight` are in [0, 1].
    `where` has the caller's field names, which are checked against the collection during the search. `added` are
    conditions of the server besides, which do not count towards the limits of the caller's filter.
    `vector` is the caller's own embedding of the query: float32, finite, of any length. `prepared` is this server's
    own, made beforehand together with others. `query_types` are preferred, most wanted first; empty means all.
    `self_query` asks for a filter derived from the query, asked at `asked` (None: now); `self_query_failed` says that
    there is none because deriving it failed. `top_down` chooses sections first.
    `ranking` MEMORY lets importance and recency count besides the relevance, which `min_relevance` tests in any case.
    `exact` compares with every vector. `snapshot` is a position to read as of. `diversity` in [0, 1] is the share of
    their similarity to better results that candidates lose. `max_per_document` >= 1, None for any number. `rerank` asks
    for the reranker, None leaves it to the server.
    """

    tenant: str
    collection: str
    query: str
    scopes: Scopes | None = (GLOBAL_SCOPE,)
    context: str = ""
    where: Filter | None = None
    added: Filter | None = None
    top_k: int | None = None
    min_relevance: float | None = None
    mode: SearchMode | None = None
    dense_weight: float | None = None
    order: ResultOrder = ResultOrder.RELEVANCE
    ranking: Ranking = Ranking.RELEVANCE
    collapse_duplicates: bool = True
    vector: Vectors | None = None
    prepared: PreparedVector | None = None
    query_types: tuple[QueryType, ...] = ()
    self_query: bool = False
    self_query_failed: bool = False
    top_down: bool = False
    asked: datetime | None = None
    exact: bool = False
    snapshot: int | None = None
    diversity: float = 0.0
    max_per_document: int | None = None
    rerank: bool | None = None
    explain: bool = False
    consistency_token: str = ""


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """A request with every default filled in and its filter in canonical form.

    `query_type` is what the query was classified as, `applied_type` the one whose rules apply. `depth` is how many
    candidates the vectors and the words bring each at first, `window` how many of the best are looked at as chunks, not
    only as scores. Every list of `approved_prefixes` has to approve a source, an empty one approves all. Memories are
    as old as they were when the question was `asked`. `reranks` says whether the reranker orders the best.

    `vector`, `terms`, `phrases` and `dense_weight` are known once the query has been embedded and its words looked up.
    `vector` stays None when the model did not answer and the words suffice.
    """

    collection: Collection
    where: Filter | None
    mode: SearchMode
    top_k: int
    depth: int
    window: int
    min_relevance: float
    rules: RankingRules
    query_type: QueryType
    applied_type: QueryType
    approved_prefixes: tuple[Sequence[str], ...]
    asked: datetime
    diversity: float = 0.0
    max_per_document: int | None = None
    reranks: bool = False
    ranking: Ranking = Ranking.RELEVANCE
    vector: Vectors | None = None
    dense_weight: float = 0.0
    terms: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()


class SearchHit(NamedTuple):
    """One result; `rank` counts from 1. `memory` is there where memories are ranked."""

    rank: int
    score: Score
    stored: StoredChunk
    memory: MemoryScore | None = None


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
    """Seconds; `total_s` >= `embedding_s` + `search_s`.

    `states` has the moment each state was reached: all six, or the first and the last when the response was remembered.
    `engine_s` is the part of the search that the search by vector took, None when it did not run.
    """

    embedding_s: float
    search_s: float
    total_s: float
    states: tuple[tuple[SearchState, datetime], ...]
    engine_s: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the steps of one search left behind, from which its ranking can be computed again.

    `scores` are all candidates, best first, of which `listed` are explained: results by rank, then near misses.
    `dense_ranks` and `lexical_ranks` count from 1 and have the candidates that the vectors and the words brought,
    `lexical_raw` the BM25 scores. `similarity_min` and `similarity_max` are over all candidates. `ranks` has the
    results, `steps` and `penalties` when each was selected and what it lost then, `repeated` which better chunk a
    candidate repeats, `withheld` which must not be returned and why. `stored` has those of the listed that are
    visible, `frequencies` the number of chunks that contain each term and phrase, `memory` the components of those that
    were ranked as memories.
    """

    scores: Scores
    listed: tuple[int, ...]
    stages: tuple[StageTrace, ...]
    dense_ranks: Mapping[int, int]
    lexical_ranks: Mapping[int, int]
    lexical_raw: Mapping[int, float]
    similarity_min: float
    similarity_max: float
    steps: Mapping[int, int]
    penalties: Mapping[int, float]
    repeated: Mapping[int, int]
    withheld: Mapping[int, Fate]
    ranks: Mapping[int, int]
    stored: Mapping[int, StoredChunk]
    frequencies: Mapping[str, int]
    rerank_weight: float
    engine: str
    memory: Mapping[int, MemoryScore]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Results in the order asked for, with what was applied and how it went.

    `query` is what was searched for. `position` is the
    position of the catalog that was read, `changed_position` the one at which the collection had last changed.
    `consistency_token` stands for what was read. `lacks_dense`: the words alone found the results of a search that was
    to use vectors as well, because the model or the engine does not answer. `lacks_rerank`: the results are in the
    order that they had before the reranker, because that does not answer. `self_query_failed`: a filter was asked for
    and could not be derived, so there is none of it. `chosen_sections` are those that a search from the top down was
    limited to, best first.
    """

    query: str
    hits: tuple[SearchHit, ...]
    plan: SearchPlan
    counts: SearchCounts
    times: SearchTimes
    position: int
    changed_position: int
    consistency_token: str
    evidence: Evidence | None = None
    lacks_dense: bool = False
    lacks_rerank: bool = False
    self_query_failed: bool = False
    chosen_sections: tuple[ChosenSection, ...] = ()

    def coverage(self) -> float:
        """Return the share of the query's distinct words that occur in the results, in [0, 1]; 0 without words."""
        words = distinct_words(self.query)
        said = words & {word for hit in self.hits for word in distinct_words(hit.stored.chunk.content)}
        return len(said) / len(words) if words else 0.0
