"""Records of scopes that a credential does not allow do not exist for it, whichever call it makes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groundwire.api.common.v1 import document_pb2, filter_pb2
from groundwire.api.common.v1.chunk_pb2 import Chunk, ChunkReference
from groundwire.api.ingest.v1 import record_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as retrieve_pb
from groundwire.client import GroundwireClient
from groundwire.kernel.identity import Right
from groundwire.vault import ChunkStore
from groundwire.vault.transfer import export_records, import_records
from tests.credentials import bearer, make_key
from tests.e2e.server import ServerProcess
from tests.integration.records.keeping import Keeping, failure, memory, memory_id
from tests.stubs import by_id

ANN, BEN = "entity:ann", "entity:ben"
Connect = Callable[[str], GroundwireClient]


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    """Connect as `all`, or as `ann`, who may see what is global and her own."""
    folder = tmp_path_factory.mktemp("scopes")
    keys = {
        "all": make_key(folder / "keys.yaml", "all", Right.ADMIN),
        "ann": make_key(folder / "keys.yaml", "ann", Right.ADMIN, scopes=("global", ANN)),
    }
    server = ServerProcess(folder / "data", GROUNDWIRE_KEYS=str(folder / "keys.yaml"))
    clients: list[GroundwireClient] = []

    def connected(name: str) -> GroundwireClient:
        clients.append(GroundwireClient(server.address, metadata=dict(bearer(keys[name]))))
        return clients[-1]

    yield connected
    for client in clients:
        client.close()
    server.stop()


@pytest.fixture
def everybody(connect: Connect) -> Keeping:
    keeping = Keeping(connect("all"))
    keeping.put(
        memory("Of all.", record_id=memory_id(1)),
        memory("Of Ann.", record_id=memory_id(2), scope=ANN),
        memory("Secret of Ben.", record_id=memory_id(3), scope=BEN, tags=["ben"]),
    )
    return keeping


@pytest.fixture
def ann(connect: Connect, everybody: Keeping) -> Keeping:
    """The same collection as Ann sees it."""
    keeping = Keeping.__new__(Keeping)
    keeping.client, keeping.collection = connect("ann"), everybody.collection
    return keeping


@pytest.mark.requirement("S0-11")
@pytest.mark.requirement("C09")
def test_a_record_of_another_scope_does_not_exist(ann: Keeping, everybody: Keeping) -> None:
    assert sorted(ann.texts()) == ["Of Ann.", "Of all."]
    assert ann.texts({"scope": BEN}) == ann.texts({"entity": "ben"}) == []
    assert ann.get(memory_id(2)).text == "Of Ann."
    hidden, link = memory_id(3), pb.LINK_KIND_SUPPORTS
    missing = memory_id(4)
    calls: list[Callable[[str], object]] = [
        ann.get,
        ann.delete,
        ann.restore,
        lambda name: ann.change(name, "text", text="Mine."),
        lambda name: ann.link(memory_id(2), link, name),
        lambda name: ann.link(name, link, memory_id(2)),
    ]
    for call in calls:
        of_hidden, of_missing = failure(call, hidden), failure(call, missing)
        assert of_hidden.reason == of_missing.reason == "RECORD_NOT_FOUND"
        assert of_hidden.message.replace(hidden, missing) == of_missing.message
    assert ann.delete_where({"record_type": "memory"}, permanent=True).receipt.document_count == 2
    assert everybody.texts(include_deleted=True) == ["Secret of Ben."]


def test_a_record_of_another_scope_is_neither_written_nor_replaced(ann: Keeping, everybody: Keeping) -> None:
    assert failure(ann.put, memory("For Ben.", scope=BEN)).reason == "PERMISSION_DENIED"
    assert failure(ann.put, memory("Mine.", record_id=memory_id(3), scope=ANN)).reason == "ALREADY_EXISTS"
    assert failure(ann.change, memory_id(2), "scope", scope=BEN).reason == "PERMISSION_DENIED"
    assert everybody.get(memory_id(3)).text == "Secret of Ben."
    assert everybody.get(memory_id(2)).scope == ANN


def test_calls_for_documents_do_not_reach_it_either(ann: Keeping, everybody: Keeping) -> None:
    document_id = everybody.get(memory_id(3)).document_id
    reference, client, name = by_id(document_id), ann.client, ann.collection
    chunk = Chunk(chunk_id=f"{document_id}#chunk_000", tags=["mine"])
    changed = document_pb2.Document(fields=document_pb2.DocumentFields(title="Mine"))
    calls: list[Callable[[], object]] = [
        lambda: client.delete_document(reference=reference, collection=name),
        lambda: client.delete_document(reference=reference, purge=True, collection=name),
        lambda: client.restore_document(reference=reference, collection=name),
        lambda: client.update_document(reference=reference, document=changed, collection=name),
        lambda: client.update_chunk(chunk=chunk, collection=name),
        lambda: client.get_document(reference=reference, collection=name),
    ]
    reasons = [failure(call).reason for call in calls]
    assert reasons == ["DOCUMENT_NOT_FOUND"] * 4 + ["CHUNK_NOT_FOUND", "DOCUMENT_NOT_FOUND"]
    everything = filter_pb2.Filter(json="{}")
    purge = client.purge_documents
    assert failure(purge, filter=everything, force=True, collection=name).reason == "PERMISSION_DENIED"
    kept = everybody.get(memory_id(3))
    assert (kept.text, list(kept.memory.tags)) == ("Secret of Ben.", ["ben"])
    own = by_id(ann.get(memory_id(2)).document_id)
    assert client.delete_document(reference=own, collection=name).receipt.document_count == 1


def test_calls_that_read_do_not_reach_it_either(ann: Keeping, everybody: Keeping) -> None:
    client, name, hidden = ann.client, ann.collection, everybody.get(memory_id(3))
    reference = by_id(hidden.document_id)
    (seen,) = everybody.client.list_chunks(collection=name, reference=reference).chunks
    chunks = [ChunkReference(chunk_id=seen.chunk_id), ChunkReference(chunk_number=seen.chunk_number)]
    calls: list[Callable[[], object]] = [
        lambda: [*client.document_text(collection=name, reference=reference)],
        lambda: client.list_chunks(collection=name, reference=reference),
        lambda: client.get_chunk(collection=name, reference=chunks[0]),
        lambda: client.get_chunk(collection=name, reference=chunks[1]),
        lambda: client.expand(collection=name, chunks=chunks[:1], mode=retrieve_pb.EXPAND_MODE_PARENT),
    ]
    reasons = [failure(call).reason for call in calls]
    assert reasons == ["DOCUMENT_NOT_FOUND"] * 2 + ["CHUNK_NOT_FOUND"] * 3
    outcomes = client.batch_get_chunks(collection=name, references=chunks).outcomes
    assert [each.WhichOneof("outcome") for each in outcomes] == ["error", "error"]
    span = library_pb.SpanReference(reference=reference, span=seen.span)
    assert client.read_spans(collection=name, spans=[span]).outcomes[0].WhichOneof("outcome") == "error"
    assert len(client.list_documents(collection=name).documents) == len(client.list_chunks(collection=name).chunks) == 2
    located = client.locate_sources(document_ids=[hidden.document_id], chunks=chunks)
    assert [*located.documents] == [library_pb.DocumentLocation(document_id=hidden.document_id)]
    assert [*located.chunks] == [library_pb.ChunkLocation()] * 2


def test_what_a_record_of_another_scope_quotes_is_not_deleted_for_good_with_it(
    ann: Keeping, everybody: Keeping
) -> None:
    quotes = memory("As Ben heard of all.", record_id=memory_id(4), scope=BEN)
    document_id = ann.get(memory_id(1)).document_id
    quotes.quoted_document_ids.append(document_id)
    everybody.put(quotes)
    name, reference = ann.collection, by_id(document_id)
    for refused in (
        failure(ann.delete, memory_id(1), permanent=True),
        failure(lambda: ann.client.delete_document(reference=reference, purge=True, collection=name)),
    ):
        assert refused.reason == "PERMISSION_DENIED"
    assert (ann.get(memory_id(1)).text, everybody.get(memory_id(4)).text) == ("Of all.", quotes.text)
    assert everybody.delete(memory_id(1), permanent=True).receipt.document_count == 2


def test_a_write_does_not_tell_whether_others_wrote_the_same(ann: Keeping, everybody: Keeping) -> None:
    guessed = [memory("Secret of Ben.", scope=ANN, record_id=memory_id(number)) for number in (5, 6)]
    written = [ann.put(each)[0] for each in guessed]
    assert [each.embedded for each in written] == [True, False]  # the second is like a record of her own
    reference = ChunkReference(chunk_id=f"{written[0].document_id}#chunk_000")
    chunk = ann.client.get_chunk(collection=ann.collection, reference=reference).chunk
    assert chunk.embed_time == chunk.create_time
    assert not everybody.put(memory("Secret of Ben.", record_id=memory_id(7)))[0].embedded


def test_an_import_gives_another_id_to_a_record_whose_own_is_taken(
    ann: Keeping, everybody: Keeping, tmp_path: Path
) -> None:
    store, hidden = ChunkStore(tmp_path), memory_id(3)
    everybody.client.create_collection(collection="elsewhere")
    elsewhere = ann.client.collection("elsewhere")
    elsewhere.put_records(
        [
            {"record_type": "memory", "text": "Ann likes tea.", "record_id": hidden, "scope": ANN},
            {"record_type": "memory", "text": "Ann likes milk.", "record_id": memory_id(5), "scope": ANN},
        ]
    )
    elsewhere.add_links(memory_id(5), supports=hidden)
    export_records(ann.client, "elsewhere", store)
    for _ in range(2):
        assert import_records(ann.client, ann.collection, store).failed == {}
        texts = {each.text: each for each in ann.client.collection(ann.collection).records(filter={"scope": ANN})}
        assert texts.keys() == {"Of Ann.", "Ann likes tea.", "Ann likes milk."}
        tea = texts["Ann likes tea."].record_id
        assert tea != hidden
        assert texts["Ann likes milk."].links.supports == (tea,)
    assert everybody.get(hidden).text == "Secret of Ben."
