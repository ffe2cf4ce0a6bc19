"""Read-your-writes, reindex, reembed and fsck, as clients and operators use them."""

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.common.v1 import document_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1 import maintenance_service_pb2 as maintenance_pb
from groundwire.client import GroundwireClient
from groundwire.client.long_running import metadata_of, response_of, wait_for
from groundwire.kernel.errors import (
    EmbeddingMismatchError,
    InvalidRequestError,
    OperationNotFoundError,
    RequestIdReusedError,
)
from tests.e2e.server import ServerProcess, groundwire
from tests.stubs import by_id

TEXT = "# Tides\n\nThe moon causes the tides of the sea. A spring tide happens when sun and moon stand in line.\n"


@pytest.fixture
def client(server: ServerProcess) -> Iterator[GroundwireClient]:
    with GroundwireClient(server.address) as client:
        yield client


@pytest.fixture
def collection(client: GroundwireClient) -> str:
    name = f"c-{uuid.uuid4().hex[:8]}"
    client.create_collection(collection=name)
    return name


def options(token: str) -> RetrievalOptions:
    return RetrievalOptions(consistency_token=token)


def test_every_write_answers_with_a_token_that_a_search_takes(client: GroundwireClient, collection: str) -> None:
    ingested = client.ingest_document(collection=collection, source_uri="a.md", text=TEXT).result
    id_ = ingested.document.document_id
    changed = document_pb2.Document(fields=document_pb2.DocumentFields(title="Changed"))
    tokens = [
        ingested.consistency_token,
        client.update_document(
            collection=collection, reference=by_id(id_), document=changed, update_mask=FieldMask(paths=["fields.title"])
        ).consistency_token,
        client.delete_document(collection=collection, reference=by_id(id_), purge=False).consistency_token,
        client.restore_document(collection=collection, reference=by_id(id_)).consistency_token,
    ]
    assert all(tokens)
    for token in tokens:
        found = client.retrieve(collection=collection, query="moon", options=options(token))
        assert len(found.results) == 1
        assert found.snapshot > 0
        again = client.retrieve(collection=collection, query="moon", options=options(found.consistency_token))
        assert again.snapshot >= found.snapshot
    gone = client.delete_document(collection=collection, reference=by_id(id_), purge=True).consistency_token
    assert len(client.retrieve(collection=collection, query="moon", options=options(gone)).results) == 0


def test_an_upload_and_an_unchanged_document_answer_with_a_token(
    client: GroundwireClient, collection: str, tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text(TEXT, encoding="utf-8")
    for _ in range(2):
        header = pb.UploadHeader(collection=collection, source_uri="a.md")
        token = client.upload_document(tmp_path / "a.md", header).consistency_token
        assert len(client.retrieve(collection=collection, query="moon", options=options(token)).results) == 1


def test_a_question_passes_its_token_on(client: GroundwireClient, collection: str) -> None:
    token = client.ingest_document(collection=collection, source_uri="a.md", text=TEXT).result.consistency_token
    request = answer_pb.AskRequest(collection=collection, question="What causes the tides?", options=options(token))
    assert client.ask.send(request).answer.citations
    request.options.consistency_token = "garbage"  # noqa: S105 - no password
    with pytest.raises(InvalidRequestError, match=r"options\.consistency_token"):
        client.ask.send(request)


def test_tokens_of_others_and_garbage_are_refused(client: GroundwireClient, collection: str, tmp_path: Path) -> None:
    client.ingest_document(collection=collection, source_uri="a.md", text=TEXT)
    client.create_collection(collection=f"{collection}-2")
    other = client.ingest_document(collection=f"{collection}-2", source_uri="a.md", text=TEXT).result
    elsewhere = ServerProcess(tmp_path / "elsewhere")
    with GroundwireClient(elsewhere.address) as stranger:
        stranger.create_collection(collection=collection)
        foreign = stranger.ingest_document(collection=collection, source_uri="a.md", text=TEXT).result
    elsewhere.stop()
    for token in (other.consistency_token, foreign.consistency_token, "garbage", "A" * 32, "é", "A" * 100_000):
        with pytest.raises(InvalidRequestError) as refused:
            client.retrieve(collection=collection, query="moon", options=options(token))
        assert [violation.field for violation in refused.value.violations] == ["options.consistency_token"]


def test_a_token_of_a_collection_that_was_made_anew_is_refused(client: GroundwireClient, collection: str) -> None:
    token = client.ingest_document(collection=collection, source_uri="a.md", text=TEXT).result.consistency_token
    client.delete_collection(collection=collection, force=True)
    client.create_collection(collection=collection)
    with pytest.raises(InvalidRequestError):
        client.retrieve(collection=collection, query="moon", options=options(token))


@pytest.mark.requirement("C24")
def test_fsck_finds_nothing_and_reindex_keeps_every_answer(server: ServerProcess, notes: Path) -> None:
    assert groundwire("ingest", str(notes / "tides.md"), "-c", "ops", address=server.address).returncode == 0
    before = groundwire("search", "moon", "-c", "ops", "--json", address=server.address)
    done = groundwire("reindex", "-c", "ops", address=server.address)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ops: 1 vector of ")
    assert "0 texts embedded" in done.stdout
    after = groundwire("search", "moon", "-c", "ops", "--json", address=server.address)
    assert json.loads(after.stdout)["results"] == json.loads(before.stdout)["results"]
    checked = groundwire("fsck", "--json", address=server.address)
    assert checked.returncode == 0
    assert json.loads(checked.stdout)["findings"] == []


def test_unknown_collections_are_told(server: ServerProcess) -> None:
    for command in ("fsck", "reindex", "reembed"):
        failed = groundwire(command, "-c", "none", address=server.address)
        assert failed.returncode == 1
        assert "COLLECTION_NOT_FOUND" in failed.stderr


def test_the_same_request_is_done_once(client: GroundwireClient, collection: str) -> None:
    client.ingest_document(collection=collection, source_uri="a.md", text=TEXT)
    request = maintenance_pb.ReindexRequest(collection=collection, request_id=str(uuid.uuid4()))
    first, second = client.reindex.send(request), client.reindex.send(request)
    assert first.name == second.name
    result = wait_for(client, first, maintenance_pb.IndexBuildResult)
    assert result.vector_count == 1
    assert response_of(client.reindex.send(request), maintenance_pb.IndexBuildResult) == result
    request.collection = "another"
    client.create_collection(collection="another")
    with pytest.raises(RequestIdReusedError):
        client.reindex.send(request)


def test_an_operation_is_watched_listed_and_forgotten(
    server: ServerProcess, client: GroundwireClient, collection: str
) -> None:
    client.ingest_document(collection=collection, source_uri="a.md", text=TEXT)
    begun = groundwire("reindex", "-c", collection, "--no-wait", address=server.address)
    name = begun.stdout.strip()
    assert re.fullmatch(r"operations/[0-9a-f-]{36}", name)
    ended = client.wait_operation(name=name, timeout=Duration(seconds=30))
    assert ended.done
    metadata = metadata_of(ended)
    assert (metadata.method, metadata.collection) == ("Reindex", collection)
    assert metadata.end_time.ToDatetime() >= metadata.create_time.ToDatetime()
    assert response_of(ended, maintenance_pb.IndexBuildResult).vector_count == 1
    other = client.check_store(collection=collection).name
    assert [each.name for each in client.list_operations(page_size=2).operations] == [other, name]
    first = client.list_operations(page_size=1)
    assert [each.name for each in client.list_operations(page_size=1, page_token=first.next_page_token).operations] == [
        name
    ]
    shown = json.loads(groundwire("operations", "get", name, "--json", address=server.address).stdout)
    assert (shown["state"], shown["method"]) == ("done", "Reindex")
    assert name in groundwire("operations", "list", address=server.address).stdout
    lines = groundwire("operations", "get", name, address=server.address).stdout.splitlines()
    assert {("name", name), ("state", "done"), ("method", "Reindex")} <= {tuple(line.split()) for line in lines}
    client.cancel_operation(name=name)
    assert client.get_operation(name=name).HasField("response")
    client.delete_operation(name=name)
    with pytest.raises(OperationNotFoundError):
        client.get_operation(name=name)
    for wrong in ("", "operations/", "operations/1", str(uuid.uuid4())):
        with pytest.raises(InvalidRequestError):
            client.get_operation(name=wrong)
    with pytest.raises(InvalidRequestError):
        client.list_operations(filter="done")


@pytest.mark.requirement("S1-92")
@pytest.mark.requirement("C01")
def test_another_model_is_refused_until_the_collection_was_embedded_anew(tmp_path: Path, notes: Path) -> None:
    old = ServerProcess(tmp_path / "data", ["--embedder", "hashing:64"])
    assert groundwire("ingest", str(notes), "-c", "notes", address=old.address).returncode == 0
    old.stop()

    new = ServerProcess(tmp_path / "data", ["--embedder", "hashing:96"])
    try:
        for refused in (("search", "moon"), ("ingest", str(notes / "tides.md"))):
            failed = groundwire(*refused, "-c", "notes", address=new.address)
            assert failed.returncode == 1
            assert "EMBEDDING_MISMATCH" in failed.stderr
        # Said once, not of each file.
        for name in ("a.md", "b.md"):
            (notes / name).write_text(f"{name} is new.", encoding="utf-8")
        failed = groundwire("ingest", str(notes), "-c", "notes", address=new.address)
        (line,) = failed.stderr.splitlines()
        assert (failed.returncode, failed.stdout, line.startswith("error EMBEDDING_MISMATCH")) == (1, "", True)
        assert "`groundwire reembed`" in line
        for name in ("a.md", "b.md"):
            (notes / name).unlink()
        done = groundwire("reembed", "-c", "notes", "--json", address=new.address)
        result = json.loads(done.stdout)
        assert (done.returncode, result["embedding"]["dimensions"], int(result["embedded_count"])) == (0, 96, 2)
        found = json.loads(groundwire("search", "moon", "-c", "notes", "--json", address=new.address).stdout)
        assert found["results"][0]["source"].endswith("tides.md")
        with GroundwireClient(new.address) as client:
            chunks = client.list_chunks(collection="notes", include_embedding=True).chunks
            model = client.get_collection(collection="notes").collection.embedding.model_name
        assert {(chunk.embedding_model, len(chunk.embedding)) for chunk in chunks} == {(model, 96)}
        assert groundwire("fsck", address=new.address).returncode == 0
        assert groundwire("ingest", str(notes), "-c", "notes", address=new.address).returncode == 0
    finally:
        new.stop()

    again = ServerProcess(tmp_path / "data", ["--embedder", "hashing:64"])
    with GroundwireClient(again.address) as client, pytest.raises(EmbeddingMismatchError):
        client.retrieve(collection="notes", query="moon")
    again.stop()


def test_staged_documents_survive_a_kill_and_are_ingested_once(tmp_path: Path) -> None:
    tide = "The moon pulls the tide, and the tide pulls the sand of the beach. "
    files = {f"{number}.md": f"# Tide {number}\n\n{tide * (20 if number else 10_000)}" for number in range(5)}
    for source, text in files.items():
        (tmp_path / source).write_text(text, encoding="utf-8")
    server = ServerProcess(tmp_path / "data")
    try:
        with GroundwireClient(server.address) as client:
            docs = client.collection("docs")
            docs.create()
            begun = [docs.start_ingest(tmp_path / source) for source in files]
        server.kill()
        server = ServerProcess(tmp_path / "data")
        with GroundwireClient(server.address) as client:
            listed = client.list_operations(name="operations").operations
            assert {operation.name for operation in listed} == {operation.name for operation in begun}
            results = [client.wait(operation) for operation in begun]
            assert [result.document.source for result in results] == list(files)
            assert {(result.outcome, result.document.generation) for result in results} == {("created", 1)}
            docs = client.collection("docs")
            assert [document.source for document in docs.documents()] == sorted(files)
            assert docs.text("0.md") == files["0.md"]
            assert docs.search("Tide 3", mode="lexical", k=1)[0].source == "3.md"
        checked = groundwire("fsck", address=server.address)
        assert checked.returncode == 0, checked.stdout
    finally:
        server.stop()
