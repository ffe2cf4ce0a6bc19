"""What holds for all tests."""

import signal


def pytest_configure() -> None:
    """Let Ctrl-C reach what the tests start: a job in the background of a shell ignores it, and hands that down."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
