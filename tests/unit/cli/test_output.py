"""What is printed for people and for programs."""

import json

import pytest

from groundwire.api.common.v1.chunk_pb2 import Chunk
from groundwire.api.common.v1.metadata_value_pb2 import Int64List, MetadataValue
from groundwire.api.ingest.v1.collection_pb2 import CHUNKER_FIXED, Collection
from groundwire.cli.messages import message_json
from groundwire.cli.output import counted, print_fields, print_table


def test_numbers_are_numbers_and_metadata_plain_values() -> None:
    metadata = {"year": MetadataValue(int64_value=2024), "pages": MetadataValue(int64_list=Int64List(values=[1, 2]))}
    found = json.loads(json.dumps(message_json(Chunk(chunk_number=2**53 - 1, metadata=metadata, embedding=[0.5]))))
    assert found["chunk_number"] == 2**53 - 1
    assert found["metadata"] == {"pages": [1, 2], "year": 2024}
    assert found["embedding"] == [0.5]
    assert found["tags"] == []
    assert "created_time" not in found
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
    monkeypatch.setattr("groundwire.cli.output.UNLIMITED", 40)
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
