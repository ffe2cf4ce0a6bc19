"""docs/client.md says what the client does."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from groundwire.client.calls import StreamCall, UnaryCall
from groundwire.client.contract import Contract

PAGE = Path(__file__).resolve().parents[2] / "docs" / "client.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="needs the sources")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_every_call_is_listed() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    listed = set(re.findall(r"`(\w+)", "".join(rows)))

    assert listed == {name for name, call in vars(Contract).items() if isinstance(call, UnaryCall | StreamCall)} | {
        "upload_document"
    }


def test_the_examples_name_calls_and_fields_that_exist() -> None:
    nodes = [node for block in blocks("python") for node in ast.walk(ast.parse(block))]
    made = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    named = [(node.func.attr, node.keywords) for node in made if isinstance(node.func, ast.Attribute)]

    assert [name for name, _ in named if name not in {"answer", *vars(Contract)}] == []
    for name, keywords in named:
        request: Any = vars(Contract)[name].request
        assert {keyword.arg for keyword in keywords} <= set(request.DESCRIPTOR.fields_by_name), name
