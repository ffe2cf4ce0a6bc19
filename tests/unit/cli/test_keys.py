"""`groundwire keys`: what is in the file afterwards, and what the list shows of it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from groundwire.cli.__main__ import _run
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.identity import Identity, Quota, Right
from groundwire.rpc.key_file import create_key, read_key_file


def test_each_limit_of_a_key_is_the_one_that_was_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limits = ("--per-second", "1.5", "--burst", "2.5", "--at-a-time", "3", "--documents", "4", "--stored-bytes", "5")
    file = str(tmp_path / "keys.yaml")
    assert _run(["keys", "create", "ada", "--right", "read", "--keys", file, "--days", "2", *limits]) == 0
    assert _run(["keys", "create", "bob", "--right", "write", "--keys", file, "--scope", "global"]) == 0
    eve, _ = create_key(Path(file), Identity(DEFAULT_TENANT, "eve", frozenset({Right.READ}), scopes=()))
    ada, bob, _ = read_key_file(Path(file)).keys.values()
    assert ada.identity.quota == Quota(per_second=1.5, burst=2.5, at_a_time=3, documents=4, stored_bytes=5)
    assert (bob.identity.quota, bob.expires) == (Quota(), None)
    assert ada.expires is not None
    assert abs(ada.expires - datetime.now(UTC) - timedelta(days=2)) < timedelta(minutes=5)
    capsys.readouterr()
    assert _run(["keys", "list", "--keys", file]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert shown == [
        [ada.key_id, "default", "ada", "read", "all", "active", ada.expires.isoformat()],
        [bob.key_id, "default", "bob", "read,", "write", "global", "active", "never"],
        [eve.key_id, "default", "eve", "read", "active", "never"],  # records of no scope
    ]
