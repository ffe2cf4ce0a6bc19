"""The move of a collection to another index: it knows what changed since that was filled, and what it has to leave."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from groundwire.catalog.index_builds import IndexBuilds
from groundwire.catalog.schema import chunks, documents
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.errors import CollectionNotFoundError, SnapshotExpiredError
from tests.integration.catalog.drafts import TENANT, Catalog, make_collection, make_draft


@pytest.fixture
def kept(catalog: Catalog) -> Collection:
    """A collection that keeps replaced generations for a day."""
    made = make_collection("kept")
    settings = replace(made.settings, generation_retention=timedelta(days=1))
    return catalog.collections.create(replace(made, settings=settings))


class CatchingUp:
    """Notes what a built index has to catch up with."""

    def __init__(self) -> None:
        self.came, self.went = list[int](), list[int]()

    def __call__(self, came: Sequence[int], went: Sequence[int]) -> bool:
        self.came, self.went = sorted(came), sorted(went)
        return True


def test_a_move_is_told_the_points_that_came_and_went_since_the_index_was_filled(
    catalog: Catalog, docs: Collection, kept: Collection
) -> None:
    builds, told = IndexBuilds(catalog.database), CatchingUp()
    first, old = catalog.put(kept, make_draft("old"))
    catalog.put(kept, make_draft("stays", source="b.md"))
    built = builds.begin(kept, kept.identity)
    held, before = builds.live_points(kept), catalog.views.open(TENANT, "kept").position
    draft = make_draft("new", "repeated", document_id=first.document_id, expected=1)
    _, new = catalog.put(kept, replace(draft, chunks=[draft.chunks[0], replace(draft.chunks[1], indexed=False)]))
    brief, replaced = catalog.put(kept, make_draft("for a moment", source="c.md"))
    _, last = catalog.put(kept, make_draft("since", source="c.md", document_id=brief.document_id, expected=1))
    catalog.put(docs, make_draft("elsewhere"))
    assert builds.move(kept, built, held, told)
    assert told.came == [new.numbers[0], *last.numbers]
    assert told.went == [*old.numbers, *replaced.numbers]
    assert catalog.collections.get(TENANT, "kept").engine_name == built.engine_name
    assert catalog.audit.rows(TENANT, 0, 100)[-1].action == "reindex"
    assert catalog.views.open(TENANT, "kept", before).position == before


@pytest.mark.parametrize("change", ["deleted", "renamed"])
def test_a_move_that_cannot_tell_what_changed_compares_all_or_waits(
    catalog: Catalog, kept: Collection, change: str
) -> None:
    builds, told = IndexBuilds(catalog.database), CatchingUp()
    document, pending = catalog.put(kept, make_draft("one"))
    catalog.put(kept, make_draft("stays", source="b.md"))
    built = builds.begin(kept, kept.identity)
    held = builds.live_points(kept)
    if change == "deleted":
        catalog.documents.delete(TENANT, "kept", document.document_id)
    else:
        catalog.documents.change(TENANT, "kept", document.document_id, lambda _: DocumentFields(title="Another"))
    assert not builds.move(kept, built, held, told)
    assert catalog.collections.get(TENANT, "kept").engine_name == kept.engine_name
    assert builds.move(kept, built, held, told, compares_all=True)
    numbers = list(pending.numbers)
    assert (told.came, told.went) == (([], numbers) if change == "deleted" else (numbers, []))


def test_after_a_move_to_another_model_everything_names_it_and_nobody_reads_the_past(
    catalog: Catalog, kept: Collection
) -> None:
    builds = IndexBuilds(catalog.database)
    catalog.put(kept, make_draft("one"))
    before = catalog.views.open(TENANT, "kept").position
    other = replace(kept.identity, model_name="other", probe_digest="1" * 64)
    built = builds.begin(kept, other)
    assert builds.move(kept, built, builds.live_points(kept), CatchingUp())

    with catalog.database.read() as connection:
        for column in (chunks.c.embedding_model, documents.c.embedding_model):
            assert connection.execute(select(column)).scalars().all() == ["other"]
    assert catalog.collections.get(TENANT, "kept").identity == other
    assert catalog.audit.rows(TENANT, 0, 100)[-1].action == "reembed"
    with pytest.raises(SnapshotExpiredError):
        catalog.views.open(TENANT, "kept", before)


def test_an_index_is_not_followed_to_a_later_collection_of_the_same_name(catalog: Catalog, kept: Collection) -> None:
    builds = IndexBuilds(catalog.database)
    catalog.collections.delete(TENANT, "kept")
    catalog.collections.create(make_collection("kept", uid="another"))
    with pytest.raises(CollectionNotFoundError):
        builds.follow(kept)
