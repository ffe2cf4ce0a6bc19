"""Who may call what: every call that a running server has, with every kind of credential."""

import itertools
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.answer.v1 import answer_service_pb2_grpc as answer_grpc
from groundwire.api.ingest.v1 import collection_service_pb2 as collection_pb
from groundwire.client import GroundwireClient, token_from_file
from groundwire.kernel.errors import PermissionDeniedError, UnauthenticatedError
from groundwire.kernel.identity import Right
from groundwire.rpc.key_file import PREFIX, read_key_file, revoke_key
from groundwire.rpc.methods import METHODS
from tests.credentials import RULES, Authority, Metadata, Provider, bearer, call, make_key, methods_of
from tests.e2e.server import ServerProcess, groundwire
from tests.stubs import METHOD_PATHS

TABLE = Path(__file__).with_name("access_matrix.tsv")
LIST_COLLECTIONS = METHOD_PATHS["ListCollections"]
MEMORY = ("--embedder", "hashing:64", "--vectors", "memory:")


class Guarded:
    """A server with keys: `tokens` by the name of what they allow, `log` is its error stream."""

    def __init__(self, folder: Path) -> None:
        self.keys = folder / "keys.yaml"
        self.tokens = {right.value: make_key(self.keys, f"{right}-subject", right) for right in Right}
        self.tokens["expired"] = make_key(
            self.keys, "late", Right.ADMIN, expires=datetime.now(UTC) - timedelta(seconds=1)
        )
        self.tokens["bad"] = self.tokens["admin"][:-4] + "AAAA"
        self.server = ServerProcess(folder / "data", (*MEMORY, "--keys", str(self.keys)))
        self.data = folder / "data"
        self.log = folder / "data.log"

    @contextmanager
    def channel(self) -> Iterator[Any]:
        with grpc.insecure_channel(self.server.address) as channel:
            yield channel

    def metadata(self, name: str) -> Metadata:
        return bearer(self.tokens[name]) if name != "none" else ()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    running = Guarded(tmp_path_factory.mktemp("access"))
    yield running
    running.server.stop()


def wait_for(what: Callable[[], bool], limit_s: float = 20.0) -> None:
    ends_at = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < ends_at, "it did not come"
        time.sleep(0.02)


@pytest.mark.requirement("R5")
def test_each_call_takes_the_credentials_of_the_checked_in_table_and_no_others(guarded: Guarded) -> None:
    columns = ("none", "bad", "expired", "read", "write", "admin")
    with guarded.channel() as channel:
        paths = methods_of(channel, guarded.metadata("read"))
        assert set(METHOD_PATHS.values()) <= set(paths)
        rows = ["\t".join(("method", *columns))]
        for path in paths:
            # Watching the health lasts as long as the client likes.
            codes = [call(channel, path, b"", guarded.metadata(name), most=1)[0].name for name in columns]
            cells = (code if code in {"UNAUTHENTICATED", "PERMISSION_DENIED"} else "allowed" for code in codes)
            rows.append("\t".join((path.removeprefix("/"), *cells)))
    assert "\n".join(rows) + "\n" == TABLE.read_text(encoding="utf-8")


@pytest.mark.requirement("R5")
def test_every_method_of_the_server_has_a_row_that_says_its_right(guarded: Guarded) -> None:
    with guarded.channel() as channel:
        names = {path.rpartition("/")[2] for path in methods_of(channel, guarded.metadata("read"))}
    assert names <= METHODS.keys()


@pytest.mark.parametrize(
    ("authorization", "problem"),
    [
        (None, "missing"),
        ("", "missing"),
        ("Bearer", "malformed"),
        ("Bearer ", "malformed"),
        ("Basic dXNlcjpwYXNz", "malformed"),
        ("Bearer " + "x" * 9000, "malformed"),
        ("Bearer gw_short", "malformed"),
        ("Bearer gw_000000000000_" + "A" * 43, "unknown"),
        ("bearer {bad}", "unknown"),
        ("Bearer {expired}", "expired"),
    ],
)
def test_a_refusal_says_what_kind_of_problem_it_is_and_nothing_of_the_secret(
    guarded: Guarded, authorization: str | None, problem: str
) -> None:
    metadata = () if authorization is None else (("authorization", authorization.format(**guarded.tokens)),)
    with guarded.channel() as channel:
        method = channel.unary_unary(LIST_COLLECTIONS)
        with pytest.raises(grpc.RpcError) as caught:
            method(b"", metadata=metadata, timeout=10)
    failed: Any = caught.value
    assert failed.code() is grpc.StatusCode.UNAUTHENTICATED
    status = status_pb2.Status.FromString(dict(failed.trailing_metadata())["grpc-status-details-bin"])
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, dict(info.metadata)) == ("UNAUTHENTICATED", {"problem": problem})
    if authorization and len(authorization) > 20:
        assert authorization.split(" ")[1][:20].encode() not in status.SerializeToString()


def test_a_header_beyond_the_limit_is_refused_before_anything_is_read(guarded: Guarded) -> None:
    with guarded.channel() as channel:
        code, messages, _ = call(channel, LIST_COLLECTIONS, b"", bearer("x" * 40_000))
        assert (code, messages) == (grpc.StatusCode.RESOURCE_EXHAUSTED, [])
        assert call(channel, LIST_COLLECTIONS, b"", guarded.metadata("read"))[0] is grpc.StatusCode.OK


def test_a_key_in_the_path_is_no_credential_and_does_not_get_into_the_log(guarded: Guarded) -> None:
    with guarded.channel() as channel:
        for path in (f"{LIST_COLLECTIONS}?key={guarded.tokens['read']}", LIST_COLLECTIONS):
            assert call(channel, path, b"")[0] in {grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAUTHENTICATED}
        assert call(channel, LIST_COLLECTIONS, b"", guarded.metadata("read"))[0] is grpc.StatusCode.OK
    # The line of the last call comes after those before it.
    wait_for(lambda: "read-subject" in guarded.log.read_text(encoding="utf-8"))
    logged = guarded.log.read_text(encoding="utf-8")
    assert PREFIX not in logged
    assert '"tenant": "default", "subject": "read-subject"' in logged


def test_health_is_free_and_reflection_is_not(guarded: Guarded) -> None:
    assert groundwire("health", address=guarded.server.address).returncode == 0
    with guarded.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        methods_of(channel)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_revoked_key_is_refused_on_an_open_channel_and_at_the_next_message_of_an_open_stream(
    guarded: Guarded,
) -> None:
    token = make_key(guarded.keys, "leaver", Right.WRITE)
    (key_id,) = (key.key_id for key in read_key_file(guarded.keys).keys.values() if key.identity.subject == "leaver")
    more, metadata = threading.Event(), bearer(token)

    def messages() -> Iterator[answer_pb.ConverseRequest]:
        create = answer_pb.CreateSessionRequest(collection="talks")
        yield answer_pb.ConverseRequest(opening=answer_pb.ConverseOpening(create=create))
        more.wait(60)
        yield answer_pb.ConverseRequest(ask=answer_pb.AskRequest(question="second?"))

    with guarded.channel() as channel:
        wait_for(lambda: call(channel, LIST_COLLECTIONS, b"", metadata)[0] is grpc.StatusCode.OK)
        create = collection_pb.CreateCollectionRequest(collection="talks").SerializeToString()
        assert call(channel, METHOD_PATHS["CreateCollection"], create, metadata)[0] is grpc.StatusCode.OK
        stream = answer_grpc.AnswerServiceStub(channel).Converse(messages(), metadata=metadata, timeout=60)
        assert next(stream).session.collection == "talks"
        revoke_key(guarded.keys, key_id)
        revoked_at = time.monotonic()
        wait_for(lambda: call(channel, LIST_COLLECTIONS, b"", metadata)[0] is grpc.StatusCode.UNAUTHENTICATED)
        assert time.monotonic() - revoked_at < 10  # a second, on a machine that has time
        more.set()
        with pytest.raises(grpc.RpcError) as caught:
            list(stream)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_the_log_says_who_lacked_a_right(guarded: Guarded) -> None:
    create = METHOD_PATHS["CreateCollection"]
    with guarded.channel() as channel:
        assert call(channel, create, b"", guarded.metadata("read"))[0] is grpc.StatusCode.PERMISSION_DENIED

    def subjects() -> list[str]:
        lines = [json.loads(line) for line in guarded.log.read_text(encoding="utf-8").splitlines() if create in line]
        return [each["subject"] for each in lines if each["code"] == "PERMISSION_DENIED"]

    wait_for(lambda: bool(subjects()))
    assert subjects()[-1] == "read-subject"


def test_the_command_line_and_both_clients_take_the_key_from_a_file(guarded: Guarded, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(guarded.tokens["read"] + "\n", encoding="utf-8")
    address = guarded.server.address
    assert groundwire("collections", "list", "--token-file", str(token_file), address=address).returncode == 0
    refused = groundwire("collections", "list", address=address)
    told = "error UNAUTHENTICATED: the call has no credential: name a file with an API key or a token with --token-file"
    assert (refused.returncode, refused.stderr) == (1, f"{told}\n")
    denied = groundwire("collections", "create", "x", "--token-file", str(token_file), address=address)
    assert (denied.returncode, "the call needs the right 'write'" in denied.stderr) == (1, True)
    # Said once, not of each file.
    for name in ("a.md", "b.md"):
        (tmp_path / "files" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "files" / name).write_text("The moon causes the tides.", encoding="utf-8")
    filling = ("ingest", str(tmp_path / "files"), "-c", "x", "--token-file")
    (tmp_path / "writer").write_text(guarded.tokens["write"], encoding="utf-8")
    assert groundwire(*filling, str(tmp_path / "writer"), address=address).returncode == 0
    unfilled = groundwire(*filling, str(token_file), address=address)
    assert (unfilled.returncode, unfilled.stdout) == (1, "")
    assert unfilled.stderr == "error PERMISSION_DENIED: the call needs the right 'write'\n"

    with GroundwireClient(address, metadata=token_from_file(token_file)) as client:
        client.list_collections()
        with pytest.raises(PermissionDeniedError) as caught:
            client.create_collection(collection="x")
        assert caught.value.metadata == {"right": "write"}
        token_file.write_text(guarded.tokens["bad"], encoding="utf-8")  # read anew before each call
        with pytest.raises(UnauthenticatedError):
            client.list_collections()


def test_keys_are_made_listed_and_revoked_and_their_secret_is_shown_once(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    create = ("keys", "create", "ci", "--keys", str(keys), "--right")
    made = groundwire(*create, "write", "--scope", "global", "--days", "3")
    secret = made.stdout.strip()
    assert (made.returncode, secret.startswith(PREFIX)) == (0, True)
    assert secret.rpartition("_")[2] not in keys.read_text(encoding="utf-8")
    assert keys.stat().st_mode & 0o077 == 0

    assert groundwire(*create, "read").returncode == 0
    third = groundwire(*create, "read")
    assert (third.returncode, "revoke one" in third.stderr) == (1, True)

    key_id = secret.split("_")[1]
    assert groundwire("keys", "revoke", key_id, "--keys", str(keys)).returncode == 0
    listed = groundwire("keys", "list", "--keys", str(keys)).stdout.splitlines()
    assert [line.split()[0] for line in listed if "revoked" in line] == [key_id]
    assert groundwire(*create, "read").returncode == 0
    assert groundwire("keys", "revoke", "000000000000", "--keys", str(keys)).returncode == 1


def test_a_file_of_keys_that_anybody_may_change_is_refused_at_the_start(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    make_key(keys, "ada", Right.READ)
    keys.chmod(0o666)
    refused = groundwire(
        "serve", "--listen", "127.0.0.1:0", "--keys", str(keys), "--data", str(tmp_path / "data"), *MEMORY
    )
    assert (refused.returncode, "chmod o-w" in refused.stderr) == (1, True)


def test_without_credentials_only_this_machine_may_call_unless_somebody_insists(tmp_path: Path) -> None:
    everywhere = ("serve", "--listen", "0.0.0.0:0", "--data", str(tmp_path / "data"), *MEMORY)
    refused = groundwire(*everywhere)
    assert refused.returncode == 1
    assert "--keys" in refused.stderr
    assert "--insecure" in refused.stderr
    insisting = ServerProcess(tmp_path / "data", (*MEMORY, "--listen", "0.0.0.0:0", "--insecure"))
    insisting.stop()
    said = [json.loads(line) for line in (tmp_path / "data.log").read_text(encoding="utf-8").splitlines()]
    assert [each["level"] for each in said if "no credential is configured" in each["event"]] == ["warning"]


def test_the_audit_says_who_made_a_change_and_who_asked_for_what_an_operation_did(guarded: Guarded) -> None:
    with (
        GroundwireClient(guarded.server.address, metadata=dict(guarded.metadata("write"))) as writer,
        GroundwireClient(guarded.server.address, metadata=dict(guarded.metadata("admin"))) as admin,
    ):
        writer.create_collection(collection="audited")
        writer.collection("audited").ingest_text("The moon causes the tides.", source="a.txt")
        with pytest.raises(PermissionDeniedError):
            writer.delete_collection(collection="audited")
        assert admin.collection("audited").purge({"source": "a.txt"}, force=True).document_count == 1
    with closing(sqlite3.connect(guarded.data / "catalog.db")) as catalog:
        made = catalog.execute("SELECT action, subject FROM audit ORDER BY id DESC LIMIT 3").fetchall()
    assert made == [
        ("delete_document", "admin-subject"),
        ("publish_document", "write-subject"),
        ("create_collection", "write-subject"),
    ]


def test_tokens_are_read_as_the_settings_say(tmp_path: Path) -> None:
    provider = Provider(tmp_path / "jwks.json")
    claims = {"tenant": None, "rights": None, "scopes": None, "org": "acme", "may": ["write"]}
    variables = {
        "GROUNDWIRE_JWKS": str(provider.path),
        "GROUNDWIRE_JWT_ISSUER": RULES.issuer,
        "GROUNDWIRE_JWT_AUDIENCE": RULES.audience,
        "GROUNDWIRE_JWT_TENANT_CLAIM": "org",
        "GROUNDWIRE_JWT_RIGHTS_CLAIM": "may",
        "GROUNDWIRE_JWT_SCOPES_CLAIM": "sees",
        "GROUNDWIRE_PUBLIC_REFLECTION": "true",
        "GROUNDWIRE_CALLER_UNITS_PER_SECOND": "0.001",
        "GROUNDWIRE_CALLER_BURST": "3",
    }
    create = collection_pb.CreateCollectionRequest(collection="docs").SerializeToString()
    subjects = map("subject-{}".format, itertools.count())
    get = collection_pb.GetCollectionRequest(collection="docs").SerializeToString()
    with (
        ServerProcess(tmp_path / "data", MEMORY, **variables) as server,
        grpc.insecure_channel(server.address) as channel,
    ):

        def code(path: str, message: bytes, **said: Any) -> str:
            # Each call by somebody else, or the quota of one would be spent.
            token = provider.token(**claims | {"sub": next(subjects)} | said)
            return str(call(channel, path, message, bearer(token))[0].name)

        assert set(METHOD_PATHS.values()) <= set(methods_of(channel))
        assert call(channel, LIST_COLLECTIONS, b"")[0] is grpc.StatusCode.UNAUTHENTICATED
        assert code(LIST_COLLECTIONS, b"", iss="https://other.example") == "UNAUTHENTICATED"
        assert code(LIST_COLLECTIONS, b"", aud="another") == "UNAUTHENTICATED"
        assert code(LIST_COLLECTIONS, b"", org=None, tenant="acme") == "UNAUTHENTICATED"
        assert code(METHOD_PATHS["CreateCollection"], create, may=["read"]) == "PERMISSION_DENIED"
        assert code(LIST_COLLECTIONS, b"", sees=["global"]) == "PERMISSION_DENIED"
        assert code(METHOD_PATHS["CreateCollection"], create) == "OK"
        assert code(METHOD_PATHS["GetCollection"], get) == "OK"
        assert code(METHOD_PATHS["GetCollection"], get, org="other") == "NOT_FOUND"
        spent = [code(LIST_COLLECTIONS, b"", sub="eve") for _ in range(5)]
        assert spent == ["OK"] * 3 + ["RESOURCE_EXHAUSTED"] * 2


def test_a_connection_that_fails_for_its_certificates_says_so(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    certificate, key = ours.issue("localhost", "server")
    variables = {"GROUNDWIRE_TLS_CERTIFICATE": str(certificate), "GROUNDWIRE_TLS_KEY": str(key)}
    with ServerProcess(tmp_path / "data", MEMORY, **variables) as server:
        listing, address = ("collections", "list"), server.address
        assert groundwire(*listing, "--tls-ca", str(ours.path), address=address).returncode == 0
        strangers = groundwire(*listing, "--tls-ca", str(theirs.path), address=address)
        assert (strangers.returncode, "over TLS: " in strangers.stderr) == (1, True)
        assert "CERTIFICATE_VERIFY_FAILED" in strangers.stderr
        plain = groundwire(*listing, address=address)
        assert (plain.returncode, "add --tls-ca" in plain.stderr) == (1, True)


def test_of_several_servers_the_one_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", MEMORY) as server:
        address = f"ingest={server.address},retrieve=127.0.0.1:1,answer={server.address}"
        assert groundwire("collections", "create", "notes", address=address).returncode == 0
        done = groundwire("search", "tides", "-c", "notes", address=address)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "error UNAVAILABLE: no server answers at 127.0.0.1:1; start one with `groundwire serve`"
    )
