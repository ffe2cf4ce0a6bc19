"""Text of documents that is meant for the terminal never gets there: every command, every stored field.

A command that is new has to be added to `RUNS`, or the test fails.
"""

import json
import os
import pty
import re
import select
import uuid
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest

from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.common.v1 import document_pb2
from groundwire.api.common.v1.metadata_value_pb2 import MetadataValue
from groundwire.cli.app import app
from groundwire.client import GroundwireClient
from tests.e2e.commands import Command
from tests.e2e.server import ServerProcess, groundwire

# Clipboard, clear screen, title, carriage return, 8-bit CSI, bidi, zero width, tags, and markup of a library.
ATTACK = (
    "\x1b]52;c;aGVsbG8=\x07\x1b[2J\x1b[1;1H\x1b]0;owned\x07\x9b31m\x7f\u202edetrever\u2066\u200b\U000e0041"
    "[bold red]loud[/bold red][link=https://evil.example]here[/link][/]"
)
QUIET = ATTACK.translate(dict.fromkeys((*range(32), *range(127, 160))))
"""The same without control characters, which sources may not have."""
SHOWN = r"\u202edetrever\u2066\u200b\U000e0041"
NAME = "hostile"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path_factory.mktemp("hostile") / "data")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def stored(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Put hostile text wherever the server takes it, and return the words that commands need."""
    folder = tmp_path_factory.mktemp("files")
    # Few control characters in much text: the server takes a text with many for binary data.
    plain = "Tides are the rise and fall of sea levels. " * 150
    text = f"# Tides {QUIET}\n\nThe moon causes the tides {ATTACK} of the sea.\n\n## Spring {QUIET}\n\n{plain}\n"
    (folder / f"tides {QUIET.replace('/', '')}.md").write_text(text, encoding="utf-8")
    (folder / "broken.docx").write_bytes(b"\0\1\2")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    words = {"folder": str(folder), "nowhere": str(folder.parent / "nowhere")}
    words["keys"] = str(folder.parent / "keys.yaml")
    with GroundwireClient(server.address) as client:
        description = f'[{{"name": "owner", "description": {json.dumps(ATTACK)}, "type": "string"}}]'
        made = groundwire(
            "collections", "create", NAME, "--set", f"field_descriptions={description}", address=server.address
        )
        assert made.returncode == 0, made.stderr
        result = client.ingest_document(
            collection=NAME,
            source_uri=f"https://evil.example/{QUIET}",
            text=text,
            fields=document_pb2.DocumentFields(
                title=f"Title {QUIET}\rforged",
                creators=[QUIET],
                description=QUIET + "\rforged",
                metadata={"owner": MetadataValue(string_value=ATTACK)},
            ),
        ).result
        words["document"] = result.document.document_id
        words["chunk"] = client.list_chunks(collection=NAME, page_size=1).chunks[0].chunk_id
        session = client.create_session(collection=NAME, user_id=QUIET, labels={"team": QUIET}).session.session_id
        words["session"] = session
        remembered = client.collection(NAME).remember(f"Luna {QUIET}", tags=[QUIET], metadata={"note": ATTACK})
        words["memory"] = remembered.record_id
        client.retrieve(collection=NAME, query=f"tides {QUIET}")  # for the log
        replied = client.ask.send(
            answer_pb.AskRequest(
                question=f"What causes the tides {QUIET}\r?",
                collection=NAME,
                session_id=session,
                message_id=str(uuid.uuid4()),
            )
        )
    words["replied"] = replied.answer.message_id
    answer = groundwire("ask", "What causes the tides of the sea?", "-c", NAME, "--json", address=server.address)
    (folder.parent / "answer.json").write_text(answer.stdout, encoding="utf-8")
    words["answer"] = str(folder.parent / "answer.json")
    (folder.parent / "reply.md").write_text(f"{text}\n\nThe tides are 15 m high {QUIET}.\n", encoding="utf-8")
    words["reply"] = str(folder.parent / "reply.md")
    for name, quote in {"asked": "", "misquoted": ATTACK + ATTACK}.items():
        labelled = {"question": f"tides {QUIET}", "source": f"https://evil.example/{QUIET}", "quote": quote}
        (folder.parent / f"{name}.jsonl").write_text(json.dumps(labelled), encoding="utf-8")
        words[name] = str(folder.parent / f"{name}.jsonl")
    words["page"] = str(folder.parent / "answer.html")
    words["vault"] = str(folder.parent / "vault")
    (folder.parent / "vault" / "chunks" / "2026-02").mkdir(parents=True)
    damaged = folder.parent / "vault" / "chunks" / "2026-02" / f"chunk-{ATTACK.replace('/', '')}.json"
    damaged.write_text(ATTACK, encoding="utf-8")
    (folder.parent / "faq.json").write_text(json.dumps({"type": "faq", ATTACK: ATTACK}), encoding="utf-8")
    words["faq"] = str(folder.parent / "faq.json")
    return words


RUNS: dict[str, list[list[str]]] = {
    "ingest": [["{folder}", "-c", "other"], ["{folder}", "-c", "other", "--plan", "--verbose"]],
    "search": [
        ["tides", "-c", NAME],
        ["tides", "-c", NAME, "--explain"],
        ["tides", "-c", NAME, "--expand", "hierarchy"],
        ["tides " + QUIET, "-c", NAME, "--self-query", "--top-down"],
        ["tides " + ATTACK, "-c", NAME],
        ["tides", "-c", NAME, "--filter", json.dumps({"owner": ATTACK})],
        ["tides", "-c", NAME, "--filter", json.dumps({ATTACK: 1})],
        ["tides", "-c", ATTACK],
    ],
    "ask": [
        ["What causes the tides of the sea?", "-c", NAME],
        ["What causes the tides of the sea?", "-c", NAME, "--stream"],
        ["What causes the tides of the sea?", "-c", NAME, "--show"],
        ["What causes the tides of the sea?", "-c", NAME, "--html", "{page}"],
        ["What causes the tides of the sea?", "-c", NAME, "--html", "{folder}/" + ATTACK.replace("/", "")],
        ["And why?", "-c", NAME, "--session", "{session}"],
        ["Why?", "-c", NAME, "--session", ATTACK],
    ],
    "evaluate": [
        ["{asked}", "-c", NAME, "--filter", json.dumps({"tags": "none"})],
        ["{misquoted}", "-c", NAME],
        ["{reply}", "-c", NAME],
    ],
    "consolidate": [["conv-1", "-c", NAME], [ATTACK, "-c", NAME], ["conv-1", "-c", NAME, "--scope", ATTACK]],
    "chat": [["-c", NAME, "--session", ATTACK], ["-c", ATTACK]],
    "ground": [["{reply}", "-c", NAME], ["{reply}", "-c", ATTACK], ["{reply}", "-c", NAME, "--chunk", "{chunk}"]],
    "answers list": [[], ["-c", ATTACK], ["--stale", "--user", ATTACK]],
    "answers get": [["{session}", "{replied}"], [ATTACK, ATTACK]],
    "verify": [["{answer}"]],
    "cite": [["{answer}"], ["{answer}", "--style", "inline"], ["{answer}", "--style", "apa"]],
    "keys create": [[ATTACK, "--right", "read", "--keys", "{keys}"], ["x", "--right", "read", "--keys", "{keys}"]],
    "keys list": [["--keys", "{keys}"], ["--keys", "{folder}/" + ATTACK.replace("/", "")]],
    "keys revoke": [[ATTACK, "--keys", "{keys}"]],
    "collections list": [[]],
    "collections get": [[NAME], [ATTACK]],
    "collections create": [["made"], [ATTACK]],
    "collections update": [
        [NAME, "--set", "retrieval.top_k=7"],
        [NAME, "--set", ATTACK + "=1"],
        [NAME, "--set", ATTACK],
    ],
    "collections delete": [["made", "--yes"], [ATTACK, "--yes"]],
    "docs list": [["-c", NAME], ["-c", NAME, "--deleted", "--prefix", "https"]],
    "docs get": [["{document}", "-c", NAME], [ATTACK, "-c", NAME]],
    "docs text": [[ATTACK, "-c", NAME]],
    "docs update": [["{document}", "-c", NAME, "--set", "title=" + ATTACK]],
    "docs purge": [["-c", NAME, "--filter", "*"], ["-c", NAME, "--filter", json.dumps({"owner": ATTACK})]],
    "docs delete": [["{document}", "-c", NAME]],
    "docs restore": [["{document}", "-c", NAME]],
    "chunks list": [["-c", NAME]],
    "chunks get": [["{chunk}", "-c", NAME], [ATTACK, "-c", NAME]],
    "chunks update": [["{chunk}", "-c", NAME, "--set", "metadata.note=" + ATTACK]],
    "memory add": [[ATTACK, "-c", NAME], [QUIET, "-c", NAME, "--id", ATTACK], ["x", "-c", NAME, "--set", ATTACK]],
    "memory list": [["-c", NAME], ["-c", NAME, "--deleted", "--entity", ATTACK], ["-c", NAME, "--filter", ATTACK]],
    "memory get": [["{memory}", "-c", NAME], [ATTACK, "-c", NAME]],
    "memory search": [["Luna", "-c", NAME], [ATTACK, "-c", NAME, "--entity", ATTACK]],
    "memory context": [["Luna", "-c", NAME], [ATTACK, "-c", NAME, "--entity", ATTACK]],
    "memory update": [["{memory}", "-c", NAME, "--set", "metadata.note=" + QUIET], [ATTACK, "-c", NAME, "--text", "x"]],
    "memory link": [["{memory}", "-c", NAME, "--supports", ATTACK], [ATTACK, "-c", NAME, "--contradicts", "{memory}"]],
    "memory unlink": [["{memory}", "-c", NAME, "--supports", ATTACK]],
    "memory delete": [["{memory}", "-c", NAME], [ATTACK, "-c", NAME], ["-c", NAME, "--entity", ATTACK]],
    "memory restore": [["{memory}", "-c", NAME], [ATTACK, "-c", NAME]],
    "vault export": [["{vault}", "-c", NAME, "--verbose"], ["{vault}", "-c", ATTACK]],
    "vault import": [["{vault}", "-c", "imported", "--verbose"]],
    "vault mirror": [["{vault}", "-c", ATTACK]],
    "vault check": [["{vault}"]],
    "stats": [[], ["-c", NAME]],
    "bench load": [
        ["-c", NAME, "--queries", "{reply}", "--duration", "1", "--rate", "5"],
        ["-c", ATTACK, "--queries", "{reply}", "--duration", "1"],
        ["-c", NAME, "--queries", "{reply}", "--mix", ATTACK],
    ],
    "copy": [["--from", ATTACK, "--to", ATTACK], ["--from", "{folder}", "--to", "postgresql://" + QUIET]],
    "migrate": [["--data", ATTACK], ["--catalog", ATTACK], ["--check", "--catalog", "postgresql://" + QUIET]],
    "backup": [["{folder}/" + QUIET.replace("/", ""), "--data", ATTACK], ["{folder}", "--data", "{folder}"]],
    "restore": [["{folder}/" + QUIET.replace("/", ""), "--data", ATTACK], ["{folder}", "--data", "{folder}"]],
    "schema": [[], ["faq"], [ATTACK]],
    "validate": [["faq", "{faq}"]],
    "fsck": [[], ["-c", ATTACK]],
    "reindex": [["-c", NAME], ["-c", ATTACK]],
    "reembed": [["-c", NAME]],
    "operations list": [[]],
    "operations get": [[ATTACK]],
    "operations cancel": [[ATTACK]],
    "sessions list": [[], ["-c", ATTACK]],
    "sessions get": [["{session}"], [ATTACK]],
    "sessions messages": [["{session}"]],
    "sessions end": [["{session}"], [ATTACK]],
    "sessions delete": [[ATTACK], ["--user", ATTACK]],
    "logs": [[], ["-c", ATTACK]],
    "audit": [[], ["--resource", ATTACK], ["--subject", ATTACK]],
    "pipeline": [["-c", ATTACK]],
    "health": [["--service", ATTACK]],
    "config show": [[]],
    "mcp": [["--listen", ATTACK], ["--listen", "127.0.0.1:0", "--token-file", ATTACK]],
    "serve": [["--listen", ATTACK], ["--data", "{nowhere}", "--embedder", ATTACK]],
}
"""Arguments of each command; together they print everything that is stored, and errors that repeat what was sent."""

QUOTED = ["search", "ask", "docs list", "docs get", "chunks list", "chunks get", "collections get", "logs"]
QUOTED += [
    "memory search",
    "memory context",
    "memory get",
    "evaluate",
    "validate",
    "sessions list",
    "sessions messages",
    "answers list",
    "answers get",
]
"""Commands of which some run must show the attack, as escapes: else the test would be of nothing."""


def names(group: click.Group, prefix: str = "") -> set[str]:
    found: set[str] = set()
    for name, command in group.commands.items():
        found |= names(command, f"{prefix}{name} ") if isinstance(command, click.Group) else {prefix + name}
    return found


def test_every_command_is_attacked() -> None:
    assert set(RUNS) == names(app)


def filled(arguments: Sequence[str], stored: dict[str, str]) -> list[str]:
    return [stored[each[1:-1]] if re.fullmatch(r"\{[a-z]+\}", each) else each for each in arguments]


@pytest.mark.parametrize("command", RUNS)
def test_no_command_prints_what_a_terminal_obeys(server: ServerProcess, stored: dict[str, str], command: str) -> None:
    said = ""
    for arguments in RUNS[command]:
        given = filled(arguments, stored)
        done = groundwire(*command.split(), *given, address=server.address)
        printed = done.stdout + done.stderr
        assert {each for each in printed if not each.isprintable()} <= {"\n"}, (given, printed)
        assert "Traceback" not in printed
        assert done.returncode in {0, 1, 2}
        said += printed
    if command in QUOTED:
        assert SHOWN in said
        assert "[bold red]loud[/bold red][link=https://evil.example]here[/link][/]" in said


def on_a_terminal(server: ServerProcess, *arguments: str) -> str:
    """Run a command whose output and errors go to a terminal, and return what the terminal gets."""
    parent, child = pty.openpty()
    variables = {"GROUNDWIRE_ADDRESS": server.address, "TERM": "xterm-256color", "COLUMNS": "400"}
    shown = b""
    with Command(arguments, stdout=child, stderr=child, variables=variables) as run:
        os.close(child)
        while True:
            if select.select([parent], [], [], 0.1)[0]:
                try:
                    part = os.read(parent, 65536)
                except OSError:  # the other side is closed
                    break
                if not part:
                    break
                shown += part
            elif run.poll() is not None:
                break
    os.close(parent)
    return shown.decode("utf-8").replace("\r\n", "\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "tides", "-c", NAME, "--explain"),
        ("ask", "What causes the tides of the sea?", "-c", NAME),
        ("ask", "What causes the tides of the sea?", "-c", NAME, "--show"),
        ("docs", "text", "{document}", "-c", NAME),
        ("docs", "list", "-c", NAME),
        ("chunks", "get", "{chunk}", "-c", NAME),
        ("docs", "get", ATTACK, "-c", NAME),
        ("logs",),
    ],
    ids=lambda arguments: "-".join((*arguments[:2], arguments[-1]))[:60],
)
def test_a_terminal_gets_no_sequence_but_our_colours(
    server: ServerProcess, stored: dict[str, str], arguments: tuple[str, ...]
) -> None:
    shown = on_a_terminal(server, *filled(arguments, stored))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert {each for each in plain if not each.isprintable()} <= {"\n"}, plain
    assert SHOWN in plain.replace("\n", "")


def test_a_shown_quote_is_coloured_on_a_terminal(server: ServerProcess, stored: dict[str, str]) -> None:
    question = "What causes the tides of the sea?"
    shown = on_a_terminal(server, "ask", question, "-c", NAME, "--show")
    marked = re.search(r"\x1b\[33m\x1b\[1m(The moon causes the tides .*?)\x1b\[0m", shown, flags=re.DOTALL)
    assert marked
    assert SHOWN in marked[1].replace("\n", "")
    assert "⟦" not in shown


OWN_ELEMENTS = {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "a", "section"}
OWN_ELEMENTS |= {"blockquote", "mark"}


class _Page(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_holds_nothing_that_a_browser_obeys(server: ServerProcess, tmp_path: Path) -> None:
    markup = "</p></style><script>alert(1)</script><img src=x onerror=alert(1)>"
    with GroundwireClient(server.address) as client:
        client.create_collection(collection="markup")
        client.ingest_document(
            collection="markup",
            source_uri=f"https://evil.example/?{markup}",
            text=f"# Tides {markup}\n\nThe moon causes the <i>tides</i> of the sea. {markup} {ATTACK} [7].\n",
            fields=document_pb2.DocumentFields(title=markup),
        )
    pages = []
    for question in ("What causes the tides of the sea?", f"Who won {markup}?"):
        file = tmp_path / "out.html"
        done = groundwire("ask", question, "-c", "markup", "--html", str(file), address=server.address)
        assert done.returncode == 0, done.stderr
        source = file.read_text(encoding="utf-8")
        assert {each for each in source if not each.isprintable()} == {"\n"}
        page = _Page()
        page.feed(source)
        pages.append(page)
        assert {tag for tag, _ in page.elements} <= OWN_ELEMENTS
        assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
        assert "default-src 'none'" in str(page.elements)
    answered, refused = pages
    links = {attributes["href"] or "" for tag, attributes in answered.elements if tag == "a"}
    assert any(link.startswith("#quote-") for link in links)
    assert any(link.startswith("https://evil.example/?</p>") for link in links)
    assert all(link.startswith(("#quote-", "https://")) for link in links)
    assert f"The moon causes the <i>tides</i> of the sea. {markup}" in answered.text
    assert SHOWN in answered.text
    assert f"Who won {markup}?" in refused.text


def test_the_bars_of_an_ingest_are_no_way_in(server: ServerProcess, stored: dict[str, str]) -> None:
    shown = on_a_terminal(server, "ingest", stored["folder"], "-c", "bars")
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
    assert "\u202e" not in shown
    assert "\x9b" not in shown
    assert "2 files" in shown


def test_json_is_exact(server: ServerProcess, stored: dict[str, str]) -> None:
    done = groundwire("docs", "get", stored["document"], "-c", NAME, "--json", address=server.address)
    assert json.loads(done.stdout)["source_uri"] == f"https://evil.example/{QUIET}"
    assert {each for each in done.stdout if not each.isprintable()} == {"\n"}
    text = groundwire("docs", "text", stored["document"], "-c", NAME, address=server.address).stdout
    assert ATTACK in text
    refused = groundwire("docs", "get", ATTACK, "-c", NAME, "--json", address=server.address)
    assert refused.stdout == ""
    assert json.loads(refused.stderr)["error"]["reason"] == "DOCUMENT_NOT_FOUND"
    assert {each for each in refused.stderr if not each.isprintable()} == {"\n"}
