"""`ground`: claims of Wikipedia beside the pages they cite (WiCE dev), told by their support from those not supported.

Each claim is compared with the lines of its own pages, cut into passages, in this process. `overlap` is the baseline:
the largest share of the claim's words that one sentence of the pages has. `AUC` sets the claims that are supported in
full apart from the others, `chosen` on the half that the weights were fitted on, `held out` on the other. `ECE` is the
expected calibration error of the support over ten bins of equal size, on the held out half, and `supported` how many
are called so, of the supported, the partially supported, and the others.

The last table takes sentences of the pages as claims, as they stand and with one thing changed: a number, a year, a
name by another of the same page or by one of nowhere, or a negation put in. It says how many are still supported.
"""

import argparse
import json
import random
import re
import tempfile
from array import array
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality_sets.data import data_folder, need
from benchmarks.quality_sets.statistics import RESAMPLES, SEED, area
from groundwire.answer.evidence import Markup, Passage
from groundwire.answer.grounding.claims import ClaimKind, WrittenClaim, split_claims
from groundwire.answer.grounding.grounder import MIN_SUPPORT, GroundedClaim, TextComparison, Verdict
from groundwire.answer.grounding.similarity_scale import ANSWERS, PARAPHRASES, QUESTIONS, measure
from groundwire.answer.ports import Vector
from groundwire.embedders.factory import open_embedder
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.facts import FactKind, read
from groundwire.kernel.spans import OffsetMap, Span
from groundwire.kernel.words import words

_PASSAGE_CHARS = 500
Values = NDArray[np.float64]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--every", type=int, default=1, help="take only every n-th claim")


def run(options: argparse.Namespace) -> None:
    need(path := data_folder() / "wice" / "claim_dev.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()][:: options.every]
    with tempfile.TemporaryDirectory(prefix="groundwire-ground-") as scratch:
        embedder = open_embedder(options.embedder, cache_dir=options.data or Path(scratch))
        model = Model(embedder)
        print_report(rows, [support_of(row, model) for row in rows])
        print_changed(rows[1::6], model)
        embedder.close()


class Model:
    """The embedding model with the scale of its cosines."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        questions = [array("f", embedder.embed_query(text, Budget()).tolist()) for text in QUESTIONS]
        self._scale = measure(questions, self._vectors(ANSWERS), self._vectors(PARAPHRASES)).statements

    def grounded(self, claims: Sequence[WrittenClaim], passages: Sequence[Passage]) -> list[GroundedClaim]:
        """Return claims, each compared with all of the passages."""
        budget = Budget()
        comparison = TextComparison(claims, [passages] * len(claims), budget)
        vectors = self._vectors(comparison.texts) if comparison.texts else []
        return comparison.grounded(dict(zip(comparison.texts, vectors, strict=True)), budget, self._scale)

    def _vectors(self, texts: Sequence[str]) -> list[Vector]:
        return [array("f", row.tolist()) for row in self._embedder.embed_documents(texts, Budget())]


def support_of(row: Any, model: Model) -> list[GroundedClaim]:
    """Return the claims of one row, compared with its pages."""
    claims = split_claims(row["claim"].strip())
    passages = passages_of(row["evidence"])
    return model.grounded(claims, passages)


def passages_of(lines: Sequence[str]) -> list[Passage]:
    """Return the lines of a page as passages of about 500 code points."""
    parts: list[str] = [""]
    for line in lines:
        if parts[-1] and len(parts[-1]) + len(line) > _PASSAGE_CHARS:
            parts.append("")
        parts[-1] += f"{line}\n"
    passages, start, start_byte = [], 0, 0
    title = lines[0].removeprefix("(meta data) TITLE:").strip()
    for rank, part in enumerate(parts, start=1):
        end, end_byte = start + len(part), start_byte + len(part.encode())
        span = Span(start, end, start_byte, end_byte)
        passages.append(
            Passage(
                rank=rank, chunk_id=str(rank), chunk_number=rank, document_id="page", generation=1, source_uri="page",
                title=title, chapter="", section="", section_heading="", page_numbers=(), span=span, content=part,
                relevance=1.0, markup=Markup.NONE,
            )
        )  # fmt: skip
        start, start_byte = end, end_byte
    return passages


def print_report(rows: Sequence[Any], grounded: Sequence[Sequence[GroundedClaim]]) -> None:
    is_supported = np.array([row["label"] == "supported" for row in rows])
    support = np.array([min(each.support for each in claims) for claims in grounded])
    overlap = np.array([_overlap(row["claim"], row["evidence"]) for row in rows])
    held_out = np.arange(len(rows)) % 2 == 1
    print(f"{'':<10}{'n':>5}{'AUC':>26}{'chosen':>26}{'held out':>26}")
    for name, values in (("overlap", overlap), ("support", support)):
        print(f"{name:<10}{len(rows):>5}" + "".join(f"{_auc(values[s], is_supported[s]):>26}" for s in (
            np.full(len(rows), fill_value=True), ~held_out, held_out)))  # fmt: skip
    picks = np.random.default_rng(SEED).integers(0, len(rows), (RESAMPLES // 10, len(rows)))
    differences = [area(support[p], is_supported[p]) - area(overlap[p], is_supported[p]) for p in picks]
    low, high = np.percentile(differences, (2.5, 97.5))
    print(
        f"support - overlap: {area(support, is_supported) - area(overlap, is_supported):+.3f} [{low:+.3f}, {high:+.3f}]"
    )
    print(f"ECE, held out: {_calibration_error(support[held_out], is_supported[held_out]):.3f}")
    called = np.array([all(c.verdict in {Verdict.SUPPORTED, Verdict.DISPUTED} for c in each) for each in grounded])
    labels = np.array([row["label"] for row in rows])
    shares = (f"{label} {called[labels == label].mean():.3f}" for label in dict.fromkeys(sorted(labels)))
    print(f"called supported (support from {MIN_SUPPORT}): {', '.join(shares)}")
    sources = [s.source for claims in grounded for each in claims for s in each.sources]
    exact = [
        s.passage.content[s.span.start - s.passage.span.start : s.span.end - s.passage.span.start] for s in sources
    ]
    print(f"sources: {len(sources)}, exact: {sum(a == b.quote for a, b in zip(exact, sources, strict=True))}")


def _overlap(claim: str, sentences: Sequence[str]) -> float:
    own = set(words(claim))
    return max(len(own & set(words(each))) / len(own) for each in sentences)


def _auc(values: Values, truth: NDArray[np.bool_]) -> str:
    picks = np.random.default_rng(SEED).integers(0, len(values), (RESAMPLES // 10, len(values)))
    low, high = np.percentile([area(values[pick], truth[pick]) for pick in picks], (2.5, 97.5))
    return f"{area(values, truth):.3f} [{low:.3f}, {high:.3f}]"


def _calibration_error(values: Values, truth: NDArray[np.bool_]) -> float:
    order = np.argsort(values, kind="stable")
    bins = np.array_split(order, 10)
    return float(sum(abs(values[b].mean() - truth[b].mean()) * len(b) for b in bins) / len(values))


_SENTENCES = 3
_NOWHERE = ("Hartwell", "Okonkwo", "Brezhnica", "Velmara")
_VERB = re.compile(r"\b(is|are|was|were|can|will|could|would)\b(?! not)")
_YEAR = re.compile(r"\d{4}")


def print_changed(rows: Sequence[Any], model: Model) -> None:
    """Print how many sentences of the pages are supported, as they stand and with one thing changed."""
    draw = random.Random(SEED)
    supported: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        lines = [line for line in row["evidence"] if _SHORTEST < len(line) < _LONGEST and line.endswith(".")]
        passages = passages_of(row["evidence"])
        for line in draw.sample(lines, min(_SENTENCES, len(lines))):
            for name, text in {"nothing": line, **_changed(line, lines, draw)}.items():
                span = OffsetMap(text).span(0, len(text))
                claim = WrittenClaim(span, text, ClaimKind.STATEMENT)
                (found,) = model.grounded([claim], passages)
                supported[name].append(bool(found.sources))
    print(f"{'changed':<26}{'n':>5}{'supported':>12}")
    for name, bound in sorted(supported.items()):
        print(f"{name:<26}{len(bound):>5}{sum(bound):>12}")


_SHORTEST, _LONGEST = 60, 260


def _changed(line: str, lines: Sequence[str], draw: random.Random) -> dict[str, str]:
    """Return a sentence with one thing changed, by what that is."""
    facts = {kind: [fact for fact in read(line).of(kind) if not fact.weak] for kind in FactKind}
    names = {fact.text for each in lines for fact in read(each).of(FactKind.NAME) if not fact.weak}
    others = sorted(name for name in names if not set(name.split()) & set(line.split()))
    changed = {}
    if numbers := [fact for fact in facts[FactKind.NUMBER] if fact.text.isdigit()]:
        fact = draw.choice(numbers)
        changed["number"] = f"{line[: fact.start]}{int(fact.text) + draw.choice((1, 2, 7))}{line[fact.end :]}"
    if years := [fact for fact in facts[FactKind.DATE] if _YEAR.search(fact.text)]:
        fact = draw.choice(years)
        date = _YEAR.sub(lambda match: str(int(match[0]) + 2), fact.text)
        changed["year"] = f"{line[: fact.start]}{date}{line[fact.end :]}"
    if facts[FactKind.NAME]:
        fact = draw.choice(facts[FactKind.NAME])
        changed["name, by one of nowhere"] = f"{line[: fact.start]}{draw.choice(_NOWHERE)}{line[fact.end :]}"
        if others:
            changed["name, by one of the page"] = f"{line[: fact.start]}{draw.choice(others)}{line[fact.end :]}"
    if not read(line).denials and _VERB.search(line):
        changed["negation"] = _VERB.sub(r"\1 not", line, count=1)
    return changed
