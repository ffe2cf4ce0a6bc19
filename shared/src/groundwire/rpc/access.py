"""Who calls, and whether the credential allows the call: deny by default once a credential is configured."""

import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from groundwire.kernel.errors import (
    InvalidRequestError,
    MissingExtraError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from groundwire.kernel.identity import ALL_RIGHTS, DELEGATED_RIGHTS, Identity, Quota, Right, TokenRules
from groundwire.rpc.key_file import PREFIX, KeyRing, is_name, parse_keys, parse_rights, parse_scopes
from groundwire.rpc.methods import Work, is_within_scopes, right_of
from groundwire.rpc.request_context import ACTS_FOR_KEY
from groundwire.rpc.watched_file import WatchedFiles

if TYPE_CHECKING:
    from groundwire.rpc.signed_tokens import SigningKeys

_BEARER: Final = "bearer "
# Longer ones are refused before anything is computed: callers without a credential must cost next to nothing.
_MAX_TOKEN_CHARS: Final = 8192
_MAX_SUBJECT_CHARS: Final = 256
_COMMON_NAME: Final = "x509_common_name"


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Which credentials are taken; without any the caller is whoever reaches the port, with all rights.

    `keys` and `jwks` are files, read again when they change. `by_certificate` says that connections prove a client
    certificate; it is the credential when there are no others, and `services` are the names in those whose owners may
    act for others. Reflection needs the right to read unless it is public.
    """

    keys: Path | None = None
    jwks: Path | None = None
    token_rules: TokenRules | None = None
    by_certificate: bool = False
    services: frozenset[str] = frozenset()
    is_reflection_public: bool = False


class Access:
    """Identifies callers by their credentials and checks their rights; safe to use from many threads.

    `quota` applies to callers whose credential sets none. `is_open` says that nobody is asked for a credential.

    Raises:
        InvalidRequestError: a file of keys cannot be read.
        MissingExtraError: a JWKS is given and PyJWT is not installed.
    """

    def __init__(self, options: AccessOptions | None = None, quota: Quota | None = None) -> None:
        self._options = taken = options or AccessOptions()
        self.is_open = taken.keys is None and taken.jwks is None and not taken.by_certificate
        self._quota = None if quota == Quota() else quota
        self.anybody = Identity(quota=quota or Quota())
        """The caller where nobody is asked for a credential; made once, because calls need it before anything else."""
        self._stack = ExitStack()
        self._keys: WatchedFiles[KeyRing] | None = None
        self._signing: WatchedFiles[SigningKeys] | None = None
        if self._options.keys is not None:
            self._keys = WatchedFiles([self._options.keys], parse_keys, "keys")
            self._stack.callback(self._keys.close)
        if self._options.jwks is not None:
            try:  # the libraries of signatures take a tenth of a second to import
                from groundwire.rpc.signed_tokens import parse_signing_keys  # noqa: PLC0415 - see above
            except ModuleNotFoundError as error:
                raise MissingExtraError("tokens need PyJWT: pip install 'groundwire[jwt]'", extra="jwt") from error
            self._signing = WatchedFiles([self._options.jwks], parse_signing_keys, "jwks")
            self._stack.callback(self._signing.close)

    def close(self) -> None:
        self._stack.close()

    def is_free(self, work: Work, acts_for: str) -> bool:
        """Tell whether calls of this kind need no credential; calls on behalf of others always need one."""
        if work is Work.REFLECTION and self._options.is_reflection_public:
            return True
        return work in {Work.HEALTH, Work.WATCH} or (self.is_open and not acts_for)

    def identify(self, authorization: str, peer: Callable[[], Any], acts_for: str = "") -> Identity:
        """Return the caller, or the one on whose behalf a service calls.

        `authorization` and `acts_for` are values of the metadata, empty when there are none; `peer` returns what the
        connection proved, as `auth_context` of gRPC does.

        Raises:
            UnauthenticatedError: there is no credential, or it is not accepted.
            PermissionDeniedError: the credential may not act for others; metadata: right.
            InvalidRequestError: `acts_for` is malformed.
        """
        identity = self._proven(authorization, peer)
        if not acts_for:
            return replace(identity, quota=identity.quota.or_else(self._quota)) if self._quota else identity
        # Never ignored, or the call would see the data of the service instead.
        if Right.SERVICE not in identity.rights:
            raise PermissionDeniedError("the credential may not act for others", right=Right.SERVICE.value)
        try:
            said = json.loads(acts_for)
            tenant, subject = said["tenant"], said["subject"]
            # Not `is_name(subject)`: certificates hold any name, and sessions of nobody have none.
            is_good = is_name(tenant) and isinstance(subject, str) and len(subject) <= _MAX_SUBJECT_CHARS
            rights, scopes = parse_rights(said["rights"], ACTS_FOR_KEY), parse_scopes(said["scopes"], ACTS_FOR_KEY)
        except (ValueError, KeyError, TypeError, RecursionError):
            is_good = False
        if not is_good:
            raise InvalidRequestError.of(ACTS_FOR_KEY, "must be a JSON object of tenant, subject, rights and scopes")
        return Identity(tenant, subject, rights & DELEGATED_RIGHTS, scopes, self._quota or Quota())

    def _proven(self, authorization: str, peer: Callable[[], Any]) -> Identity:
        if self.is_open:
            return Identity()
        if self._keys is None and self._signing is None:
            names: Iterable[bytes] = peer().get(_COMMON_NAME, ())
            name = b"".join(names).decode("utf-8", "replace")
            acting = frozenset({Right.SERVICE}) if name in self._options.services else frozenset()
            return Identity(subject=name, rights=ALL_RIGHTS | acting)
        if not authorization:
            raise UnauthenticatedError("the call has no credential", problem="missing")
        token = authorization[len(_BEARER) :].strip()
        if not authorization.lower().startswith(_BEARER) or not token or len(token) > _MAX_TOKEN_CHARS:
            raise UnauthenticatedError("the metadata `authorization` must be `Bearer TOKEN`", problem="malformed")
        # The prefix distinguishes keys from tokens; where only keys are configured, anything else is a wrong key.
        if self._keys is not None and (token.startswith(PREFIX) or self._signing is None):
            return self._keys.value.identify(token, datetime.now(UTC))
        if self._signing is None or self._options.token_rules is None:
            raise UnauthenticatedError("the credential is unknown", problem="unknown")
        return self._signing.value.identify(token, self._options.token_rules)

    def check_right(self, identity: Identity, method: str) -> None:
        """Return if the identity may call a method, given as `/package.Service/Method`.

        Raises:
            PermissionDeniedError: it may not; metadata: right.
        """
        identity.require_right(right_of(method))
        if identity.scopes is not None and not is_within_scopes(method):
            raise PermissionDeniedError(
                "the call reveals all scopes, and the credential is limited to some", right="all scopes"
            )
