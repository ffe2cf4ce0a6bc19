"""What the handbook shows works as it stands there: every filter in JSON, every setting, every answer of a command."""

import json
import re
import shlex
from pathlib import Path

import pytest

from groundwire.client import GroundwireClient
from groundwire.client.values import filter_message
from groundwire.kernel.errors import InvalidFilterError
from tests.e2e.server import ServerProcess, groundwire

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs/reference"
FILTERS = re.findall(r"```json\n(.*?)\n```", (REFERENCE / "filters.md").read_text(encoding="utf-8"), flags=re.DOTALL)
SHOWN = "\n".join(
    re.findall(r"```console\n(.*?)```", (REFERENCE / "command-line.md").read_text(encoding="utf-8"), flags=re.DOTALL)
)


@pytest.fixture(scope="module")
def address(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A server with the collection that the page's commands make, its report, and the keys of the filters."""
    folder = tmp_path_factory.mktemp("company")
    (folder / "reports").mkdir()
    (folder / "reports" / "q3.md").write_text("# Third quarter\n\nRevenue was 4.2 million.\n", encoding="utf-8")
    _run_shown("groundwire collections", server.address)
    assert groundwire("ingest", str(folder), "-c", "company", address=server.address).returncode == 0
    keys = ("metadata.review_date=2024-06-01", "metadata.type=memory", "metadata.importance=5")
    given = [part for key in keys for part in ("--set", key)]
    done = groundwire("docs", "update", "reports/q3.md", "-c", "company", *given, address=server.address)
    assert done.returncode == 0, done.stderr
    return server.address


def _run_shown(prefix: str, address: str) -> int:
    """Run the commands of the page that begin with `prefix`, compare what is shown of their output, and count them."""
    count = 0
    for block in SHOWN.replace("\\\n", " ").split("$ ")[1:]:
        command, _, printed = block.partition("\n")
        if command.startswith(prefix):
            count += 1
            done = groundwire(*shlex.split(command)[1:], address=address)
            assert done.returncode == 0, (command, done.stderr)
            if printed.strip():
                assert done.stdout.strip() == printed.strip()
    return count


@pytest.mark.parametrize("text", FILTERS)
def test_every_filter_of_the_handbook_is_accepted(address: str, text: str) -> None:
    with GroundwireClient(address) as client:
        client.list_chunks(collection="company", filter=filter_message(text))


def test_a_filter_with_another_key_is_not(address: str) -> None:
    with GroundwireClient(address) as client, pytest.raises(InvalidFilterError):
        client.list_chunks(collection="company", filter=filter_message('{"colour": "red"}'))


def test_the_handbook_shows_filters() -> None:
    assert len(FILTERS) > 10


def test_the_collection_has_the_settings_shown(address: str) -> None:
    shown = json.loads(groundwire("collections", "get", "company", "--json", address=address).stdout)["settings"]
    assert shown["chunking"]["chunker"] == "CHUNKER_HIERARCHY"
    assert shown["retrieval"]["top_k"] == 10
    assert shown["field_descriptions"][0]["allowed_values"] == ["finance", "legal"]


def test_the_document_is_changed_as_shown(address: str) -> None:
    assert _run_shown("groundwire docs update", address) == 1
    shown = json.loads(groundwire("docs", "get", "reports/q3.md", "-c", "company", "--json", address=address).stdout)
    assert shown["fields"]["creators"] == ["Smith, J.", "Doe, A."]
    assert shown["fields"]["tags"] == ["finance", "quarterly"]
    assert shown["fields"]["metadata"]["rating"] == 4.5
