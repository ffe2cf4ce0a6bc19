"""How much a tenant may store, by the key of the caller or by the settings, and what callers hear of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from groundwire.api.common.v1 import record_pb2
from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import GroundwireError, QuotaExceededError
from tests.catalogs import POSTGRESQL, SQLITE, catalogs_are
from tests.credentials import bearer
from tests.e2e.server import ServerProcess, groundwire

MEMORY = ("--embedder", "hashing:64", "--vectors", "memory:")
NAME = "handbook"


@contextmanager
def serving(folder: Path, *arguments: str, **variables: str) -> Iterator[ServerProcess]:
    server = ServerProcess(folder / "data", (*MEMORY, *arguments), **variables)
    try:
        yield server
    finally:
        server.stop()


def made_key(folder: Path, *arguments: str) -> str:
    made = groundwire("keys", "create", *arguments, "--keys", str(folder / "keys.yaml"))
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def faq(text: str) -> record_pb2.Record:
    record = record_pb2.Record(record_type=record_pb2.RECORD_TYPE_FAQ, text=text, scope="global")
    record.timestamp.GetCurrentTime()
    return record


@pytest.mark.parametrize("kind", [SQLITE, POSTGRESQL])
def test_a_key_with_limits_stores_no_more_and_nobody_repeats_the_call(tmp_path: Path, kind: str) -> None:
    few = made_key(tmp_path, "few", "--right", "admin", "--documents", "2", "--stored-bytes", "1000")
    free = made_key(tmp_path, "free", "--right", "admin")
    with (
        catalogs_are(kind),
        serving(tmp_path, "--keys", str(tmp_path / "keys.yaml")) as server,
        GroundwireClient(server.address, metadata=dict(bearer(few))) as client,
        GroundwireClient(server.address, metadata=dict(bearer(free))) as other,
    ):
        client.create_collection(collection=NAME)
        client.ingest_document(collection=NAME, source_uri="a.md", text="# A\n\nOne.\n")
        client.batch_upsert_records(collection=NAME, records=[faq("Q: Who? A: Ada.")])
        with pytest.raises(QuotaExceededError) as caught:
            client.ingest_document(collection=NAME, source_uri="b.md", text="# B\n\nTwo.\n")
        assert caught.value.metadata == {"quota": "documents", "limit": "2"}
        assert caught.value.retry_after_s is None
        with pytest.raises(QuotaExceededError):
            client.batch_upsert_records(collection=NAME, records=[faq("Q: Where? A: Here.")])
        with pytest.raises(QuotaExceededError) as caught:
            client.ingest_document(collection=NAME, source_uri="a.md", text="Longer. " * 200)
        assert caught.value.metadata == {"quota": "stored_bytes", "limit": "1000"}
        begun = client.ingest_document(collection=NAME, source_uri="c.md", text="Three.\n", run_async=True).operation
        operation = client.wait_operation(name=begun.name)
        assert operation.error.code == 8, operation
        assert [each.source_uri for each in client.list_documents(collection=NAME).documents][:1] == ["a.md"]
        other.ingest_document(collection=NAME, source_uri="b.md", text="# B\n\nTwo.\n")
        client.delete_document(collection=NAME, reference=DocumentReference(source_uri="b.md"), purge=True)
        client.delete_document(collection=NAME, reference=DocumentReference(source_uri="a.md"), purge=True)
        client.ingest_document(collection=NAME, source_uri="d.md", text="Four.\n")
    log = [json.loads(line) for line in (tmp_path / "data.log").read_text("utf-8").splitlines()]
    refused = [each for each in log if each.get("code") == "RESOURCE_EXHAUSTED"]
    assert len(refused) == 3


def test_the_settings_limit_callers_whose_credential_says_nothing_of_it(tmp_path: Path) -> None:
    limits = {"GROUNDWIRE_TENANT_DOCUMENTS": "1", "GROUNDWIRE_TENANT_STORED_BYTES": "1000"}
    with serving(tmp_path, **limits) as server, GroundwireClient(server.address) as client:
        client.create_collection(collection=NAME)
        client.ingest_document(collection=NAME, source_uri="a.md", text="One.\n")
        with pytest.raises(GroundwireError, match="the tenant may store 1 documents"):
            client.ingest_document(collection=NAME, source_uri="b.md", text="Two.\n")
        with pytest.raises(QuotaExceededError) as caught:
            client.ingest_document(collection=NAME, source_uri="a.md", text="Longer. " * 200)
        assert caught.value.metadata == {"quota": "stored_bytes", "limit": "1000"}


def test_a_key_has_its_own_limits_in_place_of_those_of_the_settings(tmp_path: Path) -> None:
    more = made_key(tmp_path, "more", "--right", "admin", "--documents", "2")
    plain = made_key(tmp_path, "plain", "--right", "admin")
    limit = {"GROUNDWIRE_TENANT_DOCUMENTS": "1"}
    with (
        serving(tmp_path, "--keys", str(tmp_path / "keys.yaml"), **limit) as server,
        GroundwireClient(server.address, metadata=dict(bearer(more))) as client,
        GroundwireClient(server.address, metadata=dict(bearer(plain))) as narrow,
    ):
        client.create_collection(collection=NAME)
        for source in ("a.md", "b.md"):
            client.ingest_document(collection=NAME, source_uri=source, text=f"{source}.\n")
        with pytest.raises(QuotaExceededError):
            narrow.ingest_document(collection=NAME, source_uri="c.md", text="Three.\n")


def test_what_can_be_restored_counts_and_what_other_tenants_store_does_not(tmp_path: Path) -> None:
    limits = ("--documents", "1", "--stored-bytes", "1000")
    acme, globex = (made_key(tmp_path, "ada", "--right", "admin", "--tenant", each, *limits) for each in ("a", "b"))
    keys = ("--keys", str(tmp_path / "keys.yaml"))
    with serving(tmp_path, *keys) as server:
        for key in (acme, globex):
            with GroundwireClient(server.address, metadata=dict(bearer(key))) as client:
                client.create_collection(collection=NAME)
                client.ingest_document(collection=NAME, source_uri="a.md", text="Six hundred bytes.\n" * 32)
        with GroundwireClient(server.address, metadata=dict(bearer(acme))) as client:
            client.delete_document(collection=NAME, reference=DocumentReference(source_uri="a.md"))
            with pytest.raises(QuotaExceededError) as caught:
                client.ingest_document(collection=NAME, source_uri="b.md", text="Two.\n")
            assert caught.value.metadata == {"quota": "documents", "limit": "1"}
