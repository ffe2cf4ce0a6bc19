"""What travels between Python and the database of the catalog, whichever it is."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_DECODER = json.JSONDecoder()
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode_json(value: Any) -> str:
    """Return compact JSON; ValueError for numbers that JSON does not have."""
    return _ENCODER.encode(value)


def decode_json(stored: str) -> Any:
    """Return the value of JSON text as `encode_json` writes it; quick for the empty lists that most rows have."""
    if stored == "[]":
        return []
    if stored == "{}":
        return {}
    # Not `decode`, which looks for white space before and after each of thousands of values.
    value, end = _DECODER.raw_decode(stored)
    if end != len(stored):
        raise json.JSONDecodeError("Extra data", stored, end)
    return value


@dataclass(frozen=True, slots=True)
class StoredPostings:
    """Rows of the full-text index, column by column: of each row the word, the `high` of its segment and the bytes.

    `sizes` are those of the postings. `postings` and `positions` are those of all rows, one behind the other.
    """

    words: Sequence[str]
    highs: Sequence[int]
    sizes: Sequence[int]
    postings: bytes
    positions: bytes
