"""Who makes a call: a tenant and what it may do, read from the credential and never from a request."""

import hashlib
import json
from contextvars import ContextVar
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from groundwire.kernel.errors import PermissionDeniedError
from groundwire.kernel.identifiers import DEFAULT_TENANT


class Right(StrEnum):
    """What a credential allows; each includes those above it, except for the last."""

    READ = "read"
    """Search, ask, hold conversations, and read what is stored."""
    WRITE = "write"
    """Change collections, documents and records."""
    ADMIN = "admin"
    """Delete for good, rebuild, check, and read what others asked."""
    SERVICE = "service"
    """Make calls for others, whom the service has identified itself; includes no other right."""


_LADDER: Final = (Right.READ, Right.WRITE, Right.ADMIN)
ALL_RIGHTS: Final = frozenset(_LADDER)
"""What callers have where nobody is asked for a credential; acting for others is not among it."""
DELEGATED_RIGHTS: Final = frozenset({Right.READ, Right.WRITE})
"""Rights that a service may use for others: it cannot delete for good."""


def with_included(rights: frozenset[Right]) -> frozenset[Right]:
    """Return the rights together with those that they include."""
    highest = max((_LADDER.index(right) for right in rights & ALL_RIGHTS), default=-1)
    return rights | frozenset(_LADDER[: highest + 1])


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of a caller; None is the server's default, which is no limit unless it is configured.

    `per_second` is in units: what a call of each kind costs stands in `groundwire.rpc.methods`. After a pause a caller
    may use up to `burst` units at once. `at_a_time` counts calls that are not answered yet.

    `documents` and `stored_bytes` bound what the tenant has stored when the caller adds to it: documents, also those
    that can be restored, and the text of all their versions in UTF-8.
    """

    per_second: float | None = None
    burst: float | None = None
    at_a_time: int | None = None
    documents: int | None = None
    stored_bytes: int | None = None

    def or_else(self, defaults: "Quota") -> "Quota":
        """Return the quota with the defaults for what it leaves unset."""
        return Quota(*(getattr(self, each.name) or getattr(defaults, each.name) for each in fields(Quota)))


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a session: a subject, empty where no credential is needed, and a digest of its scopes.

    The digest, empty for all scopes, stands for them because they may be a thousand and are only compared.
    """

    subject: str = ""
    scopes_digest: str = ""


NO_OWNER: Final = Owner()


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller: `subject` within `tenant`, empty when no credential is configured.

    `scopes` are the scopes of records that it may see and write, such as `global` and `entity:alice`; None is all.
    """

    tenant: str = DEFAULT_TENANT
    subject: str = ""
    rights: frozenset[Right] = ALL_RIGHTS
    scopes: tuple[str, ...] | None = None
    quota: Quota = Quota()

    @property
    def owner(self) -> Owner:
        """Return the owner of the sessions that this identity begins."""
        if self.scopes is None:
            return Owner(self.subject)
        scopes = json.dumps(sorted(set(self.scopes)))
        return Owner(self.subject, hashlib.sha256(scopes.encode()).hexdigest())

    @property
    def oversees(self) -> bool:
        """Return whether this identity sees the sessions of all owners in its tenant."""
        return self.scopes is None and Right.ADMIN in self.rights

    def sees(self, owner: Owner) -> bool:
        """Tell whether this identity may see sessions of this owner.

        With scopes it sees those that were begun with the same ones: others may hold texts of other scopes.
        """
        if self.scopes is not None:
            return owner == self.owner
        return self.oversees or owner.subject in {"", self.subject}

    def may_ask_in(self, owner: Owner) -> bool:
        """Tell whether this identity may ask in sessions of this owner, which then hold what it may see."""
        return owner == self.owner or (owner == NO_OWNER and self.scopes is None)

    def require_right(self, right: Right) -> None:
        """Return if the identity has a right.

        Raises:
            PermissionDeniedError: it has not; metadata: right.
        """
        if right not in self.rights:
            raise PermissionDeniedError(f"the call needs the right {right.value!r}", right=right.value)

    def allows_scope(self, scope: str) -> bool:
        """Tell whether records of this scope may be seen and written."""
        return self.scopes is None or scope in self.scopes

    def require_scope(self, scope: str) -> None:
        """Return if records of this scope may be seen and written.

        Raises:
            PermissionDeniedError: they may not, whether there are any or not.
        """
        if not self.allows_scope(scope):
            raise PermissionDeniedError(f"the credential does not allow the scope {scope!r}", scope=scope)


NOBODY: Final = Identity(tenant="", rights=frozenset(), scopes=())
"""A caller not identified yet: may do nothing and sees nothing."""

CURRENT_IDENTITY: ContextVar[Identity | None] = ContextVar("groundwire_identity", default=None)
"""Set by each call as `CURRENT_BUDGET` is."""


def current_identity() -> Identity:
    """Return the caller that this thread or task works for; the server itself has no subject."""
    return CURRENT_IDENTITY.get() or Identity()


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must say besides being signed; the names are those of the claims that make the identity."""

    issuer: str
    audience: str
    tenant_claim: str = "tenant"
    rights_claim: str = "rights"
    scopes_claim: str = "scopes"
