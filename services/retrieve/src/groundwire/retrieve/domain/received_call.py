"""A search as it arrived, before anything of it was checked, and how much of it the log keeps."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class QueryLogMode(StrEnum):
    """What the log keeps: also the text of queries; the text unless the profile is book; no text; nothing at all."""

    FULL = "full"
    AUTO = "auto"
    FACTS = "facts"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    """What the log says about any search, valid or not; `collection` and `query` are as they were sent.

    `started` is the reading of `time.perf_counter` at receipt.
    """

    tenant: str
    collection: str
    query: str
    user_agent: str
    received: datetime
    started: float
