"""Keys, tokens and certificates for servers that ask for them."""

import base64
import ipaddress
import json
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import grpc
import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from groundwire.kernel.identity import Identity, Right, TokenRules, with_included
from groundwire.rpc.key_file import create_key

Metadata = tuple[tuple[str, str], ...]
RULES: Final = TokenRules(issuer="https://id.example", audience="groundwire")


class Provider:
    """An identity provider with a key of each kind, and the file of their public parts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keys: dict[str, Any] = {
            "RS256": rsa.generate_private_key(65537, 2048),
            "ES256": ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate(),
        }
        self.publish(*self.keys)

    def publish(self, *names: str) -> None:
        """Write the file with these keys only."""
        listed = []
        for name in names:
            made: Any = jwt.get_algorithm_by_name(name)
            listed.append(made.to_jwk(self.keys[name].public_key(), as_dict=True) | {"kid": name, "use": "sig"})
        self.path.write_text(json.dumps({"keys": listed}), encoding="utf-8")

    def token(self, algorithm: str = "ES256", *, signed_as: str = "", key: Any = None, **claims: Any) -> str:
        """Sign claims, which are good ones unless others are given; None leaves one out."""
        now = int(time.time())
        said = {"iss": RULES.issuer, "aud": RULES.audience, "sub": "ada", "exp": now + 600, "tenant": "acme"}
        said |= {"rights": ["read"], "scopes": ["global", "entity:ada"]} | claims
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(said, key or self.keys[algorithm], signed_as or algorithm, {"kid": algorithm})


def bearer(token: str) -> Metadata:
    """Return the metadata of a call with this key or token."""
    return (("authorization", f"Bearer {token}"),)


def make_key(
    path: Path,
    subject: str,
    *rights: Right,
    tenant: str = "default",
    scopes: tuple[str, ...] | None = None,
    expires: datetime | None = None,
) -> str:
    """Add a key to a file and return what callers send."""
    identity = Identity(tenant, subject, with_included(frozenset(rights)), scopes)
    return create_key(path, identity, expires)[1]


def methods_of(channel: Any, metadata: Metadata = ()) -> list[str]:
    """Return the paths of all methods that a running server tells by reflection, sorted."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)

    def ask(request: reflection_pb2.ServerReflectionRequest) -> Any:
        (response,) = stub.ServerReflectionInfo(iter([request]), metadata=metadata, timeout=10)
        return response

    listed = ask(reflection_pb2.ServerReflectionRequest(list_services="")).list_services_response
    paths: list[str] = []
    for service in listed.service:
        found = ask(reflection_pb2.ServerReflectionRequest(file_containing_symbol=service.name))
        for raw in found.file_descriptor_response.file_descriptor_proto:
            file = FileDescriptorProto.FromString(raw)
            paths += [
                f"/{service.name}/{method.name}"
                for each in file.service
                if f"{file.package}.{each.name}" == service.name
                for method in each.method
            ]
    return sorted(set(paths))


def call(
    channel: Any, path: str, raw: bytes, metadata: Metadata = (), *, most: int = 1000
) -> tuple[grpc.StatusCode, list[bytes], bytes]:
    """Call a method of any kind with one message.

    Returns:
        The code; up to `most` messages, at which the call is cancelled; details and trailers.
    """
    responses: Any = channel.stream_stream(path)(iter([raw]), metadata=metadata, timeout=30)
    messages: list[bytes] = []
    with suppress(grpc.RpcError):  # the code says it
        for message in responses:
            messages.append(message)
            if len(messages) == most:
                responses.cancel()
    values = [responses.details() or "", *(value for _, value in responses.trailing_metadata() or ())]
    told = b" ".join(value if isinstance(value, bytes) else value.encode() for value in values)
    return responses.code(), messages, told


class Authority:
    """Signs certificates for the loopback interface, as an operator's authority does."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.path = folder / f"{name}.ca.pem"
        self.path.write_bytes(self._certificate(self._name, self._key, is_authority=True))

    def issue(self, subject: str, name: str = "", hours: int = 24 * 60) -> tuple[Path, Path]:
        """Write a certificate for some hours and its key, and return their paths; a name again writes over them."""
        key = ec.generate_private_key(ec.SECP256R1())
        named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
        certificate = self._certificate(named, key, hours=hours)
        paths = self._folder / f"{name or subject}.pem", self._folder / f"{name or subject}.key"
        pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        paths[0].write_bytes(certificate)
        paths[1].write_bytes(key.private_bytes(*pem))
        return paths

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, hours: int = 48, is_authority: bool = False
    ) -> bytes:
        now = datetime.now(UTC)
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
        builder = builder.not_valid_after(now + timedelta(hours=hours))
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def unsigned_token(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    """Return a token of these parts, as somebody who has no key makes it."""
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
