"""Passages and statements with defaults."""

from array import array
from collections.abc import Sequence
from dataclasses import replace

from groundwire.answer.evidence import Markup, Passage, Source, Statement
from groundwire.answer.extractive.excerpt import Excerpt
from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.answer.extractive.scoring import Scored, score_excerpts
from groundwire.answer.grounding.claims import split_claims
from groundwire.answer.grounding.grounder import GroundedClaim, TextComparison
from groundwire.answer.ports import Vector
from groundwire.answer.question import read_question
from groundwire.embedders.hashing import HashingEmbedder
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.spans import Span


class LocalEmbeddings:
    """The Embeddings port over an embedder of the same process."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def embed(self, queries: Sequence[str], texts: Sequence[str]) -> list[Vector]:
        asked = [self._embedder.embed_query(query, Budget()) for query in queries]
        told = self._embedder.embed_documents(texts, Budget(), urgent=True)
        return [array("f", row.tolist()) for row in (*asked, *told)]


def ground(text: str, *passages: Passage) -> list[GroundedClaim]:
    """Return the claims of a text, each compared with all of the passages."""
    claims, budget = split_claims(text), Budget()
    comparison = TextComparison(claims, [passages] * len(claims), budget)
    vectors = HashingEmbedder(64).embed_documents(comparison.texts, budget)
    rows = [array("f", row.tolist()) for row in vectors]
    return comparison.grounded(dict(zip(comparison.texts, rows, strict=True)), budget)


def make_passage(
    content: str, *, rank: int = 1, start: int = 0, start_byte: int | None = None, **fields: object
) -> Passage:
    first = start if start_byte is None else start_byte
    passage = Passage(
        rank=rank,
        chunk_id=f"doc_{rank}#chunk_000",
        chunk_number=rank,
        document_id=f"doc_{rank}",
        generation=1,
        source_uri=f"{rank}.md",
        title=f"Title {rank}",
        chapter="Chapter 1",
        section="",
        section_heading="Heading",
        page_numbers=(),
        span=Span(start, start + len(content), first, first + len(content.encode())),
        content=content,
        relevance=0.6,
    )
    return replace(passage, **fields)  # type: ignore[arg-type]  # a builder takes any field


def make_statement(passage: Passage, text: str, separator: str = " ") -> Statement:
    start = passage.content.index(text)
    return Statement(text, (Source(passage, passage.span_of(start, start + len(text)), text),), separator)


def make_scored(question: str, *contents: str, markup: Markup = Markup.MARKDOWN) -> list[Scored]:
    """Return the excerpts of passages with these contents as words alone score them: every similarity is 1."""
    asked = read_question(question)
    passages = [make_passage(content, rank=rank, markup=markup) for rank, content in enumerate(contents, 1)]
    excerpts = find_excerpts(passages)
    return score_excerpts(asked, excerpts, [1.0] * len(excerpts))


def excerpts_of(content: str, markup: Markup = Markup.MARKDOWN) -> list[Excerpt]:
    return find_excerpts([make_passage(content, markup=markup)])


def texts_of(content: str) -> list[str]:
    return [excerpt.text for excerpt in excerpts_of(content)]


def quoted(excerpt: Excerpt) -> str:
    """Return what an excerpt is in its source."""
    return excerpt.passage.content[excerpt.start : excerpt.end]


def consecutive_passages(*contents: str) -> list[Passage]:
    """Return chunks of one document that follow one another, with a line break between them."""
    passages: list[Passage] = []
    for rank, content in enumerate(contents, 1):
        at = passages[-1].span.end + 1 if passages else 0
        passages.append(replace(make_passage(content, rank=rank, start=at), document_id="doc_1"))
    return passages
