"""Which keys of a provider are used, and for how long a token is good."""

import json
import time
from typing import Any

import jwt
import pytest

from groundwire.kernel.errors import InvalidRequestError, UnauthenticatedError
from groundwire.rpc.signed_tokens import LEEWAY_S, SigningKeys, parse_signing_keys
from tests.credentials import RULES, Provider


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Provider:
    return Provider(tmp_path_factory.mktemp("provider") / "jwks.json")


def keys_of(provider: Provider, **changes: Any) -> SigningKeys:
    """Return the keys of the file, the ES256 key with other fields."""
    listed = json.loads(provider.path.read_bytes())["keys"]
    listed = [each | changes if each["kid"] == "ES256" else each for each in listed]
    return parse_signing_keys([json.dumps({"keys": listed}).encode()])


@pytest.mark.parametrize("changes", [{"use": "enc"}, {"alg": "ES512"}, {"crv": "P-384"}, {"kty": "oct"}])
def test_a_key_for_something_else_signs_no_tokens(provider: Provider, changes: dict[str, str]) -> None:
    assert keys_of(provider).identify(provider.token("ES256"), RULES).subject == "ada"
    with pytest.raises(UnauthenticatedError) as caught:
        keys_of(provider, **changes).identify(provider.token("ES256"), RULES)
    assert caught.value.metadata == {"problem": "unknown"}


def test_a_provider_of_one_key_need_not_name_it(provider: Provider) -> None:
    (one,) = (each for each in json.loads(provider.path.read_bytes())["keys"] if each["kid"] == "ES256")
    ring = parse_signing_keys([json.dumps({"keys": [{**one, "kid": ""}]}).encode()])
    claims = jwt.decode(provider.token("ES256"), options={"verify_signature": False})
    nameless = jwt.encode(claims, provider.keys["ES256"], "ES256")
    assert ring.identify(nameless, RULES).subject == "ada"
    with pytest.raises(UnauthenticatedError):
        keys_of(provider).identify(nameless, RULES)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"keys": [1]}', b'{"keys": []}', b'{"keys": [{"kty": "RSA"}]}'])
def test_what_is_no_set_of_keys_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidRequestError, match=r"^jwks: the file "):
        parse_signing_keys([content])


def test_a_token_is_good_until_the_clock_of_the_provider_may_have_passed_its_end(provider: Provider) -> None:
    ring, now = keys_of(provider), int(time.time())
    assert ring.identify(provider.token(nbf=now + LEEWAY_S - 5), RULES).subject == "ada"
    token = provider.token(exp=now - LEEWAY_S + 3)
    assert ring.identify(token, RULES).subject == "ada"
    # It was checked once already, and is not good for longer because of that.
    ends_at = time.monotonic() + 20

    def use_again() -> None:
        while time.monotonic() < ends_at:
            ring.identify(token, RULES)
            time.sleep(0.05)

    with pytest.raises(UnauthenticatedError, match="has expired"):
        use_again()
