"""A question as it was asked, checked by the edge."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question; `search_text` is what to look for, the question itself when empty.

    `options` is the caller's message for the retriever, passed on unread. `max_answer_chars` counts code points.
    `include_hits` asks for what was retrieved beside the answer.
    """

    question: str
    collection: str
    message_id: str
    selected_text: str = ""
    options: Any = None
    chunk_ids: tuple[str, ...] = ()
    max_answer_chars: int = 2000
    search_text: str = ""
    session_id: str = ""
    topic_shift: bool = False
    include_hits: bool = False

    @property
    def wanted(self) -> str:
        """Return what to look for."""
        return self.search_text or self.question

    @property
    def is_selective(self) -> bool:
        """Return whether the caller said where the answer has to come from."""
        return bool(self.selected_text or self.chunk_ids)
