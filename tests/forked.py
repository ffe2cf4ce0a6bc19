"""Processes that are forked from one that has imported what they need: an import takes longer than their work."""

from collections.abc import Callable
from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any


def start(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Call a function of a module in a new process, which ends with it."""
    process = _context().Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


@cache
def _context() -> ForkServerContext:
    context = get_context("forkserver")
    # What needs more imports it in each process. The main module of this one, pytest, is looked at in every child.
    context.set_forkserver_preload(["pytest", "scripts.requirements_table", "tests.integration.catalog.drafts"])
    return context
