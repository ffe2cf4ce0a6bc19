"""How often records were read: counted in memory, and written later."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from groundwire.catalog.database import Database
from groundwire.catalog.records import RecordAccesses, Records
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import DocumentFields
from tests.integration.catalog.drafts import NOON, TENANT, Catalog, make_draft

_ID = "chunk-2026-03-01-00000001"


def test_no_access_is_lost_or_counted_twice_when_a_write_of_the_counts_fails(
    catalog: Catalog, docs: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = {"type": "memory", "scope": "global", "timestamp": NOON.isoformat()}
    draft = make_draft("I like tea.", source=f"record:{_ID}", fields=DocumentFields(record=memory))
    document_id = catalog.put(docs, draft)[0].document_id
    accesses, records = RecordAccesses(catalog.database), Records(catalog.database)
    accesses.note(TENANT, [document_id, document_id])

    def failing(_database: Database, _work: Callable[..., object]) -> None:
        # Somebody reads the record while the write is tried.
        catalog.clock.advance(minutes=1)
        accesses.note(TENANT, [document_id])
        raise OSError("no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(Database, "write", failing)
        with pytest.raises(OSError, match="no space"):
            accesses.flush()
    later = NOON + timedelta(minutes=1)
    assert accesses.waiting(TENANT, document_id) == (3, later)
    assert [accesses.flush(), accesses.flush()] == [1, 0]
    stored = records.get(TENANT, "docs", _ID)
    assert (stored.access_count, stored.last_accessed) == (3, later)
    assert accesses.waiting(TENANT, document_id) == (0, None)
