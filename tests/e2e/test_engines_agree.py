"""The same questions give the same citations on every vector store, with the real model on the project's handbook."""

import shutil
from pathlib import Path

import pytest

from groundwire.api.answer.v1 import answer_pb2
from groundwire.client import GroundwireClient
from tests.e2e.server import ServerProcess, groundwire

HANDBOOK = Path(__file__).resolve().parents[2] / "docs"
QUESTIONS = [
    "What does a citation point at?",
    "What is a generation?",
    "Which content is refused with DOCUMENT_ENCODING?",
    "How many messages does a session keep?",
    "What happens on SIGTERM?",
    "What does a missing field satisfy?",
    "How is the confidence of an answer computed?",
    "What does the data folder contain?",
    "Can two processes open the same data folder?",
    "What is the capital of Mongolia?",
]


def _answers(vectors: str, data: Path, collection: str) -> list[answer_pb2.Answer]:
    server = ServerProcess(data, ("--vectors", vectors))
    try:
        done = groundwire("ingest", str(HANDBOOK), "-c", collection, address=server.address)
        assert done.returncode == 0, done.stderr
        with GroundwireClient(server.address) as client:
            answers = [client.ask(collection=collection, question=question).answer for question in QUESTIONS]
            for answer in answers:
                assert client.verify_citations(citations=answer.citations).all_verified
            return answers
    finally:
        assert server.stop() == 0


def _cited(answers: list[answer_pb2.Answer]) -> list[list[tuple[str, int, int]]]:
    return [[(cite.source_uri, cite.span.start, cite.span.end) for cite in answer.citations] for answer in answers]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("agree") / "memory"


@pytest.fixture(scope="module")
def reference(embedded: Path) -> list[answer_pb2.Answer]:
    return _answers("memory:", embedded, "handbook")


def test_the_handbook_answers_its_questions_and_refuses_the_foreign_one(reference: list[answer_pb2.Answer]) -> None:
    assert [answer.grounded for answer in reference] == [True] * 9 + [False]


@pytest.mark.parametrize("vectors", ["qdrant-edge:", pytest.param("chroma:", marks=pytest.mark.slow)])
def test_an_engine_cites_what_the_reference_cites(
    vectors: str, reference: list[answer_pb2.Answer], embedded: Path, tmp_path: Path
) -> None:
    # The same catalog, so that the handbook is not embedded again; the collection and its points are new.
    data = Path(shutil.copytree(embedded, tmp_path / "data", ignore=shutil.ignore_patterns("vectors")))
    assert _cited(_answers(vectors, data, "again")) == _cited(reference)
