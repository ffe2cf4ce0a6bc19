"""What is known of a generation's source besides its text: its pages, and what it says about itself."""

from typing import Any

from sqlalchemy import Row, Select, select

from groundwire.catalog.database import Database
from groundwire.catalog.document_rows import to_fields
from groundwire.catalog.generations import GenerationState
from groundwire.catalog.tables import documents, generations, text_pages
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.errors import DocumentNotFoundError
from groundwire.kernel.pages import PageSpan


class Sources:
    """Sources of published generations, the superseded ones too, until their document is deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pages(self, tenant: str, document_id: str, generation: int, start: int, end: int) -> list[PageSpan]:
        """Return the pages that touch the code points start..end, in order; empty for formats without pages.

        Raises:
            DocumentNotFoundError: no such document, or no published generation of this number.
        """
        with self._database.read() as connection:
            found = connection.execute(_generation(tenant, document_id, generation)).first()
            key = _present(found, document_id).generation_key
            columns = (text_pages.c.page, text_pages.c.char_start, text_pages.c.char_end)
            touching = (text_pages.c.char_start < end, text_pages.c.char_end > start)
            wanted = select(*columns).where(text_pages.c.generation_key == key, *touching)
            rows = connection.execute(wanted.order_by(text_pages.c.page)).all()
        return [PageSpan(*row) for row in rows]

    def properties(self, tenant: str, document_id: str, generation: int) -> DocumentFields:
        """Return what the source says about itself: front matter or properties of the file.

        Raises:
            DocumentNotFoundError: no such document, or no published generation of this number.
        """
        with self._database.read() as connection:
            found = connection.execute(_generation(tenant, document_id, generation)).first()
        return to_fields(_present(found, document_id).properties)


def _generation(tenant: str, document_id: str, generation: int) -> Select[Any]:
    return (
        select(generations.c.generation_key, generations.c.properties)
        .join_from(generations, documents, generations.c.document_key == documents.c.document_key)
        .where(
            documents.c.tenant == tenant,
            documents.c.document_id == document_id,
            generations.c.generation == generation,
            generations.c.state != GenerationState.PENDING.value,
        )
    )


def _present(row: Row[Any] | None, document_id: str) -> Row[Any]:
    if row is None:
        raise DocumentNotFoundError(document_id)
    return row
