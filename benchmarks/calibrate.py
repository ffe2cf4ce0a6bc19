"""Fits the support of excerpts to graded answers, and draws how calibrated it is.

    python benchmarks/calibrate.py [--only SET] [--every N] [--data DIR] [--plot FILE.svg] [--write]

Of each question of the sets of `benchmarks/quality.py answers`, the best excerpt of each of the best passages is
graded: right when it would be as an answer, wrong for all questions without one. A logistic regression of that on
`Support.parts`, with equal weight for each set and a ridge, is fitted on the even questions; the lines printed compare
it with the weights of the tree on the odd ones: expected calibration error over ten bins (Naeini et al., 2015) and area
under the curve of right against all others, for the excerpts that lead. `--plot` draws the odd half with the weights of
the tree, `--write` replaces these by the fitted ones.
"""

import argparse
import asyncio
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.quality_sets.answers import SETS, Question, bins, calibration_error, stored
from benchmarks.quality_sets.statistics import area, regression
from benchmarks.served import server
from groundwire.answer.adapters.retrieve_client import RetrieveClient
from groundwire.answer.extractive import scoring, weights
from groundwire.answer.extractive.generator import candidates
from groundwire.answer.extractive.similarity import estimate_similarities
from groundwire.answer.grounding.similarity_scale import cosine
from groundwire.answer.ports import Search
from groundwire.api.answer.v1 import answer_pb2, citation_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2_grpc
from groundwire.client import GroundwireClient

_PARTS = [name for name in weights.SupportWeights.__dataclass_fields__ if name != "bias"]
_RIDGE = 0.01
"""Against weights that only a few questions ask for, of weights of parts scaled to a deviation of 1."""
_SIZE, _MARGIN = 320, 40


@dataclass(frozen=True, slots=True)
class Graded:
    """The parts of the support of an excerpt, in the order of the weights, and whether it is a right answer."""

    collection: str
    question: int
    parts: list[float]
    rank: float
    is_right: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SETS, action="append", help="leave out the other sets")
    parser.add_argument("--every", type=int, default=1, help="ask only every n-th question")
    parser.add_argument("--data", type=Path, help="where to keep the collections")
    parser.add_argument("--plot", type=Path, help="where to draw the calibration")
    parser.add_argument("--write", action="store_true", help="replace the weights of the tree")
    options = parser.parse_args()
    graded: list[Graded] = []
    with server([], options.data) as address, GroundwireClient(address) as client:
        for name in options.only or SETS:
            graded += asyncio.run(_graded(address, name, stored(client, name)[:: options.every]))
    even, odd = ([each for each in graded if each.question % 2 == half] for half in (0, 1))
    current = np.array([weights.SUPPORT.bias, *(getattr(weights.SUPPORT, name) for name in _PARTS)])
    fitted = _fit(even)
    print(f"{'':<10}{'n':>6}{'ECE':>8}{'AUC':>8}")
    for name, theta in (("tree", current), ("fitted", fitted)):
        confidence, is_right = _leads(odd, theta)
        error, auc = calibration_error(confidence, is_right), area(confidence, is_right)
        print(f"{name:<10}{len(is_right):>6}{error:>8.3f}{auc:>8.3f}")
    for name, value, before in zip(["bias", *_PARTS], fitted, current, strict=True):
        print(f"    {name}: float = {value:.2f}  # {before:.2f} in the tree")
    if options.plot:
        options.plot.write_text(_drawn(*_leads(odd, current)), encoding="utf-8")
    if options.write:
        path = Path(weights.__file__)
        head, mark, rest = path.read_text(encoding="utf-8").partition("class SupportWeights:")
        for name, value in zip(["bias", *_PARTS], fitted, strict=True):
            rest = re.sub(rf"(?m)^    {name}: float = .*$", f"    {name}: float = {value:.2f}", rest, count=1)
        path.write_text(head + mark + rest, encoding="utf-8")


async def _graded(address: str, collection: str, questions: list[Question]) -> list[Graded]:
    graded = []
    async with grpc.aio.insecure_channel(address) as channel:
        client = RetrieveClient(retrieve_service_pb2_grpc.RetrieveServiceStub(channel))
        for number, question in enumerate(questions):
            retrieval = await client.retrieve(Search(collection, question.text))
            asked, _, excerpts = candidates(question.text, retrieval.passages)
            if not excerpts:
                continue
            scored, places = estimate_similarities(asked, excerpts)
            of_question, *vectors = await client.embed(
                [question.text], [scoring.scored_text(asked, excerpts[place]) for place in places]
            )
            for place, vector in zip(places, vectors, strict=True):
                scored[place] = scored[place].with_similarity(cosine(of_question, vector))
            support = scoring.Support(asked, scored)
            for item in support.tested:
                excerpt = item.excerpt
                quote = excerpt.passage.content[excerpt.start : excerpt.end]
                citation = citation_pb2.Citation(
                    quote=quote, source_uri=excerpt.passage.source_uri, page_numbers=excerpt.passage.page_numbers
                )
                answer = answer_pb2.Answer(content=excerpt.text, citations=[citation])
                is_right = question.grade is not None and question.grade(answer)[0]
                parts = support.parts(item)
                graded.append(Graded(collection, number, [parts[name] for name in _PARTS], item.score, is_right))
    return graded


def _fit(graded: list[Graded]) -> NDArray[np.float64]:
    """Return bias and weights of the logistic regression."""
    x = np.array([each.parts for each in graded])
    y = np.array([each.is_right for each in graded], dtype=float)
    sizes = {each.collection: sum(other.collection == each.collection for other in graded) for each in graded}
    share = np.array([1 / sizes[each.collection] / len(sizes) for each in graded])
    mean, deviation = x.mean(axis=0), x.std(axis=0) + 1e-9
    fitted = regression(np.column_stack([(x - mean) / deviation, np.ones(len(x))]), y, share, _RIDGE)
    slopes = fitted[:-1] / deviation
    return np.array([fitted[-1] - slopes @ mean, *slopes])


def _leads(graded: list[Graded], theta: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the support of the excerpt that leads each question, and whether it is right."""
    best: dict[tuple[str, int], tuple[float, float, bool]] = {}
    for each in graded:
        support = float(1 / (1 + np.exp(-(theta[0] + np.dot(theta[1:], each.parts)))))
        key = (each.collection, each.question)
        found = (each.rank + weights.LEAD_SUPPORT * support, support, each.is_right)
        best[key] = max(best.get(key, found), found)
    return np.array([each[1] for each in best.values()]), np.array([each[2] for each in best.values()])


def _drawn(confidence: NDArray[np.float64], is_right: NDArray[np.bool_]) -> str:
    """Return the share of right excerpts over their mean support, one point for each tenth, as large as it is full."""
    side = _SIZE - 2 * _MARGIN

    def at(value: float) -> float:
        return round(_MARGIN + value * side, 1)

    points = []
    for _, sure, ok in bins(confidence, is_right):
        radius = 2 + 12 * (len(ok) / len(is_right)) ** 0.5
        place = f'cx="{at(sure.mean())}" cy="{at(1 - ok.mean())}" r="{radius:.1f}"'
        title = f"{len(ok)}: {sure.mean():.2f}, {ok.mean():.2f} right"
        points.append(f'<circle {place} fill="#2563eb" fill-opacity="0.6"><title>{title}</title></circle>')
    marks = [
        f'<text x="{at(tenth / 10)}" y="{_SIZE - _MARGIN + 16}" text-anchor="middle">{tenth / 10}</text>'
        f'<text x="{_MARGIN - 6}" y="{at(1 - tenth / 10) + 4}" text-anchor="end">{tenth / 10}</text>'
        for tenth in range(0, 11, 2)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" font-size="11">',
            f'<rect width="{_SIZE}" height="{_SIZE}" fill="white"/>',
            f'<rect x="{_MARGIN}" y="{_MARGIN}" width="{side}" height="{side}" fill="none" stroke="#999"/>',
            f'<line x1="{at(0)}" y1="{at(1)}" x2="{at(1)}" y2="{at(0)}" stroke="#999" stroke-dasharray="4"/>',
            *marks,
            *points,
            f'<text x="{_SIZE / 2}" y="{_SIZE - 6}" text-anchor="middle">support of the excerpt that leads</text>',
            f'<text x="{_MARGIN}" y="{_MARGIN - 10}">share that is right, {len(is_right)} questions held out</text>',
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    main()
