"""Tell callers of writes what a later search has to have seen."""

from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import Message

from groundwire.catalog.collections import CollectionPositions
from groundwire.catalog.consistency_tokens import ConsistencyTokens
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.rpc import request_context

MessageT = TypeVar("MessageT", bound=Message)


@dataclass(frozen=True, slots=True)
class WriteTokens:
    """Adds a consistency token to the answer of a write: the position of the catalog now, which is not before it."""

    positions: CollectionPositions
    tokens: ConsistencyTokens

    def add(self, answer: MessageT, collection: str, tenant: str = "") -> MessageT:
        """Return the answer, or its `result`, with its token; without one when the collection is gone by now.

        Work that belongs to no call names its `tenant`.
        """
        tenant = tenant or request_context.current().tenant
        try:
            now = self.positions.of(tenant, collection)
        except CollectionNotFoundError:
            return answer
        token = self.tokens.issue(now.position, tenant=tenant, collection_uid=now.uid)
        holder: Any = answer
        (holder if "consistency_token" in answer.DESCRIPTOR.fields_by_name else holder.result).consistency_token = token
        return answer
