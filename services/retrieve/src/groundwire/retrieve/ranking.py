"""From scores to results: similarity and words on one scale, what raises and withholds candidates, what is selected.

Scores of candidates are kept column by column (C10).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from groundwire.catalog.chunks import ChunkFacts
from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.collection import MemoryWeights, ProfileName, SearchMode
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filters import And, Comparator, Comparison, Filter
from groundwire.kernel.identifiers import is_approved
from groundwire.kernel.query_log import QueryType
from groundwire.kernel.records import RecordFacts, TurnPlace
from groundwire.retrieve.queries import SectionReference, find_section_reference

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Score(NamedTuple):
    """The scores of one candidate, all in [0, 1], higher is better.

    `lexical` is the share of the best lexical score of the query, 0 when no term matched. `relevance` is what
    results are ordered by: the fused score, to which later steps add. `fused` keeps the fused score, `ranked` the
    relevance before the reranker and `rerank` the reranker's score; None where the step did not run.
    """

    number: int
    relevance: float
    similarity: float
    lexical: float
    fused: float
    ranked: float | None = None
    rerank: float | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of candidates column by column, each of shape (n,); see `Score`.

    Of `ranked` and `rerank` a column is None when the step did not run, a value NaN when it left out the
    candidate.
    """

    numbers: Numbers
    relevance: Floats
    similarity: Floats
    lexical: Floats
    fused: Floats
    ranked: Floats | None = None
    rerank: Floats | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def ordered(self) -> "Scores":
        """Return the candidates best first; ties by lexical score, then by chunk number."""
        return self.take(np.lexsort((self.numbers, -self.lexical, -self.relevance)))

    def raised(self, relevance: Floats) -> "Scores":
        """Return the candidates with another relevance, best first."""
        return replace(self, relevance=relevance).ordered()

    def take(self, at: NDArray[np.intp] | slice) -> "Scores":
        return Scores(*(None if column is None else column[at] for column in self._columns()))  # type: ignore[arg-type]  # in order

    def before(self, others: "Scores") -> "Scores":
        """Return these candidates and the others behind them."""
        columns: list[NDArray[Any] | None] = []
        for first, second in zip(self._columns(), others._columns(), strict=True):  # noqa: SLF001 - the same class
            if first is None and second is None:
                columns.append(None)
                continue
            head = np.full(len(self), np.nan) if first is None else first
            columns.append(np.concatenate([head, np.full(len(others), np.nan) if second is None else second]))
        return Scores(*columns)  # type: ignore[arg-type]  # in order

    def at(self, places: Sequence[int]) -> list[Score]:
        *columns, ranked, rerank = (None if each is None else each[places].tolist() for each in self._columns())
        optional = (
            [None] * len(places) if values is None else [None if math.isnan(each) else each for each in values]
            for values in (ranked, rerank)
        )
        return [Score(*row) for row in zip(*columns, *optional, strict=True)]

    def _columns(self) -> tuple[Numbers | Floats | None, ...]:
        first = (self.numbers, self.relevance, self.similarity, self.lexical, self.fused)
        return *first, self.ranked, self.rerank


def fuse(numbers: Numbers, similarities: Floats | None, lexical: Floats, dense_weight: float) -> Scores:
    """Merge similarities and lexical scores by a weighted sum of scores normalised per query.

    relevance = w * s + (1 - w) * (s_min + l * (s_max - s_min)), with s the similarity, l the lexical score
    divided by the best one, and s_min, s_max over all candidates. The order is that of the min-max
    normalised sum (Bruch, Gai, Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS
    2023, section 4), while the value stays on the scale of the similarity, so that thresholds keep their meaning.

    `similarities`, in [0, 1], are None when nothing was compared; then the lexical share alone is the relevance.
    `lexical` has BM25 scores, 0 where no term matched. `dense_weight` is w in [0, 1].

    Returns:
        Best first; ties by lexical score, then by chunk number.
    """
    best = float(lexical.max(initial=0.0))
    share = lexical / best if best > 0.0 else np.zeros(len(numbers))
    if similarities is None:
        return Scores(numbers, share, np.zeros(len(numbers)), share, share).ordered()
    low, high = (float(similarities.min()), float(similarities.max())) if len(similarities) else (0.0, 0.0)
    relevance = dense_weight * similarities + (1.0 - dense_weight) * (low + share * (high - low))
    return Scores(numbers, relevance, similarities, share, relevance).ordered()


NEUTRAL_IMPORTANCE = 3
"""Of what has none, such as a chunk of a document: the default of memories."""
MOST_IMPORTANT = 5
FULL_INFLUENCE = 0.95
"""Share of the best similarity from which importance and recency count in full."""
NO_INFLUENCE = 0.85
"""Share of the best similarity up to which they do not count. Among 2,000 memories fifty fit 0.8 times as well as the
best one: from there on the answer drowned among important ones (`benchmarks/quality.py memory`)."""
_MS_PER_DAY = 86_400_000.0


@dataclass(frozen=True, slots=True)
class MemoryScore:
    """How the place of a memory came about.

    raw = a * similarity + influence * (b * importance / 5 + W * 0.5^(age_days / H)) + update_bonus, with a, b, W and H
    those of `MemoryWeights`; `recency_bonus` is the last summand in brackets. `update_bonus` is what was missing to the
    best of the older memories that it contradicts. `similarity`, `influence` and `relevance`, which is
    raw / (a + b + W), are in [0, 1]. `age_days` is infinite, and the bonus 0, for what is no record.
    """

    similarity: float
    importance: int
    importance_share: float
    age_days: float
    recency_bonus: float
    influence: float
    raw: float
    relevance: float
    update_bonus: float


def rank_memories(
    scores: Scores,
    records: Mapping[int, RecordFacts],
    weights: MemoryWeights,
    now: datetime,
    contradictions: Mapping[int, Collection[int]],
) -> tuple[Scores, Mapping[int, MemoryScore]]:
    """Return the candidates in the order of memories, with the components of each; ties newest first, then by number.

    `influence` grows from 0 at 0.85 of the best similarity to 1 at 0.95 of it, so that among memories that fit about
    equally well importance and recency decide as the formula says, and a memory that fits clearly worse than the best
    one never gets ahead of it, however important and new it is (requirement S0-34). Of two that contradict each other
    the newer one comes first.

    The relevance of the candidates is their similarity. `records` has those of them that are records,
    `contradictions` of each the numbers of those that contradict it; what is newer than `now` counts as new.
    """
    known = [records.get(number) for number in scores.numbers.tolist()]
    importance = np.array([(each and each.importance) or NEUTRAL_IMPORTANCE for each in known], dtype=np.int64)
    times = np.array([-np.inf if each is None else each.time for each in known], dtype=np.float64)
    similarity, share = scores.relevance, importance / MOST_IMPORTANT
    age_days = np.maximum(0.0, epoch_ms(now) - times) / _MS_PER_DAY
    bonus = weights.recency * np.exp2(-age_days / weights.half_life_days)
    best = float(similarity.max(initial=0.0))
    if best == 0.0:
        influence = np.ones(len(similarity))
    else:
        influence = np.clip((similarity / best - NO_INFLUENCE) / (FULL_INFLUENCE - NO_INFLUENCE), 0.0, 1.0)
    own = weights.similarity * similarity + influence * (weights.importance * share + bonus)
    raw, place = own.copy(), {number: at for at, number in enumerate(scores.numbers.tolist())}
    # The oldest first, so that the newest of several gets what each of them has.
    for at in np.argsort(times, kind="stable").tolist() if contradictions else ():
        others = [place[each] for each in contradictions.get(int(scores.numbers[at]), ()) if each in place]
        raw[at] = max([raw[at], *(raw[other] for other in others if times[other] < times[at])])
    # Divided, not cut off at 1, so that the order stays and nothing ties that did not before (requirement C10).
    relevance = np.minimum(raw / (weights.similarity + weights.importance + weights.recency), 1.0)
    order = np.lexsort((scores.numbers, -times, -raw))
    columns = (similarity, importance, share, age_days, bonus, influence, raw, relevance, raw - own)
    rows = zip(*(column[order].tolist() for column in columns), strict=True)
    ordered = scores.take(order)
    components = dict(zip(ordered.numbers.tolist(), (MemoryScore(*row) for row in rows), strict=True))
    return replace(ordered, relevance=relevance[order]), components


@dataclass(frozen=True, slots=True)
class RankingRules:
    """What the profile of a collection and the type of a query change.

    `neighbours` in [0, 1] is how much of the way a chunk follows a better neighbour, the chunk before or after it.
    `spread` in [0, 1] is what each further chunk of a chapter must be better by to be selected, as a share of the range
    of all relevances. `turns` in [0, 1] is how much of the way a turn of a conversation follows a better one, the turn
    before it. Chunks of `section` are preferred. `weight_shift` is added to the share of the vectors where the request
    does not give one.
    """

    neighbours: float = 0.0
    spread: float = 0.0
    turns: float = 0.0
    section: SectionReference | None = None
    weight_shift: float = 0.0

    @property
    def compares_all(self) -> bool:
        """Return whether all candidates are compared with one another, not only the best."""
        return self.spread > 0.0 or self.section is not None


class Fate(StrEnum):
    """What became of a candidate."""

    RETURNED = "RETURNED"
    BELOW_THRESHOLD = "BELOW_THRESHOLD"
    BEYOND_TOP_K = "BEYOND_TOP_K"
    BEYOND_DOCUMENT = "BEYOND_DOCUMENT"
    DUPLICATE = "DUPLICATE"
    SOURCE_REJECTED = "SOURCE_REJECTED"
    INCOMPLETE = "INCOMPLETE"
    STALE = "STALE"


PROFILE_RULES: Mapping[ProfileName, RankingRules] = MappingProxyType(
    {ProfileName.GENERAL: RankingRules(neighbours=0.2), ProfileName.BOOK: RankingRules(spread=0.2)}
)
"""Measured with `benchmarks/quality.py` (docs/adr/0019): what a small chunk says goes on in the next one, and five
chunks of one chapter of a book answer fewer questions than chunks of five chapters. Others rank chunk by chunk."""
# Chosen on the sum over five sets of questions (docs/adr/0010); 0.15 and 0.1 were too much.
FACTUAL_SHIFT = -0.05
CONCEPTUAL_SHIFT = 0.05
# At 0.3 a small budget of characters gains no more (docs/adr/0019).
NEIGHBOUR_SHARE = 0.2
TURN_SHARE = 0.5
"""What is asked in one turn is answered in the next, often in words that do not say what it is about (measured with
`benchmarks/quality.py memory`)."""
_TURNS = Comparison("record_type", Comparator.EQ, "turn")
SECTION_SHARE = 0.3
"""How much of what is missing to 1 the chunks of a named section gain."""
COVERED = 0.8
"""Share of a chunk's characters that better ones of its document must hold for it to be a repetition."""
_PASSAGES_AT_ONCE = 8
"""Passages judged between two looks at deadline and cancellation."""


class Reranker(Protocol):
    """Reads query and passage together and judges them; slow, and better than any score of either alone."""

    @property
    def name(self) -> str: ...

    def score(self, query: str, passages: Sequence[str], budget: Budget) -> Sequence[float]:
        """Return one score for each passage: higher is better, finite, comparable for one query.

        Raises:
            CallCancelledError: the call was cancelled first.
            DeadlineError: the deadline passed first.
            UnavailableError: the model fails or hangs.
        """


def rules_for(
    profile: ProfileName, mode: SearchMode, where: Filter | None, kind: QueryType, query: str
) -> RankingRules:
    """Return the rules of a profile, with that of turns where a search is for them, and what a type of query changes.

    It is by its filter, or because it is for everything in a collection of conversations. Searches by vectors or words
    alone rank by that score and by what the query's type says, nothing where a section is meant and none is named.
    """
    rules = RankingRules()
    if mode is SearchMode.HYBRID:
        rules = PROFILE_RULES.get(profile, rules)
        conditions = where.clauses if isinstance(where, And) else (where,)
        if _TURNS in conditions or (where is None and profile is ProfileName.CONVERSATIONS):
            rules = replace(rules, turns=TURN_SHARE)
    match kind:
        case QueryType.FACTUAL:
            return replace(rules, weight_shift=FACTUAL_SHIFT)
        case QueryType.CONCEPTUAL:
            neighbours = max(rules.neighbours, NEIGHBOUR_SHARE)
            return replace(rules, neighbours=neighbours, weight_shift=CONCEPTUAL_SHIFT)
        case QueryType.SECTION_BASED:
            return replace(rules, section=find_section_reference(query))


def adjust(
    scores: Scores,
    facts: Sequence[ChunkFacts],
    rules: RankingRules,
    window: int,
    withheld: Collection[int],
    turns: Mapping[int, TurnPlace],
) -> Scores:
    """Return the scores with all adjustments, each of which only raises, within [0, 1].

    `scores` come best first, `facts` in the same order. `window` of the best can be neighbours of one another. `turns`
    says where those that are turns stand in their conversations. `withheld` has the numbers of those that must not be
    returned.

    Returns:
        Best first; ties by lexical score, then by chunk number.
    """
    of = {each.number: each for each in facts}
    adjusted = scores
    if rules.section is not None:
        means = np.array([rules.section.means(of[number].headings) for number in adjusted.numbers.tolist()])
        gain = SECTION_SHARE * (1.0 - adjusted.relevance)
        adjusted = adjusted.raised(np.where(means, adjusted.relevance + gain, adjusted.relevance))
    if rules.neighbours > 0.0:
        near_facts = [of[number] for number in adjusted.numbers[:window].tolist()]
        places = [(each.document_id, each.sequence_num) for each in near_facts]
        relevance = adjusted.relevance.copy()
        # What must not be returned raises nothing either: the relevance of its neighbour would tell what it says.
        at = {
            place: value
            for place, each, value in zip(places, near_facts, relevance.tolist(), strict=False)
            if each.number not in withheld
        }
        best = [max(at.get((document, seq - 1), 0.0), at.get((document, seq + 1), 0.0)) for document, seq in places]
        near = relevance[: len(best)]
        # By what all had before: a chunk does not pass on what its neighbour has given it.
        near += rules.neighbours * np.maximum(0.0, np.array(best) - near)
        adjusted = adjusted.raised(relevance)
    if turns:
        relevance = adjusted.relevance.copy()
        before: dict[TurnPlace, float] = {}
        for number, value in zip(adjusted.numbers.tolist(), adjusted.relevance.tolist(), strict=True):
            if number in turns and number not in withheld:
                before.setdefault(turns[number], value)
        for place, number in enumerate(adjusted.numbers.tolist()):
            if number in turns:
                earlier = next((before[each] for each in turns[number].before() if each in before), 0.0)
                relevance[place] += rules.turns * max(0.0, earlier - relevance[place])
        adjusted = adjusted.raised(relevance)
    return adjusted


def rerank(
    reranker: Reranker, weight: float, query: str, scores: Scores, passages: Sequence[str], budget: Budget
) -> Scores:
    """Return the scores, best first, the first of them judged anew by a model that reads query and passage together.

    relevance' = (1 - w) * relevance + w * (r_min + j * (r_max - r_min)), with j the reranker's score brought to
    0 for the worst and 1 for the best, and r_min, r_max over the relevances of the judged: the value stays on the
    scale of the similarity, as in the fusion.

    `scores` come best first; `passages` are the texts of the first of them, as many as are judged.

    Raises:
        GroundwireError: as `Reranker.score`.
    """
    count = len(passages)
    if count < 2:  # noqa: PLR2004 - one candidate has no order
        return scores
    judged: list[float] = []
    for start in range(0, count, _PASSAGES_AT_ONCE):
        budget.check()
        judged.extend(map(float, reranker.score(query, passages[start : start + _PASSAGES_AT_ONCE], budget)))
    before = scores.relevance[:count]
    low, high = before[-1], before[0]
    # Where all are judged alike there is no span to divide by, and the order stays.
    worst, span = min(judged), (max(judged) - min(judged)) or 1.0
    share = (np.array(judged) - worst) / span
    relevance, ranked, reranked = scores.relevance.copy(), np.full(len(scores), np.nan), np.full(len(scores), np.nan)
    relevance[:count] = (1.0 - weight) * before + weight * (low + share * (high - low))
    ranked[:count], reranked[:count] = before, share
    return replace(scores, relevance=relevance, ranked=ranked, rerank=reranked).ordered()


@dataclass(frozen=True, slots=True)
class Eligible:
    """Places of the candidates that may become results, best first, and why others may not.

    `repeated` has the numbers of those that repeat a better one, with its number; `withheld` of those that must not be
    returned, or whose document has better ones enough.
    """

    places: Sequence[int]
    repeated: Mapping[int, int]
    withheld: Mapping[int, Fate]


def eligible(
    facts: Sequence[ChunkFacts], withheld: Mapping[int, Fate], *, collapse: bool, max_per_document: int | None = None
) -> Eligible:
    """Return which candidates may become results.

    `facts` come best first. `collapse` leaves out what repeats a better one, `max_per_document` all but the best of
    each document.
    """
    places, repeated, crowded = [], {}, dict[int, Fate]()
    of_document = Counter[str]()
    numbers: dict[int, int] = {}
    spans: dict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)
    for place, each in enumerate(facts):
        if each.number in withheld:
            continue
        if collapse:
            # The same words in the same order, whatever the case and the spaces (requirement C06), or better chunks
            # of the document cover most of it (S1-55).
            of_generation = spans[each.document_id, each.generation]
            better = numbers.get(each.words_hash)
            if better is None:
                touching = [span for span in of_generation if span[0] < each.end and span[1] > each.start]
                position, covered = each.start, 0
                for start, end, _ in sorted(touching):
                    covered += max(0, min(end, each.end) - max(start, position))
                    position = max(position, min(end, each.end))
                if touching and covered >= COVERED * (each.end - each.start):
                    better = touching[0][2]
            if better is not None:
                repeated[each.number] = better
                continue
            numbers[each.words_hash] = each.number
            of_generation.append((each.start, each.end, each.number))
        of_document[each.document_id] += 1
        if max_per_document is not None and of_document[each.document_id] > max_per_document:
            crowded[each.number] = Fate.BEYOND_DOCUMENT
            continue
        places.append(place)
    return Eligible(places, repeated, {**withheld, **crowded})


def withheld_because(
    source_uri: str, section_title: str, chapter: str, approved_prefixes: Iterable[Sequence[str]]
) -> Fate | None:
    """Return why a chunk must not be returned at all, or None (requirements S3-19, S3-34, S3-36)."""
    for prefixes in approved_prefixes:
        if not is_approved(source_uri, prefixes):
            return Fate.SOURCE_REJECTED
    is_complete = source_uri.strip() and section_title.strip() and chapter.strip()
    return None if is_complete else Fate.INCOMPLETE


class Selected(NamedTuple):
    """A candidate that becomes a result; `step` counts from 1, `penalty` is what it lost when it was selected."""

    place: int
    step: int
    penalty: float


def select(
    relevances: Sequence[float],
    chapters: Sequence[tuple[str, str]],
    top_k: int,
    spread: float,
    diversity: float,
    vectors: Sequence[Vectors | None],
) -> list[Selected]:
    """Select up to `top_k` candidates one after the other, each time the one with the highest relevance less penalty.

    penalty = spread * range * n + diversity * s, where range is the difference between the relevances of the first
    and the last candidate, n the number of results already selected of the candidate's chapter, and s its largest
    similarity to a result already selected (the greedy selection of Carbonell, Goldstein, "The Use of MMR", SIGIR
    1998; chapters as in requirement Q6's measurements).

    `relevances` come best first, `chapters` say what candidates have in common, `spread` and `diversity` are in [0, 1].
    `vectors` have length 1; a candidate without one resembles nothing.

    Returns:
        Falling relevance, in the order of the candidates.
    """
    count = len(relevances)
    if count <= top_k:
        return [Selected(place, place + 1, 0.0) for place in range(min(count, top_k))]
    per_chunk = spread * (relevances[0] - relevances[-1])
    nearest, taken = [0.0] * count, Counter[tuple[str, str]]()

    def penalty(place: int) -> float:
        return per_chunk * taken[chapters[place]] + diversity * nearest[place]

    # Greedy, one result at a time: each choice changes the penalties of those that are left.
    left, chosen = list(range(count)), {}
    for step in range(1, top_k + 1):
        best = max(left, key=lambda place: relevances[place] - penalty(place))
        left.remove(best)
        chosen[best] = Selected(best, step, penalty(best))
        taken[chapters[best]] += 1
        if diversity > 0.0 and (own := vectors[best]) is not None:
            for other in left:
                if (vector := vectors[other]) is not None:
                    nearest[other] = max(nearest[other], float(np.dot(own, vector)))
    return [chosen[place] for place in sorted(chosen)]
