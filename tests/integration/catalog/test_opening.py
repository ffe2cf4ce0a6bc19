"""Opening a catalog file: one owner, one schema, no file made worse."""

import contextvars
import hashlib
import re
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pysqlite3
import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from groundwire.catalog import database as catalog_database
from groundwire.catalog.database import Database, Limits
from groundwire.catalog.dialects import interruptible
from groundwire.catalog.sqlite import check_sqlite_version
from groundwire.kernel.budget import CURRENT_BUDGET, Budget
from groundwire.kernel.errors import (
    CallCancelledError,
    DataLossError,
    DeadlineError,
    DrainingError,
    ExhaustedError,
    InvalidRequestError,
    StoreMismatchError,
    StoreOwnedError,
)
from tests.catalogs import problems_of
from tests.integration.catalog.drafts import TENANT, make_collection, make_draft, open_catalog
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.sqlite

_CONNECTIONS = Limits().connections


HOUR_MS = 3_600_000


def _open(path: Path) -> Database:
    return Database.open(f"sqlite:{path}")


def test_a_new_file_and_its_folder_are_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "catalog.db"
    _open(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("url", ["sqlite:", "sqlite", "catalog.db", "sqlite:/"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequestError):
        Database.open(url)


def test_a_second_opener_learns_who_owns_the_file(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    code = (
        "import sys\nfrom groundwire.catalog.database import Database\n"
        "Database.open(sys.argv[1])\nprint('open', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, f"sqlite:{path}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "open\n"
        with pytest.raises(StoreOwnedError) as raised:
            _open(path)
        assert raised.value.metadata == {"path": str(path), "owner": str(owner.pid)}
        owner.kill()
    _open(path).close()


def test_the_file_is_free_again_after_closing(tmp_path: Path) -> None:
    database = _open(tmp_path / "catalog.db")
    with pytest.raises(StoreOwnedError):
        _open(tmp_path / "catalog.db")
    database.close()
    database.close()
    _open(tmp_path / "catalog.db").close()


def test_a_closed_catalog_says_so(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path / "catalog.db")
    catalog.database.close()
    with pytest.raises(DrainingError):
        catalog.collections.get(TENANT, "docs")
    with pytest.raises(DrainingError):
        catalog.collections.create(make_collection())


def test_a_newer_revision_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    _open(path).close()
    with pysqlite3.connect(str(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    before = hashlib.sha256(path.read_bytes()).digest()
    with pytest.raises(StoreMismatchError) as raised:
        _open(path)
    assert raised.value.metadata["got"] == "9999"
    assert "by a later version of groundwire: it has revision 9999, " in raised.value.message
    assert hashlib.sha256(path.read_bytes()).digest() == before


def test_another_sqlite_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with pysqlite3.connect(str(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreMismatchError):
        _open(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_data_loss(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    path.write_bytes(b"not a database at all" * 100)
    for _ in range(2):  # The lock is released each time.
        with pytest.raises(DataLossError):
            _open(path)


@pytest.mark.parametrize(
    ("version", "is_safe"),
    [((3, 40, 1), False), ((3, 51, 2), False), ((3, 51, 3), True), ((3, 52, 0), False), ((3, 53, 0), True)],
)
def test_versions_with_the_corruption_bug_are_refused(version: tuple[int, ...], is_safe: bool) -> None:
    if is_safe:
        check_sqlite_version(version)
    else:
        with pytest.raises(StoreMismatchError):
            check_sqlite_version(version)


def test_a_migration_killed_at_any_time_is_run_again(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom groundwire.catalog.migrations import migrate\nfrom pathlib import Path\nprint(flush=True)\n"
    )
    for number, delay in enumerate((0.002, 0.01, 0.02, 0.03)):
        path = tmp_path / f"{number}.db"
        process = subprocess.Popen(
            [sys.executable, "-c", code + "migrate(Path(sys.argv[1]))", str(path)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.kill()
        process.communicate()
        catalog = open_catalog(path)
        catalog.put(catalog.collections.create(make_collection()), make_draft("tide"))
        assert problems_of(catalog.database) == []
        catalog.database.close()


def test_every_connection_has_the_settings_that_durability_needs(tmp_path: Path) -> None:
    database = _open(tmp_path / "catalog.db")

    def settings(run: object) -> tuple[object, ...]:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "query_only")
        return tuple(run.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names)  # type: ignore[attr-defined]  # a connection

    full = 2
    assert database.write(settings) == ("wal", full, 1, 10_000, 0)
    together = threading.Barrier(2, timeout=10)

    def read() -> tuple[object, ...]:
        with database.read() as connection:
            together.wait()  # so that each thread has a connection of its own
            return settings(connection)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(read), pool.submit(read)
        assert first.result(10)[2:] == second.result(10)[2:] == (1, 10_000, 1)
    database.close()


def test_a_read_is_one_snapshot_and_does_not_wait_for_the_writer(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path / "catalog.db")
    inside, go_on = threading.Event(), threading.Event()

    def slow(connection: object) -> None:
        connection.exec_driver_sql("UPDATE counters SET value = 41")  # type: ignore[attr-defined]  # a connection
        inside.set()
        go_on.wait(10)

    writer = threading.Thread(target=catalog.database.write, args=(slow,))
    with catalog.database.read() as before:
        assert catalog.database.position(before) == 0
        writer.start()
        inside.wait(10)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(_position, catalog.database).result(10) == 0
        go_on.set()
        writer.join(10)
        assert catalog.database.position(before) == 0
    with catalog.database.read() as after:
        assert catalog.database.position(after) == 41
    catalog.database.close()


def _position(database: Database) -> int:
    with database.read() as connection:
        return database.position(connection)


def _within(budget: Budget, work: Callable[[], object]) -> object:
    """Run `work` as a part of a call with this budget."""

    def run() -> object:
        CURRENT_BUDGET.set(budget)
        return work()

    return contextvars.copy_context().run(run)


def test_a_thread_that_reads_waits_for_the_catalog_neither_to_read_nor_to_write(tmp_path: Path) -> None:
    database = _open(tmp_path / "catalog.db")
    with database.read():
        with pytest.raises(RuntimeError, match="must not wait for it again"):
            _position(database)
        with pytest.raises(RuntimeError, match="must not wait for it again"):
            database.write(lambda _: None)
    assert _position(database) == 0
    database.close()


def test_what_is_tidied_up_after_the_deadline_of_a_call_still_gets_its_turn(tmp_path: Path) -> None:
    database = _open(tmp_path / "catalog.db")
    is_writing, go_on = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        is_writing.set()
        assert go_on.wait(20)

    with ThreadPoolExecutor(2) as pool:
        holder = pool.submit(database.write, hold)
        assert is_writing.wait(10)
        tidying = pool.submit(_within, Budget(0.0), lambda: database.write(lambda _: "tidied up"))
        while not database.usage().waiting_writes and not tidying.done():
            time.sleep(0.001)
        go_on.set()
        assert tidying.result(10) == "tidied up"
        holder.result(10)
    database.close()


def test_waiting_for_a_connection_ends_with_the_call_and_takes_none_away(tmp_path: Path) -> None:
    database = _open(tmp_path / "catalog.db")
    go_on, reading = threading.Event(), threading.Semaphore(0)

    def hold() -> None:
        with database.read():
            reading.release()
            go_on.wait(20)

    with ThreadPoolExecutor(_CONNECTIONS + 1) as pool:
        holders = [pool.submit(hold) for _ in range(_CONNECTIONS)]
        for _ in holders:
            assert reading.acquire(timeout=10)
        with pytest.raises(DeadlineError):
            _within(Budget(0.1), lambda: _position(database))
        cancelled = Budget()
        waiting = pool.submit(_within, cancelled, lambda: _position(database))
        time.sleep(0.05)
        cancelled.cancel()
        with pytest.raises(CallCancelledError):
            waiting.result(10)
        go_on.set()
        for holder in holders:
            holder.result(10)
        again = [pool.submit(_position, database) for _ in range(2 * _CONNECTIONS)]
        assert [future.result(10) for future in again] == [0] * len(again)
    database.close()


def test_a_write_that_could_not_begin_within_its_call_never_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_database, "_TIDYING_S", 0.1)
    database = _open(tmp_path / "catalog.db")
    go_on, done = threading.Event(), []
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(database.write, lambda _: go_on.wait(20))
        started = time.monotonic()
        with pytest.raises(DeadlineError):
            _within(Budget(0.1), lambda: database.write(lambda _: done.append(1)))
        assert time.monotonic() - started < 5
        go_on.set()
        assert first.result(10)
    database.write(lambda _: done.append(2))
    assert done == [2]
    database.close()


def test_a_failing_unit_of_work_rolls_back_and_its_error_comes_through(tmp_path: Path) -> None:
    database = _open(tmp_path / "catalog.db")

    class OwnError(Exception):
        pass

    def work(connection: object) -> None:
        connection.exec_driver_sql("UPDATE counters SET value = 5")  # type: ignore[attr-defined]  # a connection
        raise OwnError

    with pytest.raises(OwnError):
        database.write(work)
    with database.read() as connection:
        assert database.position(connection) == 0
    with pytest.raises(RuntimeError):
        database.write(lambda _: database.write(lambda _: None))
    database.close()


def test_a_full_disk_is_exhaustion_and_reads_go_on(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path / "catalog.db")
    docs = catalog.collections.create(make_collection())
    document, _ = catalog.put(docs, make_draft("tide"))
    catalog.database.write(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 1"))
    with pytest.raises(ExhaustedError, match=re.escape(f"no space is left on the disk of '{tmp_path / 'catalog.db'}'")):
        catalog.put(docs, make_draft(*["moon" * 1_000] * 100, source="b"))
    assert catalog.documents.page(TENANT, "docs", None, 10) == [document]
    catalog.database.write(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 1000000"))
    catalog.put(docs, make_draft(*["moon" * 1_000] * 100, source="b"))
    assert problems_of(catalog.database) == []
    catalog.database.close()


def test_numbers_go_on_after_reopening(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path / "catalog.db")
    docs = catalog.collections.create(make_collection())
    document, first = catalog.put(docs, make_draft("a", "b", "c"))
    catalog.documents.delete(TENANT, "docs", document.document_id)
    catalog.database.close()
    again = open_catalog(tmp_path / "catalog.db")
    _, second = again.put(docs, make_draft("a"))
    assert second.numbers[0] == first.numbers[-1] + 1
    again.database.close()


def test_a_pause_counts_as_time_without_a_server_and_a_clock_set_back_as_none(tmp_path: Path) -> None:
    clock = ManualClock()

    def read() -> tuple[int, int]:
        database = Database.open(f"sqlite:{tmp_path / 'catalog.db'}", clock)
        found = database.steady.now_ms(), database.steady.with_downtime_ms()
        database.close()
        return found

    began, _ = read()
    clock.advance(hours=2)
    assert read() == (began, began + 2 * HOUR_MS)
    clock.jump(hours=-1)
    assert read() == (began, began + 2 * HOUR_MS)


def test_a_current_catalog_opens_without_alembic(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    _open(path).close()
    code = f"""
import sys
from groundwire.catalog.database import Database
Database.open({f"sqlite:{path}"!r}).close()
print("alembic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_what_may_be_interrupted_ends_with_its_block(tmp_path: Path) -> None:
    count = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 500000) SELECT count(*) FROM n"
    database = _open(tmp_path / "catalog.db")
    with database.read() as connection:
        with interruptible(connection, lambda: True), pytest.raises(OperationalError):
            connection.exec_driver_sql(count)
        assert connection.exec_driver_sql(count).scalar() == 500_000
    database.close()
