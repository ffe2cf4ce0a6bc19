"""Which filters engines declare that they cannot evaluate themselves; the catalog resolves those."""

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

ORDERINGS = {Comparator.GT, Comparator.GTE, Comparator.LT, Comparator.LTE}


def is_unsupported_by_qdrant_edge(clause: Filter) -> bool:
    """Tell whether a leaf is a pattern, or an ordering or containment on metadata, or an ordering of texts."""
    match clause:
        case Like():
            return True
        case Comparison(field, comparator, value) if comparator in ORDERINGS:
            return _orders_what_engines_cannot(field, value)
        case Containment(field):
            return field not in BUILT_IN_FIELDS
        case _:
            return False


def is_unsupported_by_qdrant_server(clause: Filter) -> bool:
    """Tell the same of servers, which also are not asked for substrings."""
    if isinstance(clause, Containment) and BUILT_IN_FIELDS.get(clause.field) is FieldKind.TEXT:
        return isinstance(clause.value, str) and clause.value != ""
    return is_unsupported_by_qdrant_edge(clause)


def is_unsupported_by_chroma(clause: Filter) -> bool:
    """Tell whether a leaf is a pattern, presence, a substring, or an ordering or a list that Chroma cannot take."""
    match clause:
        case Like() | Exists():
            return True
        case Comparison(field, comparator, value) if comparator in ORDERINGS:
            is_list = BUILT_IN_FIELDS.get(field) is FieldKind.INTEGER_LIST
            return is_list or _orders_what_engines_cannot(field, value)
        case Containment(field):
            return BUILT_IN_FIELDS.get(field) in {None, FieldKind.TEXT}
        case Membership(field, values):
            kinds = {None, FieldKind.TEXT_LIST, FieldKind.INTEGER_LIST}
            return len(values) > 500 and BUILT_IN_FIELDS.get(field) in kinds
        case _:
            return False


def orders_under_negation(condition: Filter, *, negated: bool = False) -> bool:
    """Tell whether an ordering stands under an odd number of negations, which Chroma cannot evaluate."""
    match condition:
        case And(parts) | Or(parts):
            return any(orders_under_negation(part, negated=negated) for part in parts)
        case Not(part):
            return orders_under_negation(part, negated=not negated)
        case Comparison(_, comparator, _):
            return negated and comparator in ORDERINGS
        case _:
            return False


def _orders_what_engines_cannot(field: str, value: Scalar) -> bool:
    kind = BUILT_IN_FIELDS.get(field)
    return kind is None or (kind in {FieldKind.TEXT, FieldKind.TEXT_LIST} and isinstance(value, str))
