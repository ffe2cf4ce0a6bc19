"""The table of rows is made of the outcomes of their tests."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Of folders with a conftest of their own and without, which pytest tells its plugins in different ways.
TESTS = ("tests/unit/schemas/test_registry.py", "tests/integration/answer/test_memory_sessions.py")


def _table(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "requirements_table.py"), *TESTS, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_row_is_shown_when_its_tests_pass_and_missed_when_there_are_none() -> None:
    done = _table("--require", "S1-105")
    assert done.returncode == 0, done.stdout + done.stderr
    missed = _table("--require", "S1-105", "--require", "S3-01")
    assert missed.returncode == 1
    assert "required, not shown: S3-01" in missed.stdout + missed.stderr
