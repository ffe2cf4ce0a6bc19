"""A haystack of 2,000 memories, made of templates: 100 are asked for, of which 30 were updated and 30 are contradicted.

Every subject has every attribute at most once, so that a question has one answer; most memories differ from it in the
subject or in the attribute alone. Importance and time are random, and say nothing about what is asked for.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

SIZE = 2000
_SEED = 20260203
_NOW = datetime(2026, 2, 1, tzinfo=UTC)
_OLDEST_DAYS = 700
_PLANTED, _UPDATED, _CONTRADICTED = 100, 30, 30

_PEOPLE_NAMES = """
    Adele Anton Bettina Boris Carla Cem Daria Dominik Elif Emre Fabian Fiona Gesa Gustav Hanna Henrik Ilse Ivan Jana
    Jonas Karin Kofi Lena Lorenz Maja Marek Nadia Nils Olga Oskar Paula Pietro Qamar Rosa Ruben Selma Stefan Tilda Tomas
    Ulla Urs Vera Viktor Wanda Wim Xenia Yara Yusuf Zita Zoltan
"""
_PROJECT_NAMES = """
    Albatross Beacon Cobalt Dragonfly Ember Falcon Granite Harbour Iceberg Juniper Kestrel Lantern Meridian Nimbus Onyx
    Pelican Quartz Raven Saffron Tundra
"""
_PEOPLE, _PROJECTS = _PEOPLE_NAMES.split(), _PROJECT_NAMES.split()


@dataclass(frozen=True, slots=True)
class _Attribute:
    """What can be known of a subject, `{s}`: said first, said later with another value, `{v}`, and asked for."""

    first: str
    later: str
    question: str
    values: Sequence[str]


def _attributes(of: str) -> list[_Attribute]:
    lines = Path(__file__).with_name("haystack_attributes.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return [
        _Attribute(first, later, question, values.split("|"))
        for subjects, first, later, question, values in rows
        if subjects == of
    ]


_OF_PEOPLE, _OF_PROJECTS = _attributes("people"), _attributes("projects")
_NOTE_WHAT = ["lunch", "a long call", "a walk", "a workshop", "dinner", "coffee", "a review", "a train ride"]
_NOTE_ABOUT = ["the new website", "hiring", "the budget", "holiday plans", "a broken laptop", "the summer party"]
_NOTE_ABOUT += ["the migration", "a book on birds", "the move to the new office", "a conference"]
_NOTE_HOW = ["it went well", "nothing was decided", "we go on next week", "we agreed on most of it", "it was too short"]


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory to store; `importance` is 1 to 5."""

    text: str
    importance: int
    time: datetime


@dataclass(frozen=True, slots=True)
class Planted:
    """A question, the memory that answers it, and the older one that it replaces or contradicts, if any.

    `kind` is plain, updated or contradicted; what was updated is at least a month older, a contradiction is of the same
    day.
    """

    question: str
    kind: str
    answer: Memory
    older: Memory | None = None


def build() -> tuple[list[Memory], list[Planted]]:
    """Return all memories in random order, and what is asked for; the same ones every time."""
    rng = random.Random(_SEED)
    facts = [(subject, each) for subject in _PEOPLE for each in _OF_PEOPLE]
    facts += [(subject, each) for subject in _PROJECTS for each in _OF_PROJECTS]
    rng.shuffle(facts)
    kinds = ["updated"] * _UPDATED + ["contradicted"] * _CONTRADICTED
    kinds += ["plain"] * (_PLANTED - len(kinds))
    rng.shuffle(kinds)
    planted = [_plant(*fact, kind, rng) for fact, kind in zip(facts, kinds, strict=False)]
    memories = [each for one in planted for each in (one.answer, one.older) if each]
    for subject, attribute in facts[_PLANTED:]:
        text = attribute.first.format(s=subject, v=rng.choice(attribute.values))
        memories.append(Memory(text, rng.randint(1, 5), _some_time(rng)))
    while len(memories) < SIZE:
        one, other = rng.sample(_PEOPLE, 2)
        about, how = rng.choice(_NOTE_ABOUT), rng.choice(_NOTE_HOW)
        text = f"{one} and {other} talked about {about} over {rng.choice(_NOTE_WHAT)}; {how}."
        memories.append(Memory(text, rng.randint(1, 5), _some_time(rng)))
    rng.shuffle(memories)
    return memories, planted


def _plant(subject: str, attribute: _Attribute, kind: str, rng: random.Random) -> Planted:
    question, time = attribute.question.format(s=subject), _some_time(rng)
    values = rng.sample(attribute.values, 2) if len(attribute.values) > 1 else ["", ""]
    first = Memory(attribute.first.format(s=subject, v=values[0]), rng.randint(1, 5), time)
    if kind == "plain":
        return Planted(question, kind, first)
    older_by = timedelta(days=rng.randint(30, 400)) if kind == "updated" else timedelta(minutes=rng.randint(5, 90))
    older = Memory(first.text, rng.randint(1, 5), time - older_by)
    return Planted(
        question, kind, Memory(attribute.later.format(s=subject, v=values[1]), first.importance, time), older
    )


def _some_time(rng: random.Random) -> datetime:
    return _NOW - timedelta(days=rng.randint(0, _OLDEST_DAYS), minutes=rng.randint(0, 1439))
