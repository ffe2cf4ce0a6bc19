"""The Generator that quotes: the best excerpts of the passages, or nothing."""

from collections.abc import AsyncGenerator, Sequence

from groundwire.answer.evidence import Passage, Source, Statement
from groundwire.answer.extractive.excerpts import Excerpt, find_excerpts
from groundwire.answer.extractive.question import Question, read_question
from groundwire.answer.extractive.scoring import Support, rarities, score_excerpts, scored_text, shortlist
from groundwire.answer.extractive.selection import corroborations, select_excerpts
from groundwire.answer.extractive.weights import MAX_CANDIDATES, MAX_EXCERPTS, MIN_SUPPORT
from groundwire.answer.grounding.sentence_vectors import SentenceVectors, cosine
from groundwire.answer.ports import Vector
from groundwire.kernel.sentences import BlockKind
from groundwire.kernel.stems import content_stems
from groundwire.rpc import request_context
from groundwire.rpc.workers import Workers


class ExtractiveGenerator:
    """Deterministic and offline; each statement has the place it was taken from as its first source.

    Further sources are the header of a table row, and places in other documents that say the same.
    """

    name = "extractive"

    def __init__(
        self,
        *,
        vectors: SentenceVectors,
        workers: Workers,
        min_support: float | None = None,
        max_excerpts: int = MAX_EXCERPTS,
    ) -> None:
        self._vectors = vectors
        self._workers = workers
        self._min_support = MIN_SUPPORT if min_support is None else min_support
        self._max_excerpts = max_excerpts

    async def draft(
        self, question: str, passages: Sequence[Passage], strictness: float | None = None
    ) -> AsyncGenerator[Sequence[Statement], None]:
        """Yield one batch, or nothing when the support is weak; see `groundwire.answer.ports.Generator`."""
        budget = request_context.current().budget
        asked, excerpts = await self._workers.run(budget, _candidates, question, passages)
        if not excerpts:
            return
        # Between two pieces of work, so that no worker waits for the model.
        vectors, (of_question,) = await self._vectors.of([scored_text(each) for each in excerpts], [question])
        least = self._min_support if strictness is None else strictness
        statements = await self._workers.run(budget, self._write, asked, excerpts, of_question, vectors, least)
        if statements:
            yield statements

    def _write(
        self,
        question: Question,
        excerpts: Sequence[Excerpt],
        of_question: Vector,
        vectors: Sequence[Vector],
        strictness: float,
    ) -> list[Statement]:
        scored = score_excerpts(question, excerpts, [cosine(of_question, vector) for vector in vectors])
        support = Support(question, scored)
        lead, confidence = support.lead()
        if confidence < strictness:
            return []
        weights = rarities(question, excerpts)
        statements: list[Statement] = []
        previous = BlockKind.PROSE
        for item in select_excerpts(lead, scored, weights, self._max_excerpts):
            excerpt = item.excerpt
            is_inline = excerpt.kind is BlockKind.PROSE and previous is BlockKind.PROSE
            sources = [
                _source(each.excerpt.passage, each.excerpt.start, each.excerpt.end, support.of(each))
                for each in (item, *corroborations(excerpt, scored))
            ]
            if excerpt.header is not None and not excerpt.is_whole:
                sources.insert(1, _source(excerpt.passage, *excerpt.header, sources[0].support))
            statements.append(Statement(excerpt.text, tuple(sources), " " if is_inline else "\n"))
            previous = excerpt.kind
        return statements


def _candidates(question_text: str, passages: Sequence[Passage]) -> tuple[Question, list[Excerpt]]:
    quotable = find_excerpts(passages)
    vocabulary = frozenset(content_stems(" ".join(f"{each.about} {each.text}" for each in quotable)))
    question = read_question(question_text, vocabulary)
    return question, shortlist(question, quotable, MAX_CANDIDATES)


def _source(passage: Passage, start: int, end: int, support: float) -> Source:
    return Source(passage, passage.span_of(start, end), passage.content[start:end], assessed=support)
