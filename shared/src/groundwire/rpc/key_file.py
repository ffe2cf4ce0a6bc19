"""The file of API keys: what a key allows, and the SHA-256 of its secret.

    keys:
    - id: 3f9a12bc0d4e
      hash: sha256:9f86d081…
      tenant: default
      subject: nightly-ingest
      rights: [write]
      scopes: [global]                  # absent: all
      created: 2026-11-22T10:00:00Z
      expires: 2027-11-22T10:00:00Z     # absent: never
      revoked: 2027-01-03T08:00:00Z     # absent: not revoked
      limits: {per_second: 50, burst: 100, at_a_time: 8, documents: 10000, stored_bytes: 1000000000}

A secret has 256 random bits, so a plain hash cannot be reversed; a slow one would only cost each call time.
"""

import fcntl
import hashlib
import hmac
import math
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from groundwire.kernel.errors import InvalidRequestError, NotFoundError, PreconditionError, UnauthenticatedError
from groundwire.kernel.identifiers import parse_scope
from groundwire.kernel.identity import ALL_RIGHTS, Identity, Quota, Right, with_included

MAX_ACTIVE: Final = 2
"""Keys of one subject that are valid at a time: the one in use, and the one that replaces it."""
PREFIX: Final = "gw_"
"""How every key begins, so that scanners for secrets know them."""

_KEY: Final = re.compile(r"gw_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME: Final = re.compile(r"[A-Za-z0-9._:@/#-]{1,128}")
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_SECRET_BYTES: Final = 32
_ID_BYTES: Final = 6
_NO_HASH: Final = "sha256:" + "0" * 64
_MAX_SCOPES: Final = 1000
_FIELDS: Final = frozenset(
    {"id", "hash", "tenant", "subject", "rights", "scopes", "created", "expires", "revoked", "limits"}
)
_LIMITS: Final = frozenset(each.name for each in fields(Quota))
_RATES: Final = frozenset({"per_second", "burst"})


class KeyNotFoundError(NotFoundError):
    """The file has no key of this id."""

    resource_type = "key"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key without its secret; times are aware."""

    key_id: str
    secret_hash: str
    identity: Identity
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None

    def state(self, now: datetime) -> str:
        """Return `active`, `expired` or `revoked`."""
        if self.revoked is not None and self.revoked <= now:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"


class KeyRing:
    """The keys of a file by their ids."""

    def __init__(self, keys: Mapping[str, ApiKey]) -> None:
        self.keys = keys

    def identify(self, token: str, now: datetime) -> Identity:
        """Return whose key this is.

        Raises:
            UnauthenticatedError: it is not of the form of a key, not in the file or revoked, or expired.
        """
        parts = _KEY.fullmatch(token)
        if parts is None:
            raise UnauthenticatedError("the API key is malformed", problem="malformed")
        key = self.keys.get(parts[1])
        # Always compared, and in constant time, so that the duration of a refusal reveals neither ids nor hashes.
        is_right = hmac.compare_digest(_hash_of(parts[2]), _NO_HASH if key is None else key.secret_hash)
        state = "revoked" if key is None or not is_right else key.state(now)
        if key is None or state == "revoked":
            raise UnauthenticatedError("the API key is unknown", problem="unknown")
        if state == "expired":
            raise UnauthenticatedError("the API key has expired", problem="expired")
        return key.identity


def parse_keys(contents: list[bytes]) -> KeyRing:
    """Return the keys of one file in YAML or JSON.

    Raises:
        InvalidRequestError: it is of another form, or gives a subject more than two active keys.
    """
    ring = _parse(contents[0])
    for key in ring.keys.values():
        active = _active_of(ring.keys, key.identity)
        if len(active) > MAX_ACTIVE:
            raise InvalidRequestError.of("keys", _too_many(key.identity, active))
    return ring


def _parse(content: bytes) -> KeyRing:
    try:
        document = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a time such as 2027-13-01 is a wrong value
        raise InvalidRequestError.of("keys", "the file is neither YAML nor JSON") from error
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise InvalidRequestError.of("keys", "the file must have a list `keys`")
    keys: dict[str, ApiKey] = {}
    for number, entry in enumerate(entries):
        key = _parse_key(entry, f"keys[{number}]")
        if key.key_id in keys:
            raise InvalidRequestError.of(f"keys[{number}].id", f"{key.key_id} is in the file twice")
        keys[key.key_id] = key
    return KeyRing(keys)


def read_key_file(path: Path) -> KeyRing:
    """Return the keys of a file, none if there is no such file; a subject may have too many of them to revoke some.

    Raises:
        InvalidRequestError: it cannot be read, or is of another form.
    """
    try:
        return _parse(path.read_bytes())
    except FileNotFoundError:
        return KeyRing({})
    except OSError as error:
        raise InvalidRequestError.of("keys", f"{str(path)!r} cannot be read: {error.strerror}") from error


def create_key(path: Path, identity: Identity, expires: datetime | None = None) -> tuple[ApiKey, str]:
    """Add a key to a file, created if missing; return it and the only copy of the secret that callers send.

    Raises:
        PreconditionError: the subject has two active keys; revoke one.
        InvalidRequestError: the file is of another form or cannot be written, or a name is no name.
    """
    secret, now = secrets.token_urlsafe(_SECRET_BYTES), datetime.now(UTC).replace(microsecond=0)
    key = ApiKey(secrets.token_hex(_ID_BYTES), _hash_of(secret), identity, now, expires)
    # What the server would refuse to read must not be written.
    _parse_key(_to_entry(key), "key")
    with _changed(path) as keys:
        if len(active := _active_of(keys, identity)) >= MAX_ACTIVE:
            raise PreconditionError(_too_many(identity, active), limit=MAX_ACTIVE)
        keys[key.key_id] = key
    return key, f"{PREFIX}{key.key_id}_{secret}"


def revoke_key(path: Path, key_id: str) -> ApiKey:
    """Mark a key as revoked; a revoked key stays as it is.

    Raises:
        KeyNotFoundError: the file has none of this id.
        InvalidRequestError: the file is of another form or cannot be written.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    with _changed(path) as keys:
        if key_id not in keys:
            raise KeyNotFoundError(key_id)
        key = keys[key_id]
        if key.state(now) != "revoked":
            key = keys[key_id] = replace(key, revoked=now)
    return key


def _hash_of(secret: str) -> str:
    return "sha256:" + hashlib.sha256(secret.encode()).hexdigest()


def _active_of(keys: Mapping[str, ApiKey], owner: Identity) -> list[str]:
    now = datetime.now(UTC)
    return [
        each.key_id
        for each in keys.values()
        if (each.identity.tenant, each.identity.subject) == (owner.tenant, owner.subject)
        and each.state(now) == "active"
    ]


def _too_many(owner: Identity, active: list[str]) -> str:
    return f"the subject {owner.subject!r} has the active keys {', '.join(active)}; revoke one"


@contextmanager
def _changed(path: Path) -> Iterator[dict[str, ApiKey]]:
    """Yield the keys of a file for changes and then replace the file; one process at a time."""
    path = Path(os.path.realpath(path))  # a link stays, and who reads the file itself sees the change
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise _not_written(path, error) from error
    try:
        # The folder, because the file is replaced, and a lock on it with it.
        fcntl.flock(folder, fcntl.LOCK_EX)
        keys = dict(read_key_file(path).keys)
        yield keys
        text = yaml.safe_dump({"keys": [_to_entry(key) for key in keys.values()]}, sort_keys=False)
        # The file is replaced atomically, because a server may read it at any moment; nobody else may read it.
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                # The replacement keeps the file's readers: a server under another account must see a
                # revocation.
                with suppress(FileNotFoundError):
                    status = path.stat()
                    os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
                    with suppress(PermissionError):
                        os.fchown(file.fileno(), status.st_uid, status.st_gid)
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        os.fsync(folder)  # a revoked key must not come back after a power cut
    except OSError as error:
        raise _not_written(path, error) from error
    finally:
        os.close(folder)


def _not_written(path: Path, error: OSError) -> InvalidRequestError:
    return InvalidRequestError.of("keys", f"{str(path)!r} cannot be written: {error.strerror}")


def _to_entry(key: ApiKey) -> dict[str, Any]:
    identity, quota = key.identity, key.identity.quota
    entry: dict[str, Any] = {
        "id": key.key_id,
        "hash": key.secret_hash,
        "tenant": identity.tenant,
        "subject": identity.subject,
        "rights": [right.value for right in Right if right in identity.rights],
        "scopes": None if identity.scopes is None else list(identity.scopes),
        "created": key.created,
        "expires": key.expires,
        "revoked": key.revoked,
        "limits": {name: getattr(quota, name) for name in sorted(_LIMITS) if getattr(quota, name) is not None} or None,
    }
    return {name: value for name, value in entry.items() if value is not None}


def _parse_key(entry: Any, where: str) -> ApiKey:
    if not isinstance(entry, dict) or not entry.keys() <= _FIELDS:
        raise InvalidRequestError.of(where, f"must be a mapping of {', '.join(sorted(_FIELDS))}")

    def read(name: str, check: Callable[[Any], bool], rule: str) -> Any:
        if not check(entry.get(name)):
            raise InvalidRequestError.of(f"{where}.{name}", rule)
        return entry.get(name)

    def time(name: str) -> datetime | None:
        value = entry.get(name)
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                value = ""
        if value is not None and not isinstance(value, datetime):
            raise InvalidRequestError.of(f"{where}.{name}", "must be a time such as 2027-01-01T00:00:00Z")
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value

    name_rule = "must be 1 to 128 of letters, digits and ._:@/#-"
    identity = Identity(
        tenant=read("tenant", is_name, name_rule),
        subject=read("subject", is_name, name_rule),
        rights=parse_rights(entry.get("rights"), f"{where}.rights", Right),
        scopes=parse_scopes(entry.get("scopes"), f"{where}.scopes"),
        quota=_parse_limits(entry.get("limits"), f"{where}.limits"),
    )
    if Right.SERVICE in identity.rights and identity.scopes is not None:
        # The scopes would have no effect: calls of a service say for which scopes they are made.
        raise InvalidRequestError.of(f"{where}.scopes", "must not be given with the right service")
    key_id = read("id", lambda value: re.fullmatch(r"[0-9a-f]{12}", str(value)) is not None, "must be 12 hex digits")
    secret_hash = read("hash", lambda value: _HASH.fullmatch(str(value)) is not None, "must be sha256:HEX")
    return ApiKey(
        str(key_id),
        secret_hash,
        identity,
        time("created") or datetime.min.replace(tzinfo=UTC),
        time("expires"),
        time("revoked"),
    )


def is_name(value: Any) -> bool:
    """Tell whether a value is a valid name of a tenant or subject."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def parse_rights(value: Any, where: str, among: Iterable[Right] = ALL_RIGHTS) -> frozenset[Right]:
    """Return the rights with these names and all that they include; an empty list or an unknown name is an error.

    Raises:
        InvalidRequestError: naming `where`.
    """
    known = {right.value for right in among}
    if not isinstance(value, list) or not value or not all(isinstance(name, str) and name in known for name in value):
        raise InvalidRequestError.of(where, f"must be a list of {', '.join(sorted(known))}")
    return with_included(frozenset(map(Right, value)))


def parse_scopes(value: Any, where: str) -> tuple[str, ...] | None:
    """Return scopes of records, None for all when nothing is given.

    Raises:
        InvalidRequestError: naming `where`.
    """
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > _MAX_SCOPES:
        raise InvalidRequestError.of(where, f"must be a list of up to {_MAX_SCOPES} scopes")
    return tuple(parse_scope(str(scope), where) for scope in value)


def _parse_limits(value: Any, where: str) -> Quota:
    def is_limit(each: Any) -> bool:
        return isinstance(each, int | float) and not isinstance(each, bool) and 0 < each < math.inf

    if value is None:
        return Quota()
    if not isinstance(value, dict) or not value.keys() <= _LIMITS or not all(map(is_limit, value.values())):
        raise InvalidRequestError.of(where, f"must be a mapping of {', '.join(sorted(_LIMITS))} to positive numbers")
    return Quota(**{name: each if name in _RATES else max(1, int(each)) for name, each in value.items()})
