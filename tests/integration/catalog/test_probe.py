"""The probe of the catalog file."""

import time
from collections.abc import Iterator
from pathlib import Path

import pysqlite3
import pytest
from sqlalchemy import text

from groundwire.catalog import probe as probing
from groundwire.catalog.database import Database
from groundwire.catalog.probe import CatalogProbe
from groundwire.kernel.errors import StoreUnavailableError


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Database]:
    catalog = Database.open(f"sqlite:{tmp_path / 'catalog.db'}")
    yield catalog
    catalog.close()


@pytest.fixture
def probe(catalog: Database) -> Iterator[CatalogProbe]:
    probe = CatalogProbe(catalog.path)
    yield probe
    probe.close()


def test_a_catalog_at_work_can_be_read_and_written(catalog: Database, probe: CatalogProbe) -> None:
    probe.check_readable()
    probe.check_writable()
    catalog.write(lambda connection: connection.execute(text("SELECT 1")))
    probe.check_readable()
    probe.check_writable()


def test_a_catalog_that_others_keep_locked_cannot_be_written(
    catalog: Database, probe: CatalogProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "_STUCK_S", 0.3)
    probe.check_writable()
    stranger = pysqlite3.connect(str(catalog.path), isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    probe.check_writable()  # a transaction may take a moment
    time.sleep(0.4)
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


def test_a_catalog_whose_file_is_gone_is_lost(catalog: Database, probe: CatalogProbe) -> None:
    probe.check_readable()
    catalog.path.rename(catalog.path.with_name("away.db"))
    with pytest.raises(StoreUnavailableError, match="gone"):
        probe.check_readable()
    with pytest.raises(StoreUnavailableError, match="does not answer"):
        CatalogProbe(catalog.path).check_readable()
    catalog.path.with_name("away.db").rename(catalog.path)
    probe.check_readable()


def test_a_closed_probe_leaves_the_log_to_be_folded_into_the_file(catalog: Database, probe: CatalogProbe) -> None:
    probe.check_writable()
    probe.close()
    catalog.close()
    assert not catalog.path.with_name("catalog.db-wal").exists()
