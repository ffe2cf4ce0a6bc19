"""Tests of engines whose packages need not be installed."""

from importlib.util import find_spec

import pytest


def requires(*packages: str) -> pytest.MarkDecorator:
    """Mark tests to be skipped without these packages; `importorskip` would import them while tests are collected."""
    missing = [package for package in packages if find_spec(package) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")
