"""Search from the top down: choose chapters and sections for a query first (requirement S1-48)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from groundwire.kernel.chunk import Section
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filters import And, Comparator, Comparison, Filter, Or
from groundwire.retrieve.queries import STOP_WORDS, distinct_words

CHAPTERS = 3
SECTIONS = 5
TITLE_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class ChosenSection:
    """A section that is searched, and how well it answers the query, in [0, 1]."""

    section: Section
    score: float


def choose_sections(query: str, vector: Vectors, sections: Sequence[Section], leads: Vectors) -> list[ChosenSection]:
    """Return the best sections of the best chapters, best first; a chapter without sections stands for itself.

    score = 0.7 * similarity of the query and the section's lead + 0.3 * share of its telling words in the title.

    `vector` is float32, shape (dimensions,). Each chapter comes before its sections; row i of `leads` is the vector of
    section i, zeros where there is none.
    """
    if not sections:
        return []
    norm = float(np.linalg.norm(vector)) or 1.0
    similarities = np.clip(leads @ (vector / norm), 0.0, 1.0)
    words = (distinct_words(query) - STOP_WORDS) or distinct_words(query)
    scores = [
        (1.0 - TITLE_SHARE) * float(similarity) + TITLE_SHARE * _title_share(words, section)
        for section, similarity in zip(sections, similarities, strict=True)
    ]
    chapters = [position for position, section in enumerate(sections) if len(section.path) == 1]
    best = sorted(chapters, key=lambda position: (-_best_below(position, sections, scores), position))[:CHAPTERS]
    candidates = [below for position in best for below in _below(position, sections) or [position]]
    chosen = sorted(candidates, key=lambda position: (-scores[position], position))[:SECTIONS]
    return [ChosenSection(sections[position], min(1.0, scores[position])) for position in chosen]


def within(chosen: Sequence[ChosenSection]) -> Filter:
    """Return the condition for the chunks of the chosen sections; without any nothing matches."""
    return Or(
        tuple(
            And(
                (
                    Comparison("document_id", Comparator.EQ, each.section.document_id),
                    Comparison("sequence_num", Comparator.GTE, each.section.first),
                    Comparison("sequence_num", Comparator.LTE, each.section.last),
                )
            )
            for each in chosen
        )
    )


def _title_share(words: set[str], section: Section) -> float:
    return len(words & distinct_words(" ".join(section.path))) / len(words) if words else 0.0


def _best_below(position: int, sections: Sequence[Section], scores: Sequence[float]) -> float:
    """Return the mean of a chapter's own score and the best of its sections, so that neither alone decides."""
    below = _below(position, sections)
    return (scores[position] + max(scores[each] for each in below)) / 2 if below else scores[position]


def _below(position: int, sections: Sequence[Section]) -> list[int]:
    """Return the places of a chapter's sections, and of the chapter itself when chunks of it stand in none."""
    chapter, below = sections[position], []
    for place in range(position + 1, len(sections)):
        if len(sections[place].path) == 1:
            break
        below.append(place)
    is_led = bool(below) and sections[below[0]].first > chapter.first
    return [position, *below] if is_led else below
