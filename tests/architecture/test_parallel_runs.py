"""Tests run side by side, except for those that measure time."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"

TESTS = """
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@contextmanager
def seen(name):
    (FOLDER / f"{name}.running").touch()
    yield
    (FOLDER / f"{name}.running").unlink()


def test_meets_one_of_another_file():
    with seen(__name__):
        ends_at = time.monotonic() + 30
        while len(list(FOLDER.glob("*.met"))) < 2:
            assert time.monotonic() < ends_at, "nothing else ran meanwhile"
            if len(list(FOLDER.glob("*.running"))) == 2:
                (FOLDER / f"{__name__}.met").touch()
            time.sleep(0.005)


@pytest.mark.parametrize("number", range(5))
@pytest.mark.alone
def test_meets_nobody(number):
    with seen(f"{__name__} alone"):
        for _ in range(20):
            assert len(list(FOLDER.glob("*.running"))) == 1
            time.sleep(0.005)


@pytest.mark.parametrize("number", range(20))
def test_may_meet_anybody(number):
    with seen(__name__):
        time.sleep(0.01)
"""


def test_only_tests_that_measure_time_run_alone(tmp_path: Path) -> None:
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    alone\n", encoding="utf-8")
    for number in range(2):
        (tmp_path / f"test_{number}.py").write_text(TESTS, encoding="utf-8")
    # Other plugins take longer to import than all the rest.
    variables = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=variables)
    assert (done.returncode, "52 passed" in done.stdout) == (0, True), done.stdout + done.stderr
