"""The size budgets of hand-written code: files of at most 300 lines, bodies of at most 25."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from groundwire.kernel import errors

MAX_FILE_LINES = 300
MAX_BODY_LINES = 25
SLICES = [
    "answer",
    "catalog",
    "cli",
    "client",
    "embedders",
    "ingest",
    "kernel",
    "retrieve",
    "rpc",
    "standalone",
    "vectorstores",
]
FORBIDDEN_NAMES = {"base.py", "common.py", "helpers.py", "manager.py", "misc.py", "utils.py"}


def _files() -> Iterator[Path]:
    for name in SLICES:
        (folder,) = import_module(f"groundwire.{name}").__path__
        yield from Path(folder).rglob("*.py")


def test_files_are_short() -> None:
    # The error hierarchy is one list that is read as a whole.
    allowed = {Path(errors.__file__)}
    long = {str(path): count for path in _files() if (count := len(path.read_text().splitlines())) > MAX_FILE_LINES}
    assert {name for name in long if Path(name) not in allowed} == set()


def test_function_bodies_are_short() -> None:
    long = [
        f"{path}:{function.lineno} {function.name}: {lines}"
        for path in _files()
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := _body_lines(function)) > MAX_BODY_LINES
    ]
    assert not long


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body and body[-1].end_lineno is not None else 0


def test_names_say_a_meaning_not_a_place() -> None:
    assert [str(path) for path in _files() if path.name in FORBIDDEN_NAMES] == []
