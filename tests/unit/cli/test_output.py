"""What is printed for people and for programs."""

import json
import re
import sys
from pathlib import Path

import pytest

from groundwire.api.common.v1.chunk_pb2 import Chunk
from groundwire.api.common.v1.metadata_value_pb2 import Int64List, MetadataValue
from groundwire.api.ingest.v1.collection_pb2 import CHUNKER_FIXED, Collection
from groundwire.cli.messages import message_json
from groundwire.cli.output import (
    counted,
    many_lines,
    one_line,
    print_exactly,
    print_fields,
    print_json,
    print_line,
    print_table,
    print_text,
)


def test_numbers_are_numbers_and_metadata_plain_values() -> None:
    metadata = {"year": MetadataValue(int64_value=2024), "pages": MetadataValue(int64_list=Int64List(values=[1, 2]))}
    found = json.loads(json.dumps(message_json(Chunk(chunk_number=2**53 - 1, metadata=metadata, embedding=[0.5]))))
    assert found["chunk_number"] == 2**53 - 1
    assert [*found["metadata"].items()] == [("pages", [1, 2]), ("year", 2024)]
    assert found["embedding"] == [0.5]
    assert found["tags"] == []
    assert "create_time" not in found
    assert "sentence_index" not in found


def test_enum_values_have_their_names_in_the_contract_or_those_people_write() -> None:
    collection = Collection()
    collection.settings.chunking.chunker = CHUNKER_FIXED
    collection.settings.generation_retention.seconds = 90
    assert message_json(collection)["settings"]["chunking"]["chunker"] == "CHUNKER_FIXED"
    short = message_json(collection, short_names=True)["settings"]
    assert short["chunking"]["chunker"] == "fixed"
    assert short["chunking"]["unit"] == ""
    assert short["generation_retention"] == "90s"


def test_a_table_cuts_nothing_off_and_leaves_markup_alone(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "count"), [("[bold]" + "x" * 300, 1234567), ("y", 8)], "none")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "[bold]" + "x" * 300 + "  1,234,567"
    assert lines[2].endswith("        8")
    assert len(lines) == 3


def test_on_a_terminal_only_the_last_column_gives_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("groundwire.cli.output._UNWRAPPED", 40)
    print_table(("id", "count", "to"), [("doc_" + "a" * 8, 12, "x" * 40)], "none")
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines == ["doc_aaaaaaaa     12  " + "x" * 19, " " * 21 + "x" * 19, " " * 21 + "xx"]
    print_table(("id", "text"), [("doc_" + "a" * 8, "x" * 40)], "none", is_excerpt=True)
    assert capsys.readouterr().out.splitlines()[1:] == ["doc_aaaaaaaa  " + "x" * 25 + "…"]
    print_table(("id", "text"), [("d" * 39, "x" * 40)], "none", is_excerpt=True)
    assert capsys.readouterr().out.splitlines()[1:] == ["d" * 39 + "  " + "x" * 11 + "…"]


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name",), [], "no documents")
    assert capsys.readouterr().out == "no documents\n"


def test_fields_are_shown_by_path_without_those_that_are_empty(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields({"a": {"b": 2024, "c": ""}, "tags": ["x", "y"], "none": [], "on": False, "objects": [{"k": 1}]})
    assert capsys.readouterr().out.splitlines() == [
        "a.b      2024",
        "tags     x, y",
        "on       no",
        'objects  [{"k": 1}]',
    ]


def test_one_has_no_plural() -> None:
    assert [counted(count, "chunk") for count in (0, 1, 2000)] == ["0 chunks", "1 chunk", "2,000 chunks"]


HOSTILE = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\r\x9b1m\x7f\u202e\u2066\u200b\u2028\U000e0041\udce9[bold]x[/bold]\n\t"


def test_what_has_no_look_of_its_own_is_escaped() -> None:
    line = r"\x1b]52;c;ZXZpbA==\x07\x1b[2J\r\x9b1m\x7f\u202e\u2066\u200b\u2028\U000e0041\udce9[bold]x[/bold]"  # as repr
    assert one_line(HOSTILE) == line + r"\n\t"
    assert many_lines(HOSTILE) == line + "\n\t"


@pytest.mark.parametrize("text", ["Größe\u00a05\u3000全角", "नहीं\u200cक्\u200dष", "👩\u200d🚀", "e\u0301"])
def test_what_people_write_is_left_alone(text: str) -> None:
    assert one_line(text) == many_lines(text) == text


def test_json_is_exact_and_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({HOSTILE: [HOSTILE, "Größe"]})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {HOSTILE: [HOSTILE, "Größe"]}
    assert "Größe" in printed
    assert all(each.isprintable() for each in printed.replace("\n", ""))


def test_text_of_a_document_reaches_a_terminal_without_its_sequences_and_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    print_line((HOSTILE, "bold"), " and ", HOSTILE)
    print_text(HOSTILE)
    print_exactly([HOSTILE])
    print_table(("one", "two"), [(HOSTILE, HOSTILE)], "none")
    print_fields({HOSTILE: HOSTILE})
    printed = capsys.readouterr().out
    assert printed.count("[bold]x[/bold]") == 8
    harmless = re.sub(r"\x1b\[[0-9;]*m", "", printed)  # the styles are ours
    assert {each for each in harmless if not each.isprintable()} == {"\n"}


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))


def test_lines_for_a_terminal_are_broken_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_terminal(monkeypatch, 12)
    print_line(("one two", "bold red"), " three four")
    assert capsys.readouterr().out == "\x1b[31m\x1b[1mone two\x1b[0m\nthree four\n"
    print_text("one two three\nfour five six seven")
    assert capsys.readouterr().out == "one two\nthree\nfour five\nsix seven\n"
    print_text("全角 文字 文字 a")
    assert capsys.readouterr().out == "全角 文字\n文字 a\n"
    print_text("abcdefghijklmnop q", wrap=False)
    assert capsys.readouterr().out == "abcdefghijklmnop q\n"


def test_wide_characters_take_two_columns_of_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_terminal(monkeypatch, 20)
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(("name", "text"), [("全角", "文字文字文字文字文字"), ("e\u0301", "b")], "none")
    assert capsys.readouterr().out.splitlines() == [
        "name  text",
        "全角  文字文字文字文",
        "      字文字",
        "e\u0301     b",
    ]


def test_a_stored_text_leaves_exactly_where_nobody_looks(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    print_exactly(["a\r\n", "\x1b[2J"])
    assert capsysbinary.readouterr().out == b"a\r\n\x1b[2J"


def test_an_error_stream_that_cannot_be_written_ends_no_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        print_line("a warning", err=True)
        print_line("the result")
    assert capsys.readouterr().out == "the result\n"
