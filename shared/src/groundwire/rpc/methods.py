"""What kind of work each method of the contract is, and how long it may take: one table for servers and clients."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from groundwire.kernel.identity import Right


class Work(StrEnum):
    """Kinds of work that cannot crowd one another out: each has its own limit of concurrent calls."""

    SEARCH = "search"
    """Finds or answers: needs the model and the vector store."""
    READ = "read"
    """Reads what is stored."""
    WRITE = "write"
    """Changes what is stored."""
    UPLOAD = "upload"
    """Lasts as long as the client sends."""
    STREAM = "stream"
    """Lasts as long as the client reads."""
    CONVERSATION = "conversation"
    """Lasts as long as the client likes; most of the time nothing happens."""
    HEALTH = "health"
    """Asks for the health once; never refused."""
    WATCH = "watch"
    """Watches the health for as long as the client likes."""
    REFLECTION = "reflection"
    """Asks for the contract."""


INFRASTRUCTURE: Final = frozenset({Work.HEALTH, Work.WATCH, Work.REFLECTION})
"""Work that goes on while the server drains and has no time limit of its own."""

CALL_LIMITS: Final[Mapping[Work, int]] = MappingProxyType(
    {
        Work.SEARCH: 128,
        Work.READ: 128,
        Work.WRITE: 64,
        Work.UPLOAD: 64,
        Work.STREAM: 64,
        Work.CONVERSATION: 256,
        Work.WATCH: 1024,
        Work.REFLECTION: 16,
    }
)
"""How many calls of each kind run at a time; health checks are not limited."""
FIRST_MESSAGE_S: Final = 10.0
"""How long a client may take from the beginning of a call to its first message."""
STREAM_IDLE_S: Final = 60.0
"""How long a stream may stand still because of its client."""


WORK_COSTS: Final[Mapping[Work, float]] = MappingProxyType(
    {
        Work.SEARCH: 4.0,
        Work.READ: 1.0,
        Work.WRITE: 4.0,
        Work.UPLOAD: 4.0,
        Work.STREAM: 4.0,
        Work.CONVERSATION: 4.0,
    }
)
"""What a call of each kind takes of the quota of its caller, a conversation for each message; others take nothing."""


BYTES_PER_UNIT: Final = 64 << 10
"""Of what a call sends, in messages of any kind: so much takes one unit more."""


@dataclass(frozen=True, slots=True)
class Method:
    """A row of the table; `limit_s` in seconds, None is no limit, `default` is that of the server.

    `right` is what a credential needs; None is the right to write for what changes something, else that to read.
    `batch` names the repeated field whose items each cost as much as a call alone.
    """

    work: Work
    limit_s: float | Literal["default"] | None = "default"
    right: Right | None = None
    batch: str = ""

    @property
    def needed_right(self) -> Right:
        if self.right is not None:
            return self.right
        return Right.WRITE if self.work in {Work.WRITE, Work.UPLOAD} else Right.READ


METHODS: Final[Mapping[str, Method]] = MappingProxyType(
    {
        "Retrieve": Method(Work.SEARCH),
        "BatchRetrieve": Method(Work.SEARCH, batch="requests"),
        "RetrieveContext": Method(Work.SEARCH),
        "Expand": Method(Work.SEARCH),
        "ParseQuery": Method(Work.SEARCH),
        "EmbedTexts": Method(Work.SEARCH),
        "Ask": Method(Work.SEARCH, 120.0),
        "AskStream": Method(Work.STREAM, 120.0),
        "GroundText": Method(Work.SEARCH, 120.0),
        "ConsolidateConversation": Method(Work.SEARCH, 120.0, right=Right.WRITE),
        "GetDocumentText": Method(Work.STREAM, 600.0),
        "GetCollection": Method(Work.READ),
        "ListCollections": Method(Work.READ),
        "GetDocument": Method(Work.READ),
        "ListDocuments": Method(Work.READ),
        "ReadSpans": Method(Work.READ),
        "LocateSources": Method(Work.READ),
        "DescribeCollection": Method(Work.READ),
        "GetChunk": Method(Work.READ),
        "BatchGetChunks": Method(Work.READ),
        "ListChunks": Method(Work.READ),
        # What others have searched for.
        "ListQueryLogs": Method(Work.READ, right=Right.ADMIN),
        # Who has changed what.
        "ListAuditEntries": Method(Work.READ, right=Right.ADMIN),
        "GetPipelineStats": Method(Work.READ),
        "GetSchema": Method(Work.READ),
        "ValidateMetadata": Method(Work.READ),
        "ListStats": Method(Work.READ),
        "GetHousekeeping": Method(Work.READ),
        "GetServerInfo": Method(Work.READ),
        "GetSession": Method(Work.READ),
        "ListSessions": Method(Work.READ),
        "ListMessages": Method(Work.READ),
        "Converse": Method(Work.CONVERSATION, None),
        "GetAnswer": Method(Work.READ),
        "ListAnswers": Method(Work.READ),
        "VerifyCitations": Method(Work.READ),
        "FormatCitations": Method(Work.READ),
        "CreateCollection": Method(Work.WRITE),
        "UpdateCollection": Method(Work.WRITE),
        "DeleteCollection": Method(Work.WRITE, right=Right.ADMIN),
        "IngestDocument": Method(Work.WRITE, 600.0),
        "BatchIngestDocuments": Method(Work.WRITE, 600.0, batch="requests"),
        "PlanIngest": Method(Work.WRITE, 600.0),
        "PutChunks": Method(Work.UPLOAD, 3600.0),
        "UpdateDocument": Method(Work.WRITE),
        "DeleteDocument": Method(Work.WRITE),
        "RestoreDocument": Method(Work.WRITE),
        "UpdateChunk": Method(Work.WRITE),
        "BatchUpsertRecords": Method(Work.WRITE, 120.0, batch="records"),
        "GetRecord": Method(Work.READ),
        "ListRecords": Method(Work.READ),
        "UpdateRecord": Method(Work.WRITE),
        "DeleteRecords": Method(Work.WRITE, 120.0),
        "RestoreRecords": Method(Work.WRITE, 120.0),
        "AddLinks": Method(Work.WRITE),
        "RemoveLinks": Method(Work.WRITE),
        # Whoever may ask may do so in a session.
        "CreateSession": Method(Work.WRITE, right=Right.READ),
        "EndSession": Method(Work.WRITE, right=Right.READ),
        "DeleteSession": Method(Work.WRITE),
        "DeleteSessions": Method(Work.WRITE),
        "UploadDocument": Method(Work.UPLOAD, 3600.0),
        "PurgeDocuments": Method(Work.WRITE, right=Right.ADMIN),
        "Reindex": Method(Work.WRITE, right=Right.ADMIN),
        "Reembed": Method(Work.WRITE, right=Right.ADMIN),
        "CheckStore": Method(Work.WRITE, right=Right.ADMIN),
        "GetOperation": Method(Work.READ),
        "ListOperations": Method(Work.READ),
        "CancelOperation": Method(Work.WRITE),
        "DeleteOperation": Method(Work.WRITE),
        # It mostly waits, and must not take the places of reads meanwhile.
        "WaitOperation": Method(Work.STREAM, 600.0),
        "Check": Method(Work.HEALTH, None),
        "List": Method(Work.HEALTH, None),
        "Watch": Method(Work.WATCH, None),
        "ServerReflectionInfo": Method(Work.REFLECTION, None),
    }
)
"""By the name of the method without its service; a method that is not here is a read."""


def work_of(method: str) -> Work:
    """Return the kind of work of a method given as `/package.Service/Method` or `Method`."""
    row = METHODS.get(method.rpartition("/")[2])
    return Work.READ if row is None else row.work


def right_of(method: str) -> Right:
    """Return the right that a method needs, given as `/package.Service/Method`; one without a row needs the highest."""
    row = METHODS.get(method.rpartition("/")[2])
    return Right.ADMIN if row is None else row.needed_right


WITHIN_SCOPES: Final = frozenset(
    {
        *("Retrieve", "BatchRetrieve", "RetrieveContext", "Expand", "ParseQuery", "EmbedTexts"),
        *("GetDocument", "ListDocuments", "GetDocumentText", "ReadSpans", "LocateSources", "DescribeCollection"),
        *("GetChunk", "BatchGetChunks", "ListChunks", "GetSchema", "ValidateMetadata", "GetServerInfo"),
        *("UpdateDocument", "DeleteDocument", "RestoreDocument", "UpdateChunk"),
        *("BatchUpsertRecords", "GetRecord", "ListRecords", "UpdateRecord", "DeleteRecords", "RestoreRecords"),
        *("AddLinks", "RemoveLinks", "CreateSession", "EndSession", "Ask", "AskStream", "Converse"),
        *("GetSession", "ListSessions", "ListMessages", "DeleteSession", "DeleteSessions", "ConsolidateConversation"),
        *("GetAnswer", "ListAnswers", "GroundText", "VerifyCitations", "FormatCitations"),
    }
)
"""Calls that reveal no records outside the scopes of the caller: a credential with scopes may make no others."""


def is_within_scopes(method: str) -> bool:
    """Tell whether a credential with scopes may call a method, given as `/package.Service/Method`."""
    return method.rpartition("/")[2] in WITHIN_SCOPES or work_of(method) in INFRASTRUCTURE


def cost_of(method: str, request: object, size_bytes: int = 0) -> float:
    """Return the quota units that a call with a request of this many bytes costs."""
    row = METHODS.get(method.rpartition("/")[2])
    if row is None:
        return WORK_COSTS[Work.READ]
    cost = WORK_COSTS.get(row.work, 0.0)
    # Free calls are never refused, however large.
    return cost and cost * max(1, len(getattr(request, row.batch, ()))) + size_bytes // BYTES_PER_UNIT


def is_read(method: str) -> bool:
    """Tell whether a method changes nothing, or nothing more when it is repeated, such as an answer in its session."""
    name = method.rpartition("/")[2]
    return name == "PlanIngest" or work_of(name) in {Work.SEARCH, Work.READ, Work.STREAM}


@dataclass(frozen=True, slots=True)
class DeadlineTable:
    """The time limit of each method, in seconds; None is no limit.

    `default_s` is that of methods whose row has none of its own, `by_method` replaces rows of the table.
    """

    default_s: float | None = 30.0
    by_method: Mapping[str, float | None] = field(default_factory=dict)

    def limit_s(self, method: str) -> float | None:
        """Return the limit of a method given as `/package.Service/Method` or `Method`."""
        name = method.rpartition("/")[2]
        if name in self.by_method:
            return self.by_method[name]
        row = METHODS.get(name)
        return self.default_s if row is None or row.limit_s == "default" else row.limit_s
