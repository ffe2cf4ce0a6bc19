import pytest

from groundwire.cli.ingest_report import FileOutcome, as_dict, show

OUTCOMES = [
    FileOutcome("a.md", "created", chunks=3, embedded=2),
    FileOutcome("b.md", "unchanged", chunks=5),
    FileOutcome("[bold]c.md", "failed", error="DOCUMENT_EMPTY: content: is empty"),
]


def test_the_report_adds_up() -> None:
    totals = as_dict(OUTCOMES)["totals"]
    assert totals == {
        "files": 3,
        "chunks": 8,
        "embedded": 2,
        "created": 1,
        "replaced": 0,
        "unchanged": 1,
        "reused": 0,
        "failed": 1,
        "deleted": 0,
    }


def test_each_failed_file_is_named_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    show(as_dict(OUTCOMES))
    printed = capsys.readouterr()
    assert "[bold]c.md: DOCUMENT_EMPTY: content: is empty" in printed.err
    assert "3 files: 1 created, 1 unchanged, 1 failed · 8 chunks, 2 embedded" in printed.out


def test_a_warning_of_many_files_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    short = ("chunks are short",)
    show(as_dict([FileOutcome(name, "created", warnings=short) for name in ("a.md", "b.md", "c.md")]))
    assert capsys.readouterr().err == "warning chunks are short (3 files, a.md the first)\n"
