"""A folder of memories: its files, its rules, and what it does with files that others have damaged."""

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundwire.kernel.errors import (
    AlreadyExistsError,
    ChunkNotFoundError,
    DataLossError,
    DeadlineError,
    GroundwireError,
    InvalidRequestError,
)
from groundwire.vault import Chunk, ChunkLinks, ChunkMetadata, ChunkStore

INDEXES = ("metadata_index.json", "tag_index.json", "link_graph.json")
START = datetime(2026, 2, 10, 21, 37, tzinfo=UTC)


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> datetime:
        return self.time

    def pass_s(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> ChunkStore:
    return ChunkStore(tmp_path / "vault", now=clock)


def create(store: ChunkStore, content: str = "Luna likes tea.", **fields: Any) -> Chunk:
    return store.create_chunk(
        **{"chunk_type": "fact", "conversation_id": None, "tokens": 4, **fields, "content": content}
    )


def file_of(store: ChunkStore, chunk: Chunk) -> Path:
    return store.root / "chunks" / chunk.id[6:13] / f"{chunk.id}.json"


def files(store: ChunkStore) -> set[str]:
    return {str(path.relative_to(store.root)) for path in store.root.rglob("*") if path.is_file()}


def indexes(store: ChunkStore) -> dict[str, Any]:
    return {name: json.loads((store.root / "index" / name).read_bytes()) for name in INDEXES}


@pytest.mark.requirement("S2-01", "S2-20", "S2-21", "S2-26", "S2-27", "S2-28", "S2-39")
def test_a_memory_is_a_file_of_its_month_beside_three_indexes(store: ChunkStore) -> None:
    chunk = store.create_chunk(
        content="User prefers Python over JavaScript",
        chunk_type="preference",
        conversation_id="conv-123",
        tokens=12,
        tags=["coding", "preferences"],
        confidence=0.95,
    )
    assert chunk.id.startswith("chunk-2026-02-10-")
    assert int(chunk.id[17:], 16) >= 0
    assert len(chunk.id) == len("chunk-2026-02-10-a1b2c3d4")
    expected = {".lock", f"chunks/2026-02/{chunk.id}.json", *(f"index/{name}" for name in INDEXES)}
    assert files(store) == expected
    assert (store.root / "archive").is_dir()
    assert json.loads(file_of(store, chunk).read_bytes()) == {
        "id": chunk.id,
        "content": "User prefers Python over JavaScript",
        "tokens": 12,
        "type": "preference",
        "metadata": {
            "created": "2026-02-10T21:37:00Z",
            "conversation_id": "conv-123",
            "source": "interaction",
            "confidence": 0.95,
            "access_count": 0,
            "last_accessed": None,
        },
        "links": {"context_of": ["conv-123"], "follows": [], "related_to": [], "supports": [], "contradicts": []},
        "tags": ["coding", "preferences"],
    }
    assert indexes(store)["metadata_index.json"]["schema_version"] == "1.0"


@pytest.mark.requirement("S2-20")
def test_the_folder_of_the_source_design_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ChunkStore()
    assert {path.name for path in (tmp_path / "brain" / "memory").iterdir()} == {"chunks", "index", "archive"}


@pytest.mark.requirement("S2-24")
def test_a_file_is_for_people_to_read(store: ChunkStore) -> None:
    content = file_of(store, create(store, "Zoë trinkt Tee – 🍵.")).read_bytes()
    assert content.startswith(b'{\n  "id"')
    assert "Zoë trinkt Tee – 🍵.".encode() in content


@pytest.mark.requirement("S2-12", "S2-13", "S2-29")
def test_reading_counts(store: ChunkStore, clock: Clock) -> None:
    chunk = create(store)
    for _ in range(3):
        clock.pass_s(60)
        read = store.get_chunk(chunk.id)
    assert read is not None
    assert (read.metadata.access_count, read.metadata.last_accessed) == (3, clock.time)
    assert store.list_chunks() == [read]
    assert store.get_chunk("chunk-2026-02-10-00000000") is None
    assert store.get_chunk("chunk-2026-02-10-abc123") is None


@pytest.mark.requirement("S2-30")
def test_fields_are_changed_but_those_that_are_fixed(store: ChunkStore, clock: Clock) -> None:
    chunk = create(store)
    clock.pass_s(60)
    new = {"content": "Luna likes coffee.", "tokens": 5, "chunk_type": "preference", "tags": ["drinks"]}
    changed = store.update_chunk(chunk.id, confidence=0.98, source="import", conversation_id="conv-1", **new)
    assert (changed.content, changed.tokens, changed.type, changed.tags) == tuple(new.values())
    assert (changed.metadata.confidence, changed.metadata.source) == (0.98, "import")
    assert (changed.id, changed.metadata.created) == (chunk.id, START)
    assert changed.links.context_of == ["conv-1"]
    assert ChunkStore(store.root).list_chunks() == [changed]
    assert store.update_chunk(chunk.id, tags=("hot", "drinks")).tags == ["hot", "drinks"]


@pytest.mark.requirement("S2-02", "S2-04", "S2-10", "S2-11", "S2-30")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("confidence", 1.01),
        ("confidence", float("nan")),
        ("content", " \n"),
        ("content", "a\0b"),
        ("type", "dream"),
        ("source", "chat"),
        ("tokens", 0),
        ("tokens", 801),
        ("tokens", 4.5),
        ("tags", ["a,b"]),
        ("tags", "ab"),
        ("conversation_id", "123"),
        ("created", START),
        ("id", "chunk-2026-02-10-00000000"),
        ("links", {}),
        ("colour", "red"),
    ],
)
def test_a_wrong_value_is_refused_and_changes_nothing(store: ChunkStore, field: str, value: Any) -> None:
    chunk = create(store)
    with pytest.raises(InvalidRequestError) as refused:
        store.update_chunk(chunk.id, **{field: value})
    (violation,) = refused.value.violations
    assert violation.field.rpartition("metadata.")[2].startswith(field)
    assert store.list_chunks() == [chunk]


@pytest.mark.requirement("S2-03", "C05")
def test_few_tokens_are_refused_only_on_request(tmp_path: Path) -> None:
    strict = ChunkStore(tmp_path, strict_tokens=True)
    assert create(strict, tokens=100).tokens == 100
    with pytest.raises(InvalidRequestError, match="tokens: must be 100 to 800"):
        create(strict, tokens=99)
    assert create(ChunkStore(tmp_path), tokens=99).tokens == 99
    assert create(strict, tokens=800).tokens == 800


@pytest.mark.requirement("S2-23", "S2-38")
def test_a_deleted_memory_is_in_the_archive_until_it_is_restored(store: ChunkStore) -> None:
    tea, coffee = create(store, tags=["drinks"]), create(store, "Luna likes coffee.", tags=["drinks"])
    before = store.list_chunks()
    store.delete_chunk(tea.id)
    assert f"archive/{tea.id}.json" in files(store)
    assert f"chunks/2026-02/{tea.id}.json" not in files(store)
    assert store.get_chunk(tea.id) is None
    assert [chunk.id for chunk in store.list_chunks()] == [coffee.id]
    assert [chunk.id for chunk in store.list_chunks(archived=True)] == [tea.id]
    assert list(indexes(store)["metadata_index.json"]["chunks"]) == [coffee.id]
    assert store.restore_chunk(tea.id).content == tea.content
    assert store.list_chunks() == before
    assert not store.list_chunks(archived=True)


@pytest.mark.requirement("S2-23")
def test_a_memory_that_was_read_and_then_deleted_is_listed_no_more(store: ChunkStore) -> None:
    tea = create(store, tags=["drinks"])
    store.get_chunk(tea.id)
    store.delete_chunk(tea.id)
    assert store.list_chunks() == []
    assert indexes(store)["tag_index.json"] == {}
    (archived,) = store.list_chunks(archived=True)
    store.put_chunks([archived.changed(tokens=5)], archived=True)
    store.delete_chunk(tea.id, permanent=True)
    assert store.list_chunks(archived=True) == []


def test_a_copy_in_a_folder_where_it_does_not_belong_hides_nothing(store: ChunkStore) -> None:
    chunk = create(store)
    copy = store.root / "chunks" / "2026-03" / f"{chunk.id}.json"
    copy.parent.mkdir()
    shutil.copy(file_of(store, chunk), copy)
    assert store.list_chunks() == [chunk]
    assert list(store.check().corrupt) == [f"chunks/2026-03/{chunk.id}.json"]
    copy.unlink()
    assert store.list_chunks() == [chunk]
    assert store.check().consistent


@pytest.mark.requirement("S2-32")
def test_a_memory_that_a_power_cut_left_in_both_places_is_deleted_for_good_from_both(store: ChunkStore) -> None:
    chunk = create(store)
    shutil.copy(file_of(store, chunk), store.root / "archive")
    store.delete_chunk(chunk.id, permanent=True)
    assert not [name for name in files(store) if chunk.id in name]
    assert store.list_chunks(archived=True) == []


@pytest.mark.requirement("S2-32")
@pytest.mark.parametrize("archived", [False, True])
def test_a_memory_that_is_deleted_for_good_is_gone_with_the_links_to_it(store: ChunkStore, archived: bool) -> None:
    gone, stays = create(store, tags=["drinks"]), create(store, "Luna likes coffee.", tags=["drinks"])
    third = create(store, "Luna drinks nothing.", tags=["health"])
    store.add_link(stays.id, "contradicts", gone.id)
    store.add_link(third.id, "supports", gone.id)
    store.delete_chunk(third.id)
    if archived:
        store.delete_chunk(gone.id)
    store.delete_chunk(gone.id, permanent=True)
    assert not [name for name in files(store) if gone.id in name]
    for chunk in (*store.list_chunks(), *store.list_chunks(archived=True)):
        assert gone.id not in str(chunk)
    for name in INDEXES:
        assert gone.id not in (store.root / "index" / name).read_text()
    for attempt in (store.restore_chunk, store.delete_chunk, store.update_chunk):
        with pytest.raises(ChunkNotFoundError):
            attempt(gone.id)
    with pytest.raises(ChunkNotFoundError):
        store.delete_chunk(gone.id, permanent=True)


@pytest.mark.requirement("S2-07", "S2-09", "S2-33")
def test_lists_are_narrowed_by_conversation_and_tags(store: ChunkStore, clock: Clock) -> None:
    ids = []
    for conversation, tags in [("conv-1", ["a", "b"]), ("conv-1", ["b"]), ("conv-2", ["a"]), (None, [])]:
        ids.append(create(store, conversation_id=conversation, tags=tags).id)
        clock.pass_s(1)

    def listed(**wanted: Any) -> list[str]:
        return [chunk.id for chunk in store.list_chunks(**wanted)]

    assert listed() == ids
    assert listed(conversation_id="conv-1") == ids[:2]
    assert listed(tags=["a"]) == [ids[0], ids[2]]
    assert listed(conversation_id="conv-1", tags=["a"]) == [ids[0]]
    assert listed(tags=["a", "b"]) == [ids[0]]
    for refused in (lambda: listed(tags="ab"), lambda: create(store, tags="ab")):
        with pytest.raises(InvalidRequestError, match="tags: must be a list of texts, not 'ab'"):
            refused()


@pytest.mark.requirement("S2-06", "S2-14", "S2-15", "C18")
@pytest.mark.parametrize(("seconds", "linked"), [(299, True), (300, True), (301, False)])
def test_a_memory_follows_the_one_before_it_in_its_conversation(
    store: ChunkStore, clock: Clock, seconds: int, linked: bool
) -> None:
    first = create(store, conversation_id="conv-1")
    create(store, conversation_id="conv-2")
    clock.pass_s(seconds)
    second = create(store, conversation_id="conv-1")
    assert second.links.context_of == ["conv-1"]
    assert second.links.follows == ([first.id] if linked else [])
    assert set(json.loads(file_of(store, second).read_bytes())["links"]) == set(ChunkLinks.model_fields)


@pytest.mark.requirement("C18")
def test_a_memory_that_changes_conversations_is_followed_anew(store: ChunkStore, clock: Clock) -> None:
    chunks = []
    for _ in range(3):
        chunks.append(create(store, conversation_id="conv-1"))
        clock.pass_s(60)
    first, second, third = chunks
    store.update_chunk(second.id, conversation_id="conv-2")
    links = {chunk.id: chunk.links.follows for chunk in store.list_chunks()}
    assert links == {first.id: [], second.id: [], third.id: [first.id]}
    store.update_chunk(second.id, conversation_id="conv-1")
    links = {chunk.id: chunk.links.follows for chunk in store.list_chunks()}
    assert links == {first.id: [], second.id: [first.id], third.id: [second.id]}


@pytest.mark.requirement("S2-16", "C18")
def test_memories_that_share_tags_are_linked_both_ways_the_best_twenty(store: ChunkStore, clock: Clock) -> None:
    best = create(store, tags=["a", "b"])
    clock.pass_s(1)
    others = []
    for _ in range(21):
        others.append(create(store, tags=["a"]).id)
        clock.pass_s(1)
    last = create(store, tags=["a", "b"])
    assert last.links.related_to == [best.id, *reversed(others[2:])]
    related = {chunk.id: chunk.links.related_to for chunk in store.list_chunks()}
    assert related[best.id][0] == last.id
    assert last.id in related[others[2]]
    assert last.id not in related[others[1]]
    assert max(map(len, related.values())) == 20
    assert all(chunk_id not in targets for chunk_id, targets in related.items())

    store.update_chunk(last.id, tags=["c"])
    related = {chunk.id: chunk.links.related_to for chunk in store.list_chunks()}
    assert related[last.id] == []
    assert not [chunk_id for chunk_id, targets in related.items() if last.id in targets]


@pytest.mark.requirement("S2-17", "S2-18", "S2-19")
@pytest.mark.parametrize("kind", ["supports", "contradicts"])
def test_other_links_are_made_by_hand(store: ChunkStore, kind: str) -> None:
    one, other = create(store, tags=["a"]), create(store, tags=["a"])
    assert getattr(other.links, kind) == []
    store.add_link(one.id, kind, other.id)
    linked = store.add_link(one.id, kind, other.id)
    assert getattr(linked.links, kind) == [other.id]
    assert indexes(store)["link_graph.json"][one.id][kind] == [other.id]
    assert store.update_chunk(one.id, tags=[]).links.related_to == []
    assert getattr(store.remove_link(one.id, kind, other.id).links, kind) == []
    with pytest.raises(InvalidRequestError, match="target_id"):
        store.add_link(one.id, kind, one.id)
    with pytest.raises(ChunkNotFoundError):
        store.add_link(one.id, kind, "chunk-2026-02-10-00000000")
    with pytest.raises(InvalidRequestError, match="link_type"):
        store.add_link(one.id, "follows", other.id)


@pytest.mark.requirement("S2-34")
@pytest.mark.parametrize(
    "chunk_id",
    [
        "../../x",
        "..",
        "",
        "chunk-2026-02-10-a1b2c3d4/../x",
        "chunk-2026-02-10-a1b2c3d4/../a",
        "chunk-2026-02-10-..%2F..%2Fx",
        "chunk-2026-02-10-a1b2\\c3d4",
        "chunk-2026-02-10-a1b2c3d4\0",
        "chunk-2026-02-10-a1b2c3d4\n",
        "chunk-2026-02-10-A1B2C3D4",
        "chunk-2026-0\uff12-10-a1b2c3d4",
        "chunk-....-..-..-a1b2c3d4",
        "/etc/passwd",
        "chunk-2026-02-10-" + "a" * 300,
    ],
)
def test_an_id_that_is_no_file_name_is_refused_before_any_file_is_touched(store: ChunkStore, chunk_id: str) -> None:
    operations: list[Callable[[str], object]] = [
        store.get_chunk,
        store.update_chunk,
        store.delete_chunk,
        store.restore_chunk,
        lambda each: store.delete_chunk(each, permanent=True),
        lambda each: store.add_link(each, "supports", "chunk-2026-02-10-a1b2c3d4"),
        lambda each: store.remove_link(each, "supports", "chunk-2026-02-10-a1b2c3d4"),
    ]
    shutil.rmtree(store.root)  # whatever touches a file fails otherwise, or makes the folder again
    for operation in operations:
        with pytest.raises(InvalidRequestError, match="chunk_id"):
            operation(chunk_id)
    assert not store.root.exists()


def test_a_target_that_is_no_file_name_is_refused(store: ChunkStore) -> None:
    chunk = create(store)
    with pytest.raises(InvalidRequestError, match="target_id"):
        store.add_link(chunk.id, "supports", "../../x")


@pytest.mark.requirement("S2-34")
def test_symbolic_links_are_not_followed(store: ChunkStore, tmp_path: Path) -> None:
    chunk = create(store)
    outside = tmp_path / "outside"
    month = store.root / "chunks" / "2026-02"
    month.rename(outside)
    month.symlink_to(outside)
    assert store.get_chunk(chunk.id) is None
    assert store.list_chunks() == []
    for attempt in (store.delete_chunk, store.restore_chunk):
        with pytest.raises(GroundwireError):
            attempt(chunk.id)
    with pytest.raises(DataLossError, match="symbolic link"):
        store.delete_chunk(chunk.id, permanent=True)
    with pytest.raises(DataLossError, match="symbolic link"):
        create(store)
    assert [path.name for path in outside.iterdir()] == [f"{chunk.id}.json"]

    month.unlink()
    month.mkdir()
    file_of(store, chunk).symlink_to(outside / f"{chunk.id}.json")
    assert store.get_chunk(chunk.id) is None
    assert store.list_chunks() == []


@pytest.mark.parametrize("name", ["chunks", "index", "archive", ".lock"])
def test_no_part_of_a_vault_is_elsewhere(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / name).symlink_to(outside / "lock" if name == ".lock" else outside)
    with pytest.raises((DataLossError, OSError)):
        create(ChunkStore(tmp_path / "vault"))
    assert [*outside.iterdir()] == []


DAMAGES: dict[str, Callable[[str], str]] = {
    "cut off": lambda text: text[: len(text) // 2],
    "empty": lambda _: "",
    "no object": lambda _: "[]",
    "wrong type": lambda text: text.replace('"fact"', '"dream"'),
    "wrong number": lambda text: text.replace('"tokens": 4', '"tokens": "4"'),
    "no count": lambda text: text.replace('"access_count": 0', f'"access_count": {2**53}'),
    "missing field": lambda text: text.replace('"content"', '"contents"'),
    "no metadata": lambda text: json.dumps(
        {name: held for name, held in json.loads(text).items() if name != "metadata"}
    ),
    "unknown field": lambda text: text.replace('"tags"', '"colour": 1, "tags"'),
    "wrong time": lambda text: text.replace("21:37:00Z", "21:37:00"),
    "wrong target": lambda text: text.replace('"follows": []', '"follows": ["../../x"]'),
    "another id": lambda text: text.replace('"id": "chunk-2026-02-10-', '"id": "chunk-2026-02-11-'),
    "too deep": lambda text: text.replace('"tags": []', '"extra": ' + "[" * 100_000),
}


@pytest.mark.requirement("S2-05", "S2-35", "S2-36")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_skipped_with_a_warning(
    store: ChunkStore, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole, damaged = create(store, "Luna likes coffee."), create(store)
    path = file_of(store, damaged)
    text = path.read_text(encoding="utf-8")
    assert DAMAGES[damage](text) != text
    path.write_text(DAMAGES[damage](text), encoding="utf-8")

    assert store.get_chunk(damaged.id) is None
    assert any(damaged.id in record.message for record in caplog.records if record.levelno == logging.WARNING)
    caplog.clear()
    assert [chunk.id for chunk in store.list_chunks()] == [whole.id]
    assert any(damaged.id in record.message for record in caplog.records if record.levelno == logging.WARNING)
    with pytest.raises(ChunkNotFoundError):
        store.update_chunk(damaged.id, confidence=0.5)
    assert list(store.check().corrupt) == [f"chunks/2026-02/{damaged.id}.json"]
    assert create(store).id  # and everything else goes on


@pytest.mark.requirement("S2-36")
@pytest.mark.parametrize("kind", ["pipe", "folder", "bytes"])
def test_what_is_no_text_file_is_skipped(store: ChunkStore, kind: str) -> None:
    chunk = create(store)
    path = file_of(store, chunk)
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            path.write_bytes(b"\xff\xfe\x00")
    assert store.get_chunk(chunk.id) is None
    assert store.list_chunks() == []


def test_a_folder_that_cannot_be_listed_is_no_empty_one(store: ChunkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    month = file_of(store, create(store)).parent
    (month.parent / ".DS_Store").touch()  # which is no folder of a month
    assert len(ChunkStore(store.root).list_chunks()) == 1
    listed = os.scandir

    def scandir(path: Any = ".") -> Any:
        if Path(os.fsdecode(path)) == month:  # the tests may run as root, whom no mode keeps out
            raise PermissionError(13, "Permission denied", str(month))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "listdir", lambda path=".": [each.name for each in scandir(path)])
    for read in (store.list_chunks, store.check):
        with pytest.raises(PermissionError):
            read()


@pytest.mark.requirement("S2-36", "S2-38")
def test_a_damaged_file_of_the_archive_stays_there(store: ChunkStore) -> None:
    chunk = create(store)
    store.delete_chunk(chunk.id)
    archived = store.root / "archive" / f"{chunk.id}.json"
    archived.write_text("{", encoding="utf-8")
    with pytest.raises(DataLossError):
        store.restore_chunk(chunk.id)
    assert archived.exists()
    report = store.check()
    assert (report.chunk_count, report.archived_count, list(report.corrupt)) == (0, 0, [f"archive/{chunk.id}.json"])
    assert not report.consistent


@pytest.mark.requirement("S2-22")
@pytest.mark.parametrize("lost", [*INDEXES, "all", "stale"])
def test_lost_and_stale_indexes_are_made_anew_equal(store: ChunkStore, lost: str) -> None:
    one = create(store, tags=["a"], conversation_id="conv-1")
    other = create(store, tags=["a", "ü"], conversation_id="conv-1")
    assert other.id in indexes(store)["metadata_index.json"]["chunks"]
    assert sorted(indexes(store)["tag_index.json"]["a"]) == sorted([one.id, other.id])
    assert indexes(store)["link_graph.json"][one.id]["related_to"] == [other.id]
    before = {name: (store.root / "index" / name).read_bytes() for name in INDEXES}
    for name in INDEXES:
        if lost == "stale":
            (store.root / "index" / name).write_text("{}", encoding="utf-8")
        elif lost in {name, "all"}:
            (store.root / "index" / name).unlink()
    wrong = [lost] if lost in INDEXES else list(INDEXES)
    opened = ChunkStore(store.root)
    found = opened.check()
    assert (found.wrong_indexes, found.consistent, found.repaired) == (wrong, False, False)
    assert opened.check() == found, "what is only looked at is not changed"
    assert opened.check(repair=True).consistent
    assert {name: (store.root / "index" / name).read_bytes() for name in INDEXES} == before
    assert opened.check().wrong_indexes == []


@pytest.mark.requirement("S2-01", "S2-26")
def test_a_memory_is_of_the_day_in_utc_wherever_it_was_made(tmp_path: Path) -> None:
    east = datetime(2026, 3, 1, 0, 30, tzinfo=timezone(timedelta(hours=2)))
    store = ChunkStore(tmp_path, now=lambda: east)
    chunk = create(store)
    assert chunk.id.startswith("chunk-2026-02-28-")
    assert json.loads(file_of(store, chunk).read_bytes())["metadata"]["created"] == "2026-02-28T22:30:00Z"


@pytest.mark.parametrize("archived", [False, True])
def test_a_memory_never_takes_the_id_of_another(
    store: ChunkStore, monkeypatch: pytest.MonkeyPatch, archived: bool
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _count: "a1b2c3d4")
    first = create(store)
    if archived:
        store.delete_chunk(first.id)
    with pytest.raises(AlreadyExistsError):
        create(store, "Luna likes coffee.")
    assert store.list_chunks(archived=archived) == [first]
    assert store.list_chunks(archived=not archived) == []


@pytest.mark.requirement("C18")
def test_links_close_over_a_deleted_memory_and_open_for_a_restored_one(store: ChunkStore, clock: Clock) -> None:
    chunks = []
    for number in range(3):
        chunks.append(create(store, f"Luna likes {number}.", conversation_id="conv-1", tags=["luna"]))
        clock.pass_s(60)

    def links() -> list[tuple[str, list[str], list[str]]]:
        return [(each.id, each.links.follows, sorted(each.links.related_to)) for each in store.list_chunks()]

    first, middle, last = (each.id for each in chunks)
    whole = links()
    assert [follows for _, follows, _ in whole] == [[], [first], [middle]]
    store.delete_chunk(middle)
    assert links() == [(first, [], [last]), (last, [first], [first])]
    restored = store.restore_chunk(middle)
    assert links() == whole
    assert (restored.links.follows, sorted(restored.links.related_to)) == ([first], sorted([first, last]))
    assert store.check().consistent
    assert middle in indexes(store)["metadata_index.json"]["chunks"]


@pytest.mark.requirement("S2-15", "C18")
@pytest.mark.parametrize(("seconds", "follows"), [(0, True), (1, True), (300, True), (301, False)])
def test_a_memory_follows_one_that_comes_back_before_it(
    store: ChunkStore, clock: Clock, seconds: int, follows: bool
) -> None:
    create(store, conversation_id="conv-1")
    clock.pass_s(seconds)
    create(store, conversation_id="conv-1")
    first, _ = store.list_chunks()  # of two of one moment, the one whose id comes first
    store.delete_chunk(first.id)
    assert [each.links.follows for each in store.list_chunks()] == [[]]
    store.restore_chunk(first.id)
    assert [each.links.follows for each in store.list_chunks()] == [[], [first.id] if follows else []]


def test_automatic_links_are_not_removed_by_hand(store: ChunkStore, clock: Clock) -> None:
    first = create(store, conversation_id="conv-1")
    clock.pass_s(60)
    second = create(store, conversation_id="conv-1")
    with pytest.raises(InvalidRequestError, match="link_type"):
        store.remove_link(second.id, "follows", first.id)
    assert store.list_chunks()[1].links.follows == [first.id]


@pytest.mark.parametrize("archived", [False, True])
def test_a_chunk_that_cannot_be_put_stays_where_it_was(store: ChunkStore, archived: bool) -> None:
    chunk = create(store)
    if not archived:
        store.delete_chunk(chunk.id)
    # What a full disk does, for one file.
    target = store.root / "archive" / f"{chunk.id}.json" if archived else file_of(store, chunk)
    target.mkdir()
    with pytest.raises(OSError, match="directory"):
        store.put_chunks([chunk], archived=archived)
    target.rmdir()
    assert store.list_chunks(archived=not archived) == [chunk]
    more = create(store, "Luna likes coffee.")
    store.put_chunks([chunk], archived=archived)
    assert store.list_chunks(archived=archived) == sorted(
        [chunk] if archived else [chunk, more], key=lambda each: each.id
    )
    report = store.check()
    assert (report.chunk_count, report.archived_count, report.consistent) == ((1, 1) if archived else (2, 0)) + (True,)


def test_an_index_that_is_a_link_is_made_anew_and_files_of_others_are_left_alone(
    store: ChunkStore, tmp_path: Path
) -> None:
    chunk = create(store, tags=["tea"])
    elsewhere, notes = tmp_path / "elsewhere.json", file_of(store, chunk).parent / "notes.json"
    elsewhere.write_bytes((store.root / "index" / "tag_index.json").read_bytes())
    (store.root / "index" / "tag_index.json").unlink()
    (store.root / "index" / "tag_index.json").symlink_to(elsewhere)
    notes.write_text("{}", encoding="utf-8")
    report = store.check()
    assert (report.wrong_indexes, report.corrupt) == (["tag_index.json"], {})
    assert store.check(repair=True).consistent
    assert not (store.root / "index" / "tag_index.json").is_symlink()
    assert notes.read_text(encoding="utf-8") == "{}"


def test_a_memory_is_restored_into_a_month_that_is_there_no_more(store: ChunkStore) -> None:
    chunk = create(store)
    store.delete_chunk(chunk.id)
    file_of(store, chunk).parent.rmdir()
    assert store.restore_chunk(chunk.id) == chunk
    assert store.list_chunks() == [chunk]


@pytest.mark.requirement("S2-22")
def test_a_file_that_was_changed_by_hand_is_taken_as_it_is(store: ChunkStore) -> None:
    chunk = create(store, tags=["tea"])
    path = file_of(store, chunk)
    # As an editor of Windows may: with a byte order mark and its line ends.
    text = path.read_text(encoding="utf-8").replace('"tea"', '"coffee"').replace("\n", "\r\n")
    path.write_text(text, encoding="utf-8-sig", newline="")
    assert [each.id for each in store.list_chunks(tags=["coffee"])] == [chunk.id]
    assert store.check().wrong_indexes == ["tag_index.json"]


@pytest.mark.requirement("S2-37")
def test_every_operation_leaves_one_audit_record(store: ChunkStore, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="groundwire.vault")
    chunk = create(store)
    store.get_chunk(chunk.id)
    store.update_chunk(chunk.id, confidence=0.5)
    store.delete_chunk(chunk.id)
    store.restore_chunk(chunk.id)
    store.delete_chunk(chunk.id, permanent=True)
    assert store.get_chunk(chunk.id) is None
    with pytest.raises(InvalidRequestError):
        store.get_chunk("../../x\n")
    with pytest.raises(ChunkNotFoundError):
        store.restore_chunk(chunk.id)
    path = file_of(store, chunk)
    path.write_text("{", encoding="utf-8")
    assert store.get_chunk(chunk.id) is None
    assert [each.levelname for each in caplog.records[-2:]] == ["WARNING", "INFO"]
    assert f"{chunk.id}.json" in caplog.records[-2].getMessage()
    path.unlink()
    store.put_chunks([chunk])
    store.put_chunks([chunk], archived=True)
    facts = [
        (each.__dict__["operation"], each.__dict__["chunk_id"], each.__dict__["outcome"])
        for each in caplog.records
        if each.levelname == "INFO"
    ]
    assert facts == [
        ("create", chunk.id, "ok"),
        ("read", chunk.id, "ok"),
        ("update", chunk.id, "ok"),
        ("delete", chunk.id, "ok"),
        ("restore", chunk.id, "ok"),
        ("delete permanently", chunk.id, "ok"),
        ("read", chunk.id, "missing"),
        ("read", "../../x\n", "INVALID_FIELD"),
        ("restore", chunk.id, "CHUNK_NOT_FOUND"),
        ("read", chunk.id, "corrupt"),
        ("put", chunk.id, "ok"),
        ("archive", chunk.id, "ok"),
    ]
    assert not [each.message for each in caplog.records if "\n" in each.message]


WRITER = """
import sys
from groundwire.vault import ChunkStore
store = ChunkStore(sys.argv[1])
for number in range(15):
    chunk = store.create_chunk(f"{sys.argv[2]} {number}", "note", "conv-1", 2, [sys.argv[2], "both"])
    store.get_chunk(chunk.id)
"""


@pytest.mark.requirement("T41")
def test_two_processes_write_one_folder(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name]) for name in ("one", "other")]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    store = ChunkStore(tmp_path)
    chunks = store.list_chunks()
    assert len(chunks) == 30
    assert {chunk.metadata.access_count for chunk in chunks} == {1}
    assert len([chunk for chunk in chunks if chunk.links.follows]) == 29
    report = store.check()
    assert (report.corrupt, report.wrong_indexes) == ({}, [])
    assert not list(tmp_path.rglob("*.new"))


def test_nobody_else_may_write_the_lock_of_a_folder(store: ChunkStore) -> None:
    create(store)
    assert (store.root / ".lock").stat().st_mode & 0o777 == 0o600


def test_whoever_waits_too_long_for_a_folder_is_told(store: ChunkStore) -> None:
    impatient = ChunkStore(store.root, lock_timeout_s=0.05)
    with store._locked(), pytest.raises(DeadlineError):
        create(impatient)
    assert create(impatient).id


@pytest.mark.requirement("T41")
def test_a_draft_that_a_killed_process_left_does_no_harm(store: ChunkStore, tmp_path: Path) -> None:
    chunk = create(store)
    outside = tmp_path / "outside"
    outside.write_text("stays", encoding="utf-8")
    file_of(store, chunk).with_name(f"{chunk.id}.json.new").symlink_to(outside)
    assert store.update_chunk(chunk.id, confidence=0.5).metadata.confidence == 0.5
    assert outside.read_text(encoding="utf-8") == "stays"
    assert store.check().consistent


def test_it_is_imported_without_the_packages_of_servers_and_clients() -> None:
    heavy = {"grpc", "google", "numpy", "sqlalchemy", "structlog", "click"}
    script = f"import sys, groundwire.vault; print({heavy!r} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
written = texts.filter(lambda text: bool(text.strip()))
tags = st.lists(written.map(lambda text: text.replace(",", ".").strip()).filter(bool), unique=True, max_size=4)
ids = st.from_regex(r"chunk-2026-0[1-9]-1[0-9]-[0-9a-f]{8}", fullmatch=True)
conversations = st.from_regex(r"conv-[A-Za-z0-9._-]{1,64}", fullmatch=True)
times = st.datetimes(timezones=st.just(UTC))
chunks = st.builds(
    Chunk,
    id=ids,
    content=written,
    tokens=st.integers(1, 10_000),
    type=st.sampled_from(["fact", "preference", "pattern", "note", "decision"]),
    metadata=st.builds(
        ChunkMetadata,
        created=times,
        conversation_id=st.none() | conversations,
        source=st.sampled_from(["interaction", "import", "derived"]),
        confidence=st.floats(0, 1),
        access_count=st.integers(0, 2**31),
        last_accessed=st.none() | times,
    ),
    links=st.builds(
        ChunkLinks,
        context_of=st.lists(conversations, max_size=2),
        **{name: st.lists(ids, max_size=3) for name in ("follows", "related_to", "supports", "contradicts")},
    ),
    tags=tags,
    extra=st.none() | st.dictionaries(texts, texts | st.integers() | st.lists(texts), max_size=3),
)


@pytest.mark.requirement("S2-24")
@given(chunk=chunks)
def test_a_chunk_comes_back_from_its_file_as_it_was(chunk: Chunk) -> None:
    text = chunk.to_json()
    assert Chunk.of_json(text.encode()) == chunk
    assert json.loads(text)["content"] == chunk.content
    assert ("extra" in json.loads(text)) == (chunk.extra is not None)


@settings(max_examples=30)
@given(live=st.lists(chunks, max_size=4), archived=st.lists(chunks, max_size=3))
def test_chunks_that_are_put_come_back_and_the_indexes_name_them(
    tmp_path_factory: pytest.TempPathFactory, live: list[Chunk], archived: list[Chunk]
) -> None:
    store = ChunkStore(tmp_path_factory.mktemp("vault"))
    store.put_chunks(live)
    store.put_chunks(archived, archived=True)
    last = {chunk.id: chunk for chunk in archived}
    stored = {chunk.id: chunk for chunk in live if chunk.id not in last}
    opened = ChunkStore(store.root)
    assert {chunk.id: chunk for chunk in opened.list_chunks(archived=True)} == last
    assert {chunk.id: chunk for chunk in opened.list_chunks()} == stored
    assert opened.check().wrong_indexes == []
    by_tag = {
        tag: {each.id for each in stored.values() if tag in each.tags} for each in stored.values() for tag in each.tags
    }
    assert {tag: set(found) for tag, found in indexes(store)["tag_index.json"].items()} == by_tag
