"""Tests that need packages which may be missing, or the sources, which `make wheel-test` runs without."""

from importlib.util import find_spec
from pathlib import Path

import pytest

HAS_SOURCES = (Path(__file__).resolve().parents[1] / "shared" / "src").exists()
in_checkout = pytest.mark.skipif(not HAS_SOURCES, reason="runs against the wheel")


def requires(*packages: str) -> pytest.MarkDecorator:
    """Mark tests to be skipped without these packages; `importorskip` would import them while tests are collected."""
    missing = [package for package in packages if find_spec(package) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")
