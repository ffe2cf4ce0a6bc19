"""Overrides of chunking policies, and the limits that every policy keeps."""

import math
from dataclasses import dataclass, replace

from groundwire.kernel.chunk import MAX_CHUNK_CHARS
from groundwire.kernel.collection import MAX_CHUNK_SIZES, ChunkerKind, ChunkingPolicy, ChunkUnit
from groundwire.kernel.errors import FieldViolation, InvalidRequestError

_MIN_TARGETS = {ChunkUnit.TOKENS: 16, ChunkUnit.CHARS: 64}
"""A smaller target makes more rows and vectors of a text than the text is worth."""
_MAX_OVERLAP = 0.5
_MAX_WINDOW = 10


@dataclass(frozen=True, slots=True)
class ChunkingOverrides:
    """What a request says about chunking; None keeps what is in force."""

    unit: ChunkUnit | None = None
    target: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    overlap_ratio: float | None = None
    min_chars: int | None = None
    chunker: ChunkerKind | None = None
    window_size: int | None = None

    def over(self, policy: ChunkingPolicy, field: str) -> ChunkingPolicy:
        """Return the policy with these overrides; `field` is the path of the overrides in the request.

        Raises:
            InvalidRequestError: naming every field that breaks a rule.
        """
        given = {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}
        changed = replace(policy, **given)
        check_policy(changed, field)
        return changed


def check_policy(policy: ChunkingPolicy, field: str) -> None:
    """Return if the policy can be kept.

    Raises:
        InvalidRequestError: naming every field that breaks a rule.
    """
    least, most, unit = _MIN_TARGETS[policy.unit], MAX_CHUNK_SIZES[policy.unit], policy.unit.value
    rules = {
        f"target_size must be {least} to {most} {unit}": least <= policy.target <= most,
        "minimum_size must be at least 1 and at most target_size": 1 <= policy.minimum <= policy.target,
        f"maximum_size must be at least target_size and at most {most} {unit}": policy.target <= policy.maximum <= most,
        "overlap_ratio must be at least 0 and below 0.5": (
            math.isfinite(policy.overlap_ratio) and 0.0 <= policy.overlap_ratio < _MAX_OVERLAP
        ),
        f"min_chars must be 1 to {MAX_CHUNK_CHARS}": 1 <= policy.min_chars <= MAX_CHUNK_CHARS,
        f"window_size must be 0 to {_MAX_WINDOW}": 0 <= policy.window_size <= _MAX_WINDOW,
    }
    broken = [rule.partition(" ") for rule, is_met in rules.items() if not is_met]
    if broken:
        raise InvalidRequestError([FieldViolation(f"{field}.{name}", said) for name, _, said in broken])
