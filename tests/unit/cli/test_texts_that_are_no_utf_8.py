"""Arguments and files with what no message can hold: the command says so, in place of a traceback."""

import json
from pathlib import Path

import pytest

from groundwire.cli.__main__ import EXIT_USAGE, _run

NOWHERE = ("--address", "127.0.0.1:1")
_CITATION = {"document_id": "d", "generation": 1, "quote": "q", "start": 0, "end": 1, "start_byte": 0, "end_byte": 1}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("search", "\udc80x", "-c", "docs"), "USAGE: '\\udc80x' is not UTF-8"),
        (("search", "x", "-c", "\udc80x"), "USAGE: '\\udc80x' is not UTF-8"),
        (("ask", "\udc80x", "-c", "docs"), "USAGE: '\\udc80x' is not UTF-8"),
        (
            ("docs", "get", "\udc80x", "-c", "docs"),
            "INVALID_FIELD: reference: is not UTF-8: has '\\udc80' at character 0",
        ),
        (("collections", "create", "\udc80x"), "USAGE: '\\udc80x' is not UTF-8"),
    ],
)
def test_an_argument_of_other_bytes_is_named(
    arguments: tuple[str, ...], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _run([*arguments, *NOWHERE]) == EXIT_USAGE
    assert capfd.readouterr().err == f"error {told}\n"


def test_the_mark_that_windows_puts_before_a_text_is_no_part_of_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps({"citations": [{}]}), encoding="utf-8-sig")
    assert _run(["verify", str(path), *NOWHERE]) == EXIT_USAGE
    assert "citations[0]: lacks document_id" in capfd.readouterr().err


def test_half_a_character_in_a_file_of_citations_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps({"citations": [_CITATION], "answer": "\ud83d"}), encoding="utf-8")
    assert _run(["cite", str(path), *NOWHERE, "--json"]) == EXIT_USAGE
    error = json.loads(capfd.readouterr().err)["error"]
    assert (error["reason"], error["message"]) == (
        "INVALID_FIELD",
        "content: is not UTF-8: has '\\ud83d' at character 0",
    )
