"""Turns condition trees into the classes of qdrant-edge; runs in the engine process."""

from typing import Any

from groundwire.vectorstores.qdrant_conditions import Condition

_CLAUSES = ("must", "should", "must_not")


def vendor_filter(condition: Condition) -> Any:
    """Return the `qdrant_edge.Filter` of a condition tree made by `ConditionCompiler`."""
    import qdrant_edge as edge  # noqa: PLC0415 - only the engine process has it

    if not any(clause in condition for clause in _CLAUSES):
        return edge.Filter(must=[_vendor_condition(condition)])
    clauses: dict[str, Any] = {
        clause: [_vendor_condition(part) for part in condition[clause]] for clause in _CLAUSES if clause in condition
    }
    return edge.Filter(**clauses)


def _vendor_condition(condition: Condition) -> Any:
    import qdrant_edge as edge  # noqa: PLC0415 - only the engine process has it

    match condition:
        case {"is_empty": {"key": field}}:
            return edge.IsEmptyCondition(field)
        case {"has_id": numbers}:
            return edge.HasIdCondition(set(numbers))
        case {"key": field, "match": {"any": values}}:
            return edge.FieldCondition(field, match=edge.MatchAny(values))
        case {"key": field, "match": {"substring": value}}:
            return edge.FieldCondition(field, match=edge.MatchSubstring(value))
        case {"key": field, "range": bounds}:
            return edge.FieldCondition(field, range=edge.RangeFloat(**bounds))
        case _:
            return vendor_filter(condition)
