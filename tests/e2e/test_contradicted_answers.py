"""What contradicts an answer, as people, programs, browsers and agents see it."""

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from mcp.client import Client

from groundwire.agents.serving import agent_server
from groundwire.client import Answer, AsyncGroundwireClient, Citation, Collection, GroundwireClient, Opposing
from tests.e2e.server import ServerProcess, groundwire

QUESTION = "How long is the bridge over the river?"
OLD = "The bridge over the river is 240 metres long."
NEW = "The bridge over the river is 260 metres long."


@pytest.fixture(scope="module")
def bridges(server: ServerProcess) -> Iterator[Collection]:
    with GroundwireClient(server.address) as client:
        bridges = client.collection("bridges")
        bridges.create()
        bridges.ingest_text(f"# Old\n\n{OLD}\n", source="old.md", date_created=date(2020, 5, 1))
        bridges.ingest_text(f"# New\n\n{NEW}\n", source="new.md", date_created=date(2024, 5, 1))
        yield bridges


@pytest.mark.parametrize("options", [(), ("--stream",)])
def test_it_is_printed_below_the_answer(server: ServerProcess, bridges: Collection, options: tuple[str, ...]) -> None:
    done = groundwire("ask", QUESTION, "-c", "bridges", *options, address=server.address)
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"{NEW} [1]", f"but: {OLD} [2] (2020-05-01)"]
    assert [line.split(" ›")[0] for line in lines[3:]] == ["  [1] new.md", "  [2] old.md"]
    shown = groundwire("ask", QUESTION, "-c", "bridges", "--show", *options, address=server.address).stdout
    assert re.findall("⟦(.*?)⟧", shown) == [NEW, OLD]
    chat = groundwire("chat", "-c", "bridges", address=server.address, stdin=f"{QUESTION}\n").stdout
    assert f"but: {OLD} [2] (2020-05-01)" in chat


def test_programs_get_it_beside_the_citations(server: ServerProcess, bridges: Collection) -> None:
    shown = json.loads(groundwire("ask", QUESTION, "-c", "bridges", "--json", address=server.address).stdout)
    (opposing,), (citation,) = shown["opposing"], shown["opposing_citations"]
    assert opposing == {"claim": NEW, "marker": 2, "kind": "number", "text": "260", "instead": "240"}
    assert (citation["marker"], citation["quote"], citation["source"]) == (2, OLD, "old.md")
    assert [each["quote"] for each in shown["citations"]] == [NEW]


def test_the_page_links_it_to_its_paragraph(server: ServerProcess, bridges: Collection, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    groundwire("ask", QUESTION, "-c", "bridges", "--html", str(page), address=server.address)
    source = page.read_text(encoding="utf-8")
    assert f'<p class="opposing">but: {OLD} <a href="#quote-2">[2]</a> (2020-05-01)</p>' in source
    assert dict(re.findall(r'<mark id="quote-(\d)">(.*?)</mark>', source)) == {"1": NEW, "2": OLD}


def test_the_python_client_has_it_in_answers_and_at_the_end_of_streams(bridges: Collection) -> None:
    answer = bridges.ask(QUESTION)
    (opposing,) = answer.opposing
    assert isinstance(opposing, Opposing)
    assert (opposing.claim, opposing.text, opposing.instead) == (NEW, "260", "240")
    assert (opposing.citation.quote, opposing.citation.source, opposing.citation.marker) == (OLD, "old.md", 2)
    assert bridges.read([opposing.citation]) == [OLD]
    *events, last = bridges.ask_stream(QUESTION)
    assert isinstance(last, Answer)
    assert (last.citations, last.opposing) == (answer.citations, answer.opposing)
    assert tuple(each for each in events if isinstance(each, Citation)) == last.citations


async def test_agents_are_told(server: ServerProcess, bridges: Collection) -> None:
    async with (
        AsyncGroundwireClient(server.address) as client,
        Client(agent_server(client, allow_writes=False)) as agent,
    ):
        arguments = {"collection": "bridges", "question": QUESTION}
        answer = (await asyncio.wait_for(agent.call_tool("ask", arguments), 60)).structured_content
    assert answer is not None
    assert [each["text"] for each in answer["citations"]] == [NEW]
    assert [each["text"] for each in answer["opposing"]] == [OLD]
