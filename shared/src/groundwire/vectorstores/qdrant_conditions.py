"""What the two adapters of Qdrant share: the filters as condition trees, in the JSON form that its servers document.

Exact by construction: negations are `must_not`, which also keeps points without the field (`MatchExcept`
would drop them); the caller's own fields are matched by their terms (`groundwire.vectorstores.stored_fields`);
what is always or never true is decided here, because engines differ on clauses without members.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

from groundwire.kernel.errors import UnsupportedFilterError
from groundwire.kernel.filters import (
    BUILT_IN_FIELDS,
    And,
    Comparator,
    Comparison,
    Containment,
    Exists,
    FieldKind,
    Filter,
    Like,
    Membership,
    Not,
    Or,
    Scalar,
)
from groundwire.vectorstores.stored_fields import LISTS, TERMS_FIELD, TEXTS, comparable, integer_bound, presence_term

# Candidates an index search keeps. Graphs differ from build to build: with 128 the recall@10 of 60,000 to 100,000
# points was 0.954 to 0.994, with 256 it was 0.986 to 0.999; a search takes 1 to 3 ms.
MIN_EF: Final = 384

Condition: TypeAlias = dict[str, Any]
"""A filter or a condition of Qdrant: `must`, `should`, `must_not`, or `key` with `match` or `range`, or `is_empty`."""
Compiled: TypeAlias = Condition | bool
"""A condition, or True for none and False for one that nothing satisfies."""


@dataclass(frozen=True, slots=True)
class ConditionCompiler:
    """Compiles filters for one engine.

    `matches_substrings` says that the engine has the condition `substring`, which servers learned late.
    """

    engine: str
    matches_substrings: bool

    def __call__(self, condition: Filter) -> Compiled:
        """Return the condition that keeps exactly the points the reference evaluator keeps.

        Raises:
            UnsupportedFilterError: for patterns, for orderings of texts, for orderings and containment on the
                caller's own fields, and for substrings where the engine has none.
        """
        match condition:
            case And(clauses):
                parts = [self(clause) for clause in clauses]
                conditions = [part for part in parts if not isinstance(part, bool)]
                return False if False in parts else {"must": conditions} if conditions else True
            case Or(clauses):
                parts = [self(clause) for clause in clauses]
                conditions = [part for part in parts if not isinstance(part, bool)]
                return True if True in parts else {"should": conditions} if conditions else False
            case Not(clause):
                return _not(self(clause))
            case Exists(field, present):
                return _exists(field) if present else _not(_exists(field))
            case Comparison(field, Comparator.EQ | Comparator.NE as comparator, value):
                equal = _one_of(field, (value,))
                return equal if comparator is Comparator.EQ else _not(equal)
            case Comparison(field, comparator, value):
                kind = BUILT_IN_FIELDS.get(field)
                if kind is None or (kind in TEXTS and isinstance(value, str)):
                    raise self._unsupported(f"{comparator} on a metadata field or a text")
                bound = integer_bound(kind, comparator, value)
                return False if bound is None else {"key": field, "range": {bound[0]: float(bound[1])}}
            case Membership(field, values, negated):
                member = _one_of(field, values)
                return _not(member) if negated else member
            case Containment(field, value, negated):
                contains = self._contains(field, value)
                return _not(contains) if negated else contains
            case Like():
                raise self._unsupported("$like")
            case _:
                assert_never(condition)

    def _contains(self, field: str, value: Scalar) -> Compiled:
        kind = BUILT_IN_FIELDS.get(field)
        if kind is None:
            raise self._unsupported("$contains on a metadata field")
        if kind in LISTS:
            return _one_of(field, (value,))
        if kind is not FieldKind.TEXT or not isinstance(value, str):
            return False
        if value and not self.matches_substrings:
            raise self._unsupported("$contains on a text")
        # Every text contains the empty one.
        return {"key": field, "match": {"substring": value}} if value else _exists(field)

    def _unsupported(self, clause: str) -> UnsupportedFilterError:
        message = f"{self.engine} cannot evaluate {clause}"
        return UnsupportedFilterError(message, clause=clause, engine=self.engine)


def _not(compiled: Compiled) -> Compiled:
    return not compiled if isinstance(compiled, bool) else {"must_not": [compiled]}


def _exists(field: str) -> Compiled:
    if field in BUILT_IN_FIELDS:
        return _not({"is_empty": {"key": field}})
    return _match_any(TERMS_FIELD, [presence_term(field)])


def _one_of(field: str, values: Iterable[Scalar]) -> Compiled:
    return _match_any(field if field in BUILT_IN_FIELDS else TERMS_FIELD, comparable(field, values))


def _match_any(field: str, values: Sequence[str] | Sequence[int]) -> Compiled:
    return {"key": field, "match": {"any": list(values)}} if values else False
