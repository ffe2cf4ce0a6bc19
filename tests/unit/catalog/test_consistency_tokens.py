"""Consistency tokens stand for a position of one collection's catalog, and cannot be made or moved by callers."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.catalog.consistency_tokens import ConsistencyTokens
from groundwire.kernel.errors import InvalidRequestError

TOKENS = ConsistencyTokens(b"k" * 32)


def read(token: str, tenant: str = "t", uid: str = "u", tokens: ConsistencyTokens = TOKENS) -> int:
    return tokens.read(token, tenant=tenant, collection_uid=uid, field="options.consistency_token")


@given(st.integers(0, 2**64 - 1))
def test_the_position_comes_back(position: int) -> None:
    token = TOKENS.issue(position, tenant="t", collection_uid="u")
    assert read(token) == position
    assert token.replace("-", "").replace("_", "").isalnum()


@given(st.integers(0, 2**64 - 1), st.data())
def test_a_changed_token_is_refused(position: int, data: st.DataObject) -> None:
    raw = base64.urlsafe_b64decode(TOKENS.issue(position, tenant="t", collection_uid="u"))
    place = data.draw(st.integers(0, len(raw) - 1))
    flipped = raw[:place] + bytes([raw[place] ^ data.draw(st.integers(1, 255))]) + raw[place + 1 :]
    with pytest.raises(InvalidRequestError):
        read(base64.urlsafe_b64encode(flipped).decode())


@pytest.mark.parametrize("token", ["x", "*" * 32, "é" * 32, "A" * 32, "A" * 31, "A" * 33, "A" * 100_000, "\ud800" * 32])
def test_garbage_is_refused_and_the_field_named(token: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read(token)
    assert [violation.field for violation in refused.value.violations] == ["options.consistency_token"]


def test_a_token_is_good_for_its_own_collection_tenant_and_server_only() -> None:
    token = TOKENS.issue(7, tenant="t", collection_uid="u")
    for tenant, uid, tokens in (
        ("other", "u", TOKENS),
        ("t", "other", TOKENS),
        ("tu", "", TOKENS),
        ("t", "u", ConsistencyTokens(b"o" * 32)),
    ):
        with pytest.raises(InvalidRequestError):
            read(token, tenant=tenant, uid=uid, tokens=tokens)
