"""`groundwire evaluate`: how well searches find what labelled questions need."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Final, TypeAlias

import click

from groundwire.api.common.v1 import retrieval_options_pb2
from groundwire.api.common.v1.chunk_pb2 import Chunk
from groundwire.cli.connection import connect
from groundwire.cli.options import collection_option, input_argument, is_json, read_text, server_options
from groundwire.cli.output import ProgressBar, counted, excerpt, is_terminal, print_line, print_table, printed_as_json
from groundwire.cli.search import retrieval_options
from groundwire.client import Collection
from groundwire.kernel.errors import DocumentNotFoundError, InvalidRequestError

_FIELDS: Final = ("question", "source", "quote")
_SHOWN_MISSES: Final = 20
_EXCERPT_CHARS: Final = 80

Range: TypeAlias = tuple[int, int]
"""Code points of a document's text from the first up to the second, which is outside."""


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question, and where its answer stands: in a document, and there in a quote unless that is empty."""

    line: int
    question: str
    source: str
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the search for one question found; shares are 0.0 to 1.0.

    `covered` is the share of the quote's code points that the results hold, of a document without a quote 1.0 once any
    result is from it. `rank` is that of the first result which holds any of them, 0 if none does. `redundancy` is the
    share of the results' code points that results further up hold as well.
    """

    question: str
    source: str
    covered: float
    rank: int
    redundancy: float
    characters: int


@click.command()
@input_argument("questions", "JSON Lines of `question`, `source` and, better, `quote`")
@collection_option
@retrieval_options
@server_options
def evaluate(questions: Path, collection: str, options: retrieval_options_pb2.RetrievalOptions) -> None:
    """Measure how well searches find the answers to labelled questions.

    Prints recall, rank and redundancy. Each line names a question, the document that answers it, and a quote from there
    that a result has to hold.
    """
    labelled = read_questions(read_text(questions), str(questions))
    quiet = is_json() or not is_terminal(err=True)
    outcomes = []
    with connect() as client, ProgressBar("evaluating", len(labelled), quiet=quiet) as bar:
        evidence = _Evidence(client.collection(collection), str(questions))
        # All of it first: a mistake in the last line must not cost the time of the searches.
        wanted = [evidence.of(each) for each in labelled]
        for each, (document_id, quotes) in zip(labelled, wanted, strict=True):
            response = client.retrieve(collection=collection, query=each.question, options=options)
            outcomes.append(outcome_of(each, document_id, quotes, [hit.chunk for hit in response.results]))
            bar.advance(each.question)
    figures = summary(outcomes)
    if printed_as_json({"figures": figures, "questions": [asdict(each) for each in outcomes]}):
        return
    print_table(list(figures), [[f"{value:.4g}" for value in figures.values()]], "")
    missed = [outcome for outcome in outcomes if outcome.covered < 1]
    if missed:
        print_line()
        print_line(f"not found whole: {counted(len(missed), 'question')}")
    for miss in missed[:_SHOWN_MISSES]:
        print_line(f"{miss.covered:4.0%}  {miss.source}  {excerpt(miss.question, _EXCERPT_CHARS)}")
    if len(missed) > _SHOWN_MISSES:
        print_line((f"… and {len(missed) - _SHOWN_MISSES} more; --json shows all", "dim"))


def read_questions(text: str, name: str) -> list[LabelledQuestion]:
    """Return the questions of JSON Lines; empty lines are passed over.

    Raises:
        InvalidRequestError: naming a line that is not such an object; or there are no questions.
    """
    questions = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InvalidRequestError.of(name, f"line {number} is not JSON: {error}") from error
        if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
            raise InvalidRequestError.of(name, f"line {number} is not a JSON object of texts")
        if unknown := set(fields) - set(_FIELDS):
            known = ", ".join(_FIELDS)
            raise InvalidRequestError.of(name, f"line {number} has {min(unknown)!r}, which is none of {known}")
        if not (fields.get("question", "").strip() and fields.get("source", "").strip()):
            raise InvalidRequestError.of(name, f"line {number} lacks a question or its source")
        questions.append(LabelledQuestion(number, **fields))
    if not questions:
        raise InvalidRequestError.of(name, "has no questions")
    return questions


class _Evidence:
    """Looks up where quotes stand; reads each document once. `name` is that of the file with the questions."""

    def __init__(self, collection: Collection, name: str) -> None:
        self._collection = collection
        self._name = name
        self._read: dict[str, tuple[str, str]] = {}

    def of(self, labelled: LabelledQuestion) -> tuple[str, list[Range]]:
        """Return the id of the document and every place of the quote in it, none where there is no quote.

        Raises:
            InvalidRequestError: naming the line, there is no such document, or it does not contain the quote.
        """
        if labelled.source not in self._read:
            try:
                document_id = self._collection.document(labelled.source).document_id
                self._read[labelled.source] = document_id, self._collection.text(document_id)
            except DocumentNotFoundError as error:
                raise InvalidRequestError.of(self._name, f"line {labelled.line}: {error.message}") from error
        document_id, text = self._read[labelled.source]
        # Line ends and runs of blanks change when somebody copies a sentence from a page.
        pattern = r"\s+".join(map(re.escape, labelled.quote.split()))
        quotes = [found.span() for found in re.finditer(pattern, text)] if pattern else []
        if pattern and not quotes:
            absent = f"{labelled.source!r} does not hold {labelled.quote!r}"
            raise InvalidRequestError.of(self._name, f"line {labelled.line}: {absent}")
        return document_id, quotes


def outcome_of(
    labelled: LabelledQuestion, document_id: str, quotes: Sequence[Range], results: Sequence[Chunk]
) -> Outcome:
    """Compare results, best first, with the places that a quote stands at; the one they cover best counts."""
    held: dict[str, list[Range]] = {}
    repeated = characters = rank = 0
    for place, chunk in enumerate(results, start=1):
        span = chunk.span.start, chunk.span.end
        before = held.setdefault(chunk.document_id, [])
        repeated += _shared(span, before)
        characters += span[1] - span[0]
        before.append(span)
        is_evidence = chunk.document_id == document_id and (
            not quotes or any(_shared(quote, [span]) for quote in quotes)
        )
        rank = rank or (place if is_evidence else 0)
    from_document = held.get(document_id, [])
    shares = [_shared(quote, from_document) / (quote[1] - quote[0]) for quote in quotes]
    return Outcome(
        question=labelled.question,
        source=labelled.source,
        covered=max(shares) if shares else float(bool(from_document)),
        rank=rank,
        redundancy=repeated / characters if characters else 0.0,
        characters=characters,
    )


def _shared(span: Range, others: Iterable[Range]) -> int:
    """Return how many code points of a span stand in at least one of the others."""
    start, end = span
    shared = 0
    # In order, so that what several of them hold counts once.
    for other_start, other_end in sorted(others):
        shared += max(0, min(end, other_end) - max(start, other_start))
        start = max(start, other_end)
    return shared


def summary(outcomes: Sequence[Outcome]) -> Mapping[str, float]:
    """Return the figures of all questions by name.

    `recall` is the share of questions whose quote the results hold whole, `mrr` the mean of 1 / `rank`, where a missed
    question counts 0; the others are means over questions.
    """
    return {
        "questions": len(outcomes),
        "recall": fmean(each.covered == 1 for each in outcomes),
        "covered": fmean(each.covered for each in outcomes),
        "mrr": fmean(1 / each.rank if each.rank else 0.0 for each in outcomes),
        "redundancy": fmean(each.redundancy for each in outcomes),
        "characters": fmean(each.characters for each in outcomes),
    }
