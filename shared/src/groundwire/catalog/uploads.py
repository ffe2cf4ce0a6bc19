"""Unfinished uploads: what they will become, and how much of them is safe on disk."""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete, exists, func, insert, or_, select, update

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.schema import operations, uploads
from groundwire.kernel.errors import NotFoundError

UPLOAD_RETENTION = timedelta(hours=24)
"""How long an upload without a new part can be taken up again."""

# An operation that ingests an upload has its id.
_IS_INGESTED_LATER = exists(
    select(1).where(
        operations.c.tenant == uploads.c.tenant,
        operations.c.operation_id == uploads.c.upload_id,
        operations.c.end_time.is_(None),
    )
)


class UploadNotFoundError(NotFoundError):
    """No such upload, or it was abandoned long ago."""

    resource_type = "upload"


@dataclass(frozen=True, slots=True)
class StoredUpload:
    """An upload that can be resumed.

    `header` is the first message as received, without the id. `durable_bytes` of `total_bytes` have survived a flush to
    disk; none are left when it was ingested. `source_hash` is the SHA-256 (hex) of all bytes once they are here, before
    that empty.
    """

    upload_id: str
    header: bytes
    total_bytes: int
    durable_bytes: int
    source_hash: str


class Uploads(Aggregate):
    """Uploads of all tenants; each call sees those of one, but for `ids` and `sweep`."""

    def add(self, tenant: str, upload_id: str, header: bytes, total_bytes: int) -> StoredUpload:
        """Store a new upload, durably."""
        now = self._database.steady.now_ms()
        values = {"tenant": tenant, "upload_id": upload_id, "header": header, "total_bytes": total_bytes}
        statement = insert(uploads).values(**values, create_time=now, update_time=now)
        self._database.change(statement)
        return StoredUpload(upload_id, header, total_bytes, 0, "")

    def get(self, tenant: str, upload_id: str) -> StoredUpload:
        """Return an upload.

        Raises:
            UploadNotFoundError: there is none, or it is older than a day and no operation ingests it.
        """
        statement = select(uploads).where(
            uploads.c.tenant == tenant,
            uploads.c.upload_id == upload_id,
            # An upload that waits for an operation to ingest it may be older than a day.
            or_(uploads.c.update_time >= self._oldest(), _IS_INGESTED_LATER),
        )
        row = self._database.query(statement).first()
        if row is None:
            raise UploadNotFoundError(upload_id)
        return StoredUpload(row.upload_id, bytes(row.header), row.total_bytes, row.durable_bytes, row.source_hash)

    def advance(self, tenant: str, upload_id: str, durable_bytes: int, source_hash: str = "") -> None:
        """Note that this many bytes are on disk; a hash means that these are all."""
        statement = (
            update(uploads)
            .where(uploads.c.tenant == tenant, uploads.c.upload_id == upload_id)
            # Each part extends the client's time to resume by a day.
            .values(durable_bytes=durable_bytes, source_hash=source_hash, update_time=self._database.steady.now_ms())
        )
        self._database.change(statement)

    def drop_bytes(self, tenant: str, upload_id: str) -> None:
        """Note that the bytes of an upload are gone; an unknown one is ignored."""
        statement = (
            update(uploads).where(uploads.c.tenant == tenant, uploads.c.upload_id == upload_id).values(durable_bytes=0)
        )
        self._database.change(statement)

    def forget(self, tenant: str, upload_id: str) -> None:
        """Remove an upload; an unknown one is ignored."""
        statement = delete(uploads).where(uploads.c.tenant == tenant, uploads.c.upload_id == upload_id)
        self._database.change(statement)

    def staged_bytes(self, tenant: str, except_for: frozenset[str]) -> int:
        """Return how many bytes the tenant has staged, those `except_for` left out."""
        statement = select(func.coalesce(func.sum(uploads.c.durable_bytes), 0)).where(
            uploads.c.tenant == tenant, uploads.c.upload_id.not_in(except_for)
        )
        return int(self._database.query(statement).scalar_one())

    def ids(self) -> set[str]:
        return set(self._database.query(select(uploads.c.upload_id)).scalars())

    def sweep(self) -> int:
        """Remove uploads that received no part for a day and that no operation ingests; return how many."""
        statement = delete(uploads).where(uploads.c.update_time < self._oldest(), ~_IS_INGESTED_LATER)
        return self._database.change(statement)

    def _oldest(self) -> int:
        return self._database.steady.now_ms() - UPLOAD_RETENTION // timedelta(milliseconds=1)
