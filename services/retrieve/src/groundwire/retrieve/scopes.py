"""Which records a search may find: scopes that a request names, within those of the credential (requirement C09)."""

from collections.abc import Sequence

from groundwire.catalog.scopes import Scopes
from groundwire.kernel.filters import And, Comparator, Comparison, Filter, Membership, Or
from groundwire.kernel.identifiers import ENTITY_SCOPE, GLOBAL_SCOPE
from groundwire.kernel.identity import Identity


def searched_scopes(
    identity: Identity,
    where: Filter | None,
    scopes: Sequence[str] = (),
    entity: str = "",
    *,
    include_global: bool = False,
) -> Scopes:
    """Return the scopes to search, ascending: those that are named, else global records as far as they are allowed.

    A filter names scopes where every match must be of them. An empty `entity` is nobody's.

    Raises:
        PermissionDeniedError: the credential does not allow a scope that is named.
    """
    named = {*scopes, *([ENTITY_SCOPE + entity] if entity else []), *(_scopes_of(where) or ())}
    if include_global:
        named.add(GLOBAL_SCOPE)
    for scope in sorted(named):
        identity.require_scope(scope)
    if not named and identity.allows_scope(GLOBAL_SCOPE):
        named.add(GLOBAL_SCOPE)
    return tuple(sorted(named))


def _scopes_of(where: Filter | None) -> frozenset[str] | None:
    """Return scopes of which every match of a filter is one; None where it matches others as well."""
    match where:
        case And(clauses):
            known = [found for found in map(_scopes_of, clauses) if found is not None]
            return min(known, key=len, default=None)
        case Or(clauses):
            parts = [_scopes_of(clause) for clause in clauses]
            return None if None in parts else frozenset().union(*(part for part in parts if part is not None))
        case Comparison(field, Comparator.EQ, value):
            return _named(field, (value,))
        case Membership(field, values, negated=False):
            return _named(field, values)
        case _:
            return None


def _named(field: str, values: Sequence[object]) -> frozenset[str] | None:
    prefixes = {"scope": "", "entity": ENTITY_SCOPE}
    if field not in prefixes:
        return None
    names = {prefixes[field] + value for value in values if isinstance(value, str)}
    # Metadata of documents may have the name `scope` for something else.
    return frozenset(name for name in names if name == GLOBAL_SCOPE or name.startswith(ENTITY_SCOPE))
