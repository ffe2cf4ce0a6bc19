"""Follow-up questions: what the conversation adds to their search, and whether they change the topic."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from groundwire.answer.sessions import Message
from groundwire.kernel.session import Role
from groundwire.kernel.stems import FUNCTION_WORDS, content_stems, stem, words

_REFERENCE = re.compile(
    r"^\W*(?:(?:and|but|so|ok|okay|then|what about|how about|tell me more(?: about)?|more(?: about| on)?|why|how|when"
    r"|where|what|who|does|do|did|is|are|was|were|can|could|should|would|will|has|have|explain|describe|show me|give me"
    r"|an? example of|use)\W+(?:else\W+)?){0,4}"
    r"(?:it|its|this|that|they|them|their|these|those|he|she|his|her|the same|one)\b",
    re.IGNORECASE,
)
_ASKS_FOR_EXAMPLE = re.compile(r"\bexamples?\W*$", re.IGNORECASE)
_EXAMPLE_OF = "an example of "
# Content words that make a question self-contained: the `it` of `Is it possible to …` refers to nothing.
_MOST_OWN_WORDS = 4
_MOST_CONTEXT_WORDS = 8
_FILLER = frozenset(
    {"more", "again", "else", "example", "further", "detail", "details", "elaborate", "continue", "ok", "go"}
).union(("another", "show"))


def search_text(question: str, window: Sequence[Message], limit: int) -> str:
    """Return what to search for: the question, with the subject of the user's previous question when it leans on it.

    A question leans on the exchange when it has no content words of its own (`Why?`, `Tell me more`) or opens
    with a reference (`How does it work?`). Then the content words of the user's last question that has
    any are put before it, as many as fit into `limit` code points; everything else in the window stays out,
    because pasting the history into a query makes retrieval worse (requirement S4-41, C15).
    """
    if not leans_on_context(question):
        return question
    for message in reversed(window):
        subject: dict[str, str] = {}  # each word once, by its stem, in order
        for word in words(message.content) if message.role is Role.USER else ():
            if word not in FUNCTION_WORDS and word not in _FILLER:
                subject.setdefault(stem(word), word)
        if subject and _ASKS_FOR_EXAMPLE.search(question):
            return f"{_EXAMPLE_OF}{_fitting(subject.values(), limit - len(_EXAMPLE_OF))}"
        if subject:
            fitting = _fitting(subject.values(), limit - len(question) - 1)
            return f"{fitting} {question}" if fitting else question
    return question


def search_context(question: str, window: Sequence[Message], limit: int) -> str:
    """Return the words of the conversation to search with besides a question, as many as fit into `limit` code points.

    They are the content words that stand most often in the user's messages of the window, up to eight, the latest
    first among equals: what the conversation is about, even if the question does not look like a follow-up. Empty
    for a question that leans on the exchange so much that `search_text` has put its subject before it.
    """
    if leans_on_context(question):
        return ""
    often, latest, written = Counter[str](), dict[str, int](), dict[str, str]()
    for place, message in enumerate(window):
        for word in words(message.content) if message.role is Role.USER else ():
            if word not in FUNCTION_WORDS and word not in _FILLER:
                often[stem(word)] += 1
                latest[stem(word)], written[stem(word)] = place, word
    # Finally by the word itself, so that the same window always gives the same search.
    best = sorted(often, key=lambda each: (-often[each], -latest[each], each))[:_MOST_CONTEXT_WORDS]
    return _fitting([written[each] for each in best], limit)


def leans_on_context(question: str) -> bool:
    """Tell whether a question is incomplete without the earlier conversation."""
    own = [word for word in words(question) if word not in FUNCTION_WORDS and word not in _FILLER]
    return not own or (len(own) <= _MOST_OWN_WORDS and _REFERENCE.match(question) is not None)


def is_topic_shift(question: str, window: Sequence[Message]) -> bool:
    """Tell whether a question shares no key word with the window and does not lean on it (requirement S4-35)."""
    if not window or leans_on_context(question):
        return False
    said = {stem for message in window for stem in content_stems(message.content)}
    return said.isdisjoint(content_stems(question))


def _fitting(chosen: Iterable[str], room: int) -> str:
    """Return as many of the first words as fit into `room` code points, separated by spaces."""
    text = ""
    for word in chosen:
        longer = f"{text} {word}" if text else word
        if len(longer) > room:
            break
        text = longer
    return text
