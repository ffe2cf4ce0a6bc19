"""Changes of the file of keys: what stays as it was, and that none is lost."""

import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from groundwire.kernel.errors import InvalidRequestError, PreconditionError, UnauthenticatedError
from groundwire.kernel.identity import Identity, Right
from groundwire.rpc.key_file import KeyRing, create_key, parse_keys, parse_scopes, read_key_file, revoke_key

_READ = frozenset({Right.READ})


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys.yaml"


def test_a_key_that_is_revoked_again_was_revoked_when_it_first_was(keys: Path) -> None:
    key_id = create_key(keys, Identity("acme", "ci", _READ))[0].key_id
    revoke_key(keys, key_id)
    long_ago = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    document = yaml.safe_load(keys.read_text("utf-8"))
    document["keys"][0]["revoked"] = long_ago
    keys.write_text(yaml.safe_dump(document), encoding="utf-8")
    assert revoke_key(keys, key_id).revoked == long_ago
    assert read_key_file(keys).keys[key_id].revoked == long_ago


def test_a_key_that_is_to_be_revoked_some_day_is_revoked_at_once(keys: Path) -> None:
    key, token = create_key(keys, Identity("acme", "ci", _READ))
    later = datetime.now(UTC) + timedelta(days=1)
    keys.write_text(f"{keys.read_text('utf-8')}  revoked: {later.isoformat()}\n", encoding="utf-8")
    revoke_key(keys, key.key_id)
    with pytest.raises(UnauthenticatedError):
        read_key_file(keys).identify(token, datetime.now(UTC))


def test_a_file_is_changed_where_a_link_leads(keys: Path, tmp_path: Path) -> None:
    link = tmp_path / "config" / "keys.yaml"
    link.parent.mkdir()
    link.symlink_to(keys)
    key_id = create_key(link, Identity("acme", "ci", _READ))[0].key_id
    revoke_key(link, key_id)
    assert link.is_symlink()
    assert read_key_file(keys).keys[key_id].revoked is not None


def test_a_change_keeps_who_may_read_the_file(keys: Path) -> None:
    key_id = create_key(keys, Identity("acme", "ci", _READ))[0].key_id
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    keys.chmod(0o640)
    revoke_key(keys, key_id)
    assert stat.S_IMODE(keys.stat().st_mode) == 0o640


def test_subjects_of_one_name_in_two_tenants_have_two_active_keys_each(keys: Path) -> None:
    for tenant in ("acme", "globex"):
        for _ in range(2):
            create_key(keys, Identity(tenant, "ci", _READ))
        with pytest.raises(PreconditionError):
            create_key(keys, Identity(tenant, "ci", _READ))
    assert len(read_key_file(keys).keys) == 4


def test_of_three_active_keys_of_a_subject_one_can_be_revoked(keys: Path) -> None:
    for subject in ("ci", "ci", "nightly"):
        create_key(keys, Identity("acme", subject, _READ))
    keys.write_text(keys.read_text("utf-8").replace("nightly", "ci"), encoding="utf-8")
    with pytest.raises(InvalidRequestError, match="revoke one"):
        parse_keys([keys.read_bytes()])
    revoke_key(keys, next(iter(read_key_file(keys).keys)))
    assert len(parse_keys([keys.read_bytes()]).keys) == 3


@pytest.mark.parametrize(
    "line",
    [
        "expires: 2027-13-01T00:00:00Z",
        "expires: soon",
        "scope: [global]",
        "scopes: global",
        "limits: {documents: .inf}",
        "limits: {burst: 0}",
        "limits: {burst: true}",
        "limits: {per_hour: 3}",
        "rights: []",
        "rights: [root]",
        "id: 3f9a12bc0d4",
        "hash: sha256:0",
        "tenant: a b",
    ],
)
def test_a_key_with_a_value_that_cannot_be_is_refused(keys: Path, line: str) -> None:
    create_key(keys, Identity("acme", "ci", _READ))
    with pytest.raises(InvalidRequestError):
        parse_keys([keys.read_bytes() + f"  {line}\n".encode()])


def test_a_key_has_at_most_a_thousand_scopes() -> None:
    scopes = [f"entity:{number}" for number in range(1000)]
    assert len(parse_scopes(scopes, "scopes") or ()) == 1000
    with pytest.raises(InvalidRequestError, match="up to 1000 scopes"):
        parse_scopes([*scopes, "global"], "scopes")


def test_what_no_server_would_read_is_not_written(keys: Path) -> None:
    with pytest.raises(InvalidRequestError):
        create_key(keys, Identity("a b", "ci", _READ))
    assert not keys.exists()


def test_a_file_has_each_id_once_and_no_scopes_of_a_service(keys: Path) -> None:
    create_key(keys, Identity("acme", "ci", frozenset({Right.SERVICE})))
    content = keys.read_bytes()
    with pytest.raises(InvalidRequestError, match="twice"):
        parse_keys([content + content.removeprefix(b"keys:\n")])
    with pytest.raises(InvalidRequestError, match="service"):
        parse_keys([content + b"  scopes: [global]\n"])


def test_limits_of_less_than_one_thing_allow_one_and_times_without_an_offset_are_utc(keys: Path) -> None:
    create_key(keys, Identity("acme", "ci", _READ))
    lines = b"  limits: {documents: 0.5, per_second: 0.5}\n  expires: 2027-01-01T00:00:00\n"
    (key,) = parse_keys([keys.read_bytes() + lines]).keys.values()
    assert (key.identity.quota.documents, key.identity.quota.per_second) == (1, 0.5)
    assert key.expires == datetime(2027, 1, 1, tzinfo=UTC)


def test_a_key_is_accepted_until_it_expires_or_is_revoked_and_only_with_its_secret(keys: Path) -> None:
    now = datetime.now(UTC)
    expires = now + timedelta(hours=1)
    key, token = create_key(keys, Identity("acme", "ci", _READ), expires)
    wrong = f"{token[:-4]}AAAA"
    assert read_key_file(keys).identify(token, now) == key.identity
    revoke_key(keys, key.key_id)
    revoked = read_key_file(keys)
    later = datetime.now(UTC)
    ring = KeyRing({key.key_id: key})
    for given, keyring, at, problem in (
        (token[:-1], ring, now, "malformed"),
        (wrong, ring, now, "unknown"),
        (wrong, ring, expires, "unknown"),
        (token, KeyRing({}), now, "unknown"),
        (token, ring, expires, "expired"),
        (token, revoked, later, "unknown"),
    ):
        with pytest.raises(UnauthenticatedError) as caught:
            keyring.identify(given, at)
        assert caught.value.metadata == {"problem": problem}


def test_keys_that_are_made_at_the_same_time_are_all_in_the_file(keys: Path) -> None:
    start = threading.Barrier(8)

    def make(number: int) -> str:
        start.wait()
        return create_key(keys, Identity("acme", f"ci-{number}", _READ))[0].key_id

    with ThreadPoolExecutor(8) as threads:
        made = set(threads.map(make, range(8)))
    assert read_key_file(keys).keys.keys() == made
    assert [each.name for each in keys.parent.iterdir()] == [keys.name]
