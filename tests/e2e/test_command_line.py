"""The commands of docs/reference/command-line.md, run as a user runs them against a real server."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.cli.citations import read_quotations
from groundwire.client import GroundwireClient
from tests.e2e.server import ServerProcess, groundwire

SEARCH_KEYS = {
    "rank",
    "chunk_id",
    "chunk_number",
    "document_id",
    "source",
    "score",
    "content",
    "start",
    "end",
    "section",
    "chapter",
    "page_numbers",
    "metadata",
}
CITATION_KEYS = {
    "marker",
    "document_id",
    "source",
    "generation",
    "chunk_id",
    "quote",
    "start",
    "end",
    "start_byte",
    "end_byte",
    "section",
    "chapter",
    "page_numbers",
    "score",
    "support",
    "title",
    "creators",
    "date_created",
    "doi",
    "url",
}
ANSWER_KEYS = {
    "answer",
    "grounded",
    "is_from_book",
    "refusal_reason",
    "confidence",
    "citations",
    "opposing",
    "opposing_citations",
    "unsupported",
    "generator",
    "generation",
    "session_id",
    "topic_shift",
    "message_id",
    "related_message_id",
    "timestamp",
    "timings_ms",
}
CLAIM_KEYS = {
    "start",
    "end",
    "text",
    "kind",
    "verdict",
    "support",
    "sources",
    "discrepancies",
    "opposing",
    "closest",
}
QUESTION = "What causes the tides of the sea?"


@pytest.fixture(scope="module")
def address(server: ServerProcess, notes: Path) -> str:
    done = groundwire("ingest", str(notes), "-c", "notes", "--json", address=server.address)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [file["source"] for file in report["files"]] == ["inner/bread.txt", "tides.md"]
    assert report["totals"]["created"] == 2
    return server.address


def test_ingesting_again_changes_nothing(address: str, notes: Path) -> None:
    done = groundwire("ingest", str(notes), "-c", "notes", "--json", address=address)
    totals = json.loads(done.stdout)["totals"]
    assert (totals["unchanged"], totals["embedded"]) == (2, 0)


def test_search_prints_exactly_the_documented_keys(address: str) -> None:
    done = groundwire("search", "moon tides", "-c", "notes", "-k", "1", "--json", address=address)
    found = json.loads(done.stdout)
    assert set(found) == {"results", "timings_ms"}
    (result,) = found["results"]
    assert set(result) == SEARCH_KEYS
    assert result["source"] == "tides.md"
    shown = groundwire("search", "moon tides", "-c", "notes", "-k", "1", address=address).stdout.splitlines()
    assert shown[0].startswith(f"1  {result['score']:.3f}  tides.md")
    assert shown[1:] == [" ".join(result["content"].split()), ""]


def test_every_result_is_shown_with_its_surroundings(address: str, tmp_path: Path) -> None:
    sentences = " ".join(f"Tide number {number} rises and falls in the harbour." for number in range(40))
    (tmp_path / "many.md").write_text(f"# Tides\n\n{sentences}\n", encoding="utf-8")
    sizes = ("--chunker", "sentence", "--target-size", "16", "--minimum-size", "1", "--maximum-size", "64")
    done = groundwire("ingest", str(tmp_path), "-c", "many", *sizes, address=address)
    assert done.returncode == 0, done.stderr
    search = ("search", "tide harbour", "-c", "many", "-k", "30", "--json")
    found = json.loads(groundwire(*search, address=address).stdout)
    done = groundwire(*search, "--expand", "window", "--radius", "0", address=address)
    assert done.returncode == 0, done.stderr
    expanded = json.loads(done.stdout)
    # More than the 20 results that a search expands; those behind them are asked for.
    assert len(found["results"]) == 30
    shown = {each for passage in expanded["passages"] for each in passage["chunk_ids"]}
    assert shown == {result["chunk_id"] for result in found["results"]}

    position = json.loads(groundwire(*search, "--explain", address=address).stdout)["snapshot"]
    past = groundwire(*search, "-k", "10", "--snapshot", str(position), "--expand", "parent", address=address)
    assert past.returncode == 0, past.stderr
    assert [passage["content"].count("rises") for passage in json.loads(past.stdout)["passages"]] == [40]


def test_each_document_has_at_most_as_many_results_as_allowed(address: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        text = "\n\n".join(f"# Tide {name} {number}\n\nThe tide of {name} is {number} m high." for number in range(5))
        (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
    assert groundwire("ingest", str(tmp_path), "-c", "shares", address=address).returncode == 0
    search = ("search", "tide of one", "-c", "shares", "-k", "4", "--json")
    found = [each["source"] for each in json.loads(groundwire(*search, address=address).stdout)["results"]]
    assert found == ["one.md"] * 4
    done = groundwire(*search, "--max-per-document", "2", address=address)
    assert sorted(each["source"] for each in json.loads(done.stdout)["results"]) == ["one.md"] * 2 + ["two.md"] * 2


def test_a_filter_is_obeyed(address: str) -> None:
    where = '{"source": {"$ne": "tides.md"}}'
    done = groundwire("search", "moon tides", "-c", "notes", "--filter", where, "--json", address=address)
    assert {result["source"] for result in json.loads(done.stdout)["results"]} <= {"inner/bread.txt"}


def test_an_unknown_filter_field_is_an_error_of_the_request(address: str) -> None:
    done = groundwire("search", "moon", "-c", "notes", "--filter", '{"colour": "red"}', address=address)
    assert done.returncode == 2
    assert "INVALID_FILTER" in done.stderr
    assert "colour" in done.stderr


@pytest.mark.requirement("S4-07")
@pytest.mark.requirement("S4-09")
@pytest.mark.requirement("S4-10")
@pytest.mark.requirement("S4-11")
def test_the_json_of_an_answer_says_what_follows_from_the_contract(address: str) -> None:
    covered = json.loads(
        groundwire("ask", QUESTION, "-c", "notes", "--session", "new", "--json", address=address).stdout
    )
    assert covered["is_from_book"] is True
    assert (covered["refusal_reason"], bool(covered["citations"])) == (None, True)
    assert abs(datetime.fromisoformat(covered["timestamp"]) - datetime.now(UTC)) < timedelta(minutes=10)
    listed = groundwire("sessions", "messages", covered["session_id"], "--json", address=address)
    question, answer = json.loads(listed.stdout)
    assert question["message_id"] == answer["related_message_id"] == covered["related_message_id"]
    assert answer["message_id"] == covered["message_id"]
    refused = json.loads(
        groundwire("ask", "Who wrote the opera Tosca?", "-c", "notes", "--json", address=address).stdout
    )
    assert refused["is_from_book"] is False
    assert (refused["refusal_reason"], refused["citations"]) == ("weak-support", [])


def test_sessions_are_listed_and_deleted(address: str) -> None:
    answer = json.loads(
        groundwire("ask", QUESTION, "-c", "notes", "--session", "new", "--json", address=address).stdout
    )
    session_id = answer["session_id"]
    listed = json.loads(groundwire("sessions", "list", "-c", "notes", "--json", address=address).stdout)
    assert session_id in {session["session_id"] for session in listed}
    shown = groundwire("sessions", "get", session_id, address=address).stdout
    assert "SESSION_STATE_ACTIVE" in shown or "active" in shown
    assert QUESTION in groundwire("sessions", "messages", session_id, address=address).stdout
    ended = groundwire("sessions", "end", session_id, "--json", address=address)
    assert json.loads(ended.stdout)["state"] == "SESSION_STATE_ENDED"
    assert groundwire("sessions", "delete", session_id, address=address).stdout == f"deleted {session_id}: 2 messages\n"
    assert groundwire("sessions", "get", session_id, address=address).returncode != 0
    assert groundwire("sessions", "delete", address=address).returncode == 2
    nobody = groundwire("sessions", "delete", "--user", "nobody", address=address)
    assert nobody.stdout == "deleted 0 sessions of nobody\n"


def test_sessions_are_listed_by_user_and_label(address: str) -> None:
    with GroundwireClient(address) as client:
        one, other = (
            client.create_session(collection="notes", user_id=user, labels=labels).session.session_id
            for user, labels in (("eve", {"room": "7", "floor": "1"}), ("eve", {"room": "8", "floor": "1"}))
        )

    def listed(*options: str) -> list[str]:
        done = groundwire("sessions", "list", *options, "--json", address=address)
        return [each["session_id"] for each in json.loads(done.stdout)]

    assert listed("--user", "eve") == [other, one]
    assert listed("--user", "nobody") == []
    assert listed("--label", "room=7") == listed("--label", "room=7", "--label", "floor=1") == [one]
    assert listed("--label", "room=7", "--label", "floor=2") == []
    assert groundwire("sessions", "list", "--label", "room", address=address).returncode == 2


def test_a_chat_is_recorded_in_a_new_conversation_or_in_that_which_is_named(address: str) -> None:
    new = ("--user", "eve", "--conversation", "new")
    begun = groundwire("chat", "-c", "notes", *new, address=address, stdin="I live in Bonn.\n")
    assert begun.returncode == 0, begun.stderr
    words = begun.stderr.split()
    assert (words[0], words[2], words[3].startswith("conv-")) == ("session", "of", True)
    session_id, conversation = words[1], words[3]
    consolidate = ("consolidate", conversation, "-c", "notes", "--scope", "entity:eve", "--json")
    (memory,) = json.loads(groundwire(*consolidate, address=address).stdout)["memories"]
    assert (memory["text"], memory["created"]) == ("I live in Bonn.", True)
    named = ("--conversation", conversation, "--scope", "entity:fay")
    again = groundwire("chat", "-c", "notes", *named, address=address).stderr.split()
    assert again[2:] == ["of", conversation]
    with GroundwireClient(address) as client:
        scopes = [client.get_session(session_id=each).session.scope for each in (session_id, again[1])]
    assert scopes == ["entity:eve", "entity:fay"]
    for option in (("--user", "eve"), ("--conversation", "new"), ("--scope", "global")):
        refused = groundwire("chat", "-c", "notes", "--session", session_id, *option, address=address)
        assert (refused.returncode, "can only be given for a new session" in refused.stderr) == (2, True)


def test_answers_of_changed_sources_are_listed_as_stale(address: str, tmp_path: Path) -> None:
    source = tmp_path / "owls.md"

    def ingest(text: str) -> None:
        source.write_text(text)
        assert groundwire("ingest", str(source), "-c", "changing", address=address).returncode == 0

    ingest("Red owls hunt at dawn. They sleep at noon.\n")
    asked = groundwire("ask", "When do red owls hunt?", "-c", "changing", "--session", "new", "--json", address=address)
    session, answer = json.loads(asked.stdout)["session_id"], json.loads(asked.stdout)["message_id"]
    assert groundwire("answers", "list", "--stale", "-c", "changing", address=address).stdout == "no answers\n"
    document = json.loads(asked.stdout)["citations"][0]["document_id"]
    citing = groundwire("answers", "list", "--document", document, "--json", address=address)
    assert [each["answer"]["message_id"] for each in json.loads(citing.stdout)] == [answer]
    assert groundwire("answers", "list", "--document", "doc_x", address=address).stdout == "no answers\n"
    shown = groundwire("answers", "get", session, answer, address=address).stdout
    assert shown.splitlines()[0] == "When do red owls hunt?"
    assert shown.endswith("generation 1: still true\n")
    for text, fate in (
        ("It is cold. Red owls hunt at dawn.\n", "moved to characters 12–34 of generation 2"),
        ("It is cold.\n", "gone from generation 3"),
    ):
        ingest(text)
        listed = groundwire("answers", "list", "--stale", "-c", "changing", "--json", address=address)
        assert [each["answer"]["message_id"] for each in json.loads(listed.stdout)] == [answer]
        shown = groundwire("answers", "get", session, answer, address=address).stdout
        assert f"generation 1: {fate}\n" in shown


def test_an_answer_verifies(address: str, tmp_path: Path) -> None:
    done = groundwire("ask", QUESTION, "-c", "notes", "--json", address=address)
    answer = json.loads(done.stdout)
    assert set(answer) == ANSWER_KEYS
    assert answer["grounded"]
    assert {frozenset(citation) for citation in answer["citations"]} == {frozenset(CITATION_KEYS)}
    stored = tmp_path / "answer.json"
    stored.write_text(done.stdout, encoding="utf-8")
    verified = groundwire("verify", str(stored), address=address)
    assert verified.returncode == 0, verified.stderr
    assert "exact" in verified.stdout


def test_a_text_is_compared_with_the_sources_and_its_citations_verify(address: str, tmp_path: Path) -> None:
    reply = tmp_path / "reply.md"
    reply.write_text(
        "Hello! The moon causes the tides of the sea. A spring tide happens every 5 days.\n", encoding="utf-8"
    )
    done = groundwire("ground", str(reply), "-c", "notes", "--json", address=address)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert set(found) == {"verdict", "needed", "supported", "claims", "citations"}
    assert (found["verdict"], found["needed"], found["supported"]) == ("partly-grounded", 2, 1)
    assert [claim["verdict"] for claim in found["claims"]] == ["not-needed", "supported", "unsupported"]
    assert all(set(claim) == CLAIM_KEYS for claim in found["claims"])
    assert all(set(citation) == CITATION_KEYS for citation in found["citations"])
    assert found["claims"][2]["discrepancies"] == [{"kind": "number", "text": "5", "instead": ""}]
    (tmp_path / "grounded.json").write_text(done.stdout, encoding="utf-8")
    assert groundwire("verify", str(tmp_path / "grounded.json"), address=address).returncode == 0
    shown = groundwire("ground", str(reply), "-c", "notes", address=address).stdout
    assert " Hello!\nsupported     The moon causes the tides of the sea. [1]\n" in shown
    assert "number “5” is not in the source" in shown
    assert "partly grounded: 1 of 2 claims have a source" in shown
    assert "[1] tides.md › Tides · characters 9–46 · generation 1" in shown


def test_a_text_whose_every_claim_has_a_source_exits_with_0(address: str, tmp_path: Path) -> None:
    reply = tmp_path / "reply.txt"
    reply.write_text("The moon causes the tides of the sea.", encoding="utf-8")
    done = groundwire("ground", str(reply), "-c", "notes", address=address)
    assert done.returncode == 0, done.stderr
    assert "grounded: 1 of 1 claims have a source" in done.stdout
    reply.write_bytes(b"\xff\xfe")
    refused = groundwire("ground", str(reply), "-c", "notes", address=address)
    assert (refused.returncode, "is not UTF-8" in refused.stderr) == (2, True)


def test_the_citations_of_an_answer_are_written_as_references(address: str, tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    answer.write_text(groundwire("ask", QUESTION, "-c", "notes", "--json", address=address).stdout, encoding="utf-8")
    numbered = groundwire("cite", str(answer), address=address)
    assert (numbered.returncode, numbered.stdout) == (0, "[1] tides.md, p. unknown\n")
    assert groundwire("cite", str(answer), "--style", "apa", address=address).stdout == "tides.md. (n.d.).\n"
    inline = groundwire("cite", str(answer), "--style", "inline", "--json", address=address)
    assert json.loads(inline.stdout)["text"] == json.loads(answer.read_text(encoding="utf-8"))["answer"]


def test_the_check_of_a_citation_says_where_its_quote_is_now(address: str, tmp_path: Path) -> None:
    source, answer = tmp_path / "moon.txt", tmp_path / "answer.json"
    source.write_text("The moon causes the tides of the sea.", encoding="utf-8")
    assert groundwire("ingest", str(source), "-c", "moons", address=address).returncode == 0
    answer.write_text(groundwire("ask", QUESTION, "-c", "moons", "--json", address=address).stdout, encoding="utf-8")
    for text, note in (
        ("At night. The moon causes the tides of the sea.", " · at characters 10–47 of generation 2\n"),
        ("The sun causes no tides.", " · nowhere in generation 3\n"),
    ):
        source.write_text(text, encoding="utf-8")
        assert groundwire("ingest", str(source), "-c", "moons", address=address).returncode == 0
        done = groundwire("verify", str(answer), address=address)
        assert (done.returncode, done.stdout.endswith(note)) == (0, True), done.stdout


def test_a_forged_quote_does_not_verify(address: str, tmp_path: Path) -> None:
    answer = json.loads(groundwire("ask", QUESTION, "-c", "notes", "--json", address=address).stdout)
    answer["citations"][0]["quote"] = answer["citations"][0]["quote"].replace("moon", "king")
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(answer), encoding="utf-8")
    done = groundwire("verify", str(forged), address=address)
    assert done.returncode == 1
    assert "failed" in done.stdout


def test_a_streamed_answer_is_the_same_text(address: str) -> None:
    streamed = groundwire("ask", QUESTION, "-c", "notes", "--stream", address=address)
    unary = groundwire("ask", QUESTION, "-c", "notes", address=address)
    assert streamed.stdout.split("\n\n")[0] == unary.stdout.split("\n\n")[0]


@pytest.fixture(scope="module")
def tides(address: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A collection whose answer quotes two sentences of one paragraph and one of another, and its question."""
    source = tmp_path_factory.mktemp("tides") / "tides.md"
    source.write_text(
        "# Tides\n\nNot of the sea.\n\nIt is old. The moon causes the tides of the sea. Sailors know it. "
        "The sun causes weaker tides of the sea.\n\nStorms cause the highest tides of the sea.\n\nThe end.\n"
    )
    assert groundwire("ingest", str(source), "-c", "tides", address=address).returncode == 0
    return "What causes the tides of the sea?"


def test_show_marks_each_quote_in_its_paragraph(address: str, tides: str) -> None:
    citations = json.loads(groundwire("ask", tides, "-c", "tides", "--json", address=address).stdout)["citations"]
    done = groundwire("ask", tides, "-c", "tides", "--show", address=address)
    assert done.returncode == 0, done.stderr
    (start, *_), shown = re.findall(r"⟦.*?⟧", done.stdout), done.stdout.partition("\n\n")[2]
    assert start
    assert sorted(re.findall(r"⟦(.*?)⟧", shown)) == sorted(each["quote"] for each in citations)
    for citation in citations:
        assert f"[{citation['marker']}] tides.md › Tides · characters {citation['start']}–{citation['end']} " in shown
    # The paragraph around the quote, and nothing of the next one.
    assert re.search(r"^It is old\. ⟦The moon causes the tides of the sea\.⟧ Sailors know it\.", shown, re.MULTILINE)
    assert "Not of the sea" not in shown
    assert "The end" not in shown
    refused = groundwire("ask", tides, "-c", "tides", "--show", "--json", address=address)
    assert refused.returncode == 2


def test_an_answer_is_written_as_a_page_with_its_sources(address: str, tides: str, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    done = groundwire("ask", tides, "-c", "tides", "--html", str(page), "--json", address=address)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    source = page.read_text(encoding="utf-8")
    marks = dict(re.findall(r'<mark id="quote-(\d+)">(.*?)</mark>', source))
    assert marks == {str(each["marker"]): each["quote"] for each in answer["citations"]}
    content = re.findall(r'<p class="answer">(.*?)</p>', source, flags=re.DOTALL)[0]
    assert re.sub(r"<[^>]*>", "", content) == answer["answer"]
    assert re.findall(r'<a href="#quote-(\d+)">\[\1\]</a>', content) == sorted(marks)
    assert re.search(r"<blockquote>It is old\. <mark[^>]*>The moon .*</mark> Sailors know it\.", source)
    assert f"<h1>{tides}</h1>" in source
    assert "prefers-color-scheme: dark" in source
    assert "@media print" in source
    nowhere = groundwire("ask", tides, "-c", "tides", "--html", str(tmp_path / "no" / "page.html"), address=address)
    assert nowhere.returncode == 2
    assert "cannot be written" in nowhere.stderr


def test_a_source_that_is_deleted_is_shown_by_its_quote(address: str) -> None:
    text = "Red owls hunt at dawn. They sleep at noon."
    with GroundwireClient(address) as client:
        client.create_collection(collection="owls")
        document = client.ingest_document(collection="owls", source_uri="owls.txt", text=text).result.document
        answer = client.ask(question="When do red owls hunt?", collection="owls").answer
        assert answer.citations
        (before,) = read_quotations(client, answer.citations[:1])
        client.delete_document(collection="owls", reference=DocumentReference(document_id=document.document_id))
        (after,) = read_quotations(client, answer.citations[:1])
    quote = answer.citations[0].quote
    assert "".join(part for part, _ in before.parts) == text
    assert after.parts == ((quote, 1),)


def test_rows_of_an_answer_have_a_line_each(address: str, tmp_path: Path) -> None:
    source = tmp_path / "foxes.md"
    rows = "| summer | foxes of the wood eat mice |\n| winter | foxes of the wood eat berries |\n"
    source.write_text(f"# Foxes\n\n| Season | What foxes of the wood eat |\n|---|---|\n{rows}")
    assert groundwire("ingest", str(source), "-c", "foxes", address=address).returncode == 0
    for options in ([], ["--stream"]):
        done = groundwire("ask", "What do foxes of the wood eat?", "-c", "foxes", *options, address=address)
        summer, winter = sorted(done.stdout.splitlines()[:2])
        assert summer.startswith("Season summer: foxes of the wood eat mice [")
        assert winter.startswith("Season winter: foxes of the wood eat berries [")


def test_a_question_the_notes_do_not_answer_is_refused(address: str, tmp_path: Path) -> None:
    strict = groundwire("ask", QUESTION, "-c", "notes", "--strictness", "1", "--json", address=address)
    assert json.loads(strict.stdout)["refusal_reason"] == "weak-support"
    done = groundwire("ask", "Who wrote the opera Tosca?", "-c", "notes", "--json", address=address)
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    assert not answer["grounded"]
    assert answer["citations"] == []
    refused = tmp_path / "refused.json"
    refused.write_text(done.stdout, encoding="utf-8")
    assert groundwire("verify", str(refused), address=address).stdout == "the answer cites nothing\n"


def test_a_session_remembers(address: str) -> None:
    first = json.loads(groundwire("ask", QUESTION, "-c", "notes", "--session", "new", "--json", address=address).stdout)
    again = groundwire(
        "ask", "Tell me more about it", "-c", "notes", "--session", first["session_id"], "--json", address=address
    )
    assert json.loads(again.stdout)["session_id"] == first["session_id"]


def test_piped_questions_are_answered_in_one_session(address: str) -> None:
    lines = f"{QUESTION}\n\nAnd what is the highest?\n"
    done = groundwire("chat", "-c", "notes", "--user", "ada", "--json", address=address, stdin=lines)
    assert done.returncode == 0
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["session_id"] == second["session_id"]
    assert done.stderr.strip() == f"session {first['session_id']}"
    assert set(first) == ANSWER_KEYS
    more = groundwire("chat", "-c", "notes", "--session", first["session_id"], address=address, stdin=QUESTION)
    assert first["answer"] in more.stdout
    said = json.loads(groundwire("sessions", "messages", first["session_id"], "--json", address=address).stdout)
    assert [each["content"] for each in said[::2]] == [QUESTION, "And what is the highest?", QUESTION]
    refused = groundwire("chat", "-c", "notes", address=address, stdin=f"{'x' * 9000}\n{QUESTION}\n")
    assert refused.returncode == 1
    assert first["answer"] in refused.stdout
    refused = groundwire("chat", "-c", "notes", "--json", address=address, stdin="x" * 9000)
    assert (refused.returncode, refused.stdout) == (1, "")
    error = json.loads(refused.stderr.splitlines()[1])["error"]
    assert (error["reason"], error["violations"][0]["field"]) == ("INVALID_FIELD", "ask.question")


def test_a_question_of_other_bytes_does_not_end_the_session(address: str) -> None:
    lines = f"na\udcefve?\n{QUESTION}\n".encode("utf-8", "surrogateescape")
    asked = subprocess.run(
        [sys.executable, "-m", "groundwire.cli", "chat", "-c", "notes", "--json", "--address", address],
        input=lines,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        timeout=60,
    )
    assert asked.returncode == 0, asked.stderr
    first, second = map(json.loads, asked.stdout.splitlines())
    assert not first["is_from_book"]
    assert "moon" in second["answer"]


def test_an_answer_is_kept_for_as_long_as_one_says(address: str) -> None:
    asked = groundwire("ask", QUESTION, "-c", "notes", "--keep-for", "30d", "--json", address=address)
    answer = json.loads(asked.stdout)
    session = json.loads(groundwire("sessions", "get", answer["session_id"], "--json", address=address).stdout)
    assert session["idle_timeout"] == f"{30 * 86_400}s"
    wrong = groundwire("ask", QUESTION, "-c", "notes", "--keep-for", "soon", address=address)
    assert wrong.returncode == 2
    assert "--keep-for" in wrong.stderr


def test_documents_and_chunks_can_be_looked_at(address: str) -> None:
    documents = json.loads(groundwire("docs", "list", "-c", "notes", "--json", address=address).stdout)
    tides = next(document for document in documents if document["source_uri"] == "tides.md")
    identity = tides["document_id"]
    text = groundwire("docs", "text", identity, "-c", "notes", address=address).stdout
    chunks = json.loads(groundwire("chunks", "list", identity, "-c", "notes", "--json", address=address).stdout)
    assert len(chunks) == tides["chunk_count"]
    for chunk in chunks:
        assert text[chunk["span"]["start"] : chunk["span"]["end"]] == chunk["content"]
    shown = groundwire("chunks", "get", chunks[0]["chunk_id"], "-c", "notes", address=address)
    assert chunks[0]["content"].strip() in shown.stdout
    assert "tides.md" in groundwire("docs", "get", identity, "-c", "notes", address=address).stdout


def test_a_deleted_document_is_gone(address: str, tmp_path: Path) -> None:
    (tmp_path / "gone.md").write_text("# Gone\n\nA comet is made of ice and dust.\n", encoding="utf-8")
    groundwire("ingest", str(tmp_path / "gone.md"), "-c", "notes", address=address)
    documents = json.loads(groundwire("docs", "list", "-c", "notes", "--json", address=address).stdout)
    identity = next(document["document_id"] for document in documents if document["source_uri"] == "gone.md")
    assert groundwire("docs", "delete", identity, "-c", "notes", address=address).returncode == 0
    done = groundwire("docs", "get", identity, "-c", "notes", address=address)
    assert done.returncode == 1
    assert "DOCUMENT_NOT_FOUND" in done.stderr
    found = groundwire("search", "comet ice dust", "-c", "notes", "--json", address=address)
    assert "gone.md" not in found.stdout


def test_a_bad_file_is_named_and_the_others_go_on(address: str, tmp_path: Path) -> None:
    (tmp_path / "empty.md").write_bytes(b"")
    (tmp_path / "binary.md").write_bytes(b"\x00\x01\x02" * 100)
    (tmp_path / "latin.md").write_bytes("# Café\n\nZürich is a town.\n".encode("latin-1"))
    (tmp_path / "doubtful.md").write_bytes("Le café est très bon.\n".encode("latin-1"))
    (tmp_path / "good.md").write_text("# Good\n\nGranite is an igneous rock.\n", encoding="utf-8")
    done = groundwire("ingest", str(tmp_path), "-c", "mixed", "--json", address=address)
    assert done.returncode == 1
    outcomes = {file["source"]: (file["error"] or "").split(":")[0] for file in json.loads(done.stdout)["files"]}
    assert outcomes == {
        "binary.md": "DOCUMENT_BINARY",
        "doubtful.md": "DOCUMENT_ENCODING",
        "empty.md": "DOCUMENT_EMPTY",
        "good.md": "",
        "latin.md": "",
    }
    shown = groundwire("docs", "get", "latin.md", "-c", "mixed", "--json", address=address)
    assert json.loads(shown.stdout)["encoding"] == "windows-1252"


def test_sizes_that_no_file_can_be_cut_by_are_told_once(address: str, tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("Granite is an igneous rock.\n", encoding="utf-8")
    for option in ((), ("--plan",)):
        done = groundwire("ingest", str(tmp_path), "-c", "notes", "--target-size", "5", *option, address=address)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("chunking.target_size: must be 16 to 8192 tokens") == 1
        assert "a.md" not in done.stderr


def test_health_is_serving(address: str) -> None:
    done = groundwire("health", "--json", address=address)
    assert done.returncode == 0
    assert set(json.loads(done.stdout).values()) == {"SERVING"}


def test_a_service_that_the_server_does_not_have_fails_the_check(address: str) -> None:
    done = groundwire("health", "--service", "no.such.Service", address=address)
    assert (done.returncode, done.stdout.split()) == (1, ["UNKNOWN", "no.such.Service"])
    done = groundwire("health", "--service", "liveness", address=address)
    assert (done.returncode, done.stdout.split()) == (0, ["SERVING", "liveness"])


def test_the_figures_of_searches_are_those_of_the_window(address: str) -> None:
    groundwire("search", "tides", "-c", "notes", address=address)

    everything, recent = (
        json.loads(groundwire("pipeline", *options, "--json", address=address).stdout)
        for options in (("-c", "notes"), ("-c", "notes", "--window", "0.5"))
    )
    assert everything["start_time"] < recent["start_time"]
    assert everything["request_count"] >= 1


def test_a_server_that_is_not_there_is_said_so() -> None:
    done = groundwire("health", address="127.0.0.1:1")
    assert done.returncode == 1
    assert "UNREACHABLE" in done.stdout
    assert "no server answers at 127.0.0.1:1; start one with `groundwire serve`" in done.stderr
    asked = groundwire("ask", "Anything?", "-c", "notes", address="127.0.0.1:1")
    assert asked.returncode == 1
    assert "no server answers at 127.0.0.1:1; start one with `groundwire serve`" in asked.stderr


def test_logged_queries_are_shown_from_a_time_up_to_another(address: str) -> None:
    def logged(*options: str) -> list[str]:
        done = groundwire("logs", "-c", "notes", "--json", *options, address=address)
        assert done.returncode == 0, done.stderr
        return [each["log_time"] for each in json.loads(done.stdout)]

    for query in ("tides", "bread"):
        groundwire("search", query, "-c", "notes", "-k", "1", address=address)
    deadline = time.monotonic() + 20
    while len(logged("-n", "2")) < 2:  # they are written in the background
        assert time.monotonic() < deadline
    newest, older = logged("-n", "2")
    assert newest in logged("--since", newest)
    assert older not in logged("--since", newest)
    assert older in logged("--until", newest)
    assert newest not in logged("--until", newest)
    printed = groundwire("logs", "-c", "notes", "-n", "1", address=address).stdout
    assert " ms  1 result, " in printed
    shown = printed[:19]
    assert newest in logged("--since", shown)
    assert logged("--until", "2020-01-01") == []
    assert groundwire("logs", "--until", "2020-01-01", address=address).stdout == "no queries\n"


def test_what_was_read_can_be_read_again(address: str) -> None:
    done = groundwire(
        "search", "moon tides", "-c", "notes", "--explain", "--diversity", "0.2", "--json", address=address
    )
    found = json.loads(done.stdout)
    assert set(found) == {"results", "timings_ms", "explain", "snapshot"}
    again = groundwire("search", "moon tides", "-c", "notes", "--snapshot", str(found["snapshot"]), address=address)
    assert again.returncode == 0, again.stderr
    shown = groundwire("search", "moon tides", "-c", "notes", "--explain", "--diversity", "0.2", address=address).stdout
    assert f"--snapshot {found['snapshot']} reads the same again" in shown
    assert "0.20 * similarity to the nearest one already selected" in shown
    arithmetic = dict(line.split(" = ", 1) for line in shown.splitlines() if " = " in line)
    assert arithmetic["fused"] == "0.400 * similarity + 0.600 * words"
    assert arithmetic["words"].startswith("similarity_min + ")
    assert "min_relevance 0, top_k 10, diversity 0.2" in shown
    assert " returned " in shown


def test_answers_and_checks_of_texts_read_the_past(address: str, tmp_path: Path) -> None:
    text = tmp_path / "ferry.md"
    collection = ("-c", "ferries")
    created = groundwire("collections", "create", "ferries", "--set", "generation_retention=1h", address=address)
    assert created.returncode == 0, created.stderr
    question, said = "When does the ferry leave?", "The ferry leaves at nine."
    text.write_text(said, encoding="utf-8")
    groundwire("ingest", str(text), *collection, address=address)
    first = json.loads(groundwire("ask", question, *collection, "--explain", "--json", address=address).stdout)
    assert set(first) == ANSWER_KEYS | {"explain", "snapshot"}
    assert first["explain"]["stages"][0]["name"] == "embed"
    text.write_text("The ferry leaves at ten.", encoding="utf-8")
    groundwire("ingest", str(text), *collection, address=address)
    past = ("--snapshot", str(first["snapshot"]))
    again = json.loads(groundwire("ask", question, *collection, *past, "--json", address=address).stdout)
    assert set(again) == ANSWER_KEYS | {"snapshot"}
    assert (again["answer"], again["citations"]) == (first["answer"], first["citations"])
    assert "at ten" in groundwire("ask", question, *collection, address=address).stdout
    shown = groundwire("ask", question, *collection, *past, "--explain", address=address).stdout
    assert said in shown
    assert f"--snapshot {first['snapshot']} reads the same again" in shown
    ground = ("ground", "-", *collection)
    assert groundwire(*ground, address=address, stdin=said).returncode == 1
    assert groundwire(*ground, *past, address=address, stdin=said).returncode == 0


def test_all_questions_of_a_chat_are_answered_under_its_options(address: str) -> None:
    chat = ("chat", "-c", "notes", "--json")
    where = ("--filter", '{"source": {"$ne": "tides.md"}}')
    done = groundwire(*chat, *where, address=address, stdin=f"{QUESTION}\n{QUESTION}\n")
    assert done.returncode == 0, done.stderr
    sources = [each["source"] for line in done.stdout.splitlines() for each in json.loads(line)["citations"]]
    assert "tides.md" not in sources
    strict = groundwire(*chat, "--strictness", "1.0", address=address, stdin=QUESTION)
    assert json.loads(strict.stdout)["refusal_reason"] == "weak-support"


def test_an_unknown_collection_is_named(address: str) -> None:
    done = groundwire("ask", "Anything?", "-c", "nothing", address=address)
    assert done.returncode == 1
    assert "COLLECTION_NOT_FOUND" in done.stderr


def test_a_missing_path_is_a_usage_error(address: str) -> None:
    done = groundwire("ingest", "no/such/folder", "-c", "notes", address=address)
    assert done.returncode == 2
    assert "does not exist" in done.stderr


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("pipeline --window nan", "--window"),
        ("pipeline --window 3601", "--window"),
        ("stats --address=", "address"),
        ("--address 127.0.0.1:1 stats", "no option --address before a command; options follow it"),
        ("copy --from nowhere --to sqlite:{folder}/x", "--to"),
        ("serve --embedder openai+http://127.0.0.1:bad/v1#m --data {folder}/data", "embedder"),
        ("serve --embedder openai+http://[::1/v1#m --data {folder}/data", "embedder"),
        ("config show --env-file {folder}/latin.env", "--env-file"),
        ("config show --env-file {folder}/cut.env", "line 2 of "),
        ("config show --env-file {folder}/nul.env", "line 1 of "),
        ("vault import {folder}/nowhere -c c", "DIR"),
        ("keys list --keys {folder}/nowhere", "'{folder}/nowhere' does not exist"),
        ("keys revoke 000000000000 --keys {folder}/nowhere", "'{folder}/nowhere' does not exist"),
        ("search x -c c --radius 2", "--expand"),
        ("vault check {folder}/nowhere", "DIR"),
        ("keys create a --right service --scope entity:x --keys {folder}/keys.yaml", "scopes"),
        ("keys create a --right read --keys {folder}/missing/keys.yaml", "missing/keys.yaml' cannot be written"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error_that_names_it(tmp_path: Path, command: str, named: str) -> None:
    (tmp_path / "latin.env").write_bytes(b"GROUNDWIRE_DATA=caf\xe9\n")
    (tmp_path / "nul.env").write_bytes(b"GROUNDWIRE_LISTEN=a\0b\n")
    (tmp_path / "cut.env").write_text("GROUNDWIRE_VECTORS=memory:\nGROUNDWIRE_LISTEN\n")
    done = groundwire(*(word.format(folder=tmp_path) for word in command.split()))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error ")
    assert named.format(folder=tmp_path) in done.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"latin.env", "nul.env", "cut.env", "data"}


def test_variables_stand_for_the_collection_and_the_env_file(address: str, tmp_path: Path) -> None:
    done = groundwire("ask", QUESTION, "--json", address=address, GROUNDWIRE_COLLECTION="notes")
    assert json.loads(done.stdout)["citations"][0]["source"] == "tides.md"
    other = groundwire("ask", QUESTION, "-c", "nowhere", address=address, GROUNDWIRE_COLLECTION="notes")
    assert "'nowhere' does not exist" in other.stderr
    file = tmp_path / "server.env"
    file.write_text("GROUNDWIRE_WORKERS=5\n", encoding="utf-8")
    variables = {"GROUNDWIRE_ENV_FILE": str(file), "GROUNDWIRE_COLLECTION": "notes"}
    shown = groundwire("config", "show", "--json", **variables)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["GROUNDWIRE_WORKERS"] == 5
    missing = groundwire("config", "show", GROUNDWIRE_ENV_FILE=str(tmp_path / "none"))
    assert missing.returncode == 2
    assert "--env-file" in missing.stderr


@pytest.mark.parametrize(
    ("option", "url", "told"),
    [
        ("--vectors", "qdrant-edge:vectors?on_disk=true", "vectors: 'qdrant-edge:vectors?on_disk=true' has options"),
        ("--vectors", "chroma:vectors?x=1", "vectors: 'chroma:vectors?x=1' has options"),
        ("--catalog", "sqlite:catalog.db?mode=ro", "catalog: 'sqlite:catalog.db?mode=ro' has options"),
    ],
)
def test_options_where_there_are_none_are_refused(tmp_path: Path, option: str, url: str, told: str) -> None:
    data = ("--data", str(tmp_path / "data"), "--embedder", "hashing:8")
    done = groundwire("serve", "--listen", "127.0.0.1:0", *data, option, url)
    assert done.returncode == 2
    assert told in done.stderr


def test_the_settings_that_are_shown_are_an_env_file(tmp_path: Path) -> None:
    own = {"GROUNDWIRE_CALLER_CALLS": "3", "GROUNDWIRE_INSECURE": "1"}
    shown = groundwire("config", "show", **own).stdout
    assert {"# GROUNDWIRE_KEYS=", "GROUNDWIRE_CALLER_CALLS=3"} <= set(shown.splitlines())
    (tmp_path / "shown.env").write_text(shown)
    again = groundwire("config", "show", "--env-file", str(tmp_path / "shown.env"))
    assert (again.stdout, again.stderr) == (shown, "")


@pytest.mark.parametrize(
    ("command", "suggestion"),
    [
        ("serve --address 127.0.0.1:1", "'--address'. Did you mean '--listen'? Try `groundwire serve --help`."),
        ("serve --port 1", "'--port'. Did you mean '--listen'? Try `groundwire serve --help`."),
        ("ask x -c c --port 1", "'--port'. Did you mean '--address'? Try `groundwire ask --help`."),
        ("search x -c c --limit 3", "'--limit'. Did you mean '--top-k'? Try `groundwire search --help`."),
        ("ask When is it -c c", "arguments (is it): put the text in quotes. Try `groundwire ask --help`."),
        ("docs get a b -c c", "argument (b). Try `groundwire docs get --help`."),
        ("docs show x", "'show'. Did you mean 'get'? Try `groundwire docs --help`."),
        ("serv", "(Did you mean one of: 'search', 'serve'?) Try `groundwire --help`."),
        ("show x", "'show'. Try `groundwire --help`."),
        ("help ingest", "'help'. Did you mean '--help'? Try `groundwire --help`."),
    ],
)
def test_what_does_not_exist_leads_to_what_is_meant(command: str, suggestion: str) -> None:
    done = groundwire(*command.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"{suggestion}\n")


def test_answer_alone_has_to_know_where_to_search() -> None:
    done = groundwire("serve", "answer")
    assert done.returncode == 2
    assert "retrieve: must say where to search" in done.stderr


@pytest.mark.parametrize("address", ["retrieve", "dns:///retrieve", "http://retrieve:50052", "[::1]"])
@pytest.mark.parametrize("peer", ["retrieve", "ingest"])
def test_answer_does_not_start_with_an_address_that_nobody_can_have(peer: str, address: str) -> None:
    peers = {"retrieve": "127.0.0.1:1", peer: address}
    done = groundwire("serve", "answer", *(word for name, each in peers.items() for word in (f"--{name}", each)))
    assert done.returncode == 2
    assert f"{peer}: must be HOST:PORT or dns:///NAME:PORT" in done.stderr


def test_an_unknown_variable_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDWIRE_LISTN", "127.0.0.1:1")
    monkeypatch.setenv("GROUNDWIRE_X_Y_Z", "1")
    done = groundwire("config", "show")
    assert done.returncode == 2
    assert "GROUNDWIRE_LISTN: is not a setting; did you mean GROUNDWIRE_LISTEN?" in done.stderr
    assert "GROUNDWIRE_X_Y_Z: is not a setting\n" in done.stderr


def test_config_shows_every_setting() -> None:
    shown = json.loads(groundwire("config", "show", "--json").stdout)
    assert shown["GROUNDWIRE_LISTEN"] == "127.0.0.1:50051"


def test_a_second_server_on_the_same_data_is_refused(tmp_path: Path) -> None:
    first = ServerProcess(tmp_path / "data")
    try:
        done = groundwire("serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
        assert done.returncode == 1
        assert "STORE_OWNED" in done.stderr
    finally:
        assert first.stop() == 0


def test_a_reader_that_has_enough_is_no_failure() -> None:
    there, here = os.pipe()
    os.close(there)
    command = [sys.executable, "-m", "groundwire.cli", "config", "show"]
    done = subprocess.run(command, stdout=here, stderr=subprocess.PIPE, text=True, check=False)
    os.close(here)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file on a disk that is always full")
def test_output_that_cannot_be_written_is_an_error_in_a_sentence() -> None:
    command = [sys.executable, "-m", "groundwire.cli", "config", "show"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    said = "error FAILED_PRECONDITION: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [("config show >&-", 0, ""), ("config show 2>&- >&- <&-", 0, ""), ("collections delete x <&-", 2, "add --yes")],
)
def test_a_command_may_be_started_with_closed_streams(command: str, code: int, said: str, tmp_path: Path) -> None:
    shell = ["sh", "-c", f'exec "$0" -m groundwire.cli {command}', sys.executable]
    done = subprocess.run(shell, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"\x04", 1), (None, 130)])
def test_a_question_that_is_not_answered_with_yes_changes_nothing(
    address: str, answer: bytes | None, code: int
) -> None:
    keyboard, terminal = pty.openpty()
    command = [sys.executable, "-m", "groundwire.cli", "docs", "purge", "-c", "notes", "--filter", "*"]
    with subprocess.Popen([*command, "--address", address], stdin=terminal, stderr=terminal) as asking:
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(keyboard, 1024)
        if answer is None:
            # Python notices a signal that comes just before it waits for the keyboard only with the next one.
            for _ in range(20):
                asking.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    asking.wait(1)
                    break
        else:
            os.write(keyboard, answer)
        assert asking.wait(20) == code
    last = os.read(keyboard, 1024).decode().splitlines()[-1]
    assert last.endswith("interrupted" if answer is None else "ABORTED: nothing was done")
    assert "[y/N]" not in last
    os.close(terminal)
    os.close(keyboard)
    assert json.loads(groundwire("docs", "list", "-c", "notes", "--json", address=address).stdout)


def test_errors_are_objects_under_json(address: str) -> None:
    for arguments, code, reason in (
        (("search", "tides", "-c", "nothing"), 1, "COLLECTION_NOT_FOUND"),
        (("search", "tides", "-c", "notes", "--filter", "{"), 2, "INVALID_FILTER"),
        (("search", "tides"), 2, "USAGE"),
        (("collections", "delete", "notes"), 2, "INVALID_FIELD"),
        (("ingest", "no/such/folder", "-c", "notes"), 2, "INVALID_FIELD"),
    ):
        done = groundwire(*arguments, "--json", address=address)
        assert (done.returncode, done.stdout) == (code, "")
        error = json.loads(done.stderr)["error"]
        assert error["reason"] == reason
        assert error["message"]
        assert "--help" not in error["message"]
    assert "Try `groundwire search --help`." in groundwire("search", "tides", address=address).stderr


def test_json_keeps_the_types_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDWIRE_VECTORS_API_KEY", "secret")
    shown = json.loads(groundwire("config", "show", "--json").stdout)
    assert shown["GROUNDWIRE_REFLECTION"] is True
    assert shown["GROUNDWIRE_WORKERS"] == 8
    assert shown["GROUNDWIRE_ANSWER_MIN_SUPPORT"] is None
    assert shown["GROUNDWIRE_RETRIEVE_APPROVED_SOURCE_PREFIXES"] == []
    assert shown["GROUNDWIRE_VECTORS_API_KEY"] == "**********"
    lines = groundwire("config", "show").stdout.splitlines()
    assert {"GROUNDWIRE_REFLECTION=true", "# GROUNDWIRE_ANSWER_MIN_SUPPORT="} <= set(lines)


@pytest.mark.requirement("S0-72")
def test_settings_are_read_from_the_environment_and_a_file_of_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / ".env"
    file.write_text(
        "\ufeff# of the server\nGROUNDWIRE_RETRIEVE_MAX_TOP_K=5\nGROUNDWIRE_RETRIEVE_MAX_TOP_K=7\n"
        "export GROUNDWIRE_RETRIEVE_MAX_QUERY_CHARS='90'\n"
        "RAG_MEMORY_TOP_K=3\nGROUNDWIRE_VECTORS=memory:\nGROUNDWIRE_EMBEDDER=hashing:64\nOTHER=$HOME\n",
        encoding="utf-8",
    )
    shown = json.loads(groundwire("config", "show", "--env-file", str(file), "--json").stdout)
    assert (shown["GROUNDWIRE_RETRIEVE_MAX_TOP_K"], shown["GROUNDWIRE_RETRIEVE_RAG_MEMORY_TOP_K"]) == (7, 3)
    arguments = ("--env-file", str(file))
    for given, expected in (("", 7), ("9", 9)):  # another value, another start
        variables = {"GROUNDWIRE_RETRIEVE_MAX_TOP_K": given} if given else {}
        server = ServerProcess(tmp_path / "data", arguments, **variables)
        try:
            with GroundwireClient(server.address) as client:
                limits = client.server_info().limits
                assert client.server_info().embedder.dimensions == 64
        finally:
            assert server.stop() == 0
        assert (limits.max_top_k, limits.max_query_chars) == (expected, 90)
    file.write_text("GROUNDWIRE_LISTN=127.0.0.1:1\n", encoding="utf-8")
    refused = groundwire("config", "show", "--env-file", str(file))
    assert refused.returncode == 2
    assert "GROUNDWIRE_LISTN" in refused.stderr
    assert groundwire("config", "show", "--env-file", str(tmp_path / "none")).returncode == 2
