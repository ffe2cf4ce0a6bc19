"""`answers`: what is asked of SQuAD v2.0, CLAP NQ and Northwind's papers, and how well it is answered or refused.

Each set is one collection of a server with its defaults, asked through gRPC. `answered` is the share of the questions
with an answer in the collection that get one, `false` that of the others. Of the first, `right` are those whose answer
holds a gold answer (squad), of whose quoted sentences at least half were picked by an annotator (clapnq), or which cite
a page of the gold answer or the next one (northwind). `F1` is that of quoted against picked sentences (clapnq). `AUC`
tells how well the confidence, 0 for a refusal, sets questions with an answer apart from the others, and right
answers apart from wrong ones. `ECE` is the expected calibration error of the confidence of what was answered, answers
to questions without one counted as wrong: the mean difference between confidence and share of right answers over ten
bins (Naeini et al., 2015), which the last table shows for all sets together.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality_sets.data import data_folder, need
from benchmarks.quality_sets.statistics import area
from benchmarks.served import served_client
from groundwire.api.answer.v1 import answer_pb2
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import AlreadyExistsError
from groundwire.kernel.sentences import split_sentences

Grade = Callable[[answer_pb2.Answer], tuple[bool, float]]
"""Says of an answer with citations whether it is right, and its F1 where the set has one, else 0."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question; `grade` is None when the collection has no answer to it."""

    text: str
    grade: Grade | None


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=SETS, action="append", help="leave out the other sets")
    parser.add_argument("--every", type=int, default=1, help="ask only every n-th question")


def run(options: argparse.Namespace) -> None:
    narrow = "".join(f"{each:>8}" for each in ("false", "right", "F1", "AUC"))
    print(f"{'':<12}{'n':>6}{'answered':>10}{narrow}{'AUC right':>11}{'ECE':>8}{'verified':>10}")
    outcomes: list[tuple[float, bool]] = []
    with served_client(["--embedder", options.embedder], options.data) as client:
        for name in options.only or SETS:
            print(_row(name, client, stored(client, name)[:: options.every], outcomes))
    print(f"\n{'confidence':<12}{'n':>6}{'mean':>10}{'right':>8}")
    given = np.array([each[0] for each in outcomes]), np.array([each[1] for each in outcomes])
    for low, confidences, right in bins(*given):
        print(f"{low:.1f} to {low + 0.1:.1f}{len(right):>9}{confidences.mean():>10.3f}{right.mean():>8.3f}")


def stored(client: GroundwireClient, name: str) -> list[Question]:
    """Store the sources of a set in a collection of its name; return its questions."""
    sources, questions = SETS[name](data_folder())
    with suppress(AlreadyExistsError):
        client.create_collection(collection=name)
    for source, content in sources.items():
        client.ingest_document(collection=name, source_uri=source, content=content)
    return questions


def _row(name: str, client: GroundwireClient, questions: Sequence[Question], outcomes: list[tuple[float, bool]]) -> str:
    """Return the figures of a set; the confidence of each answer, and whether it is right, go to `outcomes`."""
    confidence, has_answer, right, f1 = [], [], [], []
    quotes = verified = 0
    for question in questions:
        answer = client.ask(collection=name, question=question.text).answer
        confidence.append(answer.confidence)
        has_answer.append(question.grade is not None)
        is_right, value = question.grade(answer) if question.grade and answer.grounded else (False, 0.0)
        right.append(is_right)
        f1.append(value)
        quotes += len(answer.citations)
        verified += client.verify_citations(citations=answer.citations).all_verified * len(answer.citations)
    known, sure, ok = np.array(has_answer), np.array(confidence), np.array(right)
    answered = sure > 0
    outcomes += zip(sure[answered].tolist(), ok[answered].tolist(), strict=True)
    figures = [
        f"{answered[known].mean():>10.3f}{answered[~known].mean():>8.3f}",
        f"{ok[known & answered].mean():>8.3f}{np.array(f1)[known].mean():>8.3f}",
        f"{area(sure, known):>8.3f}",
        f"{area(sure[known & answered], ok[known & answered]):>11.3f}",
        f"{calibration_error(sure[answered], ok[answered]):>8.3f}",
        f"{verified:>5}/{quotes}",
    ]
    return f"{name:<12}{len(questions):>6}{''.join(figures)}"


def bins(
    confidences: NDArray[np.float64], right: NDArray[np.bool_]
) -> Iterator[tuple[float, NDArray[np.float64], NDArray[np.bool_]]]:
    """Iterate over the tenths of confidence that have answers: lower end, confidences, which are right."""
    tenths = np.minimum((confidences * 10).astype(int), 9)
    for tenth in np.unique(tenths):
        yield tenth / 10, confidences[tenths == tenth], right[tenths == tenth]


def calibration_error(confidences: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Return the mean difference between confidence and share of right answers over the tenths of confidence."""
    differences = (len(ok) * abs(sure.mean() - ok.mean()) for _, sure, ok in bins(confidences, right))
    return float(sum(differences) / len(right))


def _squad(data: Path) -> tuple[dict[str, bytes], list[Question]]:
    need(path := data / "squad" / "dev-v2.0.json")
    sources, questions = {}, []
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    for number, paragraph in enumerate(each for article in articles for each in article["paragraphs"]):
        sources[f"{number:05}.txt"] = paragraph["context"].encode()
        for item in paragraph["qas"]:
            gold = [_letters(answer["text"]) for answer in item["answers"]]
            questions.append(Question(item["question"], None if item["is_impossible"] else _holds_any(gold)))
    return sources, questions


def _clapnq(data: Path) -> tuple[dict[str, bytes], list[Question]]:
    sources, questions = {}, []
    for name in ("answerable", "unanswerable"):
        need(path := data / "clapnq" / f"clapnq_dev_{name}.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines():
            item = json.loads(line)
            sources[f"{item['id']}.txt"] = item["passages"][0]["text"].encode()
            picked = [_letters(text) for output in item["output"] for text in output["selected_sentences"]]
            questions.append(Question(item["input"], _quotes_picked(picked) if name == "answerable" else None))
    return sources, questions


def _northwind(data: Path) -> tuple[dict[str, bytes], list[Question]]:
    need(folder := data / "northwind")
    sources = {path.name: path.read_bytes() for path in sorted((folder / "pdf").glob("*.pdf"))}
    questions = []
    for line in (folder / "qa" / "qa.jsonl").read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        pages = [(name, int(page)) for name, page in re.findall(r"\[([\w.]+)#page=(\d+)", item["truth"])]
        questions.append(Question(item["question"], _cites_page(pages)))
    foreign = (folder / "qa" / "qa_dontknows.jsonl").read_text(encoding="utf-8").splitlines()
    return sources, [*questions, *(Question(json.loads(line)["question"], None) for line in foreign)]


_HALF = 0.5
SETS = {"squad": _squad, "clapnq": _clapnq, "northwind": _northwind}


def _holds_any(gold: Sequence[str]) -> Grade:
    return lambda answer: (any(text in _letters(answer.content) for text in gold), 0.0)


def _quotes_picked(picked: Sequence[str]) -> Grade:
    def grade(answer: answer_pb2.Answer) -> tuple[bool, float]:
        quoted = [
            _letters(citation.quote[sentence.start : sentence.end])
            for citation in answer.citations
            for sentence in split_sentences(citation.quote)
        ]
        hits = sum(any(text in gold or gold in text for gold in picked) for text in quoted)
        found = sum(any(text in gold or gold in text for text in quoted) for gold in picked)
        precision, recall = hits / max(1, len(quoted)), found / max(1, len(picked))
        return precision >= _HALF, 2 * precision * recall / (precision + recall) if hits else 0.0

    return grade


def _cites_page(pages: Sequence[tuple[str, int]]) -> Grade:
    wanted = {(name, number) for name, page in pages for number in (page, page + 1)}
    return lambda answer: (
        any((citation.source_uri, page) in wanted for citation in answer.citations for page in citation.page_numbers),
        0.0,
    )


def _letters(text: str) -> str:
    return re.sub(r"\W+", "", text.casefold())
