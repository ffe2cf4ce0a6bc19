"""The probe of the catalog file."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pysqlite3
import pytest
from sqlalchemy import Connection, text

from groundwire.catalog import sqlite
from groundwire.catalog.database import Database
from groundwire.catalog.sqlite import FileProbe
from groundwire.kernel.errors import StoreUnavailableError
from tests.catalogs import open_database

pytestmark = pytest.mark.sqlite


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Database]:
    catalog = open_database(tmp_path / "catalog.db")
    yield catalog
    catalog.close()


@pytest.fixture
def probe(catalog: Database) -> Iterator[FileProbe]:
    probe = FileProbe(catalog.path)
    yield probe
    probe.close()


def test_a_catalog_at_work_can_be_read_and_written(catalog: Database, probe: FileProbe) -> None:
    probe.check_readable()
    probe.check_writable()
    catalog.write(lambda connection: connection.execute(text("SELECT 1")))
    probe.check_readable()
    probe.check_writable()


@pytest.mark.alone
def test_a_catalog_that_others_keep_locked_cannot_be_written(
    catalog: Database, probe: FileProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_STUCK_S", 0.6)
    probe.check_writable()
    stranger = pysqlite3.connect(str(catalog.path), isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    probe.check_writable()  # a transaction may take a moment
    time.sleep(0.8)
    with pytest.raises(StoreUnavailableError, match="locked"):
        probe.check_writable()
    probe.check_readable()
    stranger.execute("CREATE TABLE done (x)")
    stranger.execute("COMMIT")
    stranger.execute("BEGIN IMMEDIATE")
    probe.check_writable()  # somebody gets on with it
    stranger.execute("ROLLBACK")
    stranger.close()
    probe.check_writable()


@pytest.mark.alone
def test_a_long_transaction_of_our_own_is_no_fault_while_it_works(
    catalog: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_STUCK_S", 1.0)
    probe = FileProbe(catalog.path, catalog.writer_busy_s)
    begun, rests, ends = threading.Event(), threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        begun.set()
        # With pauses, without which this thread lets no other one run on some machines.
        while not rests.wait(0.002):
            connection.execute(text("SELECT 1"))
        ends.wait(30)

    writing = threading.Thread(target=catalog.write, args=(work,), kwargs={"alone": True})
    writing.start()
    try:
        assert begun.wait(10)
        ends_at, checks = time.monotonic() + 2.0, 0
        while time.monotonic() < ends_at:
            probe.check_writable()
            checks += 1
            time.sleep(0.1)
        assert checks > 3
        # A transaction that does nothing keeps others from writing as well, and may never end.
        rests.set()
        time.sleep(0.3)
        probe.check_writable()
        time.sleep(1.2)
        with pytest.raises(StoreUnavailableError, match="locked"):
            probe.check_writable()
    finally:
        rests.set()
        ends.set()
        writing.join(10)
    probe.check_writable()
    probe.close()


def test_a_catalog_whose_file_is_gone_is_lost(catalog: Database, probe: FileProbe) -> None:
    probe.check_readable()
    catalog.path.rename(catalog.path.with_name("away.db"))
    with pytest.raises(StoreUnavailableError, match="gone"):
        probe.check_readable()
    with pytest.raises(StoreUnavailableError, match="does not answer"):
        FileProbe(catalog.path).check_readable()
    catalog.path.with_name("away.db").rename(catalog.path)
    probe.check_readable()


def test_a_closed_probe_leaves_the_log_to_be_folded_into_the_file(catalog: Database, probe: FileProbe) -> None:
    probe.check_writable()
    probe.close()
    FileProbe(catalog.path).close()  # of one that was never used nothing is open
    catalog.close()
    assert not catalog.path.with_name("catalog.db-wal").exists()
