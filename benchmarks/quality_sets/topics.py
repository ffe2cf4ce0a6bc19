"""`topics`: which messages of a conversation change the topic.

`tiage`: the messages of the dialogues of TIAGE after the first, as annotators marked them. `mtrag` and `ikat`: the
follow-up questions of conversations with an assistant, which go on, and after the same messages the first question of
another conversation, which does not. `shifts` is how many of `n` change the topic, `false` the share of the others that
are taken for a change, `baseline` the F1 of calling every message a change.

The last lines are the weights of a logistic regression, TIAGE against the other two with the same weight in all, and
what it does for each half of the messages with weights from the other half.
"""

import argparse
import asyncio
import itertools
import json
import tempfile
from array import array
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality_sets.conversations import FollowUp, ikat_files, read_ikat, read_mtrag
from benchmarks.quality_sets.data import data_folder, need
from benchmarks.quality_sets.statistics import regression
from groundwire.answer.grounding.sentence_vectors import SentenceVectors
from groundwire.answer.intent import leans_on_context
from groundwire.answer.ports import Vector
from groundwire.answer.sessions import Message
from groundwire.answer.topics import WEIGHTS, ShiftParts, Topics
from groundwire.embedders.factory import open_embedder
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.session import WINDOW_MESSAGES, Role

_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_ROLES = (Role.USER, Role.ASSISTANT)
_FOLD = 40
"""Messages that stand together stay in one half, for those of a dialogue resemble each other."""
_RIDGE = 1.0
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Marked:
    """A message, what was said before it, and whether it changes the topic."""

    text: str
    before: Sequence[Message]
    is_shift: bool


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tiage", type=Path, default=data_folder() / "tiage" / "anno_dev.json")
    parser.add_argument("--mtrag", type=Path, default=data_folder() / "mtrag" / "reference_dev.jsonl")
    parser.add_argument("--ikat", type=Path, default=data_folder() / "ikat")


def run(options: argparse.Namespace) -> None:
    ikat = ikat_files(options.ikat)
    need(options.tiage, options.mtrag, *ikat)
    sets = {
        "tiage": _read_tiage(options.tiage),
        "mtrag": _with_foreign(read_mtrag(options.mtrag)[1]),
        "ikat": _with_foreign(read_ikat(*ikat)[1]),
    }
    with tempfile.TemporaryDirectory(prefix="groundwire-topics-") as scratch:
        embedder = open_embedder(options.embedder, cache_dir=options.data or Path(scratch))
        topics = Topics(SentenceVectors(_Embeddings(embedder)))
        parts = {name: asyncio.run(_parts_of(topics, marked)) for name, marked in sets.items()}
        embedder.close()
    print(f"{'':<10}{'n':>6}{'shifts':>8}{'precision':>11}{'recall':>8}{'false':>8}{'F1':>8}{'baseline':>10}")
    for name, marked in sets.items():
        _print_row(name, marked, np.array([0.0 if each is None else each.probability for each in parts[name]]))
    _fit(sets, parts)


class _Embeddings:
    """The model of this process."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def embed(self, queries: Sequence[str], texts: Sequence[str]) -> list[Vector]:
        asked = [self._embedder.embed_query(query, Budget()) for query in queries]
        return [array("f", row.tolist()) for row in (*asked, *self._embedder.embed_documents(texts, Budget()))]


async def _parts_of(topics: Topics, marked: Sequence[_Marked]) -> list[ShiftParts | None]:
    """Return the parts of each message, None where it leans on what was said."""
    return [None if leans_on_context(each.text) else await topics.parts(each.text, each.before) for each in marked]


def _read_tiage(path: Path) -> list[_Marked]:
    marked = []
    for turns in json.loads(path.read_text(encoding="utf-8")).values():
        said = [Message(str(place), _ROLES[place % 2], text, _TIME) for place, (text, _) in enumerate(turns)]
        for place, message in enumerate(said[1:], start=1):
            window = said[max(0, place - WINDOW_MESSAGES) : place]
            marked.append(_Marked(message.content, window, turns[place][1] == "1"))
    return marked


def _with_foreign(turns: Sequence[FollowUp]) -> list[_Marked]:
    """Return each follow-up question, and in its place the first question of the next other conversation."""
    marked = []
    for place, turn in enumerate(turns):
        first, window = turn.before[0].content, turn.before[-WINDOW_MESSAGES:]
        others = (each.before[0].content for each in itertools.chain(turns[place:], turns))
        foreign = next(other for other in others if other != first)
        marked += [_Marked(turn.question, window, is_shift=False), _Marked(foreign, window, is_shift=True)]
    return marked


def _print_row(name: str, marked: Sequence[_Marked], probability: Floats) -> None:
    shifts = np.array([each.is_shift for each in marked])
    named = probability >= WEIGHTS.threshold
    right = (shifts & named).sum()
    f1, baseline = 2 * right / (named.sum() + shifts.sum()), 2 * shifts.sum() / (len(shifts) + shifts.sum())
    figures = (right / named.sum(), right / shifts.sum(), named[~shifts].mean(), f1)
    print(f"{name:<10}{len(shifts):>6}{shifts.sum():>8}{figures[0]:>11.3f}" + "".join(
        f"{figure:>8.3f}" for figure in figures[1:]) + f"{baseline:>10.3f}")  # fmt: skip


def _fit(sets: dict[str, list[_Marked]], parts: dict[str, list[ShiftParts | None]]) -> None:
    """Print what weights fitted to each half of the messages do for the other, and those fitted to all."""
    others = sum(len(marked) for name, marked in sets.items() if name != "tiage")
    shares = {name: 1.0 if name == "tiage" else len(sets["tiage"]) / others for name in sets}
    known = [(name, place) for name in sets for place, of in enumerate(parts[name]) if of is not None]
    values = np.array([[*astuple(of), 1.0] for name in sets for of in parts[name] if of is not None])
    wanted = np.array([float(sets[name][place].is_shift) for name, place in known])
    share_of = np.array([shares[name] for name, _ in known])
    fold = np.arange(len(known)) // _FOLD % 2
    probability = {name: np.zeros(len(marked)) for name, marked in sets.items()}
    for half in (0, 1):
        weights = regression(values[fold != half], wanted[fold != half], share_of[fold != half], _RIDGE)
        for number in np.flatnonzero(fold == half):
            name, place = known[number]
            probability[name][place] = 1 / (1 + np.exp(-values[number] @ weights))
    print("\nweights of the other half:")
    for name, marked in sets.items():
        _print_row(name, marked, probability[name])
    fields = [*ShiftParts.__dataclass_fields__, "bias"]
    fitted = regression(values, wanted, share_of, _RIDGE)
    print(", ".join(f"{field} {weight:.2f}" for field, weight in zip(fields, fitted, strict=True)))
