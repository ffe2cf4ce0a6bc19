"""Tokens, certificates and limits of callers, over gRPC: what is taken, what is refused, and what each may ask for."""

import asyncio
import hashlib
import hmac
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import library_service_pb2_grpc as library_grpc
from groundwire.client import AsyncGroundwireClient, GroundwireClient, tls_from_files
from groundwire.kernel.errors import DeadlineError, InvalidRequestError, UnavailableError
from groundwire.kernel.identity import ALL_RIGHTS, Identity, Quota, Right
from groundwire.rpc import request_context
from groundwire.rpc.access import AccessOptions
from groundwire.rpc.channels import open_channel
from groundwire.rpc.key_file import create_key, read_key_file, revoke_key
from groundwire.rpc.methods import CALL_LIMITS, Work, cost_of
from groundwire.rpc.request_context import ACTS_FOR_KEY, RequestContext
from groundwire.rpc.tls import ClientTls, TlsFiles, warn_of_expiry
from tests.credentials import RULES, Authority, Provider, bearer, make_key, unsigned_token
from tests.integration.rpc.fake_ingest import FakeIngest, connected, fake_ingest, serving

REQUEST: Final = library_pb.GetDocumentRequest(collection="ok")
INGEST: Final = pb.IngestDocumentRequest(collection="ok")
SLOW: Final = library_pb.GetDocumentRequest(collection="slow")
PEM: Final = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Provider:
    return Provider(tmp_path_factory.mktemp("provider") / "jwks.json")


@asynccontextmanager
async def asked(access: AccessOptions, **options: Any) -> AsyncIterator[tuple[FakeIngest, Any]]:
    """Run a server that asks for credentials; give the servicer and the stubs."""
    servicer = fake_ingest()
    async with connected(servicer, access=access, **options) as (_, stubs):
        yield servicer, stubs


async def until(what: Callable[[], Any], limit_s: float = 20.0) -> None:
    """Try again until something is true; asynchronous conditions are awaited."""
    ends_at = time.monotonic() + limit_s
    while True:
        result = what()
        if await result if asyncio.iscoroutine(result) else result:
            return
        assert time.monotonic() < ends_at, "it did not come"
        await asyncio.sleep(0.02)


async def refusal(call: Any) -> tuple[grpc.StatusCode, dict[str, str], Any]:
    """Return code, metadata and trailers of a call that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    trailers: Any = dict(caught.value.trailing_metadata() or ())
    info = error_details_pb2.ErrorInfo()
    assert status_pb2.Status.FromString(trailers["grpc-status-details-bin"]).details[0].Unpack(info)
    return caught.value.code(), dict(info.metadata), trailers


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_token_makes_the_identity_of_the_call(provider: Provider, algorithm: str) -> None:
    async with asked(AccessOptions(jwks=provider.path, token_rules=RULES)) as (servicer, stubs):
        await stubs.GetDocument(REQUEST, metadata=bearer(provider.token(algorithm, rights="read write")))
        await stubs.GetDocument(REQUEST, metadata=bearer(provider.token(algorithm, scopes=None, nbf=int(time.time()))))
    both = frozenset({Right.READ, Right.WRITE})
    assert [each.identity for each in servicer.seen] == [
        Identity("acme", "ada", both, ("global", "entity:ada")),
        Identity("acme", "ada", frozenset({Right.READ}), None),
    ]


@pytest.mark.parametrize("scopes", [[], ["global"]])
async def test_a_token_with_scopes_and_be_it_none_makes_no_call_beyond_them(
    provider: Provider, scopes: list[str]
) -> None:
    bound, whole = (bearer(provider.token(rights="write", scopes=each)) for each in (scopes, None))
    async with asked(AccessOptions(jwks=provider.path, token_rules=RULES)) as (servicer, stubs):
        await stubs.GetDocument(REQUEST, metadata=bound)
        code, metadata, _ = await refusal(stubs.IngestDocument(INGEST, metadata=bound))
        assert (code, metadata["right"]) == (grpc.StatusCode.PERMISSION_DENIED, "all scopes")
        await stubs.IngestDocument(INGEST, metadata=whole)
    assert [each.identity.scopes for each in servicer.seen] == [tuple(scopes), None]


async def test_a_credential_calls_nothing_that_its_rights_do_not_include(tmp_path: Path) -> None:
    reader, writer = (make_key(tmp_path / "keys.yaml", right.value, right) for right in (Right.READ, Right.WRITE))
    async with asked(AccessOptions(keys=tmp_path / "keys.yaml")) as (servicer, stubs):
        await stubs.GetDocument(REQUEST, metadata=bearer(reader))
        code, metadata, _ = await refusal(stubs.IngestDocument(INGEST, metadata=bearer(reader)))
        assert (code, metadata["right"]) == (grpc.StatusCode.PERMISSION_DENIED, "write")
        await stubs.IngestDocument(INGEST, metadata=bearer(writer))
    assert [each.identity.subject for each in servicer.seen] == ["read", "write"]


async def test_tokens_without_rules_for_their_issuer_are_all_refused(provider: Provider) -> None:
    async with asked(AccessOptions(jwks=provider.path)) as (servicer, stubs):
        code, metadata, _ = await refusal(stubs.GetDocument(REQUEST, metadata=bearer(provider.token())))
    assert (code, metadata["problem"]) == (grpc.StatusCode.UNAUTHENTICATED, "unknown")
    assert servicer.seen == []


def forgeries(provider: Provider) -> Iterator[tuple[str, str, str]]:
    """Yield what it is, a token, and the problem that the refusal tells."""
    now = int(time.time())
    good = jwt.decode(provider.token(), options={"verify_signature": False})
    public = provider.keys["RS256"].public_key().public_bytes(*PEM)
    yield "no algorithm", unsigned_token({"alg": "none", "kid": "RS256"}, good), "unknown"
    yield "a public key as secret", confused(good, public), "unknown"
    yield "another algorithm of the same key", provider.token("RS256", signed_as="PS256"), "unknown"
    yield "another key", provider.token(key=ec.generate_private_key(ec.SECP256R1())), "unknown"
    yield "changed", provider.token()[:-6] + "AAAAAA", "unknown"
    yield "expired", provider.token(exp=now - 60), "expired"
    yield "not valid yet", provider.token(nbf=now + 300), "not_yet_valid"
    yield "another issuer", provider.token(iss="https://evil.example"), "unknown"
    yield "for another service", provider.token(aud="payments"), "unknown"
    yield "for ever", provider.token(exp=None), "unknown"
    yield "of nobody", provider.token(sub=None), "unknown"
    yield "without a tenant", provider.token(tenant=None), "claims"
    yield "of a tenant that is no name", provider.token(tenant="a\nb"), "claims"
    yield "of somebody who is no name", provider.token(sub="a\nb"), "claims"
    yield "without rights", provider.token(rights=None), "claims"
    yield "with unknown rights", provider.token(rights=["root"]), "claims"
    yield "with scopes that are none", provider.token(scopes=["everything"]), "claims"
    yield "no token", "abc.def.ghi", "unknown"


def confused(claims: dict[str, Any], public: bytes) -> str:
    """Sign with a public key as if it were a secret, which the library refuses to do itself."""
    unsigned = unsigned_token({"alg": "HS256", "typ": "JWT", "kid": "RS256"}, claims).rpartition(".")[0]
    signature = hmac.new(public, unsigned.encode(), hashlib.sha256).digest()
    return f"{unsigned}.{unsigned_token({}, {}, signature).rpartition('.')[2]}"


async def test_no_forged_or_foreign_token_is_taken(provider: Provider) -> None:
    expected, told = {}, {}
    async with asked(AccessOptions(jwks=provider.path, token_rules=RULES)) as (servicer, stubs):
        for what, token, problem in forgeries(provider):
            code, metadata, _ = await refusal(stubs.GetDocument(REQUEST, metadata=bearer(token)))
            expected[what] = (grpc.StatusCode.UNAUTHENTICATED, problem)
            told[what] = (code, metadata["problem"])
    assert len(told) == 18
    assert told == expected
    assert servicer.seen == []


async def test_a_good_key_is_refused_where_the_metadata_is_not_of_the_form_bearer_token(tmp_path: Path) -> None:
    key = make_key(tmp_path / "keys.yaml", "job", Right.READ)
    told = {}
    async with asked(AccessOptions(keys=tmp_path / "keys.yaml")) as (servicer, stubs):
        for sent in (f"Basic {key}", f"Digest {key}", f"Bearer{key}", key, "Bearer ", "Bearer"):
            code, metadata, _ = await refusal(stubs.GetDocument(REQUEST, metadata=(("authorization", sent),)))
            told[sent] = (code, metadata["problem"])
        assert servicer.seen == []
        await stubs.GetDocument(REQUEST, metadata=(("authorization", f"bearer  {key} "),))
    assert len(told) == 6
    assert set(told.values()) == {(grpc.StatusCode.UNAUTHENTICATED, "malformed")}


@pytest.mark.parametrize("is_public", [False, True])
async def test_reflection_needs_no_credential_where_the_operator_says_so(tmp_path: Path, is_public: bool) -> None:
    key = make_key(tmp_path / "keys.yaml", "job", Right.READ)
    access = AccessOptions(keys=tmp_path / "keys.yaml", is_reflection_public=is_public)
    async with (
        serving(fake_ingest(), access=access) as (_, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        listing = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo

        async def listed(metadata: Any = None) -> int:
            asks = reflection_pb2.ServerReflectionRequest(list_services="")
            (reply,) = [each async for each in listing(iter([asks]), metadata=metadata)]
            return len(reply.list_services_response.service)

        assert await listed(bearer(key)) > 1
        if is_public:
            assert await listed() > 1
        else:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await listed()
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        # All else needs one as before.
        code, metadata, _ = await refusal(library_grpc.LibraryServiceStub(channel).GetDocument(REQUEST))
        assert (code, metadata["problem"]) == (grpc.StatusCode.UNAUTHENTICATED, "missing")


async def test_a_token_does_not_outlive_the_key_that_signed_it(tmp_path: Path) -> None:
    provider = Provider(tmp_path / "jwks.json")
    old, new = provider.token("RS256"), provider.token("ES256")
    async with asked(AccessOptions(jwks=provider.path, token_rules=RULES)) as (_, stubs):
        await stubs.GetDocument(REQUEST, metadata=bearer(old))
        provider.path.write_text("not JSON", encoding="utf-8")  # changes nothing
        await stubs.GetDocument(REQUEST, metadata=bearer(old))
        provider.publish("ES256")

        async def is_refused() -> bool:
            try:
                await stubs.GetDocument(REQUEST, metadata=bearer(old))
            except grpc.aio.AioRpcError as error:
                return error.code() is grpc.StatusCode.UNAUTHENTICATED
            return False

        await until(is_refused)
        await stubs.GetDocument(REQUEST, metadata=bearer(new))


async def test_a_key_is_revoked_after_the_file_gave_its_subject_too_many(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    first, *_ = [make_key(keys, subject, Right.READ) for subject in ("job", "job", "other")]
    async with asked(AccessOptions(keys=keys)) as (_, stubs):
        before = keys.read_bytes()
        keys.write_bytes(before.replace(b"subject: other", b"subject: job"))
        await asyncio.sleep(1.0)  # by then it has been looked at, and left alone
        await stubs.GetDocument(REQUEST, metadata=bearer(first))
        keys.write_bytes(before)
        revoke_key(keys, first.split("_")[1])

        async def is_refused() -> bool:
            with suppress(grpc.aio.AioRpcError):
                await stubs.GetDocument(REQUEST, metadata=bearer(first))
                return False
            return True

        await until(is_refused)


async def test_keys_and_tokens_are_taken_side_by_side(provider: Provider, tmp_path: Path) -> None:
    key = make_key(tmp_path / "keys.yaml", "job", Right.READ, tenant="other", scopes=("global",))
    access = AccessOptions(keys=tmp_path / "keys.yaml", jwks=provider.path, token_rules=RULES)
    async with asked(access) as (servicer, stubs):
        await stubs.GetDocument(REQUEST, metadata=bearer(key))
        await stubs.GetDocument(REQUEST, metadata=bearer(provider.token()))
    assert [(each.tenant, each.identity.scopes) for each in servicer.seen] == [
        ("other", ("global",)),
        ("acme", ("global", "entity:ada")),
    ]


async def test_a_call_to_the_next_service_is_made_with_the_credential_of_the_caller(tmp_path: Path) -> None:
    key = make_key(tmp_path / "keys.yaml", "job", Right.READ, tenant="other")
    servicer = fake_ingest()
    async with serving(servicer, access=AccessOptions(keys=tmp_path / "keys.yaml")) as (_, port):
        request_context.bind(RequestContext("r", authorization=f"Bearer {key}"))
        async with open_channel(f"127.0.0.1:{port}", user_agent="answer") as channel:
            await library_grpc.LibraryServiceStub(channel).GetDocument(REQUEST)
    assert [each.tenant for each in servicer.seen] == ["other"]
    assert key not in repr(request_context.current())


async def test_a_call_to_the_next_service_has_the_request_id_and_the_trace_of_the_caller() -> None:
    trace, servicer = f"00-{'a' * 32}-{'b' * 16}-01", fake_ingest()
    async with serving(servicer) as (_, port):
        request_context.bind(RequestContext("asked-once", traceparent=trace))
        async with open_channel(f"127.0.0.1:{port}", user_agent="answer") as channel:
            await library_grpc.LibraryServiceStub(channel).GetDocument(REQUEST)
    assert [(each.request_id, each.traceparent) for each in servicer.seen] == [("asked-once", trace)]


def tls(authority: Authority, files: tuple[Path, Path], client_ca: Path | None = None) -> dict[str, Any]:
    return {"tls": TlsFiles(*files, client_ca), "access": AccessOptions(by_certificate=client_ca is not None)}


async def is_served(port: int, *files: Path) -> bool:
    async with AsyncGroundwireClient(f"127.0.0.1:{port}", credentials=tls_from_files(*files), timeout_s=5) as client:
        try:
            await client.get_document(collection="ok")
        except (UnavailableError, DeadlineError):
            return False
    return True


async def test_new_connections_get_the_certificate_that_is_in_the_file(tmp_path: Path) -> None:
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    files = first.issue("server")
    servicer = fake_ingest()
    async with serving(servicer, tls=TlsFiles(*files)) as (_, port):
        credentials = tls_from_files(first.path)
        async with AsyncGroundwireClient(f"127.0.0.1:{port}", credentials=credentials) as lasting:
            await lasting.get_document(collection="ok")
            assert not await is_served(port, second.path)
            files[1].write_bytes(first.issue("other")[1].read_bytes())  # not the key of the certificate: left alone
            await lasting.get_document(collection="ok")
            second.issue("server")
            await until(lambda: is_served(port, second.path))
            assert not await is_served(port, first.path)
            await lasting.get_document(collection="ok")  # on the connection that it has
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as plain:
            with pytest.raises(grpc.aio.AioRpcError):
                await library_grpc.LibraryServiceStub(plain).GetDocument(REQUEST, timeout=5)


@pytest.mark.parametrize(("hours", "told"), [(-1, "expired at 20"), (6 * 24, "expires at 20"), (8 * 24, "")])
async def test_a_certificate_that_has_expired_or_soon_will_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hours: int, told: str
) -> None:
    files = Authority(tmp_path, "ours").issue("server", hours=hours)
    async with serving(fake_ingest(), tls=TlsFiles(*files)):
        warnings = [each.getMessage() for each in caplog.records if each.name == "groundwire.rpc.tls"]
    assert [f"{files[0]} {told}" in warning for warning in warnings] == [True] * bool(told)


def test_a_certificate_that_is_gone_again_warns_of_nothing_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_expiry(tmp_path / "renewed-meanwhile.pem")
    assert not caplog.records


async def test_a_client_certificate_of_the_authority_is_a_credential(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    options = tls(ours, ours.issue("server"), ours.path)
    servicer = fake_ingest()
    async with serving(servicer, **options) as (_, port):
        assert not await is_served(port, ours.path)
        assert not await is_served(port, ours.path, *theirs.issue("stranger"))
        assert await is_served(port, ours.path, *ours.issue("batch-job"))
    assert [each.identity for each in servicer.seen] == [Identity("default", "batch-job", ALL_RIGHTS, None)]


@pytest.mark.parametrize("is_blocking", [False, True])
async def test_clients_follow_the_files_of_their_certificates_and_calls_under_way_go_on(
    tmp_path: Path, is_blocking: bool
) -> None:
    authority = Authority(tmp_path, "ours")
    options = tls(authority, authority.issue("server"), authority.path)
    servicer = fake_ingest()
    async with serving(servicer, **options) as (_, port):
        credentials = tls_from_files(authority.path, *authority.issue("before", "client"))
        blocking = GroundwireClient(f"127.0.0.1:{port}", credentials=credentials, timeout_s=5)
        async with AsyncGroundwireClient(f"127.0.0.1:{port}", credentials=credentials, timeout_s=5) as waiting:

            async def caller() -> str:
                with suppress(UnavailableError, DeadlineError):  # while not all files are exchanged
                    if is_blocking:
                        await asyncio.to_thread(lambda: blocking.get_document(collection="ok"))
                    else:
                        await waiting.get_document(collection="ok")
                return servicer.seen[-1].identity.subject

            async def is_made_by(name: str) -> bool:
                return await caller() == name

            assert await caller() == "before"
            if is_blocking:
                running = asyncio.ensure_future(
                    asyncio.to_thread(lambda: blocking.get_document.send(SLOW, timeout_s=60))
                )
            else:
                running = asyncio.ensure_future(waiting.get_document.send(SLOW, timeout_s=60))
            await servicer.entered.wait()
            (tmp_path / "client.pem").write_bytes(b"-----BEGIN")  # left alone
            other = Authority(tmp_path, "ours")
            other.issue("server")
            other.issue("after", "client")
            await until(lambda: is_made_by("after"))
            servicer.release.set()
            await running
        await asyncio.to_thread(blocking.close)


async def test_a_channel_to_the_next_service_follows_the_files_of_its_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    options = tls(authority, authority.issue("server"), authority.path)
    servicer = fake_ingest()
    async with serving(servicer, **options) as (_, port):
        own = authority.issue("before", "client")
        channel = open_channel(f"127.0.0.1:{port}", user_agent="answer", credentials=ClientTls(authority.path, own))
        library = library_grpc.LibraryServiceStub(channel)
        await library.GetDocument(REQUEST)
        other = Authority(tmp_path, "ours")
        other.issue("server")
        other.issue("after", "client")

        async def is_known() -> bool:
            with suppress(grpc.aio.AioRpcError):
                await library.GetDocument(REQUEST, timeout=5)
            return servicer.seen[-1].identity.subject == "after"

        await until(is_known)
        await channel.close()
    assert servicer.seen[0].identity.subject == "before"


def test_files_of_a_client_that_do_not_fit_are_said_to_be_wrong_at_once(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    certificate, key = authority.issue("client")
    for files in [(authority.path, certificate, authority.issue("other")[1]), (key,), (tmp_path / "none",)]:
        with pytest.raises(InvalidRequestError):
            tls_from_files(*files)
    with pytest.raises(InvalidRequestError, match="must be given together"):
        tls_from_files(authority.path, certificate)


async def test_files_of_tls_that_do_not_fit_keep_a_server_from_starting(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    certificate, _ = authority.issue("server")
    with pytest.raises(InvalidRequestError):
        async with serving(fake_ingest(), tls=TlsFiles(certificate, authority.issue("other")[1])):
            pass


async def test_a_token_of_up_to_8192_characters_is_taken_and_a_longer_one_is_not_looked_at(provider: Provider) -> None:
    async with asked(AccessOptions(jwks=provider.path, token_rules=RULES)) as (_, stubs):
        padding = next(size for size in range(5000, 6200) if len(provider.token(pad="x" * (size + 1))) > 8192)
        longest, too_long = (provider.token(pad="x" * size) for size in (padding, padding + 1))
        await stubs.GetDocument(REQUEST, metadata=bearer(longest))
        code, metadata, _ = await refusal(stubs.GetDocument(REQUEST, metadata=bearer(too_long)))
    assert 8190 <= len(longest) <= 8192 < len(too_long)
    assert (code, metadata["problem"]) == (grpc.StatusCode.UNAUTHENTICATED, "malformed")


async def test_a_health_check_needs_no_credential_and_ignores_a_wrong_one(tmp_path: Path) -> None:
    make_key(tmp_path / "keys.yaml", "job", Right.READ)
    async with (
        serving(fake_ingest(), access=AccessOptions(keys=tmp_path / "keys.yaml")) as (_, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        health = health_pb2_grpc.HealthStub(channel)
        asks = health_pb2.HealthCheckRequest()
        for metadata in ((), bearer("wrong")):
            assert (await health.Check(asks, metadata=metadata)).status
            watch = health.Watch(asks, metadata=metadata)
            assert (await watch.read()).status
            watch.cancel()


async def test_a_server_that_has_stopped_watches_no_files_of_keys_any_more(provider: Provider, tmp_path: Path) -> None:
    make_key(tmp_path / "keys.yaml", "job", Right.READ)
    before = set(threading.enumerate())
    access = AccessOptions(keys=tmp_path / "keys.yaml", jwks=provider.path, token_rules=RULES)
    async with serving(fake_ingest(), access=access):
        watching = {each.name for each in set(threading.enumerate()) - before if each.name.startswith("watch-")}
        assert watching == {"watch-keys", "watch-jwks"}
    left = {each.name for each in set(threading.enumerate()) - before}
    assert not watching & left


# Acting for others


def service_key(path: Path, **limits: Any) -> Any:
    """Return the metadata of a key that may act for others and has no other right."""
    return bearer(create_key(path, Identity("default", "svc", frozenset({Right.SERVICE}), None, Quota(**limits)))[1])


def acting(**said: object) -> tuple[str, str]:
    """Return the metadata that say for whom a service calls; what is not given is good."""
    whole = {"tenant": "acme", "subject": "ada", "rights": ["read"], "scopes": ["global"]} | said
    return ACTS_FOR_KEY, json.dumps({name: value for name, value in whole.items() if value is not ...})


async def test_a_service_calls_as_whom_it_names_with_no_more_than_delegated_rights(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    service = service_key(keys, per_second=0.01, burst=1)
    default = Quota(per_second=1000.0, at_a_time=50)
    async with asked(AccessOptions(keys=keys), quota=default) as (servicer, stubs):
        for said in (acting(), acting(rights=["admin"], scopes=None), acting(subject=""), acting(subject="a " * 128)):
            await stubs.GetDocument(REQUEST, metadata=(*service, said))
    both = frozenset({Right.READ, Right.WRITE})
    # Each with the limits of the server: those of the service would hold for all whom it serves together.
    assert [each.identity for each in servicer.seen] == [
        Identity("acme", "ada", frozenset({Right.READ}), ("global",), default),
        Identity("acme", "ada", both, None, default),
        Identity("acme", "", frozenset({Right.READ}), ("global",), default),
        Identity("acme", "a " * 128, frozenset({Right.READ}), ("global",), default),
    ]


@pytest.mark.parametrize(
    "said",
    [
        acting(tenant="a\nb"),
        acting(tenant=...),
        acting(subject=...),
        acting(subject=7),
        acting(subject=["ada"]),
        acting(subject="x" * 257),
        acting(rights=...),
        acting(scopes=...),
        (ACTS_FOR_KEY, "x"),
        (ACTS_FOR_KEY, "[]"),
        (ACTS_FOR_KEY, "[" * 5000),
    ],
)
async def test_whom_a_service_calls_for_is_said_in_full_or_the_call_is_refused(
    tmp_path: Path, said: tuple[str, str]
) -> None:
    keys = tmp_path / "keys.yaml"
    service = service_key(keys)
    async with asked(AccessOptions(keys=keys)) as (servicer, stubs):
        code, _, _ = await refusal(stubs.GetDocument(REQUEST, metadata=(*service, said)))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert servicer.seen == []


@pytest.mark.parametrize("is_open", [False, True])
async def test_only_a_credential_of_a_service_may_call_for_others(tmp_path: Path, is_open: bool) -> None:
    keys = tmp_path / "keys.yaml"
    everything = limited(keys, "boss")
    async with asked(AccessOptions() if is_open else AccessOptions(keys=keys)) as (servicer, stubs):
        sent = (acting(),) if is_open else (*everything, acting())
        code, metadata, _ = await refusal(stubs.GetDocument(REQUEST, metadata=sent))
        assert (code, metadata["right"]) == (grpc.StatusCode.PERMISSION_DENIED, "service")
    assert servicer.seen == []


# Limits


def limited(path: Path, subject: str, **limits: Any) -> Any:
    """Return the metadata of a key with limits."""
    return bearer(create_key(path, Identity("default", subject, ALL_RIGHTS, None, Quota(**limits)))[1])


async def test_a_rate_that_is_used_up_is_refused_with_the_time_to_come_back_and_touches_nobody_else(
    tmp_path: Path,
) -> None:
    keys = tmp_path / "keys.yaml"
    greedy, other = limited(keys, "greedy", per_second=0.01, burst=3), limited(keys, "other")
    async with asked(AccessOptions(keys=keys)) as (servicer, stubs):
        for _ in range(3):
            await stubs.GetDocument(REQUEST, metadata=greedy)
        code, metadata, trailers = await refusal(stubs.GetDocument(REQUEST, metadata=greedy))
        assert (code, metadata) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            {"quota": "units_per_second", "limit": "0.01"},
        )
        details = status_pb2.Status.FromString(trailers["grpc-status-details-bin"]).details
        retry = error_details_pb2.RetryInfo()
        assert [retry.DESCRIPTOR.name for each in details if each.Unpack(retry)] == ["RetryInfo"]
        assert int(trailers["grpc-retry-pushback-ms"]) == retry.retry_delay.ToMilliseconds() >= 100
        await stubs.GetDocument(REQUEST, metadata=other)
    assert len(servicer.seen) == 4


async def test_a_rate_comes_back_with_time_and_the_settings_give_one_to_keys_without(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    plain = bearer(make_key(keys, "plain", Right.READ))
    async with asked(AccessOptions(keys=keys), quota=Quota(per_second=2.0, burst=1.0)) as (_, stubs):
        await stubs.GetDocument(REQUEST, metadata=plain)

        async def is_let_in() -> bool:
            try:
                await stubs.GetDocument(REQUEST, metadata=plain)
            except grpc.aio.AioRpcError as error:
                refused.append(error.code())
                return False
            return True

        refused: list[grpc.StatusCode] = []
        await until(is_let_in)
    assert set(refused) <= {grpc.StatusCode.RESOURCE_EXHAUSTED}


async def test_limits_of_a_credential_come_before_those_of_the_settings(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    narrow, wide = limited(keys, "narrow", per_second=0.01, burst=1), limited(keys, "wide", documents=9)
    async with asked(AccessOptions(keys=keys), quota=Quota(per_second=500.0, documents=5)) as (servicer, stubs):
        await stubs.GetDocument(REQUEST, metadata=narrow)
        code, metadata, _ = await refusal(stubs.GetDocument(REQUEST, metadata=narrow))
        assert (code, metadata["limit"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "0.01")
        for _ in range(3):
            await stubs.GetDocument(REQUEST, metadata=wide)
    assert servicer.seen[0].identity.quota == Quota(per_second=0.01, burst=1.0, documents=5)
    assert servicer.seen[1].identity.quota == Quota(per_second=500.0, documents=9)


async def test_where_nobody_is_asked_for_a_credential_no_calls_are_counted_but_what_is_stored_is_bounded() -> None:
    quota = Quota(per_second=0.01, burst=1.0, at_a_time=1, documents=5)
    async with asked(AccessOptions(), quota=quota) as (servicer, stubs):
        running = asyncio.ensure_future(stubs.GetDocument(SLOW))
        await servicer.entered.wait()
        for _ in range(3):
            await stubs.GetDocument(REQUEST)
        servicer.release.set()
        await running
    assert {each.identity.quota.documents for each in servicer.seen} == {5}


async def test_a_caller_has_so_many_calls_at_a_time_and_gets_its_place_back(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    narrow = limited(keys, "narrow", at_a_time=1)
    async with asked(AccessOptions(keys=keys)) as (servicer, stubs):
        running = asyncio.ensure_future(stubs.GetDocument(SLOW, metadata=narrow))
        await servicer.entered.wait()
        code, metadata, _ = await refusal(stubs.GetDocument(REQUEST, metadata=narrow))
        assert (code, metadata["quota"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "calls_at_a_time")
        servicer.release.set()
        await running

        async def is_let_in() -> bool:
            try:
                await stubs.GetDocument(REQUEST, metadata=narrow)
            except grpc.aio.AioRpcError:
                return False
            return True

        await until(is_let_in)


async def test_one_credential_never_takes_all_places_of_a_kind(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    greedy, other = limited(keys, "greedy"), limited(keys, "other")
    namesake = bearer(make_key(keys, "greedy", Right.READ, tenant="acme"))
    async with asked(AccessOptions(keys=keys), call_limits={**CALL_LIMITS, Work.READ: 4}) as (servicer, stubs):
        running = [asyncio.ensure_future(stubs.GetDocument(SLOW, metadata=greedy)) for _ in range(3)]
        await until(lambda: len(servicer.seen) == 3)
        code, metadata, _ = await refusal(stubs.GetDocument(REQUEST, metadata=greedy))
        assert (code, metadata["limit"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "3")
        await stubs.GetDocument(REQUEST, metadata=other)
        await until(partial(is_let_in, stubs, namesake))
        servicer.release.set()
        await asyncio.gather(*running)


async def is_let_in(stubs: Any, metadata: Any = ()) -> bool:
    """Tell whether a call runs, or all places are taken."""
    try:
        await stubs.GetDocument(REQUEST, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        return False
    return True


async def test_one_place_is_enough_for_one_credential_and_free_again_after_each_call(tmp_path: Path) -> None:
    metadata = limited(tmp_path / "keys.yaml", "patient")
    access = AccessOptions(keys=tmp_path / "keys.yaml")
    async with asked(access, call_limits={**CALL_LIMITS, Work.READ: 1}) as (_, stubs):
        for _ in range(3):
            await until(partial(is_let_in, stubs, metadata))


async def test_callers_without_a_credential_take_all_places_of_a_kind() -> None:
    async with asked(AccessOptions(), call_limits={**CALL_LIMITS, Work.READ: 4}) as (servicer, stubs):
        running = [asyncio.ensure_future(stubs.GetDocument(SLOW)) for _ in range(4)]
        await until(lambda: len(servicer.seen) == 4)
        code, metadata, _ = await refusal(stubs.GetDocument(REQUEST))
        assert (code, metadata["limit"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "4")
        servicer.release.set()
        await asyncio.gather(*running)


def test_a_batch_costs_as_much_as_its_items() -> None:
    alone = cost_of("/x/IngestDocument", pb.IngestDocumentRequest())
    batch = pb.BatchIngestDocumentsRequest(requests=[pb.IngestDocumentRequest()] * 5)
    assert cost_of("/x/BatchIngestDocuments", batch) == 5 * alone
    assert cost_of("/x/GetDocument", REQUEST) < alone
    assert cost_of("/grpc.health.v1.Health/Check", health_pb2.HealthCheckRequest()) == 0


async def is_refused(stubs: Any, token: str) -> bool:
    try:
        await stubs.GetDocument(REQUEST, metadata=bearer(token))
    except grpc.aio.AioRpcError:
        return True
    return False


async def test_what_a_stream_sends_after_its_key_was_revoked_does_not_reach_the_service(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    token = make_key(keys, "leaver", Right.WRITE)
    (key_id,) = read_key_file(keys).keys
    async with asked(AccessOptions(keys=keys)) as (servicer, stubs):
        stream = stubs.PutChunks(metadata=bearer(token))
        await stream.write(pb.PutChunksRequest(header=pb.PutChunksHeader(collection="ok")))
        await until(lambda: len(servicer.requests) == 1)
        revoke_key(keys, key_id)
        await until(lambda: is_refused(stubs, token))
        servicer.requests.clear()
        await stream.write(pb.PutChunksRequest(part=pb.PutChunksPart()))
        with suppress(asyncio.InvalidStateError):  # the refusal may be here already
            await stream.done_writing()
        code, metadata, _ = await refusal(stream)
    assert (code, metadata["problem"]) == (grpc.StatusCode.UNAUTHENTICATED, "unknown")
    assert servicer.requests == []


async def test_what_a_stream_would_be_sent_after_its_key_was_revoked_does_not_reach_the_caller(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    token = make_key(keys, "leaver", Right.READ)
    (key_id,) = read_key_file(keys).keys
    servicer = fake_ingest()

    async def get_text(_request: Any, _context: Any) -> AsyncIterator[library_pb.GetDocumentTextResponse]:
        yield library_pb.GetDocumentTextResponse(text="before")
        await servicer.release.wait()
        yield library_pb.GetDocumentTextResponse(text="after")

    vars(servicer)["GetDocumentText"] = get_text
    async with connected(servicer, access=AccessOptions(keys=keys)) as (_, stubs):
        stream = stubs.GetDocumentText(library_pb.GetDocumentTextRequest(), metadata=bearer(token))
        assert (await stream.read()).text == "before"
        revoke_key(keys, key_id)
        await until(lambda: is_refused(stubs, token))
        servicer.release.set()
        code, metadata, _ = await refusal(stream.read())
    assert (code, metadata["problem"]) == (grpc.StatusCode.UNAUTHENTICATED, "unknown")


async def test_small_messages_of_an_upload_cost_together_what_they_are_large(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    metadata = limited(keys, "thrifty", per_second=0.01, burst=60)

    async def parts() -> AsyncIterator[pb.PutChunksRequest]:
        for _ in range(96):
            yield pb.PutChunksRequest(header=pb.PutChunksHeader(collection="ok", source_uri="x" * (1 << 15)))

    async with asked(AccessOptions(keys=keys)) as (_, stubs), asyncio.timeout(30):
        await stubs.PutChunks(parts(), metadata=metadata)
        # 48 units for 3 MiB and four for the call; another MiB costs more than the eight that are left.
        large = pb.IngestDocumentRequest(collection="ok", content=b"x" * (1 << 20))
        code, told, _ = await refusal(stubs.IngestDocument(large, metadata=metadata))
        assert (code, told["quota"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "units_per_second")
        await stubs.GetDocument(REQUEST, metadata=metadata)


async def test_what_an_upload_sends_is_counted_and_held_up_and_what_one_message_holds_is_refused(
    tmp_path: Path,
) -> None:
    keys, part = tmp_path / "keys.yaml", b"x" * (1 << 20)
    steady = limited(keys, "steady", per_second=16, burst=20)
    slow = limited(keys, "slow", per_second=0.01, burst=20)
    async with asked(AccessOptions(keys=keys)) as (servicer, stubs):

        async def parts() -> AsyncIterator[pb.PutChunksRequest]:
            yield pb.PutChunksRequest(header=pb.PutChunksHeader(collection="ok"))
            for _ in range(3):
                yield pb.PutChunksRequest(header=pb.PutChunksHeader(collection="ok", source_uri="x" * len(part)))

        began = time.monotonic()
        await stubs.PutChunks(parts(), metadata=steady)
        # 48 units for 3 MiB and four for the call, of which 20 are there.
        assert time.monotonic() - began >= 1.9
        assert len(servicer.requests) == 4
        large = pb.IngestDocumentRequest(collection="ok", content=part)
        await stubs.IngestDocument(large, metadata=slow)
        code, metadata, _ = await refusal(stubs.IngestDocument(large, metadata=slow))
        assert (code, metadata["quota"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "units_per_second")


async def test_a_file_that_is_still_being_written_is_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundwire.rpc.watched_file._LOOK_S", 1.5)  # no pause of a busy machine is as long
    keys = tmp_path / "keys.yaml"
    bound = make_key(keys, "bound", Right.READ, scopes=("global",))
    whole = keys.read_bytes()
    half = whole[: whole.index(b"  scopes")]  # valid, and a key that sees all
    async with asked(AccessOptions(keys=keys)) as (servicer, stubs):
        ends_at = time.monotonic() + 2.0
        while time.monotonic() < ends_at:
            for content in (half, half + b"\n", half):
                keys.write_bytes(content)
                await asyncio.sleep(0.02)
            await stubs.GetDocument(REQUEST, metadata=bearer(bound))
        keys.write_bytes(whole)
        assert {each.identity.scopes for each in servicer.seen} == {("global",)}
