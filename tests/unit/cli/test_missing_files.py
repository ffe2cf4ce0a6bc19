import sys
from pathlib import Path
from typing import Any, cast

import click
import pytest

from groundwire.api.common.v1.document_pb2 import Document
from groundwire.cli.ingest import FileOptions, IngestRun
from groundwire.cli.options import check_consent
from groundwire.cli.source_files import SourceFiles, check_roots, is_missing
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import InvalidRequestError

MISSING = [Document(source_uri=f"{number}.md", document_id=f"doc_{number}", chunk_count=3) for number in range(25)]


@pytest.mark.parametrize(
    ("source", "is_below"),
    [
        ("a.md", True),
        ("deep/er/a: b.md", True),
        ("https://example.org/a.md", False),
        ("file:a.md", False),
        ("/a.md", False),
        ("~/a.md", False),
        ("C:\\a.md", False),
        ("share\\a.md", False),
    ],
)
def test_only_relative_paths_come_from_a_folder(tmp_path: Path, source: str, is_below: bool) -> None:
    assert is_missing(source, [tmp_path]) is is_below


def run(*, may_delete: bool) -> IngestRun:
    client = cast("GroundwireClient", None)
    options = FileOptions()
    return IngestRun(client, "c", SourceFiles(), [], "", options, 1, may_delete=may_delete, verbose=False)


@pytest.mark.parametrize("answer", [True, False])
def test_a_person_is_asked_before_documents_go(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: bool,
) -> None:
    asked: list[str] = []

    def confirm(text: str, **_: Any) -> bool:
        asked.append(text)
        return answer

    monkeypatch.setattr(click, "confirm", confirm)
    assert run(may_delete=False)._may_delete(MISSING) is answer
    assert asked == ["Delete 25 documents of 'c'?"]
    shown = capsys.readouterr().err.splitlines()
    assert (len(shown), shown[0], shown[-1]) == (21, "missing 0.md", "and 5 more")
    assert run(may_delete=True)._may_delete(MISSING) is True
    assert len(asked) == 1


def test_where_nobody_can_be_asked_deleting_needs_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    with pytest.raises(InvalidRequestError, match=r"asks before it deletes, .*: add --yes"):
        check_consent("--delete-missing", given=False)
    check_consent("--delete-missing", given=True)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    check_consent("--delete-missing", given=False)


def test_what_cannot_be_looked_at_is_not_missing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    assert [is_missing(name, [tmp_path]) for name in ("a.md", "link/b.md", "link", "x" * 300, "nul\0")] == [
        *(True, True, False, False, False)
    ]


def test_folders_without_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.md").write_text("Text.")
    (tmp_path / "empty").mkdir()
    assert check_roots([tmp_path / "full", tmp_path / "full" / "a.md"]) == [tmp_path / "full"]
    with pytest.raises(InvalidRequestError) as caught:
        check_roots([tmp_path / "full", tmp_path / "empty"])
    assert [violation.field for violation in caught.value.violations] == [str(tmp_path / "empty")]
    with pytest.raises(InvalidRequestError, match="needs a folder"):
        check_roots([tmp_path / "full" / "a.md"])
