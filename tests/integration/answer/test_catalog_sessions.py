"""The catalog keeps sessions as promised, also over a restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwire.answer.adapters.catalog_sessions import CatalogSessions
from groundwire.answer.sessions import SessionStore
from groundwire.rpc.workers import Workers
from tests.catalogs import open_database
from tests.integration.answer.rig import SettableClock
from tests.integration.answer.session_store_contract import TENANT, SessionStoreContract


class TestCatalogSessions(SessionStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: SettableClock) -> Iterator[SessionStore]:
        database, workers = open_database(tmp_path / "catalog.db", clock), Workers(4)
        yield CatalogSessions(database, workers)
        workers.close()
        database.close()


async def test_sessions_survive_a_restart(tmp_path: Path) -> None:
    contract, clock, path = SessionStoreContract(), SettableClock(), tmp_path / "catalog.db"
    workers = Workers(2)
    database = open_database(path, clock)
    store = CatalogSessions(database, workers)
    made = await contract._create(store, clock)
    await contract._append(store, made.session_id, "", contract._exchange(clock, "one"))
    before = await store.get(TENANT, made.session_id)
    database.close()
    database = open_database(path, clock)
    assert await CatalogSessions(database, workers).get(TENANT, made.session_id) == before
    database.close()
    workers.close()


@pytest.mark.parametrize(("jump", "pause", "state"), [(25, 0, "CREATED"), (-1, 0, "CREATED"), (0, 1, "EXPIRED")])
async def test_a_restart_counts_the_pause_and_not_how_the_clock_was_set_before(
    tmp_path: Path, jump: int, pause: int, state: str
) -> None:
    contract, clock, path = SessionStoreContract(), SettableClock(), tmp_path / "catalog.db"
    workers = Workers(2)
    database = open_database(path, clock)
    made = await contract._create(CatalogSessions(database, workers), clock)
    clock.jump(hours=jump)
    database.close()
    clock.jump(hours=pause)  # no process was there to see time pass
    database = open_database(path, clock)
    found = await CatalogSessions(database, workers).get(TENANT, made.session_id)
    assert found.state.value == state
    workers.close()
    database.close()
