"""What the page on the Python client and its docstrings show runs against a real server."""

import ast
import asyncio
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groundwire.client import AsyncGroundwireClient, Collection, GroundwireClient
from groundwire.client.contract import Contract, StreamCall, UnaryCall
from groundwire.client.transport import Operation, StreamOperation
from tests.e2e.server import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/python-client.md"
TEXT = PAGE.read_text(encoding="utf-8")
SPANS = "# Spans\n\nA span is a range of a text. It has a start and an end, which is not part of it.\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path_factory.mktemp("documented") / "data")
    yield running
    assert running.stop() == 0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "spans.md").write_text(SPANS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def no_handbook(server: ServerProcess) -> None:
    """What a page does first is to create the collection."""
    with GroundwireClient(server.address) as client:
        if "handbook" in [info.name for info in client.collections()]:
            client.collection("handbook").delete(force=True)


def run(code: str, names: dict[str, Any]) -> None:
    """Run an example, which may await."""
    compiled = compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if compiled.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(compiled, names))  # noqa: S307 - our own documentation
    else:
        exec(compiled, names)  # noqa: S102 - the same


def test_every_call_is_listed() -> None:
    rows = [line for line in TEXT.partition("## The calls of the contract")[2].splitlines() if line.startswith("| ")]
    listed = set(re.findall(r"`(\w+)", "".join(rows)))

    assert listed == {name for name, call in vars(Contract).items() if isinstance(call, UnaryCall | StreamCall)} | {
        "upload_document",
        "put_chunks",
    }


def operations(kind: type) -> dict[str, Any]:
    found = {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {name: each for name, each in found.items() if isinstance(each, Operation | StreamOperation)}


def test_every_method_is_listed() -> None:
    rows = [line for line in TEXT.partition("## The calls")[0].splitlines() if line.startswith("| ")]
    listed = set(re.findall(r"`(?:client\.)?(\w+)\(", "".join(row.split("|")[1] for row in rows)))

    assert listed == {*operations(Collection), *operations(GroundwireClient), "collection"} - {
        "upload_document",
        "put_chunks",
    }


def test_the_example_of_the_first_page_runs(
    server: ServerProcess, no_handbook: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), flags=re.DOTALL)
    run(block.replace("127.0.0.1:50051", server.address), {})
    assert "A span is a range of a text." in capsys.readouterr().out


def test_the_page_runs_as_it_stands(
    server: ServerProcess, no_handbook: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    assert len(blocks) >= 4
    names: dict[str, Any] = {}
    for block in blocks:
        run(block.replace("127.0.0.1:50051", server.address), names)
    printed = capsys.readouterr().out
    assert "created 1" in printed
    assert "A span is a range of a text." in printed
    assert "tides.md 1" in printed


EXAMPLES = {
    f"{kind.__name__}.{name}": each.awaited.__doc__ or ""
    for kind in (Collection, GroundwireClient)
    for name, each in operations(kind).items()
} | {
    "AsyncGroundwireClient": AsyncGroundwireClient.__doc__ or "",
    "GroundwireClient": GroundwireClient.__doc__ or "",
    "collection": GroundwireClient.collection.__doc__ or "",
}


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[GroundwireClient]:
    with GroundwireClient(server.address) as made:
        handbook = made.collection("handbook")
        handbook.create()
        handbook.ingest_text(SPANS, source="spans.md", metadata={"year": 2024})
        yield made


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_docstring_runs(
    name: str, server: ServerProcess, client: GroundwireClient, folder: Path
) -> None:
    _, found, example = EXAMPLES[name].partition("Example:\n")
    assert found, f"{name} has no example"
    code = textwrap.dedent(example).replace("127.0.0.1:50051", server.address)
    run(code, {"client": client, "GroundwireClient": GroundwireClient, "AsyncGroundwireClient": AsyncGroundwireClient})


def test_both_clients_have_the_same_methods() -> None:
    assert operations(GroundwireClient) == operations(AsyncGroundwireClient)
    assert len(operations(Collection)) > 10
