"""A catalog as a folder of files, and back: `groundwire vault` against a real server."""

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from groundwire.client import Collection, GroundwireClient, NewRecord
from groundwire.kernel.errors import UnavailableError
from groundwire.vault import ChunkStore
from groundwire.vault.transfer import ExportReport, export_records, import_records, mirror_records
from tests.e2e.commands import Command
from tests.e2e.server import ServerProcess, groundwire


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[GroundwireClient]:
    with GroundwireClient(server.address) as made:
        yield made


def collection(client: GroundwireClient, name: str) -> Collection:
    made = client.collection(name)
    made.create(profile="memory")
    return made


def content(made: Collection) -> list[dict[str, Any]]:
    """Return all records with what outlives a move to another server, in order of their ids."""
    own = ("update_time", "delete_time", "etag", "document_id", "generation")
    shown = []
    for record in made.records(include_deleted=True):
        message = json_format.MessageToDict(record.message, preserving_proto_field_name=True)
        shown.append({name: value for name, value in message.items() if name not in own})
        shown[-1]["deleted"] = record.delete_time is not None
    return sorted(shown, key=lambda each: str(each["record_id"]))


EVERYTHING: list[NewRecord] = [
    {"record_type": "persona", "text": "You are Ada.", "version": "1", "topic": "tone"},
    {
        "record_type": "faq",
        "text": 'Q: Why?\nA: SPECIALIST_REQUEST[web_search:{"query":"…"}]',
        "topic": "api",
        "specialist_name": "ocr",
        "version": "7",
        "origin": "kb",
    },
    {
        "record_type": "memory",
        "text": "Alice prefers Python. 🐍\r\n\tTruly.",
        "importance": 5,
        "entity": "alice",
        "kind": "preference",
        "confidence": 0.25,
        "tags": ["languages", "Büro"],
        "conversation_id": "conv-1",
        "origin": "interaction",
        "metadata": {"room": 12, "open": True, "share": 0.5, "rooms": [1, 2], "name": "x"},
    },
    {
        "record_type": "memory",
        "text": "Alice prefers Rust.",
        "entity": "alice",
        "tags": ["languages"],
        "origin": "chat",
    },
    {"record_type": "memory", "text": "The sky is blue.", "origin": "derived"},
    {"record_type": "turn", "text": "Hello.", "conversation_id": "conv-1", "role": "user", "turn_index": 7},
    {"record_type": "turn", "text": "Good day.", "conversation_id": "conv-1", "role": "assistant", "turn_index": 7},
    {
        "record_type": "summary",
        "text": "Greetings.",
        "conversation_id": "conv-1",
        "turn_range": "1-8",
        "summary_index": 1,
    },
]


@pytest.fixture(scope="module")
def everything(client: GroundwireClient) -> Collection:
    """A collection with every field of every type, links, an access and a deleted record."""
    made = collection(client, "everything")
    ids = [result.message.record_id for result in made.put_records(EVERYTHING) if not isinstance(result, Exception)]
    python, rust, sky = ids[2:5]
    made.add_links(rust, contradicts=python)
    made.add_links(python, supports=sky)
    made.record(python, count_access=True)
    made.record(python, count_access=True)
    made.delete_records(made.remember("Forget this.", tags=["old"]).record_id)
    return made


def test_what_a_catalog_holds_comes_back_from_its_files(
    client: GroundwireClient, everything: Collection, tmp_path: Path
) -> None:
    store = ChunkStore(tmp_path)
    report = export_records(client, everything.name, store)
    assert (report.written, report.unchanged, report.removed) == (9, 0, 0)
    assert (len(store.list_chunks()), len(store.list_chunks(archived=True))) == (8, 1)
    empty = collection(client, "empty")
    imported = import_records(client, empty.name, ChunkStore(tmp_path))
    assert (imported.stored, imported.unchanged, imported.archived) == (9, 0, 1)
    links = [each.links for each in everything.records()]
    made = [*(each.supports + each.contradicts + each.suggested_contradicts for each in links)]
    assert imported.linked == len(sum(made, ())) >= 2
    assert imported.failed == {}
    assert content(empty) == content(everything)
    assert len(content(empty)) == 9
    back = ChunkStore(tmp_path / "back")
    export_records(client, empty.name, back)
    for archived in (False, True):
        exported = [each.changed(extra=None) for each in store.list_chunks(archived=archived)]
        assert [each.changed(extra=None) for each in back.list_chunks(archived=archived)] == exported

    again = import_records(client, empty.name, ChunkStore(tmp_path))
    assert again.failed == {}
    assert content(empty) == content(everything)
    (python,) = empty.records(filter={"tags": "Büro"})
    assert python.access_count == 2
    assert empty.record(python.record_id, count_access=True).access_count == 3
    empty.update_record(python.record_id, text="Alice prefers Rust.")
    changed = empty.record(python.record_id)
    assert (changed.access_count, changed.create_time) == (3, python.create_time)
    assert export_records(client, everything.name, store) == ExportReport(written=0, unchanged=9, removed=0)


def test_an_exported_memory_is_a_chunk_of_the_source_design(
    client: GroundwireClient, everything: Collection, tmp_path: Path
) -> None:
    store = ChunkStore(tmp_path)
    export_records(client, everything.name, store)
    (chunk,) = store.list_chunks(tags=["Büro"])
    (record,) = everything.records(filter={"tags": "Büro"})
    assert (chunk.id, chunk.content, chunk.type) == (record.record_id, record.text, "preference")
    assert (chunk.metadata.source, chunk.metadata.confidence) == ("interaction", 0.25)
    assert chunk.metadata.conversation_id == "conv-1"
    assert chunk.metadata.created == record.create_time
    assert chunk.links.context_of == ["conv-1"]
    assert list(record.links.supports) == chunk.links.supports != []
    assert chunk.tokens == record.message.token_count
    ids = {each.id for each in store.list_chunks()}
    assert {target for each in store.list_chunks() for target in each.links.follows + each.links.related_to} <= ids


def test_a_file_that_was_changed_by_hand_changes_the_record(client: GroundwireClient, tmp_path: Path) -> None:
    made = collection(client, "edited")
    record_id = made.remember("Alice prefers Python.", importance=4, tags=["languages"], entity="alice").record_id
    store = ChunkStore(tmp_path)
    export_records(client, made.name, store)
    store.update_chunk(record_id, content="Alice prefers Rust.", chunk_type="fact", confidence=0.5, tags=["rust"])
    store.update_chunk(record_id, source="import", conversation_id="conv-9")
    assert import_records(client, made.name, store).stored == 1
    record = made.record(record_id)
    assert (record.text, record.kind, record.confidence, record.tags) == ("Alice prefers Rust.", "fact", 0.5, ("rust",))
    assert (record.origin, record.conversation_id, record.importance, record.entity) == ("import", "conv-9", 4, "alice")


def test_a_folder_that_was_never_exported_is_imported(
    server: ServerProcess, client: GroundwireClient, tmp_path: Path
) -> None:
    """Damaged files are named, the others are stored, and the links between them too."""
    store = ChunkStore(tmp_path / "vault")
    one = store.create_chunk("Luna likes tea.", "preference", "conv-1", 4, ["drinks"], 0.75)
    other = store.create_chunk("Luna likes coffee.", "fact", None, 4, ["drinks"])
    damaged = store.create_chunk("Luna likes milk.", "fact", None, 4)
    store.add_link(other.id, "contradicts", one.id)
    store.delete_chunk(store.create_chunk("Luna likes wine.", "note", None, 4).id)
    path = tmp_path / "vault" / "chunks" / damaged.id[6:13] / f"{damaged.id}.json"
    path.write_text("{", encoding="utf-8")
    done = groundwire("vault", "import", str(tmp_path / "vault"), "-c", "folder", address=server.address)
    assert done.returncode == 1
    assert "3 records stored, 0 unchanged, 1 of them deleted; 1 link" in done.stdout
    assert f"failed chunks/{damaged.id[6:13]}/{damaged.id}.json" in done.stderr
    folder = client.collection("folder")
    assert {each.record_id for each in folder.records()} == {one.id, other.id}
    record = folder.record(one.id)
    assert (record.text, record.kind, record.confidence, record.origin) == (
        one.content,
        "preference",
        0.75,
        "interaction",
    )
    assert (record.tags, record.conversation_id, record.timestamp) == (("drinks",), "conv-1", one.metadata.created)
    assert folder.record(other.id).links.contradicts == (one.id,)
    report = json.loads(
        groundwire("vault", "import", str(tmp_path / "vault"), "-c", "folder", "--json", address=server.address).stdout
    )
    assert (report["unchanged"], list(report["failed"])) == (2, [f"chunks/{damaged.id[6:13]}/{damaged.id}.json"])


def test_a_record_that_the_server_refuses_is_reported_and_the_others_are_stored(
    server: ServerProcess, client: GroundwireClient, tmp_path: Path
) -> None:
    made = collection(client, "refused")
    made.put_records([{"record_type": "memory", "text": f"Memory {number}."} for number in range(4)])
    store = ChunkStore(tmp_path)
    export_records(client, made.name, store)
    first, second, third, fourth = store.list_chunks()
    assert first.extra is not None
    assert fourth.extra is not None
    record = {**first.extra["record"], "memory": {"importance": 9}}
    newer = {**fourth.extra["record"], "record_type": 99}
    store.put_chunks([first.changed(extra={**first.extra, "record": record}), second.changed(extra={"record": 1})])
    store.put_chunks([fourth.changed(extra={**fourth.extra, "record": newer})])
    report = import_records(client, collection(client, "refusing").name, store)
    assert report.failed.keys() == {first.id, second.id, fourth.id}
    assert "importance must be between 1 and 5" in report.failed[first.id]
    assert [each.record_id for each in client.collection("refusing").records()] == [third.id]
    told = groundwire("vault", "import", str(tmp_path), "-c", "refusing", address=server.address)
    assert (told.returncode, told.stdout) == (1, "0 records stored, 1 unchanged, 0 of them deleted; 0 links\n")
    assert sorted(line.split(":")[0] for line in told.stderr.splitlines()) == sorted(
        f"failed {each.id}" for each in (first, second, fourth)
    )
    assert export_records(client, made.name, store).written == 3
    assert import_records(client, "refusing", store).failed == {}


@pytest.mark.parametrize("archived", [False, True])
def test_a_file_that_was_copied_by_hand_is_named_and_the_others_are_stored(
    client: GroundwireClient, tmp_path: Path, archived: bool
) -> None:
    made = collection(client, "copied")
    ids = [made.remember(text).record_id for text in ("One.", "Other.")]
    store = ChunkStore(tmp_path)
    export_records(client, made.name, store)
    chunk = store.get_chunk(ids[0])
    assert chunk is not None
    store.put_chunks([chunk.changed(id="chunk-2099-01-01-00000000", content="A copy.")], archived=archived)
    report = import_records(client, collection(client, "copied-again").name, store)
    assert report.stored == 2
    assert report.failed == {"chunk-2099-01-01-00000000": f"extra: holds the record of {ids[0]}"}
    assert {each.text for each in client.collection("copied-again").records()} == {"One.", "Other."}
    for name in ("copied", "copied-again"):
        client.collection(name).delete(force=True)


def test_a_file_that_was_renamed_by_hand_keeps_the_suggestions_of_its_record(
    client: GroundwireClient, tmp_path: Path
) -> None:
    made = collection(client, "renamed")
    ids = [made.remember(text).record_id for text in ("I live in Berlin.", "I moved to Hamburg.")]
    store = ChunkStore(tmp_path)
    export_records(client, made.name, store)
    first = store.list_chunks()[0]
    store.delete_chunk(first.id, permanent=True)
    store.put_chunks([first.changed(id="chunk-2099-01-01-00000000")])
    report = import_records(client, collection(client, "renamed-again").name, store)
    assert (report.linked, report.failed) == (2, {})
    assert [client.collection("renamed-again").record(each).links.suggested_contradicts for each in ids] == [
        (ids[1],),
        (ids[0],),
    ]


def test_a_memory_that_is_called_like_the_file_of_another_record_has_one_of_its_own(
    client: GroundwireClient, tmp_path: Path
) -> None:
    made, store = collection(client, "called-alike"), ChunkStore(tmp_path)
    made.put_records([{"record_type": "faq", "text": "Q: Why?\nA: Because.", "topic": "api"}])
    export_records(client, made.name, store)
    (file,) = store.list_chunks()
    made.remember("The sky is blue.", record_id=file.id)
    for written in (1, 0):
        assert export_records(client, made.name, store).written == written
        assert {each.content for each in store.list_chunks()} == {"Q: Why?\nA: Because.", "The sky is blue."}
    empty = collection(client, "called-alike-again")
    assert import_records(client, empty.name, store).failed == {}
    assert content(empty) == content(made)


def test_the_two_sides_of_an_exchange_are_imported_in_their_order(client: GroundwireClient, tmp_path: Path) -> None:
    made, empty = collection(client, "said"), collection(client, "said-again")
    for number in range(4):
        exchange: list[NewRecord] = [
            {"record_type": "turn", "text": text, "conversation_id": f"conv-{number}", "timestamp": START, "role": role}
            for role, text in (("user", "Hello."), ("assistant", "Good day."))
        ]
        made.put_records(exchange)
    export_records(client, made.name, ChunkStore(tmp_path))
    import_records(client, empty.name, ChunkStore(tmp_path))
    assert content(empty) == content(made)
    assert [bool(each.links.follows) for each in empty.records(filter={"role": "assistant"})] == [True] * 4


@pytest.mark.parametrize("links", [None, "", [], {"suggested_contradicts": None}])
def test_links_that_people_emptied_cost_no_record(client: GroundwireClient, tmp_path: Path, links: Any) -> None:
    made = collection(client, "emptied")
    ids = [made.remember(text).record_id for text in ("One.", "Other.")]
    store = ChunkStore(tmp_path)
    export_records(client, made.name, store)
    first = store.get_chunk(ids[0])
    assert first is not None
    assert first.extra is not None
    store.put_chunks([first.changed(extra={**first.extra, "record": {**first.extra["record"], "links": links}})])
    report = import_records(client, collection(client, "emptied-again").name, store)
    assert (report.stored, report.failed) == (2, {})
    for name in ("emptied", "emptied-again"):
        client.collection(name).delete(force=True)


def test_a_mirror_follows_what_changes(client: GroundwireClient, tmp_path: Path) -> None:
    made = collection(client, "mirrored")
    store = ChunkStore(tmp_path)
    local = store.create_chunk("Made here.", "note", None, 2)
    stays, goes, archived = (made.remember(text).record_id for text in ("Stays.", "Goes.", "Is archived."))
    rounds: list[ExportReport | UnavailableError] = []

    def change(report: ExportReport | UnavailableError) -> bool:
        rounds.append(report)
        if len(rounds) == 1:
            made.update_record(stays, text="Stays, changed.")
            made.delete_records(archived)
            made.delete_records(goes, permanent=True)
        return len(rounds) < 3

    mirror_records(client, made.name, store, interval_s=0.01, on_round=change)
    assert rounds == [
        ExportReport(written=3, unchanged=0, removed=0),
        ExportReport(written=2, unchanged=0, removed=1),
        ExportReport(written=0, unchanged=2, removed=0),
    ]
    assert {each.id: each.content for each in store.list_chunks()} == {stays: "Stays, changed.", local.id: "Made here."}
    assert [each.id for each in store.list_chunks(archived=True)] == [archived]
    assert store.check().consistent
    made.restore_records(archived)
    mirror_records(client, made.name, ChunkStore(tmp_path), interval_s=0, on_round=lambda _: False)
    assert {each.id for each in store.list_chunks()} == {stays, archived, local.id}
    assert store.list_chunks(archived=True) == []


def test_an_export_that_was_interrupted_between_two_places_is_finished_by_the_next(
    client: GroundwireClient, tmp_path: Path
) -> None:
    made = collection(client, "interrupted")
    gone, stays = (made.remember(text).record_id for text in ("Goes.", "Stays."))
    store = ChunkStore(tmp_path)
    export_records(client, made.name, store)
    made.delete_records(gone)
    live = tmp_path / "chunks" / gone[6:13]
    before = (live / f"{gone}.json").read_bytes()
    export_records(client, made.name, store)
    # Each file is written in its new place before it leaves the other one.
    (live / f"{gone}.json").write_bytes(before)
    shutil.copy(live / f"{stays}.json", tmp_path / "archive")
    export_records(client, made.name, store)
    assert [each.id for each in store.list_chunks()] == [stays]
    assert [each.id for each in store.list_chunks(archived=True)] == [gone]


def test_the_files_of_another_collection_stay(client: GroundwireClient, tmp_path: Path) -> None:
    one, other = collection(client, "beside"), collection(client, "beside-it")
    stays, goes = one.remember("Stays.").record_id, other.remember("Goes.").record_id
    store = ChunkStore(tmp_path)
    for each in (one, other):
        assert export_records(client, each.name, store) == ExportReport(written=1, unchanged=0, removed=0)
    other.delete_records(goes, permanent=True)
    assert export_records(client, other.name, store) == ExportReport(written=0, unchanged=0, removed=1)
    assert [each.id for each in store.list_chunks()] == [stays]


@pytest.mark.parametrize("command", ["export", "mirror"])
def test_a_mistyped_collection_leaves_no_folder(command: str, server: ServerProcess, tmp_path: Path) -> None:
    done = groundwire("vault", command, str(tmp_path / "vault"), "-c", "mistyped", address=server.address)
    assert done.returncode == 1
    assert "mistyped" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_mirror_runs_until_it_is_stopped(server: ServerProcess, client: GroundwireClient, tmp_path: Path) -> None:
    made = collection(client, "running")
    made.remember("First.")
    read_end, write_end = os.pipe()
    arguments = ("vault", "mirror", str(tmp_path / "vault"), "-c", made.name, "--interval", "0.1")
    with (tmp_path / "stderr").open("wb") as stderr, os.fdopen(read_end) as said:
        variables = {"GROUNDWIRE_ADDRESS": server.address}
        running = Command(arguments, stdout=write_end, stderr=stderr.fileno(), variables=variables)
        os.close(write_end)
        assert said.readline() == "1 file written, 0 removed, 0 unchanged\n"
        time.sleep(0.3)  # of rounds that change nothing no line is printed
        made.remember("Second.")
        assert said.readline() == "1 file written, 0 removed, 1 unchanged\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
    assert (tmp_path / "stderr").read_text(encoding="utf-8").startswith("stopped; the folder is whole")
    assert {each.content for each in ChunkStore(tmp_path / "vault").list_chunks()} == {"First.", "Second."}


def test_a_mirror_that_finds_no_server_says_so_and_tries_again_until_it_is_stopped(tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("wb") as stderr:
        arguments = ("vault", "mirror", str(tmp_path / "vault"), "-c", "any", "--interval", "0.1")
        variables = {"GROUNDWIRE_ADDRESS": "127.0.0.1:1"}
        running = Command(arguments, stdout=stderr.fileno(), stderr=stderr.fileno(), variables=variables)
        ends_at = time.monotonic() + 30
        while (tmp_path / "stderr").read_text(encoding="utf-8").count("; trying again\n") < 2:
            assert time.monotonic() < ends_at
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130


def test_a_mirror_waits_for_a_server_that_does_not_answer(tmp_path: Path) -> None:
    with GroundwireClient("127.0.0.1:1", timeout_s=1) as client:
        store = ChunkStore(tmp_path)
        stored = store.create_chunk("Stays.", "note", None, 1)
        seen: list[ExportReport | UnavailableError] = []

        def note(report: ExportReport | UnavailableError) -> bool:
            seen.append(report)
            return len(seen) < 2

        mirror_records(client, "ada", store, interval_s=0, on_round=note)
    assert [isinstance(each, UnavailableError) for each in seen] == [True, True]
    assert store.list_chunks() == [stored]


def test_ids_that_are_no_file_names_stay_out_of_paths(client: GroundwireClient, tmp_path: Path) -> None:
    made = collection(client, "names")
    odd = ["a:b#c", "chunk-2026-02-10-xyz", ".hidden", "doc-1"]
    made.put_records([{"record_type": "faq", "text": "Q", "record_id": each} for each in odd])
    store = ChunkStore(tmp_path)
    export_records(client, made.name, store)
    assert len(store.list_chunks()) == 4
    assert {path.name for path in tmp_path.iterdir()} == {"chunks", "index", "archive", ".lock"}
    other = collection(client, "names-again")
    assert import_records(client, other.name, store).stored == 4
    assert {each.record_id for each in other.records()} == set(odd)


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40).filter(
    lambda text: bool(text.strip())
)
memories = st.fixed_dictionaries(
    {"record_type": st.just("memory"), "text": texts},
    optional={
        "importance": st.integers(1, 5),
        "kind": st.sampled_from(["fact", "preference", "pattern", "note", "decision"]),
        "confidence": st.floats(0, 1),
        "tags": st.lists(st.sampled_from(["a", "b", "ü"]), unique=True, max_size=3),
        "entity": st.sampled_from(["alice", "bob"]),
        "conversation_id": st.sampled_from(["conv-1", "conv-2"]),
        "origin": st.sampled_from(["chat", "kb", "system", "import", "interaction", "derived"]),
        "metadata": st.dictionaries(st.sampled_from(["room", "note"]), texts, max_size=2),
    },
)


START = datetime(2020, 1, 1, tzinfo=UTC)
times = st.integers(0, 10**14).map(lambda microseconds: START + timedelta(microseconds=microseconds))
pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda pair: pair[0] != pair[1]), max_size=4)


@dataclass(frozen=True)
class Library:
    """Memories with what was done to them, by their places: links and quotes from one to another, reads, deletions."""

    records: list[Any]
    supports: list[tuple[int, int]]
    contradicts: list[tuple[int, int]]
    quotes: list[tuple[int, int]]
    read: list[int]
    deleted: set[int]

    def store(self, made: Collection) -> None:
        results = made.put_records(self.records)
        stored = [result.message for result in results if not isinstance(result, Exception)]
        ids = [each.record_id for each in stored]

        def there(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
            return [(one, other) for one, other in pairs if max(one, other) < len(ids)]

        # Whoever reads a record must not learn of one that it may not see.
        scopes = [each.get("entity") for each in self.records]
        for kind, linked in (("supports", self.supports), ("contradicts", self.contradicts)):
            for source, target in there(linked):
                if scopes[target] in {scopes[source], None}:
                    made.add_links(ids[source], **{kind: ids[target]})
        quoted: dict[int, list[str]] = {}
        for source, target in there(self.quotes):
            quoted.setdefault(source, ["elsewhere"]).append(stored[target].document_id)
        for source, documents in quoted.items():
            made.update_record(ids[source], quoted_document_ids=documents)
        for place in self.read:
            made.record(ids[place % len(ids)], count_access=True)
        for place in self.deleted:
            if place < len(ids):
                made.delete_records(ids[place])


libraries = st.builds(
    Library,
    records=st.lists(
        st.tuples(memories, times).map(lambda each: {**each[0], "timestamp": each[1]}), min_size=1, max_size=5
    ),
    supports=pairs,
    contradicts=pairs,
    quotes=pairs,
    read=st.lists(st.integers(0, 4), max_size=3),
    deleted=st.sets(st.integers(0, 4), max_size=2),
)


def with_quotes_by_record(made: Collection) -> list[dict[str, Any]]:
    """Return the content, quotes by the ids of the records that are quoted."""
    record_ids = {each.message.document_id: each.record_id for each in made.records(include_deleted=True)}
    shown = content(made)
    for each in shown:
        quoted = each.pop("quoted_document_ids", [])
        each["quotes"] = [record_ids.get(document_id, document_id) for document_id in quoted]
    return shown


@settings(max_examples=12)
@given(library=libraries)
def test_whatever_memories_are_to_one_another_comes_back_from_their_files(
    client: GroundwireClient, tmp_path_factory: pytest.TempPathFactory, library: Library
) -> None:
    made, empty = collection(client, "random"), collection(client, "random-again")
    for each in (made, empty):
        each.delete_records(filter={"type": "memory"}, permanent=True)
    library.store(made)
    folder = tmp_path_factory.mktemp("random")
    export_records(client, made.name, ChunkStore(folder))
    assert import_records(client, empty.name, ChunkStore(folder)).failed == {}
    before = with_quotes_by_record(made)
    assert with_quotes_by_record(empty) == before
    assert len(before) == len(library.records)
    again = import_records(client, empty.name, ChunkStore(folder))
    assert (again.failed, with_quotes_by_record(empty)) == ({}, before)
    for each in (made, empty):
        deleted = [record.record_id for record in each.records(include_deleted=True) if record.delete_time is not None]
        for record_id in deleted:
            each.restore_records(record_id)
    assert with_quotes_by_record(empty) == with_quotes_by_record(made)


def test_memories_of_one_moment_keep_their_order(client: GroundwireClient, tmp_path: Path) -> None:
    made, moved = collection(client, "moment"), collection(client, "moment-again")
    # The server tells moments apart by the millisecond, and what is stored at once by its order.
    times = [START + timedelta(microseconds=microseconds) for microseconds in (400, 0, 200, 0, 100, 300)]
    made.put_records(
        {"record_type": "memory", "text": f"Luna likes tea {number}.", "conversation_id": "conv-tea", "timestamp": time}
        for number, time in enumerate(times)
    )
    follows = {each.record_id: list(each.message.links.follows) for each in made.records()}
    assert sorted(map(len, follows.values())) == [0, 1, 1, 1, 1, 1]
    export_records(client, made.name, ChunkStore(tmp_path))
    import_records(client, moved.name, ChunkStore(tmp_path))
    assert {each.record_id: list(each.message.links.follows) for each in moved.records()} == follows
    # Somebody may edit the files so that each follows another one.
    (first,) = (record_id for record_id, earlier in follows.items() if not earlier)
    (last,) = follows.keys() - {each for earlier in follows.values() for each in earlier}
    (path,) = tmp_path.rglob(f"{first}.json")
    path.write_text(path.read_text().replace('"follows": []', f'"follows": ["{last}"]'))
    again = collection(client, "moment-in-a-circle")
    assert import_records(client, again.name, ChunkStore(tmp_path)).stored == len(times)


def test_what_quotes_a_memory_goes_with_it_after_a_move(client: GroundwireClient, tmp_path: Path) -> None:
    made, moved = collection(client, "quoted"), collection(client, "quoted-again")
    said = made.remember("Luna likes tea.").message
    made.remember("Luna was said to like tea.", quoted_document_ids=[said.document_id])
    stays = made.remember("Luna likes milk.").record_id
    export_records(client, made.name, ChunkStore(tmp_path))
    import_records(client, moved.name, ChunkStore(tmp_path))
    moved.delete_records(said.record_id, permanent=True)
    assert [each.record_id for each in moved.records()] == [stays]
    assert len(list(made.records())) == 3


@pytest.mark.requirement("S2-22", "S2-36", "S2-37")
def test_the_commands_say_what_they_did(server: ServerProcess, client: GroundwireClient, tmp_path: Path) -> None:
    made = collection(client, "told")
    record_id = made.remember("Alice prefers Python.").record_id
    vault = str(tmp_path / "vault")
    shown = groundwire("vault", "export", vault, "-c", "told", "--verbose", address=server.address)
    assert shown.stdout == "1 file written, 0 removed, 0 unchanged\n"
    assert f"vault put '{record_id}': ok" in shown.stderr
    report = json.loads(groundwire("vault", "export", vault, "-c", "told", "--json", address=server.address).stdout)
    assert report == {"written": 0, "unchanged": 1, "removed": 0}

    read = ("vault", "import", vault, "-c", "told")
    assert groundwire(*read, address=server.address).stderr == ""
    assert "vault list '': ok\n" in groundwire(*read, "-v", address=server.address).stderr

    (tmp_path / "vault" / "index" / "tag_index.json").unlink()
    bad = tmp_path / "vault" / "chunks" / record_id[6:13] / "chunk-\x1b[2J.json"
    bad.write_text("{}", encoding="utf-8")
    checked = groundwire("vault", "check", vault)
    assert checked.returncode == 1
    assert "wrong index/tag_index.json" in checked.stdout
    assert "chunk-\\x1b[2J.json" in checked.stdout
    assert "\x1b" not in checked.stdout + checked.stderr
    bad.unlink()
    assert groundwire("vault", "check", vault, "--repair").returncode == 0
    assert groundwire("vault", "check", vault).returncode == 0

    missing = groundwire("vault", "export", vault, "-c", "nowhere", address=server.address)
    assert (missing.returncode, "COLLECTION_NOT_FOUND" in missing.stderr) == (1, True)


def test_no_vault_is_made_of_a_folder_that_is_none(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Not a memory.")
    for command in (("import", str(tmp_path), "-c", "nobody"), ("check", str(tmp_path))):
        done = groundwire("vault", *command, address=None if command[0] == "check" else server.address)
        assert done.returncode == 2
        assert "is not a vault" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.requirement("S2-03", "S2-25", "C05")
def test_a_long_note_is_cut_into_chunks_of_the_source_design(client: GroundwireClient) -> None:
    notes = collection(client, "notes")
    paragraphs = [
        f"Paragraph {number}. " + "The tide rises and falls twice a day. " * (number % 40 + 1) for number in range(60)
    ]
    notes.ingest_text("\n\n".join(paragraphs), source="note.txt")
    counts = [chunk.token_count for chunk in client.list_chunks(collection="notes", page_size=200).chunks]
    assert len(counts) > 5
    assert all(100 <= count <= 800 for count in counts[:-1]), counts
    assert 1 <= counts[-1] <= 800
