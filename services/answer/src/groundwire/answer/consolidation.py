"""Derive memories from a conversation: statements of the user about people and things, selected by rules. English.

Each memory is a sentence as it was said, so that it can be traced. It must make sense outside its conversation, so
statements that point back ("it", "that one") and those about the moment ("now I want …") are skipped.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from groundwire.answer.summaries import LEADING, WISHES, Turn, asks
from groundwire.kernel.contradictions import contradiction
from groundwire.kernel.facts import FactKind, read
from groundwire.kernel.sentences import QUESTION_MARKS, BlockKind, split_sentences
from groundwire.kernel.session import Role
from groundwire.kernel.words import content_stems, stem, words

# What rules derive has 0.6 to 0.9: it is never certain, and a confirmation can add to it.
_LEAST_CONFIDENCE = 0.6
# Added to the confidence of a memory when the user repeats it.
_CONFIRMED = 0.1
# "I agree" says nothing outside of its conversation.
_FEWEST_WORDS = 3
# A longer sentence is a pasted text rather than a statement.
_MAX_CHARS = 300
# Share of the words of both that two statements of the same have in common.
_SAME = 0.8

_PREFERENCE = re.compile(
    r"\b(?:I|we|my \w+|he|she) (?:really |strongly |usually |always |would |'d )?(?:prefer|like|love|enjoy|hate|dislike"
    r"|can't stand|avoid)s?\b|\bmy (?:favou?rite|preferred)\b|\b(?:I|we) (?:do not|don't) (?:like|eat|drink|want)\b",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\b(?:I|we|the team|they) (?:have |'ve )?(?:decided|agreed|chose|chosen|settled on|will use|are going with)\b"
    r"|\b(?:the decision is|it was decided)\b",
    re.IGNORECASE,
)
_PATTERN = re.compile(
    r"\b(?:I|we|my \w+)\b[^.!?]{0,60}\b(?:always|usually|never|every (?:day|morning|evening|week|month|year|\w+day)"
    r"|each \w+|on \w+days)\b|\b(?:always|never) \w+ (?:me|us)\b",
    re.IGNORECASE,
)
_KINDS = {"decision": _DECISION, "preference": _PREFERENCE, "pattern": _PATTERN}
_ABOUT_SELF = re.compile(
    r"\b(?:I am|I'm|I was|I have|I've|I live|I work|I moved|I need|I use|I speak|I can't|I cannot|I no longer|we are"
    r"|we're|we have|we use|we moved|call me|my|our) \w",
    re.IGNORECASE,
)
_OF_THE_MOMENT = re.compile(
    r"\b(?:right now|at the moment|for now|just (?:a|one)|today|this (?:question|answer|time)|let me|let's|thanks|thank"
    r" you|please|I(?:'m| am) (?:looking|asking|trying|wondering|not sure|sorry|reading|curious)|I(?: have|'ve) (?:a"
    r"|another|one|two|some|no)(?: \w+)? (?:question|idea|doubt)s?|I (?:wonder|mean|think|guess|see|understand|want to"
    r" know|would like to know)|I'd like to know)\b",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(r"^\W*(?:it|this|that|these|those|they|he|she|which|there|then|so|but)\b", re.IGNORECASE)
_SOCIAL = re.compile(
    r"\W*(?:(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening|night|day)|(?:many )?thanks|thank you|cheers"
    r"|(?:good ?)?bye|see you(?: later| soon| tomorrow)?|ok|okay|great|perfect|nice to meet you"
    r"|have a (?:nice|good|great) (?:day|evening|weekend|one))\b"
    r"(?: (?:there|all|everyone|again|so much|very much|a lot|for (?:your|the) help)\b)?[\s.,!]{0,4}){1,4}",
    re.IGNORECASE,
)
_IMPORTANT = re.compile(
    r"\b(?:allerg|must|never|always|important|critical|deadline|emergency|urgent)\w*", re.IGNORECASE
)
_ASKED_TO_REMEMBER = re.compile(r"\b(?:please )?(?:remember|note|keep in mind|don't forget)\b", re.IGNORECASE)
_STATE_VERBS = "is are was were has have had will lives works starts ends runs costs moved needs"
_STATES = frozenset(map(stem, _STATE_VERBS.split()))
_ORDERS = WISHES | {"write", "make", "let", "use"}
_FIRST_PERSONS = frozenset({"i", "we"})
_MEMORABLE = frozenset({FactKind.NAME, FactKind.DATE, FactKind.NUMBER})


@dataclass(frozen=True, slots=True)
class Derived:
    """A memory to be written: the statement, its turn, its kind, and how important it seems.

    `kind` is one of fact, preference, pattern and decision; `importance` 1 to 5, `confidence` 0 to 1.
    """

    text: str
    turn: Turn
    kind: str
    importance: int
    confidence: float


def derive_memories(turns: Sequence[Turn]) -> list[Derived]:
    """Return the memories in the user's turns, in order; a repeated statement counts once, in its last form."""
    derived: list[Derived] = []
    sentences = (
        (turn, " ".join(turn.text[sentence.start : sentence.end].split()))
        for turn in turns
        if turn.role is Role.USER
        for sentence in split_sentences(turn.text)
        if sentence.kind in {BlockKind.PROSE, BlockKind.LIST_ITEM}
    )
    for turn, said in sentences:
        if len(said) > _MAX_CHARS or asks(said):
            continue
        rest = LEADING.sub("", said)
        # What leads may ask for it itself: "Hi, please remember that …".
        told = _ASKED_TO_REMEMBER.search(said[: len(said) - len(rest)]) or _ASKED_TO_REMEMBER.match(rest)
        text = LEADING.sub("", _ASKED_TO_REMEMBER.sub("", said, count=1)) if told else rest
        text = text.strip(" ,:").removeprefix("that ")
        spoken = words(text)
        if len(spoken) < _FEWEST_WORDS or not content_stems(text) or _POINTS_BACK.match(text):
            continue
        if _OF_THE_MOMENT.search(text) and not told:
            continue
        kind = next((kind for kind, pattern in _KINDS.items() if pattern.search(text)), "")
        is_anchored = any(fact.kind in _MEMORABLE and not fact.weak for fact in read(text).facts)
        is_personal = bool(kind or told or _ABOUT_SELF.search(text))
        # A name, date or number may also be part of an order to the assistant.
        is_statement = spoken[0] in _FIRST_PERSONS or (
            spoken[0] not in _ORDERS and any(stem(word) in _STATES for word in spoken)
        )
        if is_personal or (is_anchored and is_statement):
            importance = 3 + bool(kind == "decision" or _IMPORTANT.search(text)) + bool(told)
            confidence = round(_LEAST_CONFIDENCE + 0.2 * is_personal + 0.1 * is_anchored, 2)
            new = Derived(text[0].upper() + text[1:], turn, kind or "fact", importance, confidence)
            derived = [*(each for each in derived if not says_the_same(each.text, new.text)), new]
    return derived


def asks_nothing(text: str) -> bool:
    """Tell whether a text only greets, thanks or states something to remember, and asks for nothing."""
    if _SOCIAL.fullmatch(text):
        return True
    if any(mark in text for mark in QUESTION_MARKS) or any(
        asks(text[each.start : each.end]) for each in split_sentences(text)
    ):
        return False
    return bool(derive_memories([Turn("", Role.USER, text, datetime.min.replace(tzinfo=UTC))]))


def says_the_same(one: str, other: str) -> bool:
    """Tell whether two statements mean the same: nearly the same words, and the same values and negations."""
    left, right = set(content_stems(one)), set(content_stems(other))
    return (
        len(left & right) >= _SAME * len(left | right)
        and contradiction(one, other) is None
        and _own_values(one) == _own_values(other)
    )


def _own_values(text: str) -> tuple[frozenset[tuple[str, ...]], bool]:
    reading = read(text)
    values = frozenset(fact.values for fact in reading.facts if fact.kind is not FactKind.NAME and not fact.weak)
    return values, bool(reading.denials)


def confirmed(confidence: float) -> float:
    """Return the confidence of a memory that was stated again."""
    return round(min(1.0, confidence + _CONFIRMED), 2)
