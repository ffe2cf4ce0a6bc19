"""Random searches under filters that fit the library of `congruence.py`; seeded."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.kernel.filter_parsing import JsonFilter

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron".split()  # noqa: SIM905 - readable
_MODES = (
    search_mode_pb2.SEARCH_MODE_VECTOR,
    search_mode_pb2.SEARCH_MODE_HYBRID,
    search_mode_pb2.SEARCH_MODE_LEXICAL,
)
_NUMBERS = (-1, 0, 1, 1.0, 1.5, 2, 3, 5, -0.0, 2**53, 2**53 + 1, 2**63 - 1, 1e300)
_TEXTS = ("a", "ab", "A", "", "Report", "report 50%_", "Ada", "critical", "crit", "1", "true", "Start", "acme", "en")
_TIMES = ("2024-02-10", "2024-03-01T12:00:00Z", "2024-03-01T12:00:00+02:00", "2024-06-30T23:59:59.999Z", 1709294400000)
_DAYS = ("2024-03-10", "2024-05-15", "2024-09")
_PATTERNS = ("%", "R%", "%port%", "re%50\\%\\_", "_da", "%ri%", "", "folder/1%", "%.md", "%\\")
_ORDERINGS = ("$gt", "$gte", "$lt", "$lte")
_TEXT_FIELDS = ("title", "source", "url", "category", "project", "language", "section_heading", "chapter", "doc_type")
_LIST_FIELDS = ("tags", "author", "creators", "subject")
_INTEGER_FIELDS = ("chunk_index", "sequence_num", "page", "pages", "page_start", "page_end", "level", "char_start")
_OWN_FIELDS = ("size", "mixed", "labels", "flag", "day")


@dataclass(frozen=True, slots=True)
class Case:
    """One search: the filter in its JSON form, None for none."""

    query: str
    where: JsonFilter | None
    mode: search_mode_pb2.SearchMode.ValueType
    top_k: int


def random_case(rng: random.Random) -> Case:
    """Make a search; nine of ten have a filter."""
    query = " ".join(rng.choices(WORDS, k=rng.randint(1, 4)))
    where = random_where(rng) if rng.random() < 0.9 else None
    return Case(query, where, rng.choice(_MODES), rng.randint(1, 20))


def random_where(rng: random.Random, depth: int = 3) -> JsonFilter:
    """Make a filter that fits the fields of the library, nested up to `depth` times."""
    roll = rng.random()
    if depth == 0 or roll < 0.55:
        return dict(_clause(rng) for _ in range(rng.choice((1, 1, 1, 2))))
    parts = [random_where(rng, depth - 1) for _ in range(rng.randrange(4))]
    if roll < 0.72:
        return {"$and": parts}
    if roll < 0.89:
        return {"$or": parts}
    return {"$not": random_where(rng, depth - 1)}


def _clause(rng: random.Random) -> tuple[str, JsonFilter | str | int | float | bool]:
    roll = rng.random()
    if roll < 0.25:
        return _text_clause(rng, rng.choice(_TEXT_FIELDS))
    if roll < 0.4:
        return _text_clause(rng, rng.choice(_LIST_FIELDS))
    if roll < 0.6:
        return _integer_clause(rng, rng.choice(_INTEGER_FIELDS))
    if roll < 0.7:
        return rng.choice(("date", "timestamp", "date_created")), _compared(rng, _TIMES)
    return _own_clause(rng, rng.choice(_OWN_FIELDS))


def _text_clause(rng: random.Random, field: str) -> tuple[str, JsonFilter | str]:
    match rng.randrange(6):
        case 0:
            return field, rng.choice(_TEXTS)
        case 1:
            return field, {rng.choice(("$in", "$nin")): rng.choices(_TEXTS, k=rng.randrange(4))}
        case 2:
            return field, {rng.choice(("$contains", "$not_contains")): rng.choice(_TEXTS)}
        case 3:
            return field, {"$like": rng.choice(_PATTERNS)}
        case 4:
            return field, {"$exists": rng.random() < 0.5}
        case _:
            return field, {rng.choice(("$eq", "$ne")): rng.choice(_TEXTS)}


def _integer_clause(rng: random.Random, field: str) -> tuple[str, JsonFilter]:
    if rng.random() < 0.15:
        return field, {"$exists": rng.random() < 0.5}
    return field, _compared(rng, _NUMBERS)


def _compared(rng: random.Random, values: Sequence[str | int | float]) -> JsonFilter:
    match rng.randrange(4):
        case 0:
            of_one_kind = [value for value in values if isinstance(value, str) is isinstance(values[0], str)]
            return {rng.choice(("$in", "$nin")): rng.choices(of_one_kind, k=rng.randrange(4))}
        case 1:
            return {"$gte": rng.choice(values), "$lt": rng.choice(values)}
        case _:
            return {rng.choice(("$eq", "$ne", *_ORDERINGS)): rng.choice(values)}


def _own_clause(rng: random.Random, field: str) -> tuple[str, JsonFilter | str | int | float | bool]:
    any_value = (*_TEXTS, *_NUMBERS, True, False)
    match rng.randrange(6):
        case 0:
            return field, rng.choice(any_value)
        case 1:
            kind = rng.choice((_TEXTS, _NUMBERS, (True, False)))
            return field, {rng.choice(("$in", "$nin")): rng.choices(kind, k=rng.randrange(4))}
        case 2:
            return field, {rng.choice(("$contains", "$not_contains")): rng.choice(any_value)}
        case 3:
            return field, {"$like": rng.choice(_PATTERNS)}
        case 4:
            return field, {"$exists": rng.random() < 0.5}
        case _:
            return field, {rng.choice(_ORDERINGS): rng.choice(_DAYS if field == "day" else _NUMBERS)}
