"""JSON Web Tokens of an identity provider, checked with the public keys of a JWKS file (RFC 7517, RFC 7519)."""

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any, Final

import jwt

from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.kernel.errors import InvalidRequestError, UnauthenticatedError
from groundwire.kernel.identity import Identity, TokenRules
from groundwire.rpc.key_file import is_name, parse_rights, parse_scopes

LEEWAY_S: Final = 30
"""How far the clocks of the provider and of this server may differ."""

_REMEMBERED: Final = 4096
# One algorithm for each kind of key: the header of a token chooses nothing. Secrets shared with the provider (HS256)
# are not taken, so that a public key can never pass for one.
_ALGORITHMS: Final = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}


class SigningKeys:
    """Public keys of a provider by their ids, and the tokens that were checked with them; safe to use from threads."""

    def __init__(self, keys: Mapping[str, tuple[Any, str]]) -> None:
        self._keys = keys
        # A signature takes a tenth of a millisecond to check. Other keys have another cache, so that no token outlives
        # the key that signed it.
        self._checked: BoundedCache[bytes, tuple[Identity, float]] = BoundedCache(_REMEMBERED)

    def identify(self, token: str, rules: TokenRules) -> Identity:
        """Return whose token this is.

        Raises:
            UnauthenticatedError: it is no token, not signed by one of the keys, for somebody else, or not valid now;
                or it names no tenant, subject or right.
        """
        digest = hashlib.sha256(token.encode()).digest()
        checked = self._checked.get(digest)
        if checked is not None and checked[1] > time.time():
            return checked[0]
        try:
            key_id = jwt.get_unverified_header(token).get("kid", "")
            # A provider with one key need not name it.
            key, algorithm = self._keys[key_id] if key_id or len(self._keys) != 1 else next(iter(self._keys.values()))
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=rules.issuer,
                audience=rules.audience,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.ExpiredSignatureError:
            raise UnauthenticatedError("the token has expired", problem="expired") from None
        except jwt.ImmatureSignatureError:
            raise UnauthenticatedError("the token is not valid yet", problem="not_yet_valid") from None
        except (jwt.PyJWTError, KeyError, ValueError, TypeError):
            raise UnauthenticatedError("the token is unknown", problem="unknown") from None
        tenant, subject, rights = claims.get(rules.tenant_claim), claims["sub"], claims.get(rules.rights_claim)
        try:
            if not is_name(tenant) or not is_name(subject):
                raise InvalidRequestError.of(rules.tenant_claim, "tenant and subject must be names")
            identity = Identity(
                tenant=str(tenant),
                subject=subject,
                # OAuth writes lists as words with spaces between them.
                rights=parse_rights(rights.split() if isinstance(rights, str) else rights, rules.rights_claim),
                scopes=parse_scopes(claims.get(rules.scopes_claim), rules.scopes_claim),
            )
        except InvalidRequestError as error:
            raise UnauthenticatedError(f"the token lacks claims: {error.message}", problem="claims") from None
        self._checked.put(digest, (identity, float(claims["exp"]) + LEEWAY_S))
        return identity


def parse_signing_keys(contents: list[bytes]) -> SigningKeys:
    """Return the keys of a JWKS file; those of other kinds, or for encryption, are left out.

    Raises:
        InvalidRequestError: it is no JWKS, or has no key that can be used.
    """
    try:
        listed = json.loads(contents[0])["keys"]
        usable = {}
        for each in listed:
            kind = each["kty"] if each.get("use", "sig") == "sig" else ""
            algorithm = _ALGORITHMS.get((kind, None if kind == "RSA" else each.get("crv")))
            if algorithm is not None and each.get("alg", algorithm) == algorithm:
                usable[str(each.get("kid", ""))] = jwt.PyJWK(dict(each), algorithm=algorithm).key, algorithm
    except (ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError) as error:
        raise InvalidRequestError.of("jwks", "the file is not a JSON Web Key Set") from error
    if not usable:
        raise InvalidRequestError.of("jwks", "the file has no RSA, P-256 or Ed25519 key")
    return SigningKeys(usable)
