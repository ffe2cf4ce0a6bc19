"""A catalog on a PostgreSQL server: shared by processes, and lost and found again."""

import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, select

from groundwire.catalog import database as catalog_database
from groundwire.catalog.database import POSITION_NOW, Database, advance_position
from groundwire.catalog.dialects import interruptible
from groundwire.catalog.index_builds import IndexBuilds
from groundwire.catalog.migrations import HEAD
from groundwire.catalog.operations import Operations
from groundwire.catalog.schema import metadata
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import (
    DeadlineError,
    InvalidRequestError,
    QuotaExceededError,
    StoreMismatchError,
    StoreUnavailableError,
)
from groundwire.kernel.identity import CURRENT_IDENTITY, Identity, Quota
from tests.catalogs import POSTGRESQL, SQLITE, catalog_url, catalogs_are, open_database, problems_of
from tests.integration.catalog.drafts import TENANT, Catalog, make_collection, make_draft, open_catalog
from tests.postgresql import Server, server


def change(connection: Connection) -> int:
    """Count a change, as a unit of work does."""
    return advance_position(connection, 1)


@pytest.fixture(autouse=True)
def on_postgresql() -> Iterator[None]:
    with catalogs_are(POSTGRESQL):
        yield


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that a test may stop."""
    shared = server()
    own = shared.another()
    yield own
    own.remove()


def ends_every_connection(url: str) -> None:
    name = url.rpartition("/")[2]
    server().execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")  # noqa: S608


def position_of(database: Database) -> int:
    with database.read() as connection:
        return Database.position(connection)


@pytest.mark.parametrize("quota", [Quota(documents=5), Quota(stored_bytes=5 * len("text 00"))])
def test_processes_that_write_side_by_side_store_no_more_than_a_tenant_may_together(
    tmp_path: Path, quota: Quota
) -> None:
    catalogs = [open_catalog(tmp_path / "catalog.db") for _ in range(2)]
    collection = make_collection()
    catalogs[0].collections.create(collection)

    def put(number: int) -> bool:
        CURRENT_IDENTITY.set(Identity(TENANT, quota=quota))
        try:
            catalogs[number % 2].begin(collection, make_draft(f"text {number:02}", source=f"{number}.md"))
        except QuotaExceededError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        stored = list(pool.map(put, range(20)))
    assert sum(stored) == 5
    for catalog in catalogs:
        catalog.database.close()


def test_two_processes_see_at_once_what_the_other_has_written(tmp_path: Path) -> None:
    one, other = open_catalog(tmp_path / "catalog.db"), open_catalog(tmp_path / "catalog.db")
    docs = one.collections.create(make_collection())
    assert other.database.latest_position == one.database.latest_position
    document, _ = one.put(docs, make_draft("tide"))
    assert other.numbers_for(docs, "tide") == one.numbers_for(docs, "tide") != []
    other.put(docs, make_draft("ebb", document_id=document.document_id, expected=1))
    # Remembered views, chunks and scores of the first are of an earlier position.
    assert one.numbers_for(docs, "tide") == []
    assert one.numbers_for(docs, "ebb") == other.numbers_for(docs, "ebb") != []
    assert one.database.latest_position == other.database.latest_position > 0
    one.database.close()
    other.database.close()


def test_a_late_interruption_does_not_hit_the_next_statement(tmp_path: Path) -> None:
    database, asked, is_over = open_database(tmp_path / "catalog.db"), threading.Event(), threading.Event()

    def answer() -> bool:
        asked.set()
        return is_over.wait(30.0)

    with database.read() as connection:
        with interruptible(connection, answer):
            assert asked.wait(30.0)
            threading.Timer(0.3, is_over.set).start()
        connection.exec_driver_sql("SELECT pg_sleep(1)")
    database.close()


def test_processes_write_one_after_the_other_and_give_no_number_twice(tmp_path: Path) -> None:
    opened = [open_database(tmp_path / "catalog.db") for _ in range(3)]
    before = opened[0].latest_position

    def work(database: Database) -> list[int]:
        numbers: list[int] = []
        for _ in range(20):
            database.write(change)
            numbers += database.take_chunk_numbers(700)
        return numbers

    with ThreadPoolExecutor(3) as threads:
        numbers = [number for each in threads.map(work, opened) for number in each]
    assert opened[0].latest_position == before + 60
    assert len(set(numbers)) == len(numbers) == 3 * 20 * 700
    for database in opened:
        database.close()


def test_broken_connections_are_replaced(tmp_path: Path) -> None:
    database = open_database(tmp_path / "catalog.db")
    barrier = threading.Barrier(4)

    def read(_: int) -> int:
        with database.read() as connection:
            barrier.wait(30)  # so that each has a connection of its own
            return Database.position(connection)

    with ThreadPoolExecutor(4) as threads:
        before = set(threads.map(read, range(4)))
        ends_every_connection(catalog_url(tmp_path / "catalog.db"))
        assert set(threads.map(read, range(4))) == before
        ends_every_connection(catalog_url(tmp_path / "catalog.db"))
        assert [row.now for row in database.rows(select(POSITION_NOW.label("now")))] == list(before)
    ends_every_connection(catalog_url(tmp_path / "catalog.db"))
    assert database.write(change) == before.pop() + 1
    database.close()


def test_a_connection_that_breaks_in_the_middle_is_an_unavailable_catalog(tmp_path: Path) -> None:
    database = open_database(tmp_path / "catalog.db")
    before = position_of(database)

    def broken_write() -> None:
        def work(connection: object) -> None:
            ends_every_connection(catalog_url(tmp_path / "catalog.db"))
            change(connection)  # type: ignore[arg-type]  # what a unit of work gets

        database.write(work)

    def broken_read() -> None:
        with database.read() as connection:
            Database.position(connection)
            ends_every_connection(catalog_url(tmp_path / "catalog.db"))
            Database.position(connection)

    for broken in (broken_write, broken_read):
        with pytest.raises(StoreUnavailableError):
            broken()
    assert position_of(database) == before
    assert database.write(change) == before + 1
    database.close()


def test_writes_that_share_a_transaction_whose_connection_breaks_are_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_database, "GROUP_S", 30.0)  # a busy machine takes longer than that for one of them
    database = open_database(tmp_path / "catalog.db")
    before, inside, may_go = position_of(database), threading.Event(), threading.Event()

    def hold(_: object) -> None:
        inside.set()
        may_go.wait(60)

    def break_off(connection: object) -> None:
        ends_every_connection(catalog_url(tmp_path / "catalog.db"))
        change(connection)  # type: ignore[arg-type]  # what a unit of work gets

    with ThreadPoolExecutor(4) as threads:
        holding = threads.submit(database.write, hold)
        assert inside.wait(30)
        together = []
        for work in (change, break_off, change):
            together.append(threads.submit(database.write, work))
            while database.usage().waiting_writes < len(together):
                time.sleep(0.001)
        may_go.set()
        holding.result(30)
        for each in together[:2]:
            with pytest.raises(StoreUnavailableError):
                each.result(30)
        assert together[2].result(30) == before + 1
    assert database.write(change) == before + 2
    database.close()


def test_who_waits_too_long_for_another_writer_is_told(tmp_path: Path) -> None:
    database = open_database(tmp_path / "catalog.db")
    waiting = open_database(tmp_path / "catalog.db")
    inside, may_go = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        inside.set()
        may_go.wait(60)

    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(database.write, hold)
        assert inside.wait(10)
        probe = waiting.probe()
        probe.check_writable()
        with pytest.raises(StoreUnavailableError):
            waiting.write(change)  # after 10 s
        with pytest.raises(StoreUnavailableError, match="locked"):
            probe.check_writable()
        probe.check_readable()
        may_go.set()
        holding.result(30)
    waiting.write(change)
    probe.check_writable()
    probe.close()
    database.close()
    waiting.close()


def test_a_server_that_is_gone_is_told_and_found_again(own_server: Server, tmp_path: Path) -> None:
    database = Database.open(own_server.new_database(), folder=tmp_path)
    probe = database.probe()
    probe.check_readable()
    own_server.stop()
    began_at = time.monotonic()
    with pytest.raises(StoreUnavailableError):
        probe.check_readable()
    with pytest.raises(StoreUnavailableError):
        position_of(database)
    with pytest.raises(StoreUnavailableError):
        database.write(change)
    assert time.monotonic() - began_at < 20
    own_server.start()
    probe.check_readable()
    assert database.write(change) == position_of(database)
    probe.close()
    database.close()


def test_databases_that_are_no_catalog_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    url = server().new_database()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE theirs (x int)")
    with pytest.raises(StoreMismatchError):
        Database.open(url)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (1,)
    for wrong in ("postgresql://", "postgresql://host:port/x"):
        with pytest.raises((InvalidRequestError, StoreUnavailableError)):
            Database.open(wrong)


def take_back_migrations(url: str) -> None:
    """Take away what 0.1.0 did not have, as if it had made the catalog."""
    with sqlite3.connect(":memory:") as release:
        release.executescript(Path(__file__).with_name("release_0_1_0.sql").read_text("utf-8"))
        had = dict(release.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall())
        columns = {name: {row[1] for row in release.execute(f"PRAGMA table_info({name})")} for name in had}
        indexes = {row[0] for row in release.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")}
    with psycopg.connect(url) as connection:
        for table in metadata.tables.values():
            if table.name not in had:
                connection.execute(f"DROP TABLE {table.name} CASCADE")
                continue
            for column in {each.name for each in table.columns} - columns[table.name]:
                connection.execute(f"ALTER TABLE {table.name} DROP COLUMN {column}")
            # Of the tables that were there then; those of dropped columns are gone with them.
            for index in {str(each.name) for each in table.indexes} - indexes:
                connection.execute(f"DROP INDEX IF EXISTS {index}")
        connection.execute("UPDATE alembic_version SET version_num = '0001_first_schema'")


def test_processes_that_start_at_once_migrate_once(tmp_path: Path) -> None:
    empty, earlier = server().new_database(), server().new_database()
    Database.open(earlier, folder=tmp_path).close()
    take_back_migrations(earlier)
    for url in (empty, earlier):
        together = threading.Barrier(3)

        def start(_: int, url: str = url, together: threading.Barrier = together) -> Database:
            together.wait(60)
            return Database.open(url, folder=tmp_path)

        with ThreadPoolExecutor(3) as threads:
            opened = list(threads.map(start, range(3)))
        assert opened[0].write(change) == opened[1].latest_position == 1
        for database in opened:
            database.close()
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
            assert connection.execute("SELECT count(owner) FROM operations").fetchone() == (0,)


def schema_of(url: str) -> set[tuple[object, ...]]:
    """Return the columns with their types, orders and defaults, and the indexes and conditions of all tables."""
    statements = (
        """SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default
        FROM information_schema.columns WHERE table_schema = 'public'""",
        "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        "SELECT conrelid::regclass::text, contype, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid <> 0",
    )
    with psycopg.connect(url) as connection:
        return {row for statement in statements for row in connection.execute(statement)}


def test_a_catalog_that_is_brought_up_to_date_has_the_schema_of_a_new_one(tmp_path: Path) -> None:
    new, earlier = server().new_database(), server().new_database()
    for url in (new, earlier):
        Database.open(url, folder=tmp_path).close()
    take_back_migrations(earlier)
    assert ("audit", "subject") in {row[:2] for row in schema_of(new) - schema_of(earlier)}
    Database.open(earlier, folder=tmp_path).close()
    assert schema_of(earlier) == schema_of(new)


def test_words_beyond_what_an_index_holds_are_found(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path / "catalog.db")
    docs = catalog.collections.create(make_collection())
    long = random.Random(7).choices("bcdfghjklmnpqrstvwxz0123456789", k=6000)
    word, other = "".join(long), "".join(long[:-1]) + "q"
    catalog.put(docs, make_draft(f"{word} tide", "ebb"))
    assert len(catalog.numbers_for(docs, word)) == 1
    assert catalog.numbers_for(docs, f"{other}0") == []
    assert problems_of(catalog.database) == []
    catalog.database.close()


def ranking(catalog: Catalog, docs: Collection, words: list[str]) -> list[tuple[str, float]]:
    found = catalog.full_text.search(TENANT, "docs", words, [], 50)
    chunks = catalog.live(TENANT, "docs", [match.number for match in found])
    return [(chunks[match.number].chunk.content, match.score) for match in found]


@pytest.mark.parametrize("seed", range(3))
def test_searches_by_words_rank_as_on_sqlite(tmp_path: Path, seed: int) -> None:
    catalogs = {}
    for kind in (SQLITE, POSTGRESQL):
        with catalogs_are(kind):
            catalogs[kind] = open_catalog(tmp_path / "catalog.db")
        rng = random.Random(seed)
        words = ["tide", "Tide", "Ebbe", "Flut", "Ähre", "zebra", "C++", "潮汐表", "naïve", "mud", "_", "10%"]
        docs = catalogs[kind].collections.create(make_collection())
        documents = []
        for number in range(12):
            texts = [" ".join(rng.choices(words, k=rng.randrange(1, 30))) + f" n{number}x{i}" for i in range(4)]
            document, _ = catalogs[kind].put(docs, make_draft(*texts, source=f"{number}.md"))
            documents.append(document)
        for document in rng.sample(documents, 4):
            text_ = " ".join(rng.choices(words, k=9)) + f" again {document.source_uri}"
            catalogs[kind].put(
                docs, make_draft(text_, source=document.source_uri, document_id=document.document_id, expected=1)
            )
        for document in rng.sample(documents, 2):
            catalogs[kind].documents.delete(TENANT, "docs", document.document_id)
    found = {}
    for kind, catalog in catalogs.items():
        queries = [["tide"], ["Ebbe", "Flut"], ["潮汐"], ["C++", "mud", "naive"], ["tide ebbe"], ["zebra", "Ähre"]]
        found[kind] = [ranking(catalog, docs, query) for query in queries]
        catalog.database.close()
    assert found[SQLITE] == found[POSTGRESQL]
    assert sum(len(each) for each in found[SQLITE]) > 50


def test_what_living_processes_work_on_is_not_taken_back(tmp_path: Path) -> None:
    one, other = open_catalog(tmp_path / "catalog.db"), open_catalog(tmp_path / "catalog.db")
    docs = one.collections.create(make_collection())
    pending = one.begin(docs, make_draft("tide"))
    build = IndexBuilds(one.database).begin(docs, docs.identity)
    begun = Operations(one.database).begin(TENANT, "op-1", "Reindex", "docs", b"")
    operations = Operations(other.database)
    assert other.recovery.leftovers() == []
    assert IndexBuilds(other.database).abandon_all() == 0
    assert operations.take_over() == []
    one.database.close()
    assert [left.key for left in other.recovery.leftovers()] == [pending.key]
    assert IndexBuilds(other.database).abandon_all() == 1
    assert {item.engine_name for item in other.outbox.pending(10)} == {build.engine_name}
    assert [each.operation_id for each in operations.take_over(at_start=False)] == [begun.operation_id]
    # Also not a second time at the start, before which the job that looks after others may have run.
    assert operations.take_over(at_start=False) == operations.take_over() == []
    other.database.close()


def test_a_process_that_loses_its_session_is_seen_again(tmp_path: Path) -> None:
    one, other = open_database(tmp_path / "catalog.db"), open_database(tmp_path / "catalog.db")

    def others_of_one() -> frozenset[int]:
        with one.read() as connection:
            return one.other_owners(connection)

    before = others_of_one()
    assert len(before) == 1
    ends_every_connection(catalog_url(tmp_path / "catalog.db"))
    ends_at = time.monotonic() + 20
    while others_of_one() != before:
        assert time.monotonic() < ends_at
        time.sleep(0.05)
    other.close()
    assert others_of_one() == frozenset()
    one.close()


def test_one_process_at_a_time_is_inside(tmp_path: Path) -> None:
    one, other = open_database(tmp_path / "catalog.db"), open_database(tmp_path / "catalog.db")
    order: list[str] = []
    with ThreadPoolExecutor(1) as threads, one.exclusive("engine", Budget()):
        with pytest.raises(DeadlineError), other.exclusive("engine", Budget(0.1)):
            order.append("both")

        def enter() -> None:
            with other.exclusive("engine", Budget(30)):
                order.append("second")

        waiting = threads.submit(enter)
        with other.exclusive("another engine", Budget(30)):
            order.append("first")
        one._storage.end_exclusive("engine")
        waiting.result(30)
    assert order == ["first", "second"]
    one.close()
    other.close()


_INGESTING = """
import sys
from pathlib import Path
from groundwire.kernel.errors import GroundwireError
from tests.catalogs import POSTGRESQL, catalogs_are
from tests.integration.catalog.drafts import TENANT, make_draft, open_catalog
from tests import catalogs

worker, url = sys.argv[1:]
catalogs._databases[Path("catalog.db")] = url
with catalogs_are(POSTGRESQL):
    catalog = open_catalog(Path("catalog.db"))
docs = catalog.collections.get(TENANT, "docs")
for step in range(1000):
    for source in (f"own-{worker}-{step % 7}.md", f"shared-{step % 5}.md"):
        found = catalog.documents.find_by_source(TENANT, "docs", source)
        try:
            catalog.put(docs, make_draft(
                f"w{worker} s{step} a", f"w{worker} s{step} b", source=source,
                document_id=found.document_id if found else None, expected=found.generation if found else 0,
            ))
        except GroundwireError as error:
            print("LOST", type(error).__name__, flush=True)
        else:
            print("PUT", source, step, flush=True)
"""


class Ingesting:
    """A process that ingests until it is killed, and remembers the last step that it was told of for each source."""

    def __init__(self, worker: str, url: str) -> None:
        self.worker = worker
        self.last: dict[str, int] = {}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _INGESTING, worker, url],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def follow(self, puts: int) -> None:
        """Read on until it has ingested so often, or has ended."""
        assert self.process.stdout is not None
        while puts and (line := self.process.stdout.readline()):
            told, *rest = line.split()
            if told == "PUT":
                source, step = rest
                self.last[source], puts = int(step), puts - 1

    def kill(self) -> None:
        """Kill it, and read what it has said."""
        self.process.kill()
        self.follow(10_000)
        self.process.communicate(timeout=30)


def test_processes_that_are_killed_neither_double_nor_lose(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path / "catalog.db")
    catalog.collections.create(make_collection())
    url = catalog_url(tmp_path / "catalog.db")
    first, second = Ingesting("a", url), Ingesting("b", url)
    first.follow(10)
    first.kill()
    third = Ingesting("c", url)
    second.follow(30)
    third.follow(10)
    second.kill()
    third.kill()
    ends_at = time.monotonic() + 20
    with catalog.database.read() as connection:
        while catalog.database.other_owners(connection):
            assert time.monotonic() < ends_at
            time.sleep(0.05)
    for left in catalog.recovery.leftovers():
        catalog.documents.abandon(left)
    listed = catalog.documents.page(TENANT, "docs", None, 100)
    sources = [document.source_uri for document in listed]
    assert len(set(sources)) == len(sources)
    assert set(sources) >= {*first.last, *second.last, *third.last} >= {f"shared-{step}.md" for step in range(5)}
    assert problems_of(catalog.database) == []
    of_source = {}
    for document in listed:
        chunks = catalog.chunks.page(TENANT, "docs", document.document_id, -1, 10)
        (words,) = {tuple(chunk.chunk.content.split()[:2]) for chunk in chunks}
        assert len(chunks) == 2
        of_source[document.source_uri] = (words[0], int(words[1][1:]))
    # What was killed may have been written and not told, so a step may be later than the last one that was told.
    for each in (first, second, third):
        own = {source: step for source, step in each.last.items() if source.startswith("own")}
        assert len(own) >= 4
        for source, step in own.items():
            assert of_source[source][0] == f"w{each.worker}"
            assert of_source[source][1] >= step
    catalog.database.close()


def test_the_past_is_read_as_it_was(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path / "catalog.db")
    made = make_collection()
    kept = replace(made, settings=replace(made.settings, generation_retention=timedelta(days=1)))
    docs = catalog.collections.create(kept)
    document, _ = catalog.put(docs, make_draft("tide"))
    view = catalog.full_text._views.open(TENANT, "docs")
    catalog.put(docs, make_draft("ebb", document_id=document.document_id, expected=1))
    (number,) = view.lexical(["tide"], [], 5).numbers.tolist()
    assert view.facts([number])[number].generation == 1
    stored = view.chunks([number])[number]
    assert (stored.chunk.content, stored.document.fields) == ("tide", document.fields)
    catalog.database.close()


def test_a_character_that_it_cannot_hold_is_refused_by_name(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path / "catalog.db")
    docs = catalog.collections.create(make_collection())
    with pytest.raises(InvalidRequestError, match=r"U\+0000"):
        catalog.documents.locate(TENANT, ["a\x00b"], None)
    with pytest.raises(InvalidRequestError, match=r"U\+0000"):
        catalog.collections.get(TENANT, f"{docs.name}\x00")
    catalog.database.close()
