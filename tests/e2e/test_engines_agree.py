"""The same questions give the same citations on every vector store, with the real model on the project's handbook."""

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def _handbook(vectors: str, data: Path, collection: str) -> Iterator[str]:
    """Serve the handbook in a collection; yields the address."""
    server = ServerProcess(data, ("--vectors", vectors))
    try:
        done = groundwire("ingest", str(HANDBOOK), "-c", collection, address=server.address)
        assert done.returncode == 0, done.stderr
        yield server.address
    finally:
        assert server.stop() == 0


def _answers(address: str, collection: str) -> list[answer_pb2.Answer]:
    with GroundwireClient(address) as client:
        answers = [client.ask(collection=collection, question=question).answer for question in QUESTIONS]
        for answer in answers:
            assert client.verify_citations(citations=answer.citations).all_verified
        return answers


def _cited(answers: list[answer_pb2.Answer]) -> list[list[tuple[str, int, int]]]:
    return [[(cite.source_uri, cite.span.start, cite.span.end) for cite in answer.citations] for answer in answers]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("agree") / "memory"


@pytest.fixture(scope="module")
def first_screen() -> tuple[str, str]:
    """The question that the README asks, and what it shows."""
    readme = (HANDBOOK.parent / "README.md").read_text(encoding="utf-8")
    block = re.findall(r"```console\n(.*?)```", readme, flags=re.DOTALL)[0]
    (command,) = re.findall(r"^\$ groundwire (ask .*)$", block, flags=re.MULTILINE)
    return command, block.partition("groundwire ask ")[2].partition("\n")[2]


@pytest.fixture(scope="module")
def served(embedded: Path, first_screen: tuple[str, str]) -> tuple[list[answer_pb2.Answer], str]:
    """The answers of the reference engine, and what it prints for the question of the README."""
    with _handbook("memory:", embedded, "handbook") as address:
        # What a page shows is what a terminal of this width shows.
        printed = groundwire(*shlex.split(first_screen[0]), address=address, COLUMNS="120").stdout
        return _answers(address, "handbook"), printed


@pytest.fixture(scope="module")
def reference(served: tuple[list[answer_pb2.Answer], str]) -> list[answer_pb2.Answer]:
    return served[0]


def test_the_handbook_answers_its_questions_and_refuses_the_foreign_one(reference: list[answer_pb2.Answer]) -> None:
    assert [answer.grounded for answer in reference] == [True] * 9 + [False]


@pytest.mark.parametrize("vectors", ["qdrant-edge:", pytest.param("chroma:", marks=pytest.mark.slow)])
def test_an_engine_cites_what_the_reference_cites(
    vectors: str, reference: list[answer_pb2.Answer], embedded: Path, tmp_path: Path
) -> None:
    # The same catalog, so that the handbook is not embedded again; the collection and its points are new.
    data = Path(shutil.copytree(embedded, tmp_path / "data", ignore=shutil.ignore_patterns("vectors")))
    with _handbook(vectors, data, "again") as address:
        assert _cited(_answers(address, "again")) == _cited(reference)


def test_the_answer_of_the_first_screen_is_the_one_that_is_given(
    first_screen: tuple[str, str], served: tuple[list[answer_pb2.Answer], str]
) -> None:
    """Its words and the section that it cites; where in the page that stands changes with the page."""
    place = re.compile(r" · characters [\d,]+–[\d,]+ ")
    assert first_screen[1]
    assert place.sub(" ", served[1]).strip() == place.sub(" ", first_screen[1]).strip()
