"""Several exchanges in short: the sentences that carry most of what was said, quoted in their order."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from groundwire.kernel.facts import read
from groundwire.kernel.sentences import BlockKind, split_sentences
from groundwire.kernel.session import Role

MAX_SUMMARY_CHARS = 1600
"""Less than a record may have, in any script."""
_MAX_SENTENCES = 8
_MAX_SENTENCE_CHARS = 400
_FACT_WEIGHT = 2
"""What a number, date or name is worth, counted in words."""
_QUESTION_WEIGHT = 0.4
"""What questions are worth beside statements: they tell the topic, and nothing that holds."""
_USER_WEIGHT = 1.3
"""What the user says is nowhere else; most of what the assistant says is in its sources."""
_LEAST_GAIN = 0.2
"""Of the gain of the first sentence; what adds less is not worth its place."""
_MARKER = re.compile(r" ?\[\d{1,3}\]")
SAID_BY = {Role.USER: "User: ", Role.ASSISTANT: "Assistant: "}
"""How the lines of a summary begin."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One side of an exchange, as it was recorded.

    `index` counts exchanges from 1, 0 before it is known. `is_refusal` is an answer that says nothing. `supports` are
    the ids of the memories that follow from it, `quoted` those of the documents whose text it holds.
    """

    record_id: str
    role: Role
    text: str
    index: int
    time: datetime
    is_refusal: bool = False
    supports: frozenset[str] = frozenset()
    quoted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Candidate:
    place: int
    line: str
    worth: float
    units: Counter[str]


def summarise(turns: Sequence[Turn], max_chars: int = MAX_SUMMARY_CHARS) -> str:
    """Return one line for each sentence chosen, in their order, such as `User: I live in Bonn.`; never empty.

    Sentences are chosen one after the other for what they add: words, the more often they are used in the turns the
    more they count, and numbers, dates and names. What a sentence chosen before has counts no more, so that nothing is
    said twice (the greedy cover of Lin and Bilmes, "A class of submodular functions for document summarization", 2011).

    Args:
        turns: at least one, in order; answers that are refusals are passed over.
        max_chars: longest summary in code points.
    """
    candidates = _candidates(turns)
    often = Counter(unit for each in candidates for unit in each.units)
    chosen: list[_Candidate] = []
    covered: set[str] = set()
    room, first = max_chars, 0.0

    def gain(each: _Candidate) -> float:
        new = sum(weight * (1 + math.log(often[unit])) for unit, weight in each.units.items() if unit not in covered)
        # Long sentences have more of everything: the root keeps short ones in the race.
        return each.worth * new / math.sqrt(len(each.line))

    while len(chosen) < _MAX_SENTENCES:
        fitting = [each for each in candidates if each not in chosen and len(each.line) < room]
        best = max(fitting, key=lambda each: (gain(each), -each.place), default=None)
        if best is None or gain(best) <= _LEAST_GAIN * first:
            break
        first = max(first, gain(best))
        chosen.append(best)
        covered.update(best.units)
        room -= len(best.line) + 1
    lines = [each.line for each in sorted(chosen, key=lambda each: each.place)]
    return "\n".join(lines) or f"{SAID_BY[turns[0].role]}{turns[0].text.strip()}"[:max_chars]


def shortened(turn: Turn) -> str:
    """Return the text of a turn, or of one that is longer than a summary the sentences that say most of it."""
    if len(turn.text) <= MAX_SUMMARY_CHARS:
        return turn.text
    return " … ".join(line.removeprefix(SAID_BY[turn.role]) for line in summarise([turn]).splitlines())


def _candidates(turns: Sequence[Turn]) -> list[_Candidate]:
    candidates: list[_Candidate] = []
    for turn in turns:
        text = _MARKER.sub("", turn.text)
        for sentence in () if turn.is_refusal else split_sentences(text):
            said = " ".join(text[sentence.start : sentence.end].split())
            if sentence.kind not in {BlockKind.PROSE, BlockKind.LIST_ITEM} or not 0 < len(said) <= _MAX_SENTENCE_CHARS:
                continue
            reading = read(said)
            units = Counter[str](dict.fromkeys(reading.stems, 1))
            # A name is both: its words, and that it is one.
            units.update({f"{fact.kind} {fact.values}": _FACT_WEIGHT for fact in reading.facts if not fact.weak})
            worth = (_USER_WEIGHT if turn.role is Role.USER else 1.0) * (_QUESTION_WEIGHT if said[-1] == "?" else 1.0)
            candidates.append(_Candidate(len(candidates), f"{SAID_BY[turn.role]}{said}", worth, units))
    return candidates
