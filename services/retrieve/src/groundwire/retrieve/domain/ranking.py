"""From scored candidates to results: live ones only, each text once, the best first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from groundwire.kernel.hit import StoredChunk
from groundwire.retrieve.domain.duplicates import Repetitions
from groundwire.retrieve.domain.fusion import FusedScore
from groundwire.retrieve.domain.query_terms import distinct_words
from groundwire.retrieve.domain.screening import Objection, Screen
from groundwire.retrieve.domain.searching import ResultOrder, SearchHit
from groundwire.retrieve.domain.selecting import Selected


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates that may become results, best first.

    `repeated` has the numbers of those that repeat a better one, with its number; `withheld` of those that must not be
    returned.
    """

    candidates: tuple[tuple[FusedScore, StoredChunk], ...]
    repeated: Mapping[int, int]
    withheld: Mapping[int, Objection] = field(default_factory=dict)


def rank(
    scores: Iterable[FusedScore], live: Mapping[int, StoredChunk], *, collapse: bool, screen: Screen | None = None
) -> Ranking:
    """Join scores with live chunks, keeping the order.

    Args:
        scores: best first.
        live: the chunks by number; candidates that are not in it are left out.
        collapse: leave out what repeats a better one (requirement C06).
        screen: says which chunks must not be returned.
    """
    withheld: dict[int, Objection] = {}
    repetitions = Repetitions()
    kept, repeated = [], {}
    for score in scores:
        stored = live.get(score.number)
        if stored is None:
            continue
        if screen is not None and (objection := screen(stored)) is not None:
            withheld[score.number] = objection
            continue
        if collapse and (better := repetitions.of(stored)) is not None:
            repeated[score.number] = better
            continue
        kept.append((score, stored))
    return Ranking(tuple(kept), repeated, withheld)


def to_hits(selection: Sequence[Selected], order: ResultOrder) -> tuple[SearchHit, ...]:
    """Number the selected candidates, given best first, in the order asked for."""
    ordered = [(chosen.score, chosen.stored) for chosen in selection]
    if order is not ResultOrder.RELEVANCE:
        newest_first = order is ResultOrder.TIMESTAMP_DESC
        ordered.sort(key=lambda pair: pair[1].ingest_time, reverse=newest_first)
    return tuple(SearchHit(position, score, stored) for position, (score, stored) in enumerate(ordered, start=1))


def coverage(query: str, hits: Iterable[SearchHit]) -> float:
    """Return the share of the query's distinct words that occur in the results, in [0, 1]; 0 without words."""
    wanted = distinct_words(query)
    found = wanted & {word for hit in hits for word in distinct_words(hit.stored.chunk.content)}
    return len(found) / len(wanted) if wanted else 0.0
