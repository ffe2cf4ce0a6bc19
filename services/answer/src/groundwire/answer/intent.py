"""What a question refers to: the conversation before it, a document to summarise, or one named by its number."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from groundwire.answer.courtesy import without_courtesy
from groundwire.answer.evidence import Passage
from groundwire.answer.sessions import Message
from groundwire.kernel.session import Role
from groundwire.kernel.words import FUNCTION_WORDS, NEGATION, content_stems, stem, words

_SUMMARY = re.compile(
    r"^\W*(?:please |can you |could you |i want |i need )*(?:(?:summari[sz]e|sum up|outline|recap)"
    r"|(?:(?:give|show|write|make)(?: me)? )?(?:an? |the )?(?:short |brief |quick )?(?:summary|overview|outline) of"
    r"|what (?:does|do|is|are)(?= .{1,80} (?:about|cover)\W*$)|tl;?dr(?: of)?)"
    r"(?P<subject>[^?!\n]{0,80}?)(?: (?:all )?(?:about|cover))?(?: for me|please)?\W*$",
    re.IGNORECASE,
)
_COVER = re.compile(r"\bcover\W*$", re.IGNORECASE)
_DOCUMENT = re.compile(
    r"\b(?:chapter|section|document|file|page|article|paper|book|handbook|guide|manual|report)\b|\w\.[a-z]{2,5}\b",
    re.IGNORECASE,
)
_KIND_OF_DOCUMENT = re.compile(
    r"^\W*(?:the |this )?(?:chapter|section|document|file|page|article|paper|book|guide)"
    r" (?:on|about|called|named) (?:the )?",
    re.IGNORECASE,
)
# A document that is called no more than that.
_WHOLE = re.compile(
    r"\W*(?:(?:this|the|that|my|whole|entire|it|text|document|file|page|article|paper|book|handbook|guide|report|content)"
    r"s?\b\W*)*$",
    re.IGNORECASE,
)


def document_asked_for(question: str) -> str | None:
    """Return the name of the document to summarise: None for other questions, empty for "this document"."""
    match = _SUMMARY.match(question)
    if match is None:
        return None
    subject = match["subject"]
    if _WHOLE.match(subject):
        return ""
    # A plan covers something, and "cover" asks what; only of a document does it ask for a summary.
    is_document = _DOCUMENT.search(subject) is not None or numbered_name(subject) is not None
    if _COVER.search(question) and (not is_document or NEGATION.search(subject)):
        return None
    return _KIND_OF_DOCUMENT.sub("", subject).strip()


def named_place(name: str, passages: Sequence[Passage]) -> tuple[str, str] | None:
    """Return the id of the best document whose title or source has all words of a name, or with the chapter that has.

    `PEP 8` names `pep-0008.rst` as well. The chapter is empty where the whole document is named; None where nothing is.
    """
    stems = set(content_stems(name))
    if not stems:
        return None
    numbered = numbered_name(name) if len(stems) == 2 else None  # noqa: PLR2004 - the word and the number
    for passage in passages:
        has_number = numbered is not None and numbered.names(passage)
        # A folder is no name of a document in it.
        file = passage.source_uri.rpartition("/")[2]
        if has_number or stems <= {*content_stems(f"{passage.title} {file}")}:
            return passage.document_id, ""
    return next(
        ((each.document_id, each.chapter) for each in passages if stems <= {*content_stems(each.chapter)}), None
    )


_NUMBERED = re.compile(r"\b(?P<word>[A-Z][A-Za-z]{1,20})[ -]?(?P<number>\d{1,8})\b(?![.,:%]?\d)")


@dataclass(frozen=True, slots=True)
class NumberedName:
    """A name such as `PEP 8`, which titles and sources have as `PEP 8`, `pep-0008.rst` or `pep8`."""

    word: str
    number: str

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return `LIKE` patterns that match such a title or source, and some others."""
        ways = dict.fromkeys((self.word, self.word.lower(), self.word.upper(), self.word.capitalize()))
        return tuple(f"%{word}%{self.number}%" for word in ways)

    def names(self, passage: Passage) -> bool:
        """Tell whether the document of a passage has the name."""
        pattern = rf"(?<![^\W\d_]){self.word}[\W_]*0*{self.number}(?!\d)"
        return re.search(pattern, f"{passage.title}\n{passage.source_uri}", re.IGNORECASE) is not None


def numbered_name(question: str) -> NumberedName | None:
    """Return the only word followed by a number that may name a document; it is capitalised, unlike `in 30 days`."""
    found = {
        NumberedName(match["word"], match["number"].lstrip("0"))
        for match in _NUMBERED.finditer(question)
        if match["word"].casefold() not in FUNCTION_WORDS and match["number"].strip("0")
    }
    return found.pop() if len(found) == 1 else None


_REFERENCE = re.compile(
    r"^\W*(?:(?:and|but|so|ok|okay|then|what about|how about|tell me more(?: about)?|more(?: about| on)?|why|how|when"
    r"|where|what|who|does|do|did|is|are|was|were|can|could|should|would|will|has|have|explain|describe|show me|give me"
    r"|an? example of|use)\W+(?:else\W+)?){0,4}"
    r"(?:it|its|this|that|they|them|their|these|those|he|she|his|her|the same|one)\b",
    re.IGNORECASE,
)
_OBJECTS = frozenset({"it", "one", "them", "this", "these", "those", "him", "her"})
_ASKS_FOR_EXAMPLE = re.compile(r"\bexamples?\W*$", re.IGNORECASE)
_EXAMPLE_OF = "an example of "
# Content words that make a question self-contained: the `it` of `Is it possible to …` refers to nothing.
_MOST_OWN_WORDS = 4
_MOST_CONTEXT_WORDS = 8
_FILLER = frozenset(
    {"more", "again", "else", "example", "further", "detail", "details", "elaborate", "continue", "ok", "go"}
).union(("another", "show"))


def search_text(question: str, window: Sequence[Message], limit: int) -> str:
    """Return what to search for: the question, with the subject of an earlier question when it leans on one.

    A question leans on the exchange when it has no content words of its own (`Why?`, `Tell me more`), opens with a
    reference (`How does it work?`) or has one as its object (`How do I create one?`). Then the content words of the
    user's last question that does not, or else of the last that has any, are put before it, as many as fit into `limit`
    code points; everything else in the window stays out, because pasting the history into a query makes retrieval
    worse (requirement S4-41, C15).
    """
    if not leans_on_context(question):
        return question
    asked = [message.content for message in reversed(window) if message.role is Role.USER]
    asked.sort(key=leans_on_context)
    subject = next(filter(None, map(_subject, asked)), [])
    if subject and _ASKS_FOR_EXAMPLE.search(question):
        return f"{_EXAMPLE_OF}{_fitting(subject, limit - len(_EXAMPLE_OF))}"
    # The colon keeps the question a clause of its own, of which the kind can be read.
    fitting = _fitting(subject, limit - len(question) - 2)
    return f"{fitting}: {question}" if fitting else question


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
        for word in words(without_courtesy(message.content)) if message.role is Role.USER else ():
            if not _is_common(word):
                often[stem(word)] += 1
                latest[stem(word)], written[stem(word)] = place, word
    # Finally by the word itself, so that the same window always gives the same search.
    best = sorted(often, key=lambda each: (-often[each], -latest[each], each))[:_MOST_CONTEXT_WORDS]
    return _fitting([written[each] for each in best], limit)


def leans_on_context(question: str) -> bool:
    """Tell whether a question is incomplete without the earlier conversation."""
    said = words(question)
    own = [place for place, word in enumerate(said) if not _is_common(word)]
    # What is behind the first word of its own, as in `How do I create one?`, refers to nothing in the question.
    behind_first = said[own[0] + 1 : own[0] + 2] if own else []
    refers = _REFERENCE.match(question) is not None or not _OBJECTS.isdisjoint(behind_first)
    return not own or (len(own) <= _MOST_OWN_WORDS and refers)


def _subject(question: str) -> list[str]:
    """Return the content words of a question in order, each once, by its stem."""
    subject: dict[str, str] = {}
    for word in words(without_courtesy(question)):
        if not _is_common(word):
            subject.setdefault(stem(word), word)
    return [*subject.values()]


def _is_common(word: str) -> bool:
    return word in FUNCTION_WORDS or word in _FILLER


def _fitting(chosen: Iterable[str], room: int) -> str:
    """Return as many of the first words as fit into `room` code points, separated by spaces."""
    text = ""
    for word in chosen:
        longer = f"{text} {word}" if text else word
        if len(longer) > room:
            break
        text = longer
    return text
