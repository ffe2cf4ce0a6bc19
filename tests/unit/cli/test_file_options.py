"""What a metadata file and `--set` say about the files of an ingest."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundwire.api.common.v1.document_pb2 import DocumentFields
from groundwire.cli.ingest import chunking_policy, read_file_options
from groundwire.cli.messages import message_json
from groundwire.kernel.errors import InvalidRequestError

YAML = """
author: [Doe, Roe]
date: 2024-10-15
tags: finance,quarterly
department: finance
reviewed: 2024-11-01
rating: 4.5
files:
  reports/q3.md:
    title: 2024
    tags: [special]
    metadata:
      rating: 5
"""


def said(fields: DocumentFields) -> dict[str, Any]:
    return {name: value for name, value in message_json(fields).items() if value}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "fields.yaml").write_text(YAML, encoding="utf-8")
    return tmp_path / "fields.yaml"


def test_known_names_are_fields_and_others_metadata(file: Path) -> None:
    fields = read_file_options(None, file, ()).request_fields("other.md")["fields"]
    assert said(fields) == {
        "creators": ["Doe", "Roe"],
        "date_created": "2024-10-15T00:00:00Z",
        "tags": ["finance", "quarterly"],
        "metadata": {"department": "finance", "rating": 4.5, "reviewed": "2024-11-01"},
    }


def test_what_is_said_of_one_file_goes_over_what_is_said_of_all_and_the_command_line_over_both(file: Path) -> None:
    options = read_file_options(None, file, ["title=Set", "metadata.department=legal", "tags=a", "tags=b"])
    single = said(read_file_options(None, file, ()).request_fields("reports/q3.md")["fields"])
    assert (single["title"], single["tags"], single["creators"]) == ("2024", ["special"], ["Doe", "Roe"])
    assert single["metadata"] == {"department": "finance", "rating": 5, "reviewed": "2024-11-01"}
    fields = said(options.request_fields("reports/q3.md")["fields"])
    assert (fields["title"], fields["tags"]) == ("Set", ["a", "b"])
    assert fields["metadata"] == {"department": "legal", "rating": 5, "reviewed": "2024-11-01"}
    assert options.unused({"other.md"}) == ["reports/q3.md"]
    assert options.unused({"reports/q3.md", "other.md"}) == []


def test_json_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "fields.json").write_text('{"title": "One", "year": 2024}', encoding="utf-8")
    fields = read_file_options(None, tmp_path / "fields.json", ()).request_fields("a.md")["fields"]
    assert said(fields) == {"title": "One", "metadata": {"year": 2024}}


def test_without_anything_to_say_the_server_keeps_what_it_has() -> None:
    chunking = chunking_policy("fixed")
    assert read_file_options(None, None, ()).request_fields("a.md") == {"source_uri": "a.md", "chunking": None}
    versioned = replace(read_file_options(None, None, ()), source_version=0).request_fields("a.md")
    assert versioned == {"source_uri": "a.md", "chunking": None, "source_version": 0}
    assert read_file_options(chunking, None, ()).request_fields("a.md") == {"source_uri": "a.md", "chunking": chunking}


@pytest.mark.parametrize(
    ("text", "place", "description"),
    [
        ("title: [a, b]", "fields.yaml.title", "must be one value"),
        ("title: {a: b}", "fields.yaml.title", "must be a text"),
        ("date: soon", "fields.yaml.date", "must be a date"),
        ("owner: null", "fields.yaml.owner", "must be a text, a number"),
        ("- title", "fields.yaml", "must be a mapping"),
        ("files: {a.md: [x]}", "files['a.md']", "must be a mapping"),
        ("a: [", "fields.yaml", "is neither JSON nor YAML"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, place: str, description: str) -> None:
    (tmp_path / "fields.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidRequestError) as refused:
        read_file_options(None, tmp_path / "fields.yaml", ())
    (violation,) = refused.value.violations
    assert violation.field.removeprefix(f"{tmp_path}/") == place
    assert violation.description.startswith(description)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be read: No such file"):
        read_file_options(None, tmp_path / "none.yaml", ())
