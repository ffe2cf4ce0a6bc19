"""The tutorial and the recipes work as they stand there: their commands are run, and print what is shown."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server import ServerProcess
from tests.e2e.transcripts import Shell, steps_of

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = "sentence-transformers:all-MiniLM-L6-v2"
PAGES = {
    str(page.relative_to(ROOT / "docs")): page
    for kind in ("tutorial", "how-to")
    for page in sorted((ROOT / "docs" / kind).glob("*.md"))
    if "```console" in page.read_text(encoding="utf-8") and "all.json" not in page.read_text(encoding="utf-8")
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with the default model, for pages that suppose there is one."""
    running = ServerProcess(tmp_path_factory.mktemp("pages") / "data", ())
    yield running.address
    assert running.stop() == 0


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")  # what a page shows is what a terminal of this width shows
    return tmp_path


@pytest.mark.parametrize("name", PAGES)
def test_a_page_works_as_it_stands(name: str, address: str) -> None:
    shell = Shell(address, DEFAULT)
    try:
        for step in steps_of(PAGES[name]):
            shell.run(step)
    finally:
        shell.stop()


def test_most_recipes_are_run() -> None:
    assert len(PAGES) >= 10
    assert sum(len(steps_of(page)) for page in PAGES.values()) > 40


def test_a_page_that_is_wrong_is_noticed(folder: Path) -> None:
    page = folder / "page.md"
    page.write_text("```console\n$ echo one; echo two\none\n…o\n$ echo three\nfour\n```\n", encoding="utf-8")
    first, second = steps_of(page)
    shell = Shell("127.0.0.1:1", DEFAULT)
    shell.run(first)
    with pytest.raises(AssertionError, match=re.escape("the page shows:\nfour")):
        shell.run(second)


def test_code_to_save_and_commands_of_several_lines_are_understood(folder: Path) -> None:
    page = folder / "page.md"
    page.write_text(
        "Save this as `a/say.py`:\n\n```python\nprint('said')\n```\n\n```console\n$ python a/say.py\nsaid\n"
        "$ cat > b <<END\n> one\n> END\n$ cat \\\n    b\none\n```\n",
        encoding="utf-8",
    )
    shell = Shell("127.0.0.1:1", DEFAULT)
    for step in steps_of(page):
        shell.run(step)
    assert (folder / "b").read_text() == "one\n"
