"""Run the tests that show rows of the source designs, and print which row is shown by which tests.

`tests/requirements/rows.tsv` lists every row with the service it belongs to. A row is shown when all tests marked
with its id pass. Exits with 1 when a marked test fails, a marker names no row, or a row of `--require` is not shown.
"""

import argparse
import csv
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "tests" / "requirements" / "rows.tsv"
_RANGE = re.compile(r"(?P<design>S\d)-(?P<first>\d+)(?:\.\.S\d-(?P<last>\d+))?")
_WORST = ("failed", "skipped", "passed")


@dataclass(eq=False, slots=True)  # pytest keeps plugins in sets
class Shown:
    """Pytest plugin: the outcome of every marked test, by row."""

    rows: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    ids: dict[str, list[str]] = field(default_factory=dict)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the tests that carry a row."""
        for item in items:
            if marked := [str(mark.args[0]) for mark in item.iter_markers("requirement")]:
                self.ids[item.nodeid] = marked
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self.ids])
        items[:] = [item for item in items if item.nodeid in self.ids]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the worst of set-up, call and tear-down."""
        for row in self.ids.get(report.nodeid, ()):
            before = self.rows[row].get(report.nodeid, "passed")
            self.rows[row][report.nodeid] = min(before, report.outcome, key=_WORST.index)


def main() -> int:
    """Return 0 when nothing failed and every required row is shown."""
    arguments = _arguments()
    shown = Shown()
    pytest.main(["-q", "-p", "no:cacheprovider", "-m", arguments.markers, *arguments.tests], plugins=[shown])
    known = list(csv.reader(ROWS.open(encoding="utf-8"), delimiter="\t"))
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(_table(known, shown))
    _summarise(console, known, shown)
    unknown = sorted(set(shown.rows) - {row for row, _, _ in known} - _others(shown))
    missing = [row for row in _required(arguments.require) if _result(shown.rows[row]) != "passed"]
    failed = sorted(row for row, tests in shown.rows.items() if _result(tests) == "failed")
    for said, found in (("no such row", unknown), ("failed", failed), ("required, not shown", missing)):
        if found:
            console.print(f"[red]{said}[/red]: {', '.join(found)}")
    return 1 if unknown or missing or failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", default=["tests"], help="where to look for tests")
    parser.add_argument("--require", action="append", default=[], help="rows that must be shown: S1-05 or S1-01..S1-93")
    parser.add_argument("--markers", default="not slow and not faults and not node", help="which tests to run")
    return parser.parse_args()


def _required(ranges: Sequence[str]) -> Iterator[str]:
    for each in ranges:
        match = _RANGE.fullmatch(each)
        if match is None:
            raise SystemExit(f"--require {each}: neither S1-05 nor S1-01..S1-93")
        for number in range(int(match["first"]), int(match["last"] or match["first"]) + 1):
            yield f"{match['design']}-{number:02}"


def _others(shown: Shown) -> set[str]:
    """Return the markers that name a merge, a trap or a target, which are not rows of a design."""
    return {row for row in shown.rows if row[0] in "CTPQR"}


def _result(tests: dict[str, str]) -> str:
    return min(tests.values(), key=_WORST.index) if tests else ""


def _table(known: Sequence[Sequence[str]], shown: Shown) -> Table:
    table = Table("Row", "Service", "What", title="Rows of the source designs")
    table.add_column("Tests", overflow="fold")
    table.add_column("Result")
    styles = {"passed": "green", "failed": "red", "skipped": "yellow"}
    for row, service, what in known:
        tests = shown.rows.get(row, {})
        result = _result(tests)
        names = "\n".join(sorted({node.rpartition("::")[2].partition("[")[0] for node in tests}))
        table.add_row(row, service, what, names, f"[{styles[result]}]{result}" if result else "[dim]not shown")
    return table


def _summarise(console: Console, known: Sequence[Sequence[str]], shown: Shown) -> None:
    for service in ("ingest", "retrieve", "answer", "shared"):
        rows = [row for row, owner, _ in known if owner == service]
        passed = sum(_result(shown.rows.get(row, {})) == "passed" for row in rows)
        console.print(f"{service}: {passed} of {len(rows)} rows shown")


if __name__ == "__main__":
    raise SystemExit(main())
