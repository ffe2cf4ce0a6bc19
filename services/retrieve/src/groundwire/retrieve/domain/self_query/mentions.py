"""Find values of fields in a question."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from groundwire.retrieve.domain.query_terms import STOP_WORDS

_WORD = re.compile(r"[^\W_]+")
_NEGATION = re.compile(
    r"\b(?:not|except(?:\s+for)?|excluding|without|other\s+than|but\s+not)\s+(?:the\s+)?$", re.IGNORECASE
)
_MIN_CHARS = 2


@dataclass(frozen=True, slots=True)
class Mention:
    """A value of a field as it is stored, said at code points `at` to `to` of the question; `negated` when excluded."""

    value: str
    at: int
    to: int
    negated: bool = False


class Words:
    """The words of a question, for finding values whatever their case and the signs between their words."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found = list(_WORD.finditer(text))
        self._words = [match[0].casefold() for match in self._found]

    def mentions(self, values: Iterable[str]) -> list[Mention]:
        """Return which of the values the question says as a whole, longer ones before the shorter ones in them."""
        found: list[Mention] = []
        for value in sorted(values, key=len, reverse=True):
            for mention in self._of(value):
                if not any(mention.at < other.to and other.at < mention.to for other in found):
                    found.append(mention)
        return sorted(found, key=lambda mention: mention.at)

    def _of(self, value: str) -> Iterator[Mention]:
        wanted = [word.casefold() for word in _WORD.findall(value)]
        if not wanted or len(value) < _MIN_CHARS or set(wanted) <= STOP_WORDS or "".join(wanted).isdigit():
            return
        for start in range(len(self._words) - len(wanted) + 1):
            if self._words[start : start + len(wanted)] == wanted:
                at, to = self._found[start].start(), self._found[start + len(wanted) - 1].end()
                yield Mention(value, at, to, negated=_NEGATION.search(self._text[:at]) is not None)


def named_person(phrase: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the stored names that a phrase means: those that have all of its words, such as `Klabnik, Steve`."""
    wanted = {word.casefold() for word in _WORD.findall(phrase)}
    return tuple(name for name in names if wanted and wanted <= {word.casefold() for word in _WORD.findall(name)})


def spoken(name: str) -> str:
    """Return a pattern for the name of a field as people write it: `review_date` is `review date`."""
    return r"[\s_-]*".join(re.escape(word) for word in _WORD.findall(name))
