"""`topics`: the messages of the dialogues of tiage that change the topic, as annotators marked them.

Each message after the first one of its dialogue is a question to a session whose window holds those before it. `shifts`
is how many messages change the topic, `baseline` the F1 of calling every message a change. Needs no model.
"""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.quality_sets.stack import data_folder, need
from groundwire.answer.intent import is_topic_shift
from groundwire.answer.sessions import Message
from groundwire.kernel.session import WINDOW_MESSAGES, Role

_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_ROLES = (Role.USER, Role.ASSISTANT)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what only this set takes."""
    parser.add_argument("--tiage", type=Path, default=data_folder() / "tiage" / "anno_dev.json")


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    need(options.tiage)
    marked: list[tuple[Role, bool, bool]] = []
    for turns in json.loads(options.tiage.read_text(encoding="utf-8")).values():
        said = [Message(str(place), _ROLES[place % 2], text, _TIME) for place, (text, _) in enumerate(turns)]
        for place, message in enumerate(said[1:], start=1):
            window = said[max(0, place - WINDOW_MESSAGES) : place]
            marked.append((message.role, turns[place][1] == "1", is_topic_shift(message.content, window)))
    print(f"{'':<16}{'n':>6}{'shifts':>8}{'precision':>11}{'recall':>8}{'F1':>8}{'baseline':>10}")
    for name, roles in (("all messages", _ROLES), ("of the user", (Role.USER,))):
        shifts, named = np.array([each[1:] for each in marked if each[0] in roles]).T
        right = (shifts & named).sum()
        precision, recall = right / named.sum(), right / shifts.sum()
        f1, baseline = 2 * right / (named.sum() + shifts.sum()), 2 * shifts.sum() / (len(shifts) + shifts.sum())
        figures = f"{precision:>11.3f}{recall:>8.3f}{f1:>8.3f}{baseline:>10.3f}"
        print(f"{name:<16}{len(shifts):>6}{shifts.sum():>8}{figures}")
