"""The Generator that quotes: the best sentences of the passages, word for word, or nothing."""

from collections.abc import AsyncGenerator, Sequence

import numpy as np

from groundwire.answer.evidence import Passage, Source, Statement
from groundwire.answer.extractive.question import read_question
from groundwire.answer.extractive.scoring import Scored, score_candidates, shortlist, support
from groundwire.answer.extractive.selection import corroborations, select_sentences
from groundwire.answer.extractive.statements import Candidate, find_candidates
from groundwire.answer.extractive.thresholds import MAX_CANDIDATES, MAX_SENTENCES, MIN_SUPPORT
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Embedder, Vectors
from groundwire.kernel.sentences import BlockKind
from groundwire.rpc import request_context
from groundwire.rpc.workers import Workers

_OWN_LINE = frozenset({BlockKind.LIST_ITEM, BlockKind.TABLE, BlockKind.CODE})


class ExtractiveGenerator:
    """Deterministic and offline; each statement has the place it was copied from as its first source.

    Further sources are places in other documents that say the same.
    """

    name = "extractive"

    def __init__(
        self,
        *,
        embedder: Embedder,
        workers: Workers,
        min_support: float | None = None,
        max_sentences: int = MAX_SENTENCES,
    ) -> None:
        self._embedder = embedder
        self._workers = workers
        self._min_support = MIN_SUPPORT if min_support is None else min_support
        self._max_sentences = max_sentences

    async def draft(self, question: str, passages: Sequence[Passage]) -> AsyncGenerator[Sequence[Statement], None]:
        """Yield one batch, or nothing when the support is weak; see `groundwire.answer.ports.Generator`."""
        budget = request_context.current().budget
        statements = await self._workers.run(budget, self._write, question, passages, budget)
        if statements:
            yield statements

    def _write(self, question_text: str, passages: Sequence[Passage], budget: Budget) -> list[Statement]:
        question = read_question(question_text)
        candidates = shortlist(question, find_candidates(passages, question), MAX_CANDIDATES)
        if not candidates:
            return []
        query_vector = self._embedder.embed_query(question_text, budget)
        # Urgent: somebody waits for the answer, and the queue of an ingest may be minutes long.
        vectors = self._embedder.embed_documents([candidate.text for candidate in candidates], budget, urgent=True)
        scored = score_candidates(question, candidates, _normalized(query_vector), _normalized(vectors))
        best = min(scored, key=Scored.order)
        if support(question, best, passages) < self._min_support:
            return []
        chosen = select_sentences(scored, self._max_sentences)
        kinds = [item.candidate.sentence.kind for item in chosen]
        return [
            _statement(
                item.candidate, corroborations(item.candidate, scored), "\n" if _OWN_LINE & {kind, previous} else " "
            )
            for item, kind, previous in zip(chosen, kinds, [BlockKind.PROSE, *kinds], strict=False)
        ]


def _statement(candidate: Candidate, others: Sequence[Candidate], separator: str) -> Statement:
    return Statement(candidate.text, tuple(_source(each) for each in (candidate, *others)), separator)


def _source(candidate: Candidate) -> Source:
    span = candidate.passage.span_of(candidate.sentence.start, candidate.sentence.end)
    return Source(candidate.passage, span, candidate.text)


def _normalized(vectors: Vectors) -> Vectors:
    """Return the vectors with rows of length 1; rows of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    normalized: Vectors = (vectors / np.maximum(lengths, np.finfo(np.float32).tiny)).astype(np.float32)
    return normalized
