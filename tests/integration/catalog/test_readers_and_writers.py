"""Many threads at once: a reader sees whole generations, whatever writers do."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import NoResultFound, OperationalError

from groundwire.catalog import database as catalog_database
from groundwire.catalog.database import Database, advance_position
from groundwire.kernel.budget import CURRENT_BUDGET, Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import DeadlineError, DocumentNotFoundError, ExhaustedError, StoreUnavailableError
from tests.catalogs import problems_of
from tests.integration.catalog.drafts import TENANT, Catalog, make_draft

GENERATIONS = 20


def wait_for_queue(database: Database, length: int) -> None:
    deadline = time.monotonic() + 10
    while len(database._writer._waiting) != length:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_no_reader_sees_a_mix_of_two_generations(catalog: Catalog, docs: Collection) -> None:
    document, first = catalog.put(docs, make_draft("gen1 a", "gen1 b", "gen1 c"))
    numbers = [list(first.numbers)]
    stop = threading.Event()

    def write() -> None:
        for generation in range(1, GENERATIONS):
            draft = make_draft(
                *(f"gen{generation + 1} {part}" for part in "abc"),
                document_id=document.document_id,
                expected=generation,
            )
            numbers.append(list(catalog.put(docs, draft)[1].numbers))
        stop.set()

    def read() -> int:
        reads = 0
        while not stop.is_set() or reads == 0:
            live = catalog.live(TENANT, "docs", [number for each in numbers[-3:] for number in each])
            generations = {stored.generation for stored in live.values()}
            assert len(generations) <= 1
            assert len(live) in {0, 3}  # 0 when newer ones went live after the numbers were read.
            page = catalog.chunks.page(TENANT, "docs", document.document_id, -1, 10)
            assert len({stored.chunk.content.split()[0] for stored in page}) == 1
            assert len(page) == 3
            assert page[0].chunk.content == f"gen{page[0].generation} a"
            reads += 1
        return reads

    with ThreadPoolExecutor(4) as threads:
        readers = [threads.submit(read) for _ in range(3)]
        writer = threads.submit(write)
        writer.result()
        assert all(reader.result() > 1 for reader in readers)
    assert problems_of(catalog.database) == []


def test_work_that_is_alone_sees_all_that_was_done_before_it_through_other_connections(
    catalog: Catalog, docs: Collection
) -> None:
    is_held, may_go = threading.Event(), threading.Event()
    seen: dict[bool, int] = {}

    def hold(_: Connection) -> None:
        is_held.set()
        assert may_go.wait(30)

    def add(connection: Connection) -> None:
        advance_position(connection, 1)

    def look(connection: Connection, *, alone: bool) -> None:
        own = catalog.database.position(connection)
        with catalog.database.read() as other:
            seen[alone] = own - catalog.database.position(other)

    database = catalog.database
    calls: list[Callable[[], None]] = [partial(database.write, hold)]
    for alone in (False, True):
        calls += [partial(database.write, add), partial(database.write, partial(look, alone=alone), alone=alone)]
    with ThreadPoolExecutor(len(calls)) as threads:
        done = []
        for number, call in enumerate(calls):
            done.append(threads.submit(call))
            assert is_held.wait(30)
            wait_for_queue(database, number)
        may_go.set()
        for each in done:
            each.result(30)
    assert seen == {False: 1, True: 0}


def test_a_write_that_waits_for_nothing_runs_in_the_thread_of_its_caller(catalog: Catalog) -> None:
    assert catalog.database.write(lambda _: threading.get_ident()) == threading.get_ident()


def test_writes_that_wait_for_another_share_one_transaction_and_fail_each_for_itself(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_database, "GROUP_S", 30.0)  # a busy machine takes longer than that for one of them
    database, is_held, may_go = catalog.database, threading.Event(), threading.Event()

    def hold(_: Connection) -> int:
        is_held.set()
        assert may_go.wait(30)
        return threading.get_ident()

    def fail(connection: Connection) -> int:
        advance_position(connection, 1)
        raise DocumentNotFoundError("of this write alone")

    def add(connection: Connection) -> int:
        advance_position(connection, 1)
        return threading.get_ident()

    before = _position_of(database)
    with ThreadPoolExecutor(4) as threads:
        holder = threads.submit(database.write, hold)
        assert is_held.wait(30)
        # The first to wait makes the next transaction and takes the others along.
        waiting = []
        for number, work in enumerate((add, fail, add), start=1):
            waiting.append(threads.submit(database.write, work))
            wait_for_queue(database, number)
        may_go.set()
        with pytest.raises(DocumentNotFoundError, match="of this write alone"):
            waiting[1].result(30)
        assert waiting[0].result(30) == waiting[2].result(30) != holder.result(30)
    assert _position_of(database) == before + 2


@pytest.mark.sqlite
def test_only_writes_that_need_no_sync_of_their_own_go_without(catalog: Catalog) -> None:
    database, is_held, may_go = catalog.database, threading.Event(), threading.Event()
    full, normal = 2, 1

    def level(connection: Connection) -> int:
        found = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
        assert isinstance(found, int)
        return found

    def hold(_: Connection) -> None:
        is_held.set()
        assert may_go.wait(30)

    assert [database.write(level, syncs=syncs) for syncs in (True, False, False, True)] == [full, normal, normal, full]
    with ThreadPoolExecutor(3) as threads:
        threads.submit(database.write, hold)
        assert is_held.wait(30)
        waiting = []
        for number, syncs in enumerate((False, True), start=1):
            waiting.append(threads.submit(database.write, level, syncs=syncs))
            wait_for_queue(database, number)
        may_go.set()
        # The first makes the transaction of both, and the second must survive a power cut.
        assert [each.result(30) for each in waiting] == [full, full]


def test_a_write_whose_budget_ends_while_it_waits_is_taken_back(catalog: Catalog) -> None:
    database, is_held, may_go = catalog.database, threading.Event(), threading.Event()
    ran: list[str] = []

    def hold(_: Connection) -> None:
        is_held.set()
        assert may_go.wait(30)

    def late() -> None:
        CURRENT_BUDGET.set(Budget(0.05))
        database.write(lambda _: ran.append("late"))

    with ThreadPoolExecutor(2) as threads:
        holder = threads.submit(database.write, hold)
        assert is_held.wait(30)
        with pytest.raises(DeadlineError):
            threads.submit(copy_context().run, late).result(30)
        may_go.set()
        holder.result(30)
    database.write(lambda _: ran.append("after"))
    assert ran == ["after"]


def test_a_write_that_is_interrupted_while_it_waits_keeps_no_other_waiting(catalog: Catalog) -> None:
    database, is_held, may_go = catalog.database, threading.Event(), threading.Event()

    class Interrupted(Budget):
        def wait_for(self, *_: object, **__: object) -> bool:
            raise KeyboardInterrupt

    def hold(_: Connection) -> None:
        is_held.set()
        assert may_go.wait(30)

    def interrupted() -> None:
        CURRENT_BUDGET.set(Interrupted())
        database.write(lambda _: None)

    with ThreadPoolExecutor(3) as threads:
        holder = threads.submit(database.write, hold)
        assert is_held.wait(30)
        with pytest.raises(KeyboardInterrupt):
            threads.submit(copy_context().run, interrupted).result(30)
        after = threads.submit(database.write, lambda _: "after")
        wait_for_queue(database, 1)
        may_go.set()
        holder.result(30)
        assert after.result(30) == "after"


def test_writers_of_many_documents_do_not_disturb_one_another(catalog: Catalog, docs: Collection) -> None:
    def work(worker: int) -> None:
        for step in range(8):
            source = f"{worker}-{step}.md"
            document, _ = catalog.put(docs, make_draft(f"word{worker} one", f"word{worker} two", source=source))
            if step % 3 == 0:
                catalog.documents.delete(TENANT, "docs", document.document_id)
                try:
                    catalog.documents.get(TENANT, "docs", document.document_id)
                except DocumentNotFoundError:
                    continue
                raise AssertionError("a deleted document was found")

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert catalog.collections.counts(TENANT, "docs").documents == 6 * 5
    for worker in range(6):
        assert len(catalog.numbers_for(docs, f"word{worker}")) == 5 * 2
    assert problems_of(catalog.database) == []


@pytest.mark.sqlite
def test_a_connection_reads_what_was_written_after_a_read_that_failed(catalog: Catalog, docs: Collection) -> None:
    def read(statement: str) -> None:
        with catalog.database.read() as connection:
            Database.position(connection)
            connection.exec_driver_sql(statement).one()

    for statement, error in (("SELECT 1 WHERE 0", NoResultFound), ("SELECT * FROM no_such", StoreUnavailableError)):
        with pytest.raises(error):
            read(statement)
        before = _position_of(catalog.database)
        catalog.put(docs, make_draft("alpha", source=f"{error.__name__}.md"))
        assert _position_of(catalog.database) > before


def _position_of(database: Database) -> int:
    with database.read() as connection:
        return Database.position(connection)


@pytest.mark.sqlite
def test_a_read_whose_transaction_the_file_has_ended_fails_with_the_reason(catalog: Catalog, docs: Collection) -> None:
    def runs_out_of_space() -> None:
        with catalog.database.read() as connection:
            connection.exec_driver_sql("ROLLBACK")  # as SQLite does by itself, for want of space or memory
            raise OperationalError("SELECT", None, Exception("database or disk is full"))

    for _ in range(2):
        with pytest.raises(ExhaustedError):
            runs_out_of_space()
    catalog.put(docs, make_draft("tide"))
    assert catalog.full_text.live_chunks(TENANT, "docs") == 1


@pytest.mark.sqlite
def test_a_closed_catalog_is_let_go_of_when_its_last_reader_is_done(catalog: Catalog, docs: Collection) -> None:
    catalog.put(docs, make_draft("tide"))
    inside, closed = threading.Event(), threading.Event()

    def read() -> int:
        with catalog.database.read() as connection:
            before = Database.position(connection)
            inside.set()
            closed.wait(10)
            return Database.position(connection) - before

    with ThreadPoolExecutor(1) as threads:
        reader = threads.submit(read)
        inside.wait(10)
        catalog.database.close()
        closed.set()
        assert reader.result() == 0
    assert not catalog.database.path.with_name("catalog.db-wal").exists(), "the last connection has folded it in"
