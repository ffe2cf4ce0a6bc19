"""Read your own writes: let a search wait until it sees the write of a consistency token."""

import time
from dataclasses import dataclass

from groundwire.catalog.collections import Collections
from groundwire.catalog.consistency_tokens import ConsistencyTokens
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import UnavailableError

FIELD = "options.consistency_token"

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.05
# Waiting ends so long before the deadline, so that the caller learns why instead of running into it.
_LEFT_FOR_THE_ANSWER_S = 0.05


@dataclass(frozen=True, slots=True)
class WaitForPosition:
    """Waits for the position that a token stands for."""

    collections: Collections
    tokens: ConsistencyTokens

    def wait(self, token: str, tenant: str, collection: str, budget: Budget) -> None:
        """Return once a read that begins now sees the write.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
            InvalidRequestError: the token is not one of this server for this collection.
            UnavailableError: the write is not visible within the deadline.
            CallCancelledError: `budget` was cancelled.
        """
        now = self.collections.position(tenant, collection)
        wanted = self.tokens.read(token, tenant=tenant, collection_uid=now.uid, field=FIELD)
        pause_s = _FIRST_PAUSE_S
        while now.position < wanted:
            left_s = budget.remaining_s()
            if left_s is not None and left_s <= _LEFT_FOR_THE_ANSWER_S:
                message = "the write is not visible yet; repeat the search"
                raise UnavailableError(message, position=now.position, wanted=wanted)
            budget.check()
            time.sleep(pause_s if left_s is None else min(pause_s, left_s - _LEFT_FOR_THE_ANSWER_S))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            now = self.collections.position(tenant, collection)
