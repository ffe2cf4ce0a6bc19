"""The table of rows counts what ran and passed, and nothing else."""

import os
import sys
from pathlib import Path

import pytest
from scripts import requirements_table

from tests import forked

ONLY_XDIST = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
"""Other plugins take longer to import than all the rest."""


@pytest.fixture
def table(tmp_path: Path) -> "Table":
    return Table(tmp_path)


class Table:
    """Runs the script on tests of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, body: str, *arguments: str) -> tuple[int, str]:
        """Return the exit code and what was printed for a file with these tests."""
        (self.folder / "test_rows.py").write_text(f"import pytest\nrow = pytest.mark.requirement\n{body}")
        printed = self.folder / "printed"
        running = forked.start(run_script, self.folder, printed, *arguments)
        running.join()
        assert running.exitcode is not None
        return running.exitcode, printed.read_text(encoding="utf-8")


def run_script(folder: Path, printed: Path, *arguments: str) -> None:
    """Run the script in this process, as one that is started away from the project.

    The settings of the project would make an unexpected pass a failure before the script sees it.
    """
    with printed.open("w") as output:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    os.chdir(folder)
    os.environ.update(ONLY_XDIST)
    sys.argv = ["requirements_table.py", str(folder), *arguments]
    sys.exit(requirements_table.main())


def test_a_row_is_shown_when_its_tests_pass_and_missed_when_there_are_none(table: Table) -> None:
    passing = "@row('S1-05')\n@row('C13')\ndef test_a(): pass\n"
    code, printed = table(passing, "--require", "S1-05", "--require", "C13..C13")
    assert code == 0, printed
    assert "ingest: 1 of" in printed
    code, printed = table(passing, "--require", "S1-05", "--require", "C12..C13")
    assert code == 1
    assert "required, not shown: C12" in printed


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("@row('S1-05')\ndef test_a(): pytest.skip()\n", "skipped"),
        ("@row('S1-05')\n@pytest.mark.skip\ndef test_a(): pass\n", "skipped"),
        ("@row('S1-05')\n@pytest.mark.xfail\ndef test_a(): assert False\n", "expected"),
        ("@row('S1-05')\n@pytest.mark.xfail\ndef test_a(): pass\n", "expected"),
        ("@row('S1-05')\n@pytest.mark.xfail(run=False)\ndef test_a(): pass\n", "expected"),
        (
            "@row('S1-05')\ndef test_a(): pass\n@row('S1-05')\ndef test_b(): pytest.skip()\n",
            "skipped",
        ),
        (
            "@row('S1-06')\ndef test_a(): pytest.exit('enough', returncode=0)\n@row('S1-05')\ndef test_b(): pass\n",
            "not run",
        ),
    ],
    ids=["skipped", "never started", "xfailed", "xpassed", "not run", "one of two skipped", "never reached"],
)
def test_a_test_that_did_not_pass_shows_nothing(table: Table, body: str, result: str) -> None:
    code, printed = table(body, "--require", "S1-05")
    assert code == 1
    assert "required, not shown: S1-05" in printed
    (line,) = (line for line in printed.splitlines() if line.startswith("S1-05 "))
    assert line.split(maxsplit=2)[2].startswith(result)


@pytest.mark.parametrize("where", ["set-up", "call", "tear-down"])
def test_a_test_that_fails_in_any_phase_fails_its_row(table: Table, where: str) -> None:
    steps = {"set-up": "raise OSError\n    yield", "call": "yield", "tear-down": "yield\n    raise OSError"}
    fixture = f"@pytest.fixture(autouse=True)\ndef around():\n    {steps[where]}\n"
    body = "assert False" if where == "call" else "pass"
    code, printed = table(f"{fixture}@row('S1-05')\ndef test_a(): {body}\n")
    assert code == 1
    assert "failed: S1-05" in printed


def test_an_id_that_is_not_in_the_list_is_an_error(table: Table) -> None:
    unknown = ["S1-119", "C31", "T49", "P2", "Q12", "R3", "X1", "S1-5"]
    body = "".join(f"@row('{row}')\ndef test_{number}(): pass\n" for number, row in enumerate(unknown))
    code, printed = table(f"@row('S1-05')\ndef test_a(): pass\n{body}")
    assert code == 1
    (line,) = (line for line in printed.splitlines() if line.startswith("no such row: "))
    assert line.removeprefix("no such row: ").split(", ") == sorted(unknown)


def test_ids_of_tests_that_are_not_selected_are_checked_as_well(table: Table) -> None:
    body = "@row('S1-05')\ndef test_a(): pass\n@row('C99')\n@pytest.mark.slow\ndef test_b(): pass\n"
    code, printed = table(body)
    assert code == 1
    assert "no such row: C99" in printed
    code, printed = table(body.replace("C99", "S1-05"), "--require", "S1-05")
    assert code == 0, printed


def test_a_marker_without_an_id_is_an_error(table: Table) -> None:
    code, printed = table("@row('S1-05')\ndef test_a(): pass\n@row()\ndef test_b(): pass\n")
    assert code == 1
    assert "no such row: (no id)" in printed


def test_a_row_that_is_shown_but_not_required_is_an_error(table: Table) -> None:
    body = "@row('S1-05')\n@row('T01')\ndef test_a(): pass\n"
    code, printed = table(body, "--require", "S1-05")
    assert code == 1
    assert "shown, not required: T01" in printed


def test_an_unknown_required_row_is_an_error(table: Table) -> None:
    code, printed = table("@row('S1-05')\ndef test_a(): pass\n", "--require", "S1-05", "--require", "S1-119")
    assert code == 1
    assert "no such row: S1-119" in printed
    code, printed = table("@row('S1-05')\ndef test_a(): pass\n", "--require", "S1-05..S2-06")
    assert code == 1
    assert "neither one row" in printed


@pytest.mark.parametrize("body", ["", "@row('S1-05')\ndef test_a(): pass\nraise OSError('while collecting')\n"])
def test_how_pytest_ends_counts(table: Table, body: str) -> None:
    code, printed = table(body)
    assert code == 1
    assert "pytest ended with" in printed


def test_a_file_that_cannot_be_collected_fails_though_the_other_rows_pass(table: Table) -> None:
    (table.folder / "test_broken.py").write_text("import no_such_module_anywhere\n")
    (table.folder / "pytest.ini").write_text("[pytest]\naddopts = --continue-on-collection-errors\n")
    code, printed = table("@row('S1-05')\ndef test_a(): pass\n", "--require", "S1-05")
    assert code == 1
    assert "pytest ended with 1" in printed
    assert "required, not shown" not in printed
