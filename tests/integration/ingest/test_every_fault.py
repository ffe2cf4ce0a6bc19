"""Every call to a store fails once: the n-th of an operation, n = 1, 2, 3 … until the operation succeeds.

After each failure both stores agree once they were swept, readers see the old state or the new one, and the same
operation succeeds when it is repeated.
"""

import shutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from groundwire.api.common.v1 import document_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.ingest.ingesting import Progress
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import DocumentNotFoundError, GroundwireError, StoreUnavailableError
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.vectorstores.memory import MemoryVectorStore
from tests.integration.ingest.harness import CountingEmbedder, Harness
from tests.integration.ingest.test_ingest_document import long_text
from tests.stubs import by_id, by_source

OLD, NEW = "# Old\n\n" + long_text(1, 20), "# New\n\n" + long_text(2, 20)
REQUEST_ID = "00000000-0000-4000-8000-000000000009"
STORE_METHODS = ("create_collection", "drop_collection", "upsert", "delete", "fetch", "count")
OTHER_DIMENSIONS = 48


class Faults:
    """Lets the n-th call fail: before it does anything, or when it has done everything."""

    def __init__(self, number: int, moment: str) -> None:
        self.number, self.moment = number, moment
        self.calls = 0
        self.is_on = True

    @property
    def has_struck(self) -> bool:
        return self.calls >= self.number

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if not self.is_on:
                return call(*args, **kwargs)
            self.calls += 1
            is_this = self.calls == self.number
            if is_this and self.moment == "before":
                raise StoreUnavailableError("planted", engine="fault")
            result = call(*args, **kwargs)
            if is_this:
                raise StoreUnavailableError("planted", engine="fault")
            return result

        return wrapped


@dataclass
class Desk:
    """A process whose stores may fail, with one document in a collection."""

    harness: Harness
    document_id: str

    def plant(self, faults: Faults) -> None:
        for target, names in ((self.harness.catalog, ("write",)), (self.harness.vectors, STORE_METHODS)):
            for name in names:
                setattr(target, name, faults.around(getattr(target, name)))
        embed = self.harness.embedder.embed_documents
        setattr(self.harness.embedder, "embed_documents", faults.around(embed))  # noqa: B010 - mypy refuses the plain way

    def seen(self) -> tuple[str, str]:
        """Return text and title as a reader sees them, empty without a document."""
        request = library_pb.GetDocumentRequest(collection="tides", reference=by_source("a.md"), include_text=True)
        try:
            found = self.harness.library.get_document(request)
        except DocumentNotFoundError:
            return "", ""
        return found.text, found.document.fields.title

    def findings(self) -> list[object]:
        found: list[object] = []
        check = self.harness.service.long_work.check.check
        check(DEFAULT_TENANT, "", Budget(60), found.append, repair=False)
        return [each for each in found if not isinstance(each, Progress)]


def ingest(desk: Desk) -> None:
    desk.harness.ingest("tides", "b.md", NEW, request_id=REQUEST_ID)


def replace_text(desk: Desk) -> None:
    desk.harness.ingest("tides", "a.md", NEW, request_id=REQUEST_ID)


def retitle(desk: Desk) -> None:
    request = pb.UpdateDocumentRequest(
        collection="tides",
        reference=by_id(desk.document_id),
        document=document_pb2.Document(fields=document_pb2.DocumentFields(title="New title")),
        update_mask=FieldMask(paths=["fields.title"]),
        request_id=REQUEST_ID,
    )
    desk.harness.calls.update_document(request)


def delete(desk: Desk, *, permanent: bool) -> None:
    request = pb.DeleteDocumentRequest(
        collection="tides", reference=by_id(desk.document_id), purge=permanent, request_id=REQUEST_ID
    )
    desk.harness.calls.delete_document(request)


def delete_softly(desk: Desk) -> None:
    delete(desk, permanent=False)


def delete_for_good(desk: Desk) -> None:
    delete(desk, permanent=True)


def reindex(desk: Desk) -> None:
    desk.harness.service.long_work.builder.rebuild(DEFAULT_TENANT, "tides", Budget(60), lambda _: None)


OPERATIONS = [ingest, replace_text, retitle, delete_softly, delete_for_good, reindex]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """Return a catalog with a document, the collections of its store, and the document's id; to be copied."""
    folder, store = tmp_path_factory.mktemp("model"), MemoryVectorStore()
    harness = Harness(folder, store).without_housekeeping()
    harness.create("tides")
    id_ = harness.ingest("tides", "a.md", OLD).document.document_id
    collections = deepcopy(store._collections)
    harness.close()
    return folder, collections, id_


@pytest.fixture
def open_desk(model: tuple[Path, dict[str, Any], str], tmp_path: Path) -> Callable[[int], Desk]:
    def open_(number: int) -> Desk:
        folder = tmp_path / str(number)
        shutil.copytree(model[0], folder)
        store = MemoryVectorStore()
        store._collections = deepcopy(model[1])
        return Desk(Harness(folder, store).without_housekeeping(), model[2])

    return open_


def survive(desk: Desk, operation: Callable[[Desk], None], faults: Faults) -> bool:
    """Let one call fail, and look at what is left; tell whether the fault was still reached."""
    before = desk.seen()
    desk.plant(faults)
    is_told = False
    try:
        operation(desk)
    except GroundwireError:
        is_told = True
    faults.is_on = False
    during = desk.seen()
    desk.harness.sweep()
    assert desk.findings() == [], f"fault {faults.number}"
    assert desk.seen() == during, f"fault {faults.number}"
    if is_told:
        operation(desk)
    after = desk.seen()
    assert during in {before, after}, f"fault {faults.number}: neither old nor new"
    desk.harness.sweep()
    assert desk.findings() == [], f"after repeating, fault {faults.number}"
    return faults.has_struck


@pytest.mark.requirement("T40")
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_an_operation_survives_the_failure_of_each_of_its_calls(
    open_desk: Callable[[int], Desk], operation: Callable[[Desk], None], moment: str
) -> None:
    number, is_reached = 0, True
    while is_reached:
        number += 1
        desk = open_desk(number)
        is_reached = survive(desk, operation, Faults(number, moment))
        desk.harness.close()
    assert number > 2  # some calls failed, and the last run was without a fault


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_embedding_anew_survives_the_failure_of_each_of_its_calls(
    model: tuple[Path, dict[str, Any], str], tmp_path: Path, moment: str
) -> None:
    def reembed(desk: Desk) -> None:
        desk.harness.service.long_work.builder.rebuild(
            DEFAULT_TENANT, "tides", Budget(60), lambda _: None, reembeds=True
        )

    number, is_reached = 0, True
    while is_reached:
        number += 1
        folder = tmp_path / str(number)
        shutil.copytree(model[0], folder)
        store = MemoryVectorStore()
        store._collections = deepcopy(model[1])
        harness = Harness(folder, store, CountingEmbedder(OTHER_DIMENSIONS)).without_housekeeping()
        is_reached = survive(Desk(harness, model[2]), reembed, Faults(number, moment))
        assert harness.collection("tides").identity == harness.embedder.identity
        harness.close()
    assert number > 3
