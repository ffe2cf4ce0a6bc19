"""The catalog keeps sessions as promised, also over a restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwire.answer.adapters.catalog_sessions import CatalogSessions
from groundwire.answer.ports import SessionStore
from groundwire.catalog.database import Database
from groundwire.rpc.workers import Workers
from tests.integration.answer.rig import SettableClock
from tests.integration.answer.session_store_contract import TENANT, SessionStoreContract


class TestCatalogSessions(SessionStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: SettableClock) -> Iterator[SessionStore]:
        database, workers = Database.open(f"sqlite:{tmp_path / 'catalog.db'}", clock), Workers(4)
        yield CatalogSessions(database, workers, clock)
        workers.close()
        database.close()


async def test_sessions_survive_a_restart(tmp_path: Path) -> None:
    contract, clock, url = SessionStoreContract(), SettableClock(), f"sqlite:{tmp_path / 'catalog.db'}"
    workers = Workers(2)
    database = Database.open(url, clock)
    store = CatalogSessions(database, workers, clock)
    made = await contract._create(store, clock)
    await store.append(TENANT, made.session_id, "", contract._exchange(clock, "one"))
    before = await store.get(TENANT, made.session_id)
    database.close()
    database = Database.open(url, clock)
    assert await CatalogSessions(database, workers, clock).get(TENANT, made.session_id) == before
    database.close()
    workers.close()
