"""`conversations`: follow-up questions of mtrag and ikat, nDCG@10, with the conversation against the last turn alone.

The collection of a set is closed: the passages that any of its turns refers to, each a document. A question is a turn
after the first one that refers to a passage. `conversation` searches for what a session of the answer service makes of
the question and the messages before it, `pasted` for all the user's turns one after the other, and `resolved`, where a
set has it, for what a person made of the question.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.quality_sets.data import data_folder, need
from benchmarks.quality_sets.ranked import documents_of, ndcg
from benchmarks.quality_sets.searches import AGAINST_EACH, MODES, ROWS, Search, Searches, fill
from benchmarks.quality_sets.statistics import Scores, report
from benchmarks.served import served_client
from groundwire.answer.intent import search_context, search_text
from groundwire.answer.sessions import Message
from groundwire.kernel.collection import DEFAULT_PROFILE, CollectionLimits, ProfileName
from groundwire.kernel.session import WINDOW_MESSAGES, Role

_DEPTH = 10
_TOP_K = 20
_LONGEST = CollectionLimits().max_query_chars
_NEVER = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A question, what was said before it, the passages it refers to, and a person's rewriting, empty if none."""

    question: str
    before: tuple[Message, ...]
    relevant: frozenset[str]
    resolved: str = ""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mtrag", type=Path, default=data_folder() / "mtrag" / "reference_dev.jsonl")
    parser.add_argument("--ikat", type=Path, default=data_folder() / "ikat")
    parser.add_argument("--profile", type=ProfileName, default=DEFAULT_PROFILE)


def run(options: argparse.Namespace) -> None:
    ikat = ikat_files(options.ikat)
    need(options.mtrag, *ikat)
    with served_client(["--embedder", options.embedder], options.data) as client:
        for name, (passages, turns) in {"mtrag": read_mtrag(options.mtrag), "ikat": read_ikat(*ikat)}.items():
            print(f"{name}: passages: {len(passages)}; follow-up questions: {len(turns)}")
            searches = Searches(client, fill(client, name, passages, options.profile))
            _measure(searches.ways(ROWS, _TOP_K), turns)


def ikat_files(folder: Path) -> tuple[Path, Path]:
    """Return the files of the topics and of the passages of iKAT."""
    return folder / "2023_train_topics.json", folder / "2023_train_topics_psg_text.jsonl"


def _measure(ways: Mapping[str, Search], turns: Sequence[FollowUp]) -> None:

    def ask(of: Callable[[FollowUp], tuple[str, str]], row: str) -> Scores:
        found = [documents_of(ways[row](query, context)) for query, context in map(of, turns)]
        scores = [(ndcg(each, turn.relevant, _DEPTH),) for each, turn in zip(found, turns, strict=True)]
        return np.array(scores, dtype=np.float64)

    rows = {row: ask(lambda turn: (turn.question, ""), row) for row in ROWS}
    rows |= {f"conversation, {name}": ask(_with_conversation, name) for name in MODES}
    rows["pasted, hybrid"] = ask(_pasted, "hybrid")
    if all(turn.resolved for turn in turns):
        rows["resolved, hybrid"] = ask(lambda turn: (turn.resolved, ""), "hybrid")
    pairs = [*AGAINST_EACH, ("conversation, hybrid", "hybrid"), ("pasted, hybrid", "hybrid")]
    pairs += [("conversation, hybrid", f"conversation, {other}") for other in ("dense", "lexical")]
    report(rows, [f"nDCG@{_DEPTH}"], pairs)


def _with_conversation(turn: FollowUp) -> tuple[str, str]:
    """Return what a session searches for, and what that goes on from."""
    window = turn.before[-WINDOW_MESSAGES:]
    return search_text(turn.question, window, _LONGEST), search_context(turn.question, window, _LONGEST)


def _pasted(turn: FollowUp) -> tuple[str, str]:
    said = [message.content for message in turn.before if message.role is Role.USER]
    return " ".join([*said, turn.question])[-_LONGEST:], ""


def read_mtrag(path: Path) -> tuple[dict[str, bytes], list[FollowUp]]:
    """Return the passages by source name, and the questions."""
    tasks = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    texts = {_name(each["document_id"]): each["text"].encode() for task in tasks for each in task["contexts"]}
    turns = []
    for task in tasks:
        *before, last = task["input"]
        said = [_message(Role.USER if each["speaker"] == "user" else Role.ASSISTANT, each["text"]) for each in before]
        relevant = frozenset(_name(each["document_id"]) for each in task["contexts"])
        if said and relevant:
            turns.append(FollowUp(last["text"], tuple(said), relevant))
    return texts, turns


def read_ikat(topics: Path, passages: Path) -> tuple[dict[str, bytes], list[FollowUp]]:
    """Return the same of the two files of iKAT."""
    lines = [json.loads(line) for line in passages.read_text(encoding="utf-8").splitlines()]
    texts = {_name(f"{each['doc_id']}:{each['passage_id']}"): each["passage_text"].encode() for each in lines}
    turns = []
    for topic in json.loads(topics.read_text(encoding="utf-8")):
        said: list[Message] = []
        for turn in topic["turns"]:
            relevant = frozenset(map(_name, turn["response_provenance"])) & texts.keys()
            if said and relevant:
                turns.append(FollowUp(turn["utterance"], tuple(said), relevant, turn["resolved_utterance"]))
            said += [_message(Role.USER, turn["utterance"]), _message(Role.ASSISTANT, turn["response"])]
    return texts, turns


def _name(passage: str) -> str:
    return passage.replace(":", "-") + ".txt"


def _message(role: Role, text: str) -> Message:
    return Message("", role, text, _NEVER)
