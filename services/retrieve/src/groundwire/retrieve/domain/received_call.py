"""A search as it arrived, before anything of it was checked."""

from dataclasses import dataclass
from datetime import datetime


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
