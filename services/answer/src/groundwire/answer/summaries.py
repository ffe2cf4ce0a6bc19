"""Summarises exchanges by quoting their most important sentences in order.

Each line of a summary names its speaker. Questions and the assistant's words show what the conversation was about, but
an answer may rest only on what the user stated.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from groundwire.kernel.facts import read
from groundwire.kernel.sentences import QUESTION_MARKS, BlockKind, split_sentences
from groundwire.kernel.session import Role
from groundwire.kernel.words import words

MAX_SUMMARY_CHARS = 1600
"""Less than a record may have, in any script."""
MAX_SENTENCES = 8
# One pasted paragraph must not take the place of everything else.
_MAX_SENTENCE_CHARS = 400
# What a number, date or name is worth, counted in words.
_FACT_WEIGHT = 2
# Weight of questions relative to statements: they show the topic, but state nothing.
_QUESTION_WEIGHT = 0.4
# What the user says is stored nowhere else; most of what the assistant says is in its sources.
_USER_WEIGHT = 1.3
# Of the gain of the first sentence; what adds less is not worth its place.
_LEAST_GAIN = 0.2
_MARKER = re.compile(r" ?\[\d{1,3}\]")
# Many people leave out the question mark. "What I like is tea" is not a question.
_ASKS = re.compile(
    r"\W*(?:when|(?:what|who|whom|whose|where|why|how|which)(?:(?! (?:I|we|my|our)\b) \w+){0,3}?)"
    r"(?:['\u2019]s| (?:is|are|was|were|do|does|did|can|could|should|must|will|would|has|have|may))\b"
    r"|\W*(?:do|does|did|can|could|is|are|was|were|will|would|should|may|have|has)"
    r" (?:I|you|we|they|he|she|it|my|our|the|there|any|this|that)\b",
    re.IGNORECASE,
)
LEADING = re.compile(
    r"^\W*(?:(?:and|also|well|yes|no|ok|okay|hi|hello|hey|by the way|please|remember|note|please remember)[, ]+"
    r"(?:that )?){1,4}",
    re.IGNORECASE,
)
"""What somebody says before what they want to say."""
_WISH_VERBS = "show tell give explain summarise summarize list find compare describe help"
WISHES = frozenset(_WISH_VERBS.split())
SAID_BY = {Role.USER: "User: ", Role.ASSISTANT: "Assistant: "}
"""How the lines of a summary begin."""
ASKED_BY_USER = "User asked: "
"""How those begin that ask for something."""
QUOTED_SUMMARY = "extractive"
"""Who has written a summary of quoted sentences."""
_ASKED_LINE = re.compile(rf"^{ASKED_BY_USER}.*|^.*\?$", re.MULTILINE)
_NO_SOURCE = re.compile(rf"^(?:{SAID_BY[Role.ASSISTANT]}|{ASKED_BY_USER}).*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Turn:
    """One side of an exchange, as it was recorded.

    `is_refusal` is an answer that says nothing. `supports` are the ids of the memories that follow from it, `quoted`
    those of the documents whose text it holds.
    """

    record_id: str
    role: Role
    text: str
    time: datetime
    is_refusal: bool = False
    supports: frozenset[str] = frozenset()
    quoted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WrittenSummary:
    """Several turns in short, one line for each statement.

    `turns` are those it is based on, `writer` names who wrote it.
    """

    text: str
    turns: tuple[Turn, ...]
    writer: str


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence of a turn as it appears in a summary, such as `User: I live in Bonn.`."""

    turn: Turn
    text: str


@dataclass(frozen=True, slots=True)
class _Candidate:
    place: int
    line: Line
    worth: float
    units: Counter[str]


def asks(sentence: str) -> bool:
    """Tell whether a sentence is a question or a wish: "where is my cat", "Show me my invoices."."""
    bare = LEADING.sub("", sentence)
    return (
        bare.rstrip().endswith(QUESTION_MARKS)
        or _ASKS.match(bare) is not None
        or not WISHES.isdisjoint(words(bare)[:1])
    )


def only_asks(text: str) -> bool:
    """Tell whether a text contains no statement."""
    return all(asks(text[each.start : each.end]) for each in split_sentences(text))


def without_hearsay(text: str) -> str:
    """Return a summary with spaces in place of lines that no answer may rest on, so that offsets stay valid."""
    return _NO_SOURCE.sub(lambda line: " " * len(line[0]), text)


def without_questions(lines: str) -> str:
    """Return lines of turns with spaces in place of questions and wishes, so that offsets stay valid."""
    return _ASKED_LINE.sub(lambda line: " " * len(line[0]), lines)


def lines_of(turns: Sequence[Turn]) -> list[Line]:
    """Return the sentences of the turns; refusals are left out."""
    lines = []
    for turn in turns:
        text = _MARKER.sub("", turn.text)
        for sentence in () if turn.is_refusal else split_sentences(text):
            said = " ".join(text[sentence.start : sentence.end].split())
            if sentence.kind in {BlockKind.PROSE, BlockKind.LIST_ITEM} and 0 < len(said) <= _MAX_SENTENCE_CHARS:
                is_asked = turn.role is Role.USER and asks(said)
                lines.append(Line(turn, f"{ASKED_BY_USER if is_asked else SAID_BY[turn.role]}{said}"))
    return lines


def summarise(turns: Sequence[Turn], max_chars: int = MAX_SUMMARY_CHARS) -> WrittenSummary:
    """Return one line for each sentence chosen, in their order, such as `User: I live in Bonn.`; never empty.

    Sentences are chosen one after the other for what they add: words, the more often they are used in the turns the
    more they count, and numbers, dates and names. What a sentence chosen before has counts no more, so that nothing is
    said twice (the greedy cover of Lin and Bilmes, "A class of submodular functions for document summarization", 2011).

    Args:
        turns: at least one, in order; answers that are refusals are passed over.
        max_chars: longest summary in code points.
    """
    candidates = []
    for place, line in enumerate(lines_of(turns)):
        _, said = line.text.split(": ", 1)
        facts = read(said)
        units = Counter[str](dict.fromkeys(facts.stems, 1))
        # A name is both: its words, and that it is one.
        units.update({f"{fact.kind} {fact.values}": _FACT_WEIGHT for fact in facts.facts if not fact.weak})
        worth = _USER_WEIGHT if line.turn.role is Role.USER else 1.0
        if said.endswith(QUESTION_MARKS) or line.text.startswith(ASKED_BY_USER):
            worth *= _QUESTION_WEIGHT
        candidates.append(_Candidate(place, line, worth, units))
    often = Counter(unit for each in candidates for unit in each.units)
    chosen: list[_Candidate] = []
    covered: set[str] = set()
    room, first = max_chars, 0.0

    def gain(each: _Candidate) -> float:
        new = sum(weight * (1 + math.log(often[unit])) for unit, weight in each.units.items() if unit not in covered)
        # Long sentences have more of everything: the root keeps short ones in the race.
        return each.worth * new / math.sqrt(len(each.line.text))

    while len(chosen) < MAX_SENTENCES:
        fitting = [each for each in candidates if each not in chosen and len(each.line.text) < room]
        best = max(fitting, key=lambda each: (gain(each), -each.place), default=None)
        if best is None or gain(best) <= _LEAST_GAIN * first:
            break
        first = max(first, gain(best))
        chosen.append(best)
        covered.update(best.units)
        room -= len(best.line.text) + 1
    lines = [each.line for each in sorted(chosen, key=lambda each: each.place)]
    if not lines:
        # On one line, as only its beginning says whose it is.
        first_turn = turns[0]
        is_asked = first_turn.role is Role.USER and only_asks(first_turn.text)
        said = " ".join(first_turn.text.split())
        lines = [Line(first_turn, f"{ASKED_BY_USER if is_asked else SAID_BY[first_turn.role]}{said}"[:max_chars])]
    used = {each.turn.record_id: each.turn for each in lines}
    return WrittenSummary("\n".join(each.text for each in lines), tuple(used.values()), QUOTED_SUMMARY)


def shortened(turn: Turn) -> str:
    """Return the text of a turn; of one that is longer than a summary, only the most telling sentences."""
    if len(turn.text) <= MAX_SUMMARY_CHARS:
        return turn.text
    said = summarise([turn]).text.splitlines()
    return " … ".join(line.removeprefix(ASKED_BY_USER).removeprefix(SAID_BY[turn.role]) for line in said)
