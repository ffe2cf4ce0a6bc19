import pytest

from groundwire.cli.ingest import FileOutcome, run_json, show_ingest, show_skipped, show_warnings
from groundwire.cli.source_files import SkippedFile, SkipReason

OUTCOMES = [
    FileOutcome("a.md", "created", {"chunks": 3, "embedded": 2}),
    FileOutcome("b.md", "unchanged", {"chunks": 5, "embedded": 0}),
    FileOutcome("[bold]c.md", "failed", error="DOCUMENT_EMPTY: content: is empty"),
]
SKIPPED = [
    SkippedFile("a.png", SkipReason.UNSUPPORTED),
    SkippedFile("deep/b.PNG", SkipReason.UNSUPPORTED),
    SkippedFile("core", SkipReason.UNSUPPORTED),
    SkippedFile("passwd", SkipReason.OUTSIDE_LINK),
]


def test_the_report_adds_up() -> None:
    totals = run_json(OUTCOMES, SKIPPED)["totals"]
    assert totals == {
        "files": 3,
        "chunks": 8,
        "embedded": 2,
        "created": 1,
        "replaced": 0,
        "unchanged": 1,
        "reused": 0,
        "failed": 1,
        "skipped": 4,
        "deleted": 0,
    }


def test_each_failed_file_is_named_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    show_ingest(run_json(OUTCOMES, SKIPPED))
    printed = capsys.readouterr()
    assert "[bold]c.md: DOCUMENT_EMPTY: content: is empty" in printed.err
    assert "3 files: 1 created, 1 unchanged, 1 failed · 8 chunks, 2 embedded" in printed.out


def test_a_warning_of_many_files_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    short = ("chunks are short",)
    show_warnings(run_json([FileOutcome(name, "created", warnings=short) for name in ("a.md", "b.md", "c.md")], []))
    assert capsys.readouterr().err == "warning chunks are short (3 files, a.md the first)\n"


def test_large_numbers_are_readable_and_one_thing_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    show_ingest(run_json([FileOutcome(f"{number}.md", "created") for number in range(1740)], []))
    assert capsys.readouterr().out == "1,740 files: 1,740 created · 0 chunks, 0 embedded\n"
    endings = [".png", *(f".{number}" for number in range(6))]
    show_skipped([SkippedFile(f"a{ending}", SkipReason.UNSUPPORTED) for ending in endings], verbose=False)
    assert " and 1 other ending; --verbose lists them" in capsys.readouterr().err


def test_what_is_left_out_is_counted_by_ending_or_named(capsys: pytest.CaptureFixture[str]) -> None:
    show_skipped(SKIPPED, verbose=False)
    assert capsys.readouterr().err.splitlines() == [
        "skipped 3 files of types that are not read: 2 .png, 1 without an ending; --verbose lists them",
        "skipped 1 outside link; --follow-links takes them, --verbose lists them",
    ]
    show_skipped(SKIPPED, verbose=True)
    assert capsys.readouterr().err.splitlines() == [
        "skipped a.png: unsupported type",
        "skipped deep/b.PNG: unsupported type",
        "skipped core: unsupported type",
        "skipped passwd: outside link",
    ]
    assert [each["reason"] for each in run_json([], SKIPPED)["skipped"]] == ["unsupported type"] * 3 + ["outside link"]
