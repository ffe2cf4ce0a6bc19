"""One query that was served or failed, as the log keeps it (requirement S3-25)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the settings know the mode of the log, and are read before anything heavy is imported
    from groundwire.kernel.collection import SearchMode


class QueryType(StrEnum):
    """What kind of question a query is; the value is the spelling of the source design (requirement S3-03)."""

    CONCEPTUAL = "conceptual"
    FACTUAL = "factual"
    SECTION_BASED = "section-based"


class QueryLogMode(StrEnum):
    """What the log keeps.

    FULL: the text of every query. AUTO: the text unless the profile is book or the search names an entity. FACTS: no
    text. OFF: nothing at all.
    """

    FULL = "full"
    AUTO = "auto"
    FACTS = "facts"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    """An entry of the query log.

    `collection_uid` is empty when there was no collection of the name. `query` is empty where texts are not logged.
    `average_relevance` is in [0, 1], 0.0 without results.
    `processing_s` >= 0. `query_type` and `mode` are None when the query failed before they were known.
    `error_reason` is empty for a query that was served.
    """

    log_id: str
    tenant: str
    collection: str
    collection_uid: str
    query: str
    query_type: QueryType | None
    result_count: int
    average_relevance: float
    processing_s: float
    log_time: datetime
    user_agent: str
    mode: "SearchMode | None"
    error_reason: str
