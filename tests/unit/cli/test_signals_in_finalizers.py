"""Ctrl-C and SIGTERM end a command also while an object is finalized, out of which no exception gets."""

import signal
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_a_finalizer_ends_the_command(number: signal.Signals, code: int) -> None:
    command = f"""
import signal
import time
from groundwire.cli import __main__
from groundwire.cli.catalogs import _ending_orderly

class Engine:
    def __del__(self):
        signal.raise_signal({number})

def restore(arguments):
    with _ending_orderly():
        engine = Engine()
        del engine
        time.sleep(20)
    return 0

__main__._run = restore
__main__.main()
"""
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False, timeout=10)
    assert (done.returncode, done.stderr) == (code, "")


def test_other_errors_of_finalizers_are_shown() -> None:
    command = """
from groundwire.cli import __main__

class Engine:
    def __del__(self):
        raise ValueError("it is broken")

def restore(arguments):
    engine = Engine()
    del engine
    return 0

__main__._run = restore
__main__.main()
"""
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False, timeout=10)
    assert (done.returncode, "ValueError: it is broken" in done.stderr) == (0, True)
