"""Tests run side by side, except for those that measure time."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


# The last of one worker, when the other has nothing left to do.
LAST = """
import os
import time
from pathlib import Path


def test_first():
    pass


def test_last():
    if {is_victim}:
        ends_at = time.monotonic() + 60
        while not Path("others.done").exists():
            assert time.monotonic() < ends_at
            time.sleep(0.01)
        {deed}
    else:
        Path("others.done").touch()
"""

DIES_LATE = """
import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def whose_end_ends_the_worker():
    yield
    os._exit(3)


def test_it():
    pass
"""


def run(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    shutil.copy(CONFTEST, folder)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    alone\n", encoding="utf-8")
    # Other plugins take longer to import than all the rest.
    variables = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider"]
    return subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, check=False, env=variables)


def test_only_tests_that_measure_time_run_alone(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"test_{number}.py").write_text(TESTS, encoding="utf-8")
    done = run(tmp_path)
    assert (done.returncode, "52 passed" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("deed", "traces"),
    [
        ("os.kill(os.getpid(), 9)", [" ended with SIGKILL", "crashed while running 'test_0.py::test_last'"]),
        ("time.sleep(600)", [" ended with exit code 1", "in test_last"]),
    ],
    ids=["killed", "hung"],
)
def test_a_run_that_loses_a_worker_ends_and_says_how(tmp_path: Path, deed: str, traces: list[str]) -> None:
    for number in range(3):
        text = LAST.format(is_victim=number == 0, deed=deed)
        (tmp_path / f"test_{number}.py").write_text(text, encoding="utf-8")
    hung_s = 4 if "sleep" in deed else 0
    done = run(tmp_path, "-o", f"faulthandler_timeout={hung_s}", "-o", "faulthandler_exit_on_timeout=true")
    assert done.returncode != 0
    for trace in traces:
        assert trace in done.stdout + done.stderr


def test_a_run_whose_worker_dies_after_its_tests_fails(tmp_path: Path) -> None:
    (tmp_path / "test_0.py").write_text(DIES_LATE, encoding="utf-8")
    done = run(tmp_path)
    assert ("1 passed" in done.stdout, done.returncode != 0) == (True, True), done.stdout + done.stderr
