"""What metadata becomes by a change, and what it must not become."""

import pytest

from groundwire.ingest.changes import MetadataChange
from groundwire.kernel.document import MAX_METADATA_BYTES
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.filters import Value


def test_keys_are_set_removed_and_cleared() -> None:
    before: dict[str, Value] = {"a": 1, "b": "two"}
    assert MetadataChange({"c": 3}, frozenset({"a"})).apply(before) == {"b": "two", "c": 3}
    assert MetadataChange({"c": 3}, clears=True).apply(before) == {"c": 3}


def test_metadata_does_not_grow_beyond_its_size_by_many_changes() -> None:
    half = "ß" * (MAX_METADATA_BYTES // 4)
    before = MetadataChange({"a": half}).apply({})
    with pytest.raises(InvalidRequestError, match="would make 262146 bytes"):
        MetadataChange({"b": half}).apply(before)
    assert MetadataChange({"b": half}, frozenset({"a"})).apply(before) == {"b": half}
