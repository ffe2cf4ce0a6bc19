"""Who makes a call: a tenant and what it may do, read from the credential and never from a request."""

from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from groundwire.kernel.errors import PermissionDeniedError
from groundwire.kernel.identifiers import DEFAULT_TENANT


class Right(StrEnum):
    """What a credential allows; each includes those above it."""

    READ = "read"
    """Search, ask, hold conversations, and read what is stored."""
    WRITE = "write"
    """Change collections, documents and records."""
    ADMIN = "admin"
    """Delete for good, rebuild, check, and read what others asked."""


ALL_RIGHTS: Final = frozenset(Right)


def with_included(rights: frozenset[Right]) -> frozenset[Right]:
    """Return the rights together with those that they include."""
    order = list(Right)
    highest = max((order.index(right) for right in rights), default=-1)
    return frozenset(order[: highest + 1])


@dataclass(frozen=True, slots=True)
class Quota:
    """How much a caller may ask for; None is the server's default, which is no limit unless it is configured.

    `per_second` is in units: what a call of each kind costs stands in `groundwire.rpc.methods`. After a pause a caller
    may use up to `burst` units at once. `at_a_time` counts calls that are not answered yet.
    """

    per_second: float | None = None
    burst: float | None = None
    at_a_time: int | None = None


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
"""Whoever has not shown a credential yet: may do nothing and sees nothing."""

_current: ContextVar[Identity | None] = ContextVar("groundwire_identity", default=None)


def current_identity() -> Identity:
    """Return who makes the call that this thread or task works for; the server itself has no subject."""
    return _current.get() or Identity()


def bind_current_identity(identity: Identity) -> None:
    """Make `identity` what `current_identity` returns in this context from now on."""
    _current.set(identity)
