"""A catalog on PostgreSQL behind a network that is cut, frozen, or loses an answer."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection

from groundwire.catalog.database import Database, Limits, advance_position
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import StoreUnavailableError
from tests.postgresql import server
from tests.tcp_proxy import TcpProxy, tcp_proxy

WITHIN_S = 60.0
"""Six seconds until a server counts as lost, and what a busy machine may add."""


def change(connection: Connection) -> int:
    """Count a change, as a unit of work does."""
    return advance_position(connection, 1)


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    with tcp_proxy(server().port) as opened:
        yield opened


@pytest.fixture
def database(proxy: TcpProxy, tmp_path: Path) -> Iterator[Database]:
    name = server().new_database().rpartition("/")[2]
    opened = Database.open(f"postgresql://{server().user}@127.0.0.1:{proxy.port}/{name}", folder=tmp_path)
    yield opened
    opened.close()


def position_of(database: Database) -> int:
    with database.read() as connection:
        return Database.position(connection)


def works_again(database: Database) -> None:
    ends_at = time.monotonic() + WITHIN_S
    while True:
        try:
            position_of(database)
            database.write(lambda _: None)
        except StoreUnavailableError:
            assert time.monotonic() < ends_at
        else:
            return


def outcome_of(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - the type is what the test is about
        return type(error).__name__
    return "done"


def test_whoever_waits_for_a_frozen_server_is_told_and_all_goes_on_when_it_is_back(
    proxy: TcpProxy, database: Database
) -> None:
    before = database.write(change)

    def exclude() -> None:
        with database.exclusive("rebuild", Budget(WITHIN_S)):
            pass

    calls: list[Callable[[], object]] = [
        lambda: position_of(database),
        lambda: database.write(change),
        lambda: database.take_chunk_numbers(5000),
    ]
    with ThreadPoolExecutor(4 * Limits().connections) as threads:
        with proxy.frozen():
            frozen_at = time.monotonic()
            outcomes = Counter(threads.map(outcome_of, [exclude, *calls * (4 * Limits().connections // 3)]))
            assert set(outcomes) == {"StoreUnavailableError"}
            assert time.monotonic() - frozen_at < WITHIN_S
            # It is known to be lost: the next ones need not find that out.
            asked_at = time.monotonic()
            assert {*threads.map(outcome_of, calls * 10)} == {"StoreUnavailableError"}
            assert time.monotonic() - asked_at < (asked_at - frozen_at) / 2
        works_again(database)
        assert position_of(database) == before
        with database.exclusive("rebuild", Budget(WITHIN_S)):
            pass


def test_a_cut_is_told_at_once_and_all_goes_on_behind_it(proxy: TcpProxy, database: Database) -> None:
    before = database.write(change)
    with proxy.cut(), ThreadPoolExecutor(8) as threads:
        outcomes = Counter(threads.map(lambda _: outcome_of(lambda: position_of(database)), range(32)))
        assert set(outcomes) == {"StoreUnavailableError"}
        assert outcome_of(lambda: database.write(change)) == "StoreUnavailableError"
    works_again(database)
    assert position_of(database) == before


def test_what_takes_long_is_waited_for_while_the_server_answers(database: Database) -> None:
    def sleep(connection: Connection) -> str:
        return str(connection.exec_driver_sql("SELECT 'awake' FROM pg_sleep(7)").scalar())

    def read() -> str:
        with database.read() as connection:
            return sleep(connection)

    with ThreadPoolExecutor(2) as threads:
        sleeping = [threads.submit(read), threads.submit(database.write, sleep)]
        assert [each.result() for each in sleeping] == ["awake", "awake"]


def test_a_catalog_is_closed_while_its_server_is_frozen(proxy: TcpProxy, tmp_path: Path) -> None:
    name = server().new_database().rpartition("/")[2]
    opened = Database.open(f"postgresql://{server().user}@127.0.0.1:{proxy.port}/{name}", folder=tmp_path)
    probe = opened.probe()
    probe.check_readable()
    with proxy.frozen(), ThreadPoolExecutor(2) as threads:
        checking = threads.submit(probe.check_readable)
        threads.submit(opened.close).result(WITHIN_S)
        with pytest.raises(StoreUnavailableError):
            checking.result(WITHIN_S)
        threads.submit(probe.close).result(WITHIN_S)


def test_the_server_notices_a_machine_that_is_gone(database: Database) -> None:
    with database.read() as connection:
        settings = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")
        seconds = [int(connection.exec_driver_sql(f"SHOW {name}").scalar_one()) for name in settings]
    idle, interval, count = seconds
    assert 0 < idle + interval * count <= 15
