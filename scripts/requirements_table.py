"""Run the tests that show rows of the source designs, and print which row is shown by which tests.

`tests/requirements/rows.tsv` lists every id that a marker may name, with the service it belongs to. A row is shown
when it has tests and every one of them ran and passed: a test that was skipped, expected to fail, or never reached
shows nothing.

Exits with 1 when pytest does not end well, a marker or `--require` names an id that is not in the list, a required
row is not shown, or a row is shown that is not among the required ones, so that nothing is claimed without being
guarded. Without `--require` the last two do not apply.
"""

import argparse
import csv
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "tests" / "requirements" / "rows.tsv"
_RANGE = re.compile(r"(?P<design>S\d-|[CTPQR])(?P<first>\d+)(?:\.\.(?P=design)(?P<last>\d+))?")
# Worst first: a row is as good as the worst of its tests.
_RESULTS = ("failed", "not run", "skipped", "expected to fail", "passed")


@dataclass(eq=False, slots=True)  # pytest keeps plugins in sets
class Marked:
    """Pytest plugin: the rows of every test, found by collecting alone: workers of pytest-xdist tell no markers."""

    marked: set[str] = field(default_factory=set)
    rows_of: dict[str, list[str]] = field(default_factory=dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Look at all tests, and again after `--markers` has had its say."""
        self.marked.update(row for item in items for row in _rows(item))
        yield
        self.rows_of = {item.nodeid: _rows(item) for item in items if _rows(item)}


@dataclass(eq=False, slots=True)
class Results:
    """Pytest plugin: the result of every marked test."""

    tests: dict[str, str]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what the body of a test came to, and a set-up or tear-down that went wrong."""
        if report.when == "call" or report.outcome != "passed":
            result = "expected to fail" if hasattr(report, "wasxfail") else report.outcome
            before = self.tests[report.nodeid]
            self.tests[report.nodeid] = result if before == "not run" else min(before, result, key=_RESULTS.index)


def main() -> int:
    """Return 0 when nothing failed and exactly the required rows are shown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", default=["tests"], help="where to look for tests")
    parser.add_argument(
        "--require", action="append", default=[], help="rows that must be shown: S1-05, S1-01..S1-93, or C01..C07"
    )
    usual = "not slow and not faults and not limits and not clients"
    parser.add_argument("--markers", default=usual, help="which tests to run")
    parser.add_argument("--workers", default="0", help="how many tests to run at once: a number, or logical")
    arguments = parser.parse_args()
    with ROWS.open(encoding="utf-8") as listed:
        known = list(csv.reader(listed, delimiter="\t"))
    marked = Marked()
    options = ["-p", "no:cacheprovider", "-m", arguments.markers, *arguments.tests]
    with redirect_stdout(StringIO()):
        pytest.main(["--collect-only", "-q", *options], plugins=[marked])
    found = Results(dict.fromkeys(marked.rows_of, "not run"))
    options[3] = f"({arguments.markers}) and requirement"
    exit_code = pytest.main(["-q", "-n", arguments.workers, "--dist", "loadfile", *options], plugins=[found])
    shown_by: dict[str, dict[str, str]] = {}
    for test, result in found.tests.items():
        for row in marked.rows_of[test]:
            shown_by.setdefault(row, {})[test] = result
    results = {row: min(tests.values(), key=_RESULTS.index) for row, tests in shown_by.items()}
    print("Row     Service   Result            What, and the tests that show it")
    for row, service, what in known:
        print(f"{row:<7} {service:<9} {results.get(row, 'not shown'):<17} {what}")
        for name in sorted({node.rpartition("::")[2].partition("[")[0] for node in shown_by.get(row, ())}):
            print(f"{'':36}{name}")
    for service in dict.fromkeys(service for _, service, _ in known):
        rows = [row for row, owner, _ in known if owner == service]
        print(f"{service}: {sum(results.get(row) == 'passed' for row in rows)} of {len(rows)} rows shown")

    ids = {row for row, _, _ in known}
    required = set(_required(arguments.require))
    shown = {row for row, result in results.items() if result == "passed"}
    problems = {
        "no such row": (marked.marked | required) - ids,
        "failed": {row for row, result in results.items() if result == "failed"},
        "required, not shown": required - shown,
        "shown, not required": shown - required if required else set(),
    }
    for what, wrong in problems.items():
        if wrong:
            print(f"{what}: {', '.join(sorted(wrong))}")
    if exit_code != pytest.ExitCode.OK:
        print(f"pytest ended with {int(exit_code)}")
    return 1 if any(problems.values()) or exit_code != pytest.ExitCode.OK else 0


def _required(ranges: Sequence[str]) -> Iterator[str]:
    for each in ranges:
        match = _RANGE.fullmatch(each)
        if match is None:
            raise SystemExit(f"--require {each}: neither one row (S1-05) nor a range of one design (S1-01..S1-93)")
        for number in range(int(match["first"]), int(match["last"] or match["first"]) + 1):
            yield f"{match['design']}{number:0{len(match['first'])}}"


def _rows(item: pytest.Item) -> list[str]:
    # A marker without an id is as wrong as one with an unknown id.
    return [str(row) for mark in item.iter_markers("requirement") for row in mark.args or ("(no id)",)]


if __name__ == "__main__":
    raise SystemExit(main())
