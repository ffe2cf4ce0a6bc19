"""What a request may set of the rules that a text is cut by."""

import math
from dataclasses import asdict, replace
from typing import Any

import pytest

from groundwire.ingest.ingesting import ChunkingOverrides
from groundwire.kernel.chunk import MAX_CHUNK_CHARS
from groundwire.kernel.collection import MAX_CHUNK_SIZES, PROFILES, ChunkingPolicy, ChunkUnit, ProfileName
from groundwire.kernel.errors import InvalidRequestError

_POLICY = PROFILES[ProfileName.DOCUMENTS].chunking
_IN_CHARS = ChunkingPolicy(ChunkUnit.CHARS, target=500, minimum=50, maximum=800, overlap_ratio=0.1, min_chars=3)
_MOST_TOKENS, _MOST_CHARS = MAX_CHUNK_SIZES[ChunkUnit.TOKENS], MAX_CHUNK_SIZES[ChunkUnit.CHARS]


@pytest.mark.parametrize(
    ("policy", "given"),
    [
        (_POLICY, {"target": 16, "minimum": 1}),
        (_POLICY, {"target": _MOST_TOKENS, "minimum": _MOST_TOKENS, "maximum": _MOST_TOKENS}),
        (_IN_CHARS, {"target": 64}),
        (_IN_CHARS, {"target": _MOST_CHARS, "maximum": _MOST_CHARS}),
        (_POLICY, {"overlap_ratio": 0.0, "window_size": 0, "min_chars": 1}),
        (_POLICY, {"overlap_ratio": 0.499, "window_size": 10, "min_chars": MAX_CHUNK_CHARS}),
    ],
)
def test_rules_reach_from_limit_to_limit(policy: ChunkingPolicy, given: dict[str, Any]) -> None:
    assert ChunkingOverrides(**given).over(policy, "chunking") == replace(policy, **given)


@pytest.mark.parametrize(
    ("policy", "given", "field"),
    [
        (_POLICY, {"target": 15, "minimum": 1}, "target_size"),
        (_IN_CHARS, {"target": 63}, "target_size"),
        (_POLICY, {"minimum": 0}, "minimum_size"),
        (_POLICY, {"minimum": _POLICY.target + 1}, "minimum_size"),
        (_POLICY, {"maximum": _POLICY.target - 1}, "maximum_size"),
        (_POLICY, {"maximum": _MOST_TOKENS + 1}, "maximum_size"),
        (_IN_CHARS, {"maximum": _MOST_CHARS + 1}, "maximum_size"),
        (_POLICY, {"overlap_ratio": -0.01}, "overlap_ratio"),
        (_POLICY, {"overlap_ratio": 0.5}, "overlap_ratio"),
        (_POLICY, {"overlap_ratio": math.nan}, "overlap_ratio"),
        (_POLICY, {"min_chars": 0}, "min_chars"),
        (_POLICY, {"min_chars": MAX_CHUNK_CHARS + 1}, "min_chars"),
        (_POLICY, {"window_size": -1}, "window_size"),
        (_POLICY, {"window_size": 11}, "window_size"),
    ],
)
def test_a_rule_beyond_its_limit_is_named(policy: ChunkingPolicy, given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        ChunkingOverrides(**given).over(policy, "chunking")
    assert [each.field for each in refused.value.violations] == [f"chunking.{field}"]


def test_every_rule_that_is_broken_is_named() -> None:
    most = _MOST_TOKENS + 1
    with pytest.raises(InvalidRequestError) as refused:
        ChunkingOverrides(target=most, maximum=most).over(_POLICY, "settings.chunking")
    named = ["settings.chunking.target_size", "settings.chunking.maximum_size"]
    assert [each.field for each in refused.value.violations] == named


def test_what_is_not_given_keeps_what_is_in_force() -> None:
    assert ChunkingOverrides().over(_IN_CHARS, "chunking") == _IN_CHARS
    given = {name: value for name, value in asdict(_IN_CHARS).items() if name != "overlap_ratio"}
    assert ChunkingOverrides(**given).over(_POLICY, "") == replace(_IN_CHARS, overlap_ratio=_POLICY.overlap_ratio)
