"""The audit log as an operator reads it: who changed what, by the client and the command line."""

import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import InvalidRequestError, PermissionDeniedError
from groundwire.kernel.identity import Right
from tests.credentials import bearer, make_key
from tests.e2e.server import ServerProcess, groundwire

MEMORY = ("--embedder", "hashing:64", "--vectors", "memory:")


@dataclass
class Office:
    """A server with keys, in files by the names of their owners."""

    server: ServerProcess
    folder: Path

    def client(self, owner: str) -> GroundwireClient:
        key = (self.folder / owner).read_text(encoding="utf-8")
        return GroundwireClient(self.server.address, metadata=dict(bearer(key)))


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("audit")
    file = folder / "keys.yaml"
    for owner, right, tenant in (
        ("boss", Right.ADMIN, "acme"),
        ("clerk", Right.WRITE, "acme"),
        ("stranger", Right.ADMIN, "other"),
    ):
        (folder / owner).write_text(make_key(file, owner, right, tenant=tenant), encoding="utf-8")
    server = ServerProcess(folder / "data", (*MEMORY, "--keys", str(file)))
    yield Office(server, folder)
    assert server.stop() == 0


def test_who_changed_what_is_told_to_whoever_administrates(office: Office) -> None:
    begun, asked = datetime.now(UTC), str(uuid.uuid4())
    with office.client("boss") as boss, office.client("clerk") as clerk, office.client("stranger") as stranger:
        boss.collection("ledger").create()
        stored = clerk.collection("ledger").ingest_text("The fee is 5.", source="fees.md").document.document_id
        reference = DocumentReference(document_id=stored)
        clerk.delete_document(collection="ledger", reference=reference, request_id=asked)
        whole = boss.list_audit_entries().entries
        assert [(each.subject, each.action) for each in whole[:3]] == [
            ("clerk", "hide_document"),
            ("clerk", "publish_document"),
            ("boss", "create_collection"),
        ]
        newest = whole[0]
        assert (newest.resource, newest.request_id) == (stored, asked)
        assert begun.timestamp() - 1 < newest.change_time.seconds <= datetime.now(UTC).timestamp() + 1
        assert newest.snapshot > whole[1].snapshot
        # Each entry holds the hash of the one before it.
        assert [each.previous_hash for each in whole[:-1]] == [each.hash for each in whole[1:]]
        assert whole[-1].previous_hash == ""
        assert {len(each.hash) for each in whole} == {hashlib.sha256().digest_size * 2}

        by_page, token = list[int](), ""
        while True:
            page = boss.list_audit_entries(page_size=1, page_token=token)
            by_page += [each.entry_id for each in page.entries]
            if not (token := page.next_page_token):
                break
        assert by_page == [each.entry_id for each in whole]
        of_document = boss.list_audit_entries(resource=stored).entries
        assert [each.action for each in of_document] == ["hide_document", "publish_document"]
        assert [each.resource for each in boss.list_audit_entries(subject="boss").entries] == ["ledger"]
        oldest = whole[-1].change_time
        assert not boss.list_audit_entries(end_time=oldest).entries
        assert list(boss.list_audit_entries(start_time=oldest).entries) == list(whole)

        assert not stranger.list_audit_entries().entries
        assert not stranger.list_audit_entries(resource=stored).entries
        with pytest.raises(PermissionDeniedError):
            clerk.list_audit_entries()
        with pytest.raises(InvalidRequestError, match="resource: must not contain control characters"):
            boss.list_audit_entries(resource="a\0")
        with pytest.raises(InvalidRequestError, match="end_time: must not be before start_time"):
            boss.list_audit_entries(start_time=newest.change_time, end_time=oldest)


def test_the_command_line_shows_changes(office: Office) -> None:
    with office.client("boss") as boss:
        boss.collection("shown").create()
    key = ("--token-file", str(office.folder / "boss"))
    done = groundwire("audit", "--resource", "shown", *key, address=office.server.address)
    assert done.returncode == 0, done.stderr
    heading, line = done.stdout.splitlines()
    assert heading.split() == ["when", "subject", "change", "resource", "request"]
    assert "boss" in line
    assert "create collection" in line
    printed = groundwire("audit", "--subject", "boss", "-n", "1", "--json", *key, address=office.server.address)
    (entry,) = json.loads(printed.stdout)
    assert (entry["action"], entry["resource"]) == ("create_collection", "shown")
    nobody = groundwire("audit", "--subject", "nobody", *key, address=office.server.address)
    assert nobody.stdout == "no changes\n"
