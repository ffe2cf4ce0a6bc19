"""Writes documents until it is killed, and tells what it was told is done, each after its call has returned."""

from multiprocessing.connection import Connection
from pathlib import Path

from tests.integration.catalog.drafts import TENANT, Catalog, make_collection, make_draft, open_catalog


def write(path: Path, number: int, told: Connection) -> None:
    """Write documents from a number on, and send what became of them: source, and generation or 0 once deleted."""
    catalog = open_catalog(path)
    catalog.collections.create(make_collection())
    while True:
        _step(catalog, number, told)
        number += 1


def _step(catalog: Catalog, number: int, told: Connection) -> None:
    """Write a document of five chunks; replace every second and delete every fifth."""
    docs = catalog.collections.get(TENANT, "docs")
    source = f"{number}.md"
    document, _ = catalog.put(docs, make_draft(*(f"word{number} first {part}" for part in range(5)), source=source))
    told.send((source, 1))
    if number % 2:
        draft = make_draft(
            *(f"word{number} second {part}" for part in range(4)),
            source=source,
            document_id=document.document_id,
            expected=1,
        )
        catalog.put(docs, draft)
        told.send((source, 2))
    if number % 5 == 0:
        catalog.documents.delete(TENANT, "docs", document.document_id)
        told.send((source, 0))
