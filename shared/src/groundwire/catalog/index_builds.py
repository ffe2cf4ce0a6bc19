"""Builds of engine collections beside the serving ones, and the move from one to the other (design D9b)."""

import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, delete, insert, select, update

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.database import advance_position, in_transaction, owner_of
from groundwire.catalog.dialects import stored_bytes
from groundwire.catalog.outbox import queue_drop
from groundwire.catalog.rows import (
    IS_INDEXED,
    IS_LIVE,
    collection_values,
    find_collection,
    key_of,
    visible_generation_keys,
)
from groundwire.catalog.schema import chunks, collections, documents, generations, index_builds
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.errors import CollectionNotFoundError, ConflictError
from groundwire.kernel.identifiers import engine_collection_name

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LivePoints:
    """Which points an engine should have: numbers (int64, ascending) and a checksum of each one's filter keys.

    `position` is that of the last change of the collection before they were read.
    """

    numbers: NDArray[np.int64]
    checksums: NDArray[np.int64]
    position: int

    @classmethod
    def of(cls, rows: Sequence[tuple[int, bytes]], position: int = 0) -> "LivePoints":
        """Make the points of (number, filter keys as stored) rows in any order."""
        rows = sorted(rows, key=lambda row: row[0])
        numbers = np.fromiter((number for number, _ in rows), np.int64, len(rows))
        checksums = np.fromiter((zlib.crc32(payload) for _, payload in rows), np.int64, len(rows))
        return cls(numbers, checksums, position)

    def beyond(self, other: "LivePoints") -> list[int]:
        """Return the numbers of the points that `other` lacks or has with other filter keys."""
        known = dict(zip(other.numbers.tolist(), other.checksums.tolist(), strict=True))
        pairs = zip(self.numbers.tolist(), self.checksums.tolist(), strict=True)
        return [number for number, checksum in pairs if known.get(number) != checksum]

    def without(self, numbers: Iterable[int]) -> "LivePoints":
        stays = np.isin(self.numbers, list(numbers), invert=True)
        return LivePoints(self.numbers[stays], self.checksums[stays], self.position)

    def absent_from(self, other: "LivePoints") -> list[int]:
        return [int(number) for number in np.setdiff1d(self.numbers, other.numbers, assume_unique=True)]


class IndexBuilds(Aggregate):
    """The builds under way, so that nothing of them outlives a crash."""

    @in_transaction
    def begin(self, connection: Connection, collection: Collection, identity: EmbeddingIdentity) -> Collection:
        """Return the collection as it will be, with an engine name of its own; recorded until the build ends."""
        name = engine_collection_name(collection.tenant, f"{collection.uid}/{uuid.uuid4()}", identity.digest)
        # Recorded before the engine creates anything, so that leftovers of a crash are found by name and dropped.
        row = {
            "engine_name": name,
            "tenant": collection.tenant,
            "collection_uid": collection.uid,
            "identity_digest": identity.digest,
            "create_time": self._now(),
            "owner": owner_of(connection),
        }
        connection.execute(insert(index_builds).values(row))
        return replace(collection, engine_name=name, identity=identity)

    def live_points(self, collection: Collection) -> LivePoints:
        """Return what an index of the collection should hold now."""
        with self._database.read() as connection:
            return _live_points(connection, collection)

    def move(
        self,
        serving: Collection,
        built: Collection,
        held: LivePoints,
        catch_up: Callable[[Sequence[int], Sequence[int]], bool],
        *,
        compares_all: bool = False,
    ) -> bool:
        """Let readers and writers use the built index, in one transaction, and queue the old one to be dropped.

        Writers wait meanwhile, so only what was published since `held` is read. When more than that happened
        (something was deleted, or given other filter keys) nothing is done, unless with `compares_all`.

        Args:
            serving: the collection as it was when the build began.
            built: what `begin` returned.
            held: what the built index holds.
            catch_up: gets the numbers of the points that the built index lacks at this moment, and of those that it
                should not have, brings it up to that and returns true; or returns false when that would take long.
            compares_all: whether to read the whole collection while writers wait, if nothing less shows what changed.

        Returns:
            Whether the move was made; otherwise nothing happened.

        Raises:
            ConflictError: another build was faster.
        """
        now = self._now()

        def work(connection: Connection) -> bool:
            # Hours may have passed since the build began, and the name may belong to another collection by now.
            found = find_collection(connection, serving.tenant, serving.name)
            if found is None or found.uid != serving.uid:
                raise CollectionNotFoundError(serving.name)
            if found.engine_name != serving.engine_name:
                raise ConflictError("another build of the index was faster", collection=serving.name)
            of_serving = collections.c.collection_key == key_of(serving)
            readable_from = connection.execute(select(collections.c.readable_from).where(of_serving)).scalar_one()
            # Purged chunks leave no row, and changed filter keys are not recorded one by one; both end the history.
            if readable_from > held.position:
                changes = None
            else:
                of_generations = (
                    select(chunks.c.chunk_number)
                    .join_from(chunks, generations)
                    .where(generations.c.collection_key == key_of(serving), IS_INDEXED)
                )
                came = of_generations.where(IS_LIVE, generations.c.live_from > held.position)
                went = of_generations.where(generations.c.live_to > held.position)
                changes = list(connection.execute(came).scalars()), list(connection.execute(went).scalars())
            # Where the changes since then are unknown, the last attempt compares all points while writers wait.
            if changes is None and compares_all:
                expected = _live_points(connection, serving)
                changes = expected.beyond(held), held.absent_from(expected)
            if changes is None or not catch_up(*changes):
                return False
            key = connection.execute(select(key_of(serving))).scalar_one()
            is_same_model = serving.identity == built.identity
            of_collection = collections.c.collection_key == key
            values = {name: collection_values(built)[name] for name in ("engine_name", "identity", "identity_digest")}
            connection.execute(update(collections).where(of_collection).values(values))
            connection.execute(delete(index_builds).where(index_builds.c.engine_name == built.engine_name))
            # In the same transaction, so that a crash leaves neither two serving collections nor an orphan.
            queue_drop(connection, serving.tenant, serving.engine_name)
            if not is_same_model:
                model = {"embedding_model": built.identity.model_name}
                keys = select(generations.c.generation_key).where(generations.c.collection_key == key)
                of_chunks = chunks.c.generation_key.in_(keys)
                connection.execute(update(chunks).where(of_chunks).values(**model, embedding_timestamp=now))
                connection.execute(update(documents).where(documents.c.collection_key == key).values(model))
            # Readers of the past would compare against vectors of the old model.
            advance_position(connection, key, keeps_history=is_same_model)
            action = "reindex" if is_same_model else "reembed"
            self._audit.record(connection, serving.tenant, action, serving.name)
            return True

        return self._database.write(work, alone=True)  # catching up reads the points through other connections

    def follow(self, left: Collection) -> Collection:
        """Return the collection as it is now, after its engine collection `left` was found to be gone or replaced.

        A writer to `left` may have recreated it, so it is queued to be dropped again when it was replaced.
        """

        def work(connection: Connection) -> Collection | None:
            found = find_collection(connection, left.tenant, left.name)
            if found is None or found.uid != left.uid or found.engine_name != left.engine_name:
                queue_drop(connection, left.tenant, left.engine_name)
            return found

        found = self._database.write(work)
        if found is None or found.uid != left.uid:
            raise CollectionNotFoundError(left.name)
        return found

    def abandon(self, built: Collection) -> None:
        """Remove a build and queue its engine collection to be dropped; idempotent, leaves a finished one alone."""
        self._database.write(lambda connection: _abandon(connection, built.tenant, built.engine_name))

    @in_transaction
    def abandon_all(self, connection: Connection) -> int:
        """Abandon the builds of dead processes; return how many. Once, before the first build of a process."""
        builds = connection.execute(select(index_builds)).all()
        others = self._database.other_owners(connection)
        dead = [build for build in builds if build.owner not in others]
        for build in dead:
            _abandon(connection, build.tenant, build.engine_name)
        return len(dead)


def _live_points(connection: Connection, collection: Collection) -> LivePoints:
    # The filter keys as stored: equal keys are always stored as equal bytes.
    payload = stored_bytes(chunks.c.payload)
    statement = select(chunks.c.chunk_number, payload).where(
        IS_INDEXED, chunks.c.generation_key.in_(visible_generation_keys(key_of(collection)))
    )
    # Before the points: a change in between is then read twice instead of missed.
    position = connection.execute(
        select(collections.c.changed_position).where(collections.c.collection_key == key_of(collection))
    ).scalar()
    return LivePoints.of([(row[0], bytes(row[1])) for row in connection.execute(statement)], position or 0)


def _abandon(connection: Connection, tenant: str, engine_name: str) -> None:
    statement = delete(index_builds).where(index_builds.c.engine_name == engine_name)
    if connection.execute(statement).rowcount:
        queue_drop(connection, tenant, engine_name)
