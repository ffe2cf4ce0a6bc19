"""A haystack of 2,000 memories, made of templates: 100 are asked for, of which 30 were updated and 30 are contradicted.

Every subject has every attribute at most once, so that a question has one answer; most memories differ from it in the
subject or in the attribute alone. Importance and time are random, and say nothing about what is asked for.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

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


_OF_PEOPLE = [
    _Attribute(
        "{s} lives in {v}.",
        "{s} has moved to {v}.",
        "Which city is the home of {s}?",
        ["Ghent", "Oslo", "Porto", "Lyon", "Graz"],
    ),
    _Attribute(
        "{s} works for {v}.",
        "{s} joined {v}.",
        "Who is the employer of {s}?",
        ["Initech", "Globex", "Umbrella", "Hooli"],
    ),
    _Attribute(
        "{s} drives a {v}.", "{s} drives a {v} now.", "What car does {s} have?", ["Volvo", "Fiat", "Skoda", "Toyota"]
    ),
    _Attribute(
        "The blood group of {s} is {v}.",
        "The blood group of {s} is {v}.",
        "Which blood does {s} need?",
        ["A", "B", "AB", "0"],
    ),
    _Attribute(
        "{s} prefers {v} in the morning.",
        "{s} prefers {v} in the morning now.",
        "What does {s} drink after getting up?",
        ["green tea", "black coffee", "hot chocolate", "orange juice"],
    ),
    _Attribute(
        "{s} is {v} years old.", "{s} is {v} years old.", "What is the age of {s}?", ["31", "36", "42", "47", "53"]
    ),
    _Attribute(
        "{s} was born on {v}.",
        "{s} was born on {v}.",
        "When is the birthday of {s}?",
        ["3 March 1984", "17 June 1990", "9 October 1979", "22 December 1995"],
    ),
    _Attribute(
        "{s} is married to {v}.",
        "{s} is married to {v}.",
        "Who is the spouse of {s}?",
        ["Kim", "Robin", "Sascha", "Toni"],
    ),
    _Attribute(
        "{s} reports to {v}.",
        "{s} reports to {v} now.",
        "Who is the boss of {s}?",
        ["Agnes", "Bruno", "Camille", "Derek"],
    ),
    _Attribute(
        "{s} has {v} children.",
        "{s} has {v} children.",
        "How many kids does {s} have?",
        ["two", "three", "four", "five"],
    ),
    _Attribute(
        "The locker of {s} is number {v}.",
        "The locker of {s} is number {v}.",
        "Where does {s} put their coat?",
        ["12", "25", "38", "51"],
    ),
    _Attribute(
        "{s}'s favourite colour is {v}.",
        "{s}'s favourite colour is {v}.",
        "Which colour does {s} like best?",
        ["teal", "crimson", "ochre", "violet"],
    ),
    _Attribute(
        "{s} wants to be called on {v}.",
        "{s} wants to be called on {v}.",
        "How should I reach {s}?",
        ["Signal", "the landline", "Teams", "Skype"],
    ),
    _Attribute(
        "{s} sits in room {v}.",
        "{s} has moved to room {v}.",
        "Where in the office do I find {s}?",
        ["114", "207", "318", "421"],
    ),
    _Attribute(
        "{s} flies to {v} in April.",
        "{s} flies to {v} in April.",
        "Where is {s} going in spring?",
        ["Lisbon", "Tokyo", "Montreal", "Nairobi"],
    ),
    _Attribute("{s} is a vegetarian.", "{s} is not a vegetarian.", "Does {s} eat meat?", ["-"]),
    _Attribute("{s} owns a dog.", "{s} does not own a dog.", "Does {s} have a pet?", ["-"]),
]
_OF_PROJECTS = [
    _Attribute(
        "Project {s} stores its data in {v}.",
        "Project {s} stores its data in {v} now.",
        "Which database does {s} use?",
        ["PostgreSQL", "Cassandra", "MongoDB", "Redis"],
    ),
    _Attribute(
        "The launch of {s} is on {v}.",
        "The launch of {s} was moved to {v}.",
        "When does {s} go live?",
        ["4 May 2026", "18 May 2026", "2 June 2026", "30 June 2026"],
    ),
    _Attribute(
        "The budget of {s} is {v} euros.",
        "The budget of {s} is {v} euros.",
        "How much money is there for {s}?",
        ["40,000", "65,000", "90,000", "120,000"],
    ),
    _Attribute(
        "{s} is written in {v}.",
        "{s} is written in {v} now.",
        "What programming language is {s} made with?",
        ["Rust", "Kotlin", "Elixir", "Haskell"],
    ),
    _Attribute(
        "The team of {s} has {v} members.",
        "The team of {s} has {v} members.",
        "How many people work on {s}?",
        ["five", "seven", "nine", "twelve"],
    ),
    _Attribute(
        "The stand-up of {s} is at {v}.",
        "The stand-up of {s} was moved to {v}.",
        "When does the team of {s} meet daily?",
        ["9:15", "10:00", "11:30", "14:00"],
    ),
    _Attribute(
        "{s} needs {v} approvals for a release.",
        "{s} needs {v} approvals for a release.",
        "How many people must agree before {s} is deployed?",
        ["one", "two", "three", "four"],
    ),
    _Attribute(
        "Backups of {s} are encrypted.",
        "Backups of {s} are not encrypted.",
        "Are the backups of {s} safe to store?",
        ["-"],
    ),
]
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
