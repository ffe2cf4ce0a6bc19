"""What an assistant keeps, through the command line and the Python client, against a real server."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from groundwire.client import AsyncGroundwireClient, Collection, GroundwireClient, NewRecord, Record, RecordResult
from groundwire.kernel.errors import InvalidRequestError, RecordNotFoundError
from tests.e2e.server import ServerProcess, groundwire

WHEN = datetime(2026, 2, 10, 21, 37, 0, 123456, tzinfo=UTC)


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[GroundwireClient]:
    with GroundwireClient(server.address) as made:
        yield made


@pytest.fixture
def ada(client: GroundwireClient, request: pytest.FixtureRequest) -> Collection:
    ada = client.collection(f"ada-{abs(hash(request.node.name))}")
    ada.create(profile="memory")
    return ada


def run(server: ServerProcess, *arguments: str, code: int = 0) -> Any:
    done = groundwire(*arguments, "--json", address=server.address)
    assert done.returncode == code, done.stderr
    return json.loads(done.stderr if code else done.stdout)


def test_a_memory_from_the_shell(server: ServerProcess) -> None:
    """Added, listed, shown, changed, linked, deleted and restored."""
    shell = ("-c", "shell")
    added = groundwire(
        *("memory", "add", "Alice prefers Python.", *shell, "--entity", "alice", "--importance", "4"),
        *("--kind", "preference", "--tag", "languages", "--tag", "work", "--conversation", "conv-1"),
        *("--set", "confidence=0.5", "--set", "metadata.room=12", "--set", "timestamp=2026-02-10T12:00:00Z"),
        address=server.address,
    )
    assert added.returncode == 0, added.stderr
    outcome, python = added.stdout.split()
    assert outcome == "created"
    rust = run(server, "memory", "add", "Alice prefers Rust.", *shell, "--entity", "alice")["record_id"]
    sky = run(server, "memory", "add", "The sky is blue.", *shell)["record_id"]
    faq = ("--type", "faq", "--id", "faq-1", "--set", "topic=api", "--set", "specialist_name=ocr")
    assert run(server, "memory", "add", "Q: Why? A: Because.", *shell, *faq)["record_id"] == "faq-1"

    shown = run(server, "memory", "get", python, *shell, "--count")
    assert (shown["text"], shown["scope"], shown["access_count"]) == ("Alice prefers Python.", "entity:alice", 1)
    assert shown["memory"] == {
        "importance": 4,
        "kind": "MEMORY_KIND_PREFERENCE",
        "confidence": 0.5,
        "tags": ["languages", "work"],
        "entity": "alice",
        "conversation_id": "conv-1",
    }
    assert (shown["metadata"], shown["timestamp"]) == ({"room": 12}, "2026-02-10T12:00:00Z")
    assert run(server, "memory", "get", "faq-1", *shell)["faq"]["specialist_name"] == "ocr"

    def listed(*options: str) -> list[str]:
        return [each["record_id"] for each in run(server, "memory", "list", *shell, *options)]

    assert listed() == [sky, rust, python]
    assert listed("--order", "importance-desc", "--entity", "alice") == [python, rust]
    assert listed("--filter", '{"tags": "work"}') == [python]
    assert listed("--type", "faq") == ["faq-1"]
    assert set(listed("--type", "any")) == {sky, rust, python, "faq-1"}
    table = groundwire("memory", "list", *shell, address=server.address).stdout.splitlines()
    assert table[0].split() == ["record", "importance", "scope", "when", "text"]
    assert table[3].split()[:4] == [python, "4", "entity:alice", "2026-02-10T12:00Z"]

    assert run(server, "memory", "update", python, *shell, "--set", "importance=5", "--unset", "tags", "--text", "No.")
    changed = run(server, "memory", "get", python, *shell)
    assert (changed["text"], changed["memory"]["importance"], changed["memory"]["tags"]) == ("No.", 5, [])
    assert changed["memory"]["kind"] == "MEMORY_KIND_PREFERENCE"

    assert run(server, "memory", "link", rust, *shell, "--contradicts", python, "--supports", sky) == {
        "context_of": [],
        "follows": [],
        "related_to": [],
        "suggested_contradicts": [],
        "supports": [sky],
        "contradicts": [python],
    }
    assert run(server, "memory", "unlink", rust, *shell, "--contradicts", python)["contradicts"] == []

    assert run(server, "memory", "delete", python, sky, *shell)["document_count"] == 2
    assert listed() == [rust]
    assert listed("--deleted") == [sky, rust, python]
    refused = run(server, "memory", "get", python, *shell, code=1)["error"]
    assert refused["reason"] == "RECORD_NOT_FOUND"
    assert [each["outcome"] for each in run(server, "memory", "restore", sky, rust, *shell)] == [
        "RECORD_OUTCOME_CREATED",
        "RECORD_OUTCOME_UNCHANGED",
    ]
    assert run(server, "memory", "delete", sky, rust, *shell)["document_count"] == 2
    restored = run(server, "memory", "restore", *shell, "--entity", "alice")
    assert {each["record_id"] for each in restored} == {python, rust}
    assert [each["record_id"] for each in run(server, "memory", "restore", *shell, "--filter", "{}")] == [sky]
    assert run(server, "memory", "restore", *shell, "--filter", "{}") == []
    assert run(server, "memory", "delete", *shell, "--entity", "alice", "--permanent", "--yes")["document_count"] == 2
    assert listed("--deleted") == [sky]


def test_a_memory_that_was_changed_meanwhile_is_not_changed_from_the_shell(server: ServerProcess) -> None:
    shell = ("-c", "meanwhile")
    record_id = run(server, "memory", "add", "Alice prefers Python.", *shell)["record_id"]
    update = ("memory", "update", record_id, *shell)
    first = run(server, "memory", "get", record_id, *shell)["etag"]
    run(server, *update, "--text", "Alice prefers Rust.", "--etag", first)
    late = run(server, *update, "--text", "Alice prefers C.", "--etag", first, code=1)["error"]
    assert late["reason"] == "DOCUMENT_CHANGED"
    assert run(server, "memory", "get", record_id, *shell)["text"] == "Alice prefers Rust."
    assert run(server, *update, code=2)["error"]["violations"][0]["field"] == "command line"


def test_what_is_deleted_and_restored_is_told(server: ServerProcess) -> None:
    shell = ("-c", "told")
    ids = [run(server, "memory", "add", f"Number {number}.", *shell)["record_id"] for number in range(2)]

    def told(*arguments: str) -> str:
        return groundwire("memory", *arguments, *shell, address=server.address).stdout

    assert told("delete", "--filter", '{"tags": "none"}') == "deleted 0 records\n"
    assert told("delete", ids[0]) == "deleted 1 record; `groundwire memory restore ID...` undoes it\n"
    table = [line.split()[:2] for line in told("list", "--deleted").splitlines()]
    assert table == [["state", "record"], ["live", ids[1]], ["deleted", ids[0]]]
    assert told("restore", *ids) == f"restored {ids[0]}\nunchanged {ids[1]}\n"


def test_records_are_counted_apart_from_documents(server: ServerProcess) -> None:
    counted = ("-c", "counted")
    run(server, "memory", "add", "The sky is blue.", *counted)
    persona = ("--type", "persona", "--set", "version=1", "--set", "topic=style")
    run(server, "memory", "add", "Be brief.", *persona, *counted)
    with GroundwireClient(server.address) as client:
        client.collection("counted").ingest_text("# Sky\n\nThe sky is blue.", source="sky.md")

    def row(*arguments: str) -> dict[str, str]:
        lines = groundwire(*arguments, address=server.address).stdout.splitlines()
        (values,) = (line.split() for line in lines if line.startswith("counted "))
        return dict(zip(lines[0].split(), values, strict=False))

    for command in (["stats"], ["collections", "list"]):
        found = row(*command)
        assert (found["documents"], found["records"], found["chunks"]) == ("1", "2", "3")
    shown = groundwire("stats", *counted, address=server.address).stdout
    assert [line.split(maxsplit=1)[1] for line in shown.splitlines()[1:3]] == ["1", "memory 1, persona 1"]
    shown = groundwire("collections", "get", "counted", address=server.address).stdout
    counts = dict(line.split() for line in shown.splitlines() if line.startswith(("document_count", "record_count")))
    assert counts == {"document_count": "1", "record_count": "2"}


def test_a_suggested_contradiction_is_dismissed_from_the_shell(server: ServerProcess) -> None:
    shell = ("-c", "suggested")
    old, new = (
        run(server, "memory", "add", text, *shell)["record_id"]
        for text in ("The deadline is 12 May.", "The deadline was moved to 20 May.")
    )

    def suggested(record_id: str) -> list[str]:
        return list(run(server, "memory", "get", record_id, *shell)["links"].get("suggested_contradicts", []))

    assert (suggested(old), suggested(new)) == ([new], [old])
    assert run(server, "memory", "unlink", old, *shell, "--suggested", new)["suggested_contradicts"] == []
    assert (suggested(old), suggested(new)) == ([], [])


def test_what_is_known_of_somebody_from_the_shell(server: ServerProcess) -> None:
    """Records of one entity are found, asked and assembled for it alone; documents are for everybody."""
    shell = ("-c", "known")
    mine = run(server, "memory", "add", "Alice was born in Oslo.", *shell, "--entity", "alice")["record_id"]
    theirs = run(server, "memory", "add", "Bob was born in Rome.", *shell, "--entity", "bob")["record_id"]
    everybody = run(server, "memory", "add", "Most people were born in hospitals.", *shell)["record_id"]

    def searched(*options: str) -> set[str]:
        options = ("--min-relevance", "0", *options)
        return {each["source"] for each in run(server, "search", "born", *shell, *options)["results"]}

    assert searched() == {f"record:{everybody}"}
    assert searched("--entity", "alice") == {f"record:{mine}"}
    assert searched("--entity", "bob", "--include-global") == {f"record:{theirs}", f"record:{everybody}"}
    asked = run(server, "ask", "Where was Alice born?", *shell, "--entity", "alice")
    assert [each["quote"] for each in asked["citations"]] == ["Alice was born in Oslo."]
    assert run(server, "ask", "Where was Alice born?", *shell)["citations"] == []

    def known(*options: str) -> list[list[str]]:
        done = groundwire("memory", "context", "born", *shell, *options, address=server.address)
        assert done.returncode == 0, done.stderr
        return [line.split(maxsplit=2) for line in done.stdout.splitlines()[1:]]

    assert known("--entity", "alice") == [["memory", mine, "Alice was born in Oslo."]]
    assert {identifier for _, identifier, _ in known("--entity", "bob", "--include-global")} == {theirs, everybody}
    assert len(known("--entity", "bob", "--include-global", "--max-tokens", "9")) == 1
    sections = run(server, "memory", "context", "born", *shell, "--entity", "alice")["sections"]
    assert [each["record"]["record_id"] for section in sections for each in section["entries"]] == [mine]

    deleted = run(server, "memory", "delete", *shell, "--entity", "alice", "--permanent", "--yes")
    assert deleted["document_count"] == 1
    assert searched("--entity", "alice", "--include-global") == {f"record:{everybody}"}
    assert run(server, "ask", "Where was Alice born?", *shell, "--entity", "alice")["citations"] == []
    sections = run(server, "memory", "context", "born", *shell, "--entity", "alice")["sections"]
    assert not any(section["entries"] for section in sections)
    assert searched("--entity", "bob") == {f"record:{theirs}"}


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["add", "x", "--importance", "9"], "records[0].memory.importance"),
        (["add", "x", "--importance", "many"], "memory.importance"),
        (["add", "x", "--kind", "dream"], "memory.kind"),
        (["add", " "], "records[0].text"),
        (["add", "x", "--set", "topic=api"], "topic"),
        (["add", "x", "--set", "access_count=9"], "access_count"),
        (["add", "x", "--id", "mine"], "records[0].record_id"),
        (["add", "x", "--type", "turn", "--set", "role=user"], "records[0].turn.conversation_id"),
        (["link", "chunk-2026-02-10-a1b2c3d4"], "--supports"),
        (["delete"], "ID"),
        (["delete", "chunk-2026-02-10-a1b2c3d4", "--entity", "alice"], "ID"),
        (["delete", "chunk-2026-02-10-a1b2c3d4", "--permanent"], "memory delete"),
        (["list", "--filter", "{"], "filter"),
        (["restore"], "ID"),
        (["get", "../../x"], "record_id"),
    ],
)
def test_a_wrong_command_names_the_field(server: ServerProcess, arguments: list[str], field: str) -> None:
    violations = run(server, "memory", *arguments, "-c", "wrong", code=2)["error"]["violations"]
    assert [each["field"] for each in violations] == [field]


@pytest.mark.parametrize("command", [["list"], ["search", "x"]])
def test_a_wrong_filter_is_named_as_it_was_written(server: ServerProcess, command: list[str]) -> None:
    run(server, "memory", "add", "x", "-c", "filtered")
    failed = run(server, "memory", *command, "-c", "filtered", "--filter", '{"importanc": 3}', code=2)["error"]
    (violation,) = failed["violations"]
    assert violation["field"].endswith("filter.json.importanc")
    both = '{"record_type": "memory", "importance": {"$gte": 1}}'  # what the command says itself as well
    assert run(server, "memory", *command, "-c", "filtered", "--filter", both)


def test_a_memory_from_python(ada: Collection) -> None:
    remembered = ada.remember(
        "Alice prefers Python.",
        importance=4,
        entity="alice",
        kind="preference",
        confidence=0.5,
        tags=["languages"],
        conversation_id="conv-1",
        origin="interaction",
        timestamp=WHEN,
        metadata={"room": 12},
    )
    assert (remembered.outcome, remembered.turn_index) == ("created", 0)
    record = ada.record(remembered.record_id, count_access=True)
    assert str(record) == "Alice prefers Python."
    assert (record.record_type, record.origin, record.scope, record.entity) == (
        *("memory", "interaction", "entity:alice", "alice"),
    )
    assert (record.importance, record.kind, record.confidence) == (4, "preference", 0.5)
    assert (record.tags, record.conversation_id, record.metadata) == (("languages",), "conv-1", {"room": 12})
    assert (record.timestamp, record.access_count) == (WHEN, 1)
    assert (record.role, record.turn_index, record.topic) == ("", None, "")
    assert record.links.context_of == ("conv-1",)

    changed = ada.update_record(record.record_id, text="Alice prefers Rust.", importance=5, clear=["tags", "metadata"])
    assert changed.outcome == "replaced"
    record = ada.record(record.record_id)
    assert (record.text, record.importance, record.tags, record.metadata) == ("Alice prefers Rust.", 5, (), {})
    assert (record.kind, record.confidence, record.timestamp) == ("preference", 0.5, WHEN)
    left: dict[str, Any] = {"importance": None, "kind": None, "tags": None, "metadata": None, "timestamp": None}
    ada.update_record(record.record_id, text="Alice prefers Zig.", **left)
    assert (ada.record(record.record_id).importance, ada.record(record.record_id).kind) == (5, "preference")
    ada.update_record(record.record_id, importance=4, clear="conversation_id")
    assert ada.record(record.record_id).conversation_id == ""
    ada.update_record(record.record_id, entity="bob")
    assert (ada.record(record.record_id).scope, ada.record(record.record_id).entity) == ("entity:bob", "bob")

    ada.delete_records(record.record_id)
    listed = {deleted: [each.record_id for each in ada.records(include_deleted=deleted)] for deleted in (True, False)}
    assert record.record_id in listed[True]
    assert record.record_id not in listed[False]
    assert listed[False] == [each.record_id for each in ada.records()]


def test_records_of_every_type_from_python(ada: Collection) -> None:
    given: list[NewRecord] = [
        {"record_type": "persona", "text": "You are Ada.", "version": "1", "topic": "tone"},
        {"record_type": "faq", "text": "Q: Why?\nA: Because.", "topic": "api", "specialist_name": "ocr"},
        {"record_type": "memory", "text": "The sky is blue."},
        {"record_type": "turn", "text": "Hello.", "conversation_id": "conv-1", "role": "user", "entity": "alice"},
        {
            "record_type": "summary",
            "text": "Greetings.",
            "conversation_id": "conv-1",
            "turn_range": "1-8",
            "summary_index": 1,
        },
    ]
    results = [each for each in ada.put_records(given) if isinstance(each, RecordResult)]
    records = {each.record_type: each for each in ada.records(order_by="timestamp-asc")}
    assert [records[each["record_type"]].record_id for each in given] == [each.record_id for each in results]
    assert [records[each["record_type"]].text for each in given] == [each["text"] for each in given]
    assert (records["persona"].version, records["persona"].topic) == ("1", "tone")
    assert (records["faq"].version, records["faq"].specialist_name) == ("auto", "ocr")
    assert (records["memory"].importance, records["memory"].kind) == (3, "note")
    assert (records["turn"].role, records["turn"].turn_index, records["turn"].entity) == ("user", 1, "alice")
    assert (records["summary"].turn_range, records["summary"].summary_index) == ("1-8", 1)
    assert [each.record_type for each in ada.records(filter={"type": "faq", "topic": "api"})] == ["faq"]

    question, reply = ada.add_exchange("conv-1", "How are you?", "Well.", entity="alice")
    turns = [ada.record(each.record_id) for each in (question, reply)]
    assert [(each.text, each.role, each.turn_index) for each in turns] == [
        ("How are you?", "user", 2),
        ("Well.", "assistant", 2),
    ]


def test_batches_from_python(ada: Collection) -> None:
    many: list[NewRecord] = [{"record_type": "memory", "text": f"Memory {number}."} for number in range(120)]
    many[110]["text"] = " "
    results = ada.put_records(many, allow_partial=True)
    assert [index for index, each in enumerate(results) if not isinstance(each, RecordResult)] == [110]
    assert isinstance(results[110], InvalidRequestError)
    assert len(list(ada.records())) == 119
    with pytest.raises(InvalidRequestError, match=r"records\[0\].colour"):
        ada.put_records([{"record_type": "memory", "text": "x", "colour": "red"}])  # type: ignore[typeddict-unknown-key]
    with pytest.raises(InvalidRequestError, match="record_type"):
        ada.put_records([{"record_type": "dream", "text": "x"}])


def test_deleting_and_linking_from_python(ada: Collection) -> None:
    old, new = ada.remember("The key is under the mat."), ada.remember("The key is in the shed.", importance=5)
    assert ada.add_links(new.record_id, contradicts=old.record_id, supports=[old.record_id]).contradicts == (
        old.record_id,
    )
    assert ada.remove_links(new.record_id, supports=old.record_id).supports == ()
    assert not ada.delete_records(old.record_id).purged
    with pytest.raises(RecordNotFoundError):
        ada.record(old.record_id)
    assert ada.record(old.record_id, include_deleted=True).delete_time is not None
    assert [each.outcome for each in ada.restore_records([old.record_id, new.record_id])] == ["created", "unchanged"]
    assert ada.record(new.record_id).links.contradicts == (old.record_id,)
    assert ada.delete_records([old.record_id, new.record_id]).document_count == 2
    assert [each.record_id for each in ada.restore_records(filter={"importance": 5})] == [new.record_id]
    assert ada.restore_records(filter={"importance": 5}) == []
    assert ada.delete_records(filter={"type": "memory"}, permanent=True).document_count == 2
    assert ada.restore_records(filter={}) == []
    assert list(ada.records(include_deleted=True)) == []
    with pytest.raises(InvalidRequestError, match="ids"):
        ada.delete_records()
    with pytest.raises(InvalidRequestError, match="ids"):
        ada.restore_records()


async def test_the_asynchronous_client_does_the_same(server: ServerProcess) -> None:
    async with AsyncGroundwireClient(server.address) as client:
        ada = client.collection("asynchronous")
        await ada.create(profile="memory")
        remembered = await ada.remember("Alice prefers Python.", entity="alice")
        await ada.update_record(remembered.record_id, importance=5)
        assert (await ada.record(remembered.record_id)).importance == 5
        assert [each.record_id async for each in ada.records()] == [remembered.record_id]
        assert isinstance(await ada.record(remembered.record_id), Record)


@pytest.mark.requirement("S0-32", "S0-33")
def test_what_is_recalled_is_global_or_of_one_entity(server: ServerProcess, ada: Collection) -> None:
    text = "prefers Python over JavaScript"
    ids = {name: ada.remember(f"{name} {text}.", entity=name).record_id for name in ("alice", "bob")}
    ids[""] = ada.remember(f"Everybody {text}.").record_id
    ada.put_records([{"record_type": "faq", "text": f"Q: Who {text}?"}])

    def recalled(**options: Any) -> set[str]:
        return {hit.source.removeprefix("record:") for hit in ada.recall(f"Who {text}?", k=5, **options)}

    assert recalled() == {ids[""]}
    assert recalled(entity="alice") == {ids["alice"]}
    assert recalled(entity="bob", include_global=True) == {ids[""], ids["bob"]}
    assert recalled(entity="carol") == set()
    assert recalled(entity="alice", filter={"importance": 5}) == set()
    shell = run(server, "memory", "search", text, "-c", ada.name, "--entity", "alice", "-k", "5")
    assert [each["source"] for each in shell["results"]] == [f"record:{ids['alice']}"]
    important = ada.remember(f"Alice surely {text}.", entity="alice", importance=5).record_id
    best = ada.recall(f"Who {text}?", entity="alice")[0]
    assert best.source == f"record:{important}"
    assert best.message.memory_score.importance == 5
    table = groundwire("memory", "search", text, "-c", ada.name, "--entity", "bob", address=server.address).stdout
    assert ids["bob"] in table
    assert ids["alice"] not in table


def test_what_an_assistant_should_know_in_one_call(ada: Collection) -> None:
    ada.add_exchange("conv-1", "I moved to Lisbon.", "Noted.", entity="alice")
    ada.add_exchange("conv-1", "What is the weather in Lisbon?", "Sunny.", entity="alice")
    ada.remember("Alice lives in Lisbon.", entity="alice")
    ada.remember("Bob lives in Lisbon.", entity="bob")
    ada.ingest_text("Lisbon lies on the Tagus.", source="lisbon.md")
    known = ada.retrieve_context("Who lives in Lisbon?", conversation_id="conv-1", entity="alice")
    assert [entry.record.text for entry in known.sections["memory"]] == ["Alice lives in Lisbon."]
    assert [entry.record.role for entry in known.sections["turn"]] == ["user", "assistant"] * 2
    assert [hit.source for hit in known.documents] == ["lisbon.md"]
    assert known.token_count > 0
    some = ada.retrieve_context(
        "Who lives in Lisbon?", conversation_id="conv-1", entity="alice", sections={"turn": 1}, k=0
    )
    assert {name: [entry.record.text for entry in entries] for name, entries in some.sections.items()} == {
        "turn": ["Sunny."]
    }
    assert some.documents == ()
    assert ada.retrieve_context("Lisbon", entity="alice", k=0, max_tokens=1).token_count <= 1
    with pytest.raises(InvalidRequestError, match="sections"):
        ada.retrieve_context("Lisbon", sections={"dream": 1})
