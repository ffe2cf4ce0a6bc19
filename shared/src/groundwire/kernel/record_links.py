"""Links that memories get by themselves (requirements S2-14 to S2-16, C18): the rules, whatever they are stored in.

A memory is linked to its conversation, to the one before it in that conversation, and to those with which it shares
most tags. All three follow from times, conversations and tags, so they are worked out anew when one of these changes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

FOLLOWS_WINDOW = timedelta(seconds=300)
"""How much older the memory may be that another one follows; exactly so much is within."""
MAX_RELATED = 20
"""Most memories that one is linked to by shared tags."""


@dataclass(frozen=True, slots=True)
class LinkedMemory:
    """What the rules look at; the id orders what was created at the same time."""

    memory_id: str
    created: datetime
    conversation_id: str | None
    tags: frozenset[str]


def predecessor(memory: LinkedMemory, others: Iterable[LinkedMemory]) -> LinkedMemory | None:
    """Return the latest earlier memory of the same conversation that is within the window, None if there is none."""
    earlier = (
        other
        for other in others
        if memory.conversation_id is not None
        and other.conversation_id == memory.conversation_id
        and _place(other) < _place(memory)
        and memory.created - other.created <= FOLLOWS_WINDOW
    )
    return max(earlier, key=_place, default=None)


def most_related(memory: LinkedMemory, others: Iterable[LinkedMemory]) -> list[LinkedMemory]:
    """Return those that share most tags, newer ones first among equals: `MAX_RELATED` at most."""
    sharing = [other for other in others if other.memory_id != memory.memory_id and other.tags & memory.tags]
    sharing.sort(key=lambda other: (len(other.tags & memory.tags), _place(other)), reverse=True)
    return sharing[:MAX_RELATED]


def _place(memory: LinkedMemory) -> tuple[datetime, str]:
    return memory.created, memory.memory_id
