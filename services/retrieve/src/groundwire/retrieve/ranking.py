"""From fused scores to results: what raises candidates, what withholds them, and which become results."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from groundwire.catalog.chunks import ChunkFacts
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import ProfileName, SearchMode
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filters import And, Comparator, Comparison, Filter
from groundwire.kernel.identifiers import is_approved
from groundwire.kernel.records import TurnPlace
from groundwire.retrieve.fusion import Scores
from groundwire.retrieve.queries import QueryStrategy
from groundwire.retrieve.search_types import Fate, RankingRules

PROFILE_RULES: Mapping[ProfileName, RankingRules] = MappingProxyType(
    {ProfileName.GENERAL: RankingRules(neighbours=0.2), ProfileName.BOOK: RankingRules(spread=0.2)}
)
"""Measured with `benchmarks/quality.py` (docs/adr/0019): what a small chunk says goes on in the next one, and five
chunks of one chapter of a book answer fewer questions than chunks of five chapters. Others rank chunk by chunk."""
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
        """


def rules_for(
    profile: ProfileName, mode: SearchMode, where: Filter | None = None, strategy: QueryStrategy | None = None
) -> RankingRules:
    """Return the rules of a profile, with that of turns where a search is for them, and what a type of query adds.

    It is by its filter, or because it is for everything in a collection of conversations. Searches by vectors or words
    alone rank by that score and by what the query's type says.
    """
    rules = RankingRules()
    if mode is SearchMode.HYBRID:
        rules = PROFILE_RULES.get(profile, rules)
        conditions = where.clauses if isinstance(where, And) else (where,)
        if _TURNS in conditions or (where is None and profile is ProfileName.CONVERSATIONS):
            rules = replace(rules, turns=TURN_SHARE)
    if strategy is None:
        return rules
    return replace(rules, neighbours=max(rules.neighbours, strategy.neighbour_share), section=strategy.section)


def adjust(
    scores: Scores,
    facts: Sequence[ChunkFacts],
    rules: RankingRules,
    window: int,
    withheld: Collection[int] = (),
    turns: Mapping[int, TurnPlace] = MappingProxyType({}),
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
        places = [each.place for each in near_facts]
        relevance = adjusted.relevance.copy()
        # What must not be returned raises nothing either: the relevance of its neighbour would tell what it says.
        at = {
            each.place: value
            for each, value in zip(near_facts, relevance.tolist(), strict=False)
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
    returned.
    """

    places: Sequence[int]
    repeated: Mapping[int, int]
    withheld: Mapping[int, Fate]


def eligible(facts: Sequence[ChunkFacts], withheld: Mapping[int, Fate], *, collapse: bool) -> Eligible:
    """Return which candidates may become results.

    `facts` come best first. `collapse` leaves out what repeats a better one.
    """
    places, repeated = [], {}
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
        places.append(place)
    return Eligible(places, repeated, withheld)


def withheld_among(facts: Iterable[ChunkFacts], approved_prefixes: Sequence[Sequence[str]]) -> dict[int, Fate]:
    fates = {}
    for each in facts:
        fate = withheld_because(each.source_uri, each.section_title, each.chapter, approved_prefixes)
        if fate is not None:
            fates[each.number] = fate
    return fates


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
