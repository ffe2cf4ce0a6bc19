"""Consistency tokens: opaque proofs of how far a catalog was, so that a later search does not read an older state."""

import base64
import hashlib
import hmac
from contextlib import suppress
from functools import lru_cache

from groundwire.kernel.errors import InvalidRequestError

_MAC_BYTES = 16
_POSITION_BYTES = 8
# Of base 64, which takes no padding for a multiple of three bytes.
_TOKEN_CHARS = (_MAC_BYTES + _POSITION_BYTES) * 8 // 6
# Tokens are cached: each search returns one, and the position seldom moves between two searches.
_REMEMBERED = 1000
_PURPOSE = b"groundwire consistency token 1"


class ConsistencyTokens:
    """Issues and reads tokens with one secret key; servers of one catalog share the key.

    A token belongs to one collection of one tenant: a collection that is deleted and recreated has another uid, for
    which tokens of the old one are not valid.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    @lru_cache(_REMEMBERED)  # noqa: B019 - there is one for each process
    def issue(self, position: int, *, tenant: str, collection_uid: str) -> str:
        """Return the token of a catalog position, 0 <= position < 2^64."""
        body = position.to_bytes(_POSITION_BYTES, "big")
        return base64.urlsafe_b64encode(self._mac(body, tenant, collection_uid) + body).decode().rstrip("=")

    def read(self, token: str, *, tenant: str, collection_uid: str, field: str) -> int:
        """Return the position in a token.

        Raises:
            InvalidRequestError: the token was changed, or is one of another collection, tenant or server;
                names `field`.
        """
        raw = b""
        if len(token) == _TOKEN_CHARS:
            with suppress(ValueError):
                raw = base64.b64decode(token, altchars=b"-_", validate=True)
        mac, body = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        # In constant time, so that the duration does not reveal how much of a forged token is right.
        is_ours = len(body) == _POSITION_BYTES and hmac.compare_digest(mac, self._mac(body, tenant, collection_uid))
        if not is_ours:
            raise InvalidRequestError.of(field, "was not issued by this server for this collection")
        return int.from_bytes(body, "big")

    def _mac(self, body: bytes, tenant: str, collection_uid: str) -> bytes:
        digest = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in (_PURPOSE, tenant.encode(), collection_uid.encode(), body):
            digest.update(len(part).to_bytes(8, "big") + part)  # lengths keep ("ab", "c") and ("a", "bc") apart
        return digest.digest()[:_MAC_BYTES]
