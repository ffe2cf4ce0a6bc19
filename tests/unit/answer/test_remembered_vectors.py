"""What is embedded once for the questions of a tenant."""

from collections.abc import Iterator, Sequence

import pytest

from groundwire.answer.extractive.generator import ExtractiveGenerator
from groundwire.answer.grounding.sentence_vectors import SentenceVectors
from groundwire.answer.ports import Vector
from groundwire.embedders.hashing import HashingEmbedder
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.identity import Identity
from groundwire.rpc import request_context
from groundwire.rpc.request_context import RequestContext
from groundwire.rpc.workers import Workers
from tests.unit.answer.builders import LocalEmbeddings, make_passage

_PASSAGES = [make_passage("Foxes eat small mice. Foxes eat big berries.")]


class _CountingEmbedder(HashingEmbedder):
    def __init__(self) -> None:
        self.texts: list[str] = []
        super().__init__(16)

    def embed_documents(self, texts: Sequence[str], budget: Budget, *, urgent: bool = False) -> Vectors:
        if urgent:  # not the question
            self.texts += texts
        return super().embed_documents(texts, budget, urgent=urgent)


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers(1, "answer")
    yield workers
    workers.close()


async def _asked(generator: ExtractiveGenerator, tenant: str) -> None:
    request_context.bind(RequestContext(request_id="r", identity=Identity(tenant)))
    async for _ in generator.draft("What do foxes eat?", _PASSAGES):
        pass


async def test_a_tenant_has_each_excerpt_embedded_once_and_finds_none_of_another(workers: Workers) -> None:
    embedder = _CountingEmbedder()
    vectors = SentenceVectors(LocalEmbeddings(embedder))
    await vectors.scales()
    embedder.texts.clear()
    generator = ExtractiveGenerator(vectors=vectors, workers=workers)
    await _asked(generator, "one")
    first = list(embedder.texts)
    assert len(first) == len(set(first)) == 3  # two sentences and their heading
    await _asked(generator, "one")
    assert embedder.texts == first
    await _asked(generator, "other")
    assert embedder.texts == first + first


async def test_texts_and_queries_have_their_vectors_in_their_order_and_what_is_known_asks_no_model() -> None:
    calls = list[tuple[list[str], list[str]]]()
    embedder = HashingEmbedder(16)

    class Calls(LocalEmbeddings):
        async def embed(self, queries: Sequence[str], texts: Sequence[str]) -> list[Vector]:
            calls.append((list(queries), list(texts)))
            return await super().embed(queries, texts)

    vectors, plain = SentenceVectors(Calls(embedder)), LocalEmbeddings(embedder)
    asked, owls, mice = await plain.embed(["What do owls eat?"], ["Owls hunt.", "Mice hide."])
    assert await vectors.of(["Mice hide."]) == ([mice], [])
    found = await vectors.of(["Owls hunt.", "Mice hide.", "Owls hunt."], ["What do owls eat?"])
    assert found == ([owls, mice, owls], [asked])
    assert await vectors.of(["Owls hunt."]) == ([owls], [])
    assert calls == [([], ["Mice hide."]), (["What do owls eat?"], ["Owls hunt."])]


async def test_what_is_remembered_is_the_vector_alone(workers: Workers) -> None:
    generator = ExtractiveGenerator(vectors=SentenceVectors(LocalEmbeddings(HashingEmbedder(16))), workers=workers)
    await _asked(generator, "one")
    remembered = generator._vectors._remembered._held
    assert len(remembered) == 3
    assert not any("mice" in str(key) for key in remembered)
