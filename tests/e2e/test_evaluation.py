"""`groundwire evaluate` says how much of what labelled questions need a search finds."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from groundwire.client import GroundwireClient
from tests.e2e.server import ServerProcess, groundwire

COLLECTION = "evaluated"
TIDES = "The moon causes the tides of the sea. Spring tides follow the new moon."
BAKER = "The baker kneads the dough\nbefore dawn."
HERON = "Seven herons stand at the weir."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path_factory.mktemp("evaluation") / "data")
    with GroundwireClient(running.address) as client:
        collection = client.collection(COLLECTION)
        collection.create()
        for name, text in {"tides": TIDES, "baker": BAKER, "heron": HERON}.items():
            collection.ingest_text(text, source=f"{name}.txt")
    yield running
    running.stop()


def evaluated(server: ServerProcess, lines: list[Mapping[str, str]], *options: str) -> dict[str, Any]:
    typed = "\n\n".join(map(json.dumps, lines))
    done = groundwire("evaluate", "-", "-c", COLLECTION, "--json", *options, address=server.address, stdin=typed)
    assert (done.returncode, done.stderr) == (0, "")
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


@pytest.mark.requirement("S1-104")
def test_recall_and_redundancy_of_labelled_questions(server: ServerProcess) -> None:
    found = {
        "question": "What causes the tides of the sea?",
        "source": "tides.txt",
        "quote": "The moon causes the tides",
    }
    # Line ends of the source do not matter, and words alone find nothing here.
    missed = {"question": "What causes the tides of the sea?", "source": "baker.txt", "quote": "the dough before dawn."}
    of_document = {"question": "How many herons stand at the weir?", "source": "heron.txt"}
    report = evaluated(server, [found, missed, of_document], "--mode", "lexical", "-k", "1")
    assert [(each["covered"], each["rank"]) for each in report["questions"]] == [(1.0, 1), (0.0, 0), (1.0, 1)]
    figures = report["figures"]
    assert figures["questions"] == 3
    assert figures["recall"] == figures["covered"] == figures["mrr"] == pytest.approx(2 / 3)
    assert figures["redundancy"] == 0
    assert figures["characters"] == pytest.approx((2 * len(TIDES) + len(HERON)) / 3)


def test_people_see_a_table_and_what_is_missed(server: ServerProcess, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    lines = [{"question": "weir", "source": "baker.txt"}, {"question": "herons at the weir", "source": "heron.txt"}]
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    arguments = ("evaluate", str(file), "-c", COLLECTION, "--mode", "lexical", "-k", "1")
    done = groundwire(*arguments, address=server.address)
    assert done.returncode == 0
    header, figures, *rest = done.stdout.splitlines()
    assert header.split() == ["questions", "recall", "covered", "mrr", "redundancy", "characters"]
    assert figures.split()[:4] == ["2", "0.5", "0.5", "0.5"]
    assert rest == ["", "not found whole: 1 question", "  0%  baker.txt  weir"]


@pytest.mark.parametrize(
    ("typed", "reason", "message"),
    [
        ("", "INVALID_FIELD", "has no questions"),
        ("{", "INVALID_FIELD", "line 1 is not JSON"),
        ('\n["a"]', "INVALID_FIELD", "line 2 is not a JSON object of texts"),
        ('{"question": "a", "source": 1}', "INVALID_FIELD", "line 1 is not a JSON object of texts"),
        ('{"question": "a"}', "INVALID_FIELD", "line 1 lacks a question or its source"),
        ('{"question": "a", "source": "heron.txt", "answer": "b"}', "INVALID_FIELD", "line 1 has 'answer'"),
        ('{"question": "a", "source": "nowhere.txt"}', "INVALID_FIELD", "line 1: document 'nowhere.txt'"),
        (
            '{"question": "a", "source": "heron.txt", "quote": "Eight"}',
            "INVALID_FIELD",
            "line 1: 'heron.txt' does not hold",
        ),
    ],
)
def test_mistakes_in_the_questions_are_named(server: ServerProcess, typed: str, reason: str, message: str) -> None:
    done = groundwire("evaluate", "-", "-c", COLLECTION, "--json", address=server.address, stdin=typed)
    assert done.returncode != 0
    assert done.stdout == ""
    assert reason in done.stderr
    assert message in done.stderr
