"""Facts of a text that its vector hardly shows: numbers, dates, names, negation and opposites.

Two texts may be alike and say opposite things: `opened in 1990 in Berlin` and `closed in 1991 in Bonn`. `conflicts`
compares a claim with what it is said to rest on. The rules read surface forms of English; digits count in any language.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from groundwire.answer.words import NEGATION, stem, words

_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
_UNITS += "seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_NUMBER_WORDS = {word: value for value, word in enumerate(_UNITS.split())} | {
    word: value for value, word in zip(range(20, 100, 10), _TENS.split(), strict=True)
}
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_NUMBER = re.compile(
    r"(?<![\w.])(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)*)"
    # "One" alone is mostly no number.
    rf"|\b(?!one\b(?!-|\s(?:{'|'.join(_SCALES)})))(?P<word>{'|'.join(_NUMBER_WORDS)})\b(?:-(?P<unit>{'|'.join(_UNITS.split()[1:10])})\b)?",
    re.IGNORECASE,
)
_SCALE = re.compile(rf"[\s-]?({'|'.join(_SCALES)})s?\b", re.IGNORECASE)

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)}|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.?"
_DATES = (
    re.compile(r"(?<!\d)(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})(?!\d)"),
    re.compile(rf"\b{_MONTH} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>\d{{4}})\b", re.IGNORECASE),
    re.compile(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?{_MONTH},? (?P<year>\d{{4}})\b", re.IGNORECASE),
    re.compile(rf"\b{_MONTH},? (?P<year>\d{{4}})\b", re.IGNORECASE),
    re.compile(rf"\b{_MONTH} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b", re.IGNORECASE),
)

# A capital inside a sentence; the first word of one may be any word.
_NAME = re.compile(r"(?<![.!?:]\s)(?<![.!?:]\s[\"'(\u201c])(?<!^)(?<!^[\"'(\u201c])\b[A-Z][^\W_]+")
_NOT_NAMES = frozenset({"i", "the", "a", "an", "in", "on", "of", "and", "or", *_MONTHS})

_OPPOSITES = """
    before after|increase decrease|increased decreased|rise fall|rose fell|more less|more fewer|most least|most fewest
    |higher lower|highest lowest|high low|larger smaller|largest smallest|longest shortest|longer shorter|older newer
    |oldest newest|oldest youngest|first last|earliest latest|early late|above below|over under|maximum minimum
    |north south|northern southern|east west|eastern western|left right|include exclude|includes excludes
    |included excluded|accept reject|accepted rejected|allow forbid|allowed forbidden|enable disable|enabled disabled
    |true false|win lose|won lost|open closed|opened closed|inside outside|legal illegal|public private
    |strong weak|stronger weaker|strongest weakest|fast slow|faster slower|start end|started ended|begin end|began ended
    |positive negative|possible impossible|required optional|mutable immutable|safe unsafe|success failure
    |agree disagree|agreed disagreed|support oppose|supported opposed|gain lose|gained lost|join leave|joined left
    |same different|hot cold|warm cold|warmer colder|best worst|better worse|rich poor|even odd|upper lower|male female
    |always never|many few|buy sell|bought sold|import export|encrypt decrypt|add remove|added removed
"""
_OPPOSITE_OF: dict[str, set[str]] = {}
for _pair in _OPPOSITES.split("|"):
    _one, _other = _pair.split()
    _OPPOSITE_OF.setdefault(_one, set()).add(_other)
    _OPPOSITE_OF.setdefault(_other, set()).add(_one)


@dataclass(frozen=True, slots=True)
class Date:
    """A date with what the text says of it; 0 where it says nothing."""

    year: int
    month: int
    day: int

    def is_met_by(self, other: "Date") -> bool:
        """Tell whether the other has every part that this one has."""
        parts = zip((self.year, self.month, self.day), (other.year, other.month, other.day), strict=True)
        return all(own in {0, theirs} for own, theirs in parts)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a text says that can be compared word by word.

    `numbers` are in plain decimals (`2,500`, `2.5 thousand` and `2500` are `2500`), those of dates left out. `names`
    are stems of capitalised words that do not open a sentence, `stems` those of all words.
    """

    numbers: frozenset[str]
    dates: tuple[Date, ...]
    names: frozenset[str]
    stems: frozenset[str]
    words: frozenset[str]
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Conflicts:
    """What a claim says and its source does not, or says the other way round."""

    numbers: frozenset[str] = frozenset()
    dates: tuple[Date, ...] = ()
    names: frozenset[str] = frozenset()
    opposites: frozenset[str] = frozenset()
    negation: bool = False

    def __bool__(self) -> bool:
        """Tell whether there is any."""
        return bool(self.numbers or self.dates or self.names or self.opposites or self.negation)


def facts_of(text: str) -> Facts:
    """Return the facts of a text; takes time linear in its length."""
    spoken = words(text)
    dates, rest = _dates_in(text)
    return Facts(
        numbers=frozenset(numbers_in(rest)),
        dates=tuple(dict.fromkeys(dates)),
        names=frozenset(stem(name) for match in names_in(text) for name in words(match)),
        stems=frozenset(map(stem, spoken)),
        words=frozenset(spoken),
        is_negated=NEGATION.search(text) is not None,
    )


def conflicts(claim: Facts, source: Facts) -> Conflicts:
    """Return what speaks against the claim resting on the source.

    Numbers, dates and names of the claim have to be in the source. A word conflicts whose opposite the source has while
    it has not the word itself (`opened` against `closed`). Negation conflicts when one of both has it; a source of many
    sentences is better compared sentence by sentence.
    """
    opposites = frozenset(
        word for word in claim.words - source.words if not source.words.isdisjoint(_OPPOSITE_OF.get(word, ()))
    )
    of_dates = {str(part) for date in source.dates for part in (date.year, date.month, date.day)}
    return Conflicts(
        numbers=claim.numbers - source.numbers - of_dates,
        dates=tuple(date for date in claim.dates if not any(date.is_met_by(other) for other in source.dates)),
        names=claim.names - source.stems,
        opposites=opposites,
        negation=claim.is_negated != source.is_negated,
    )


def numbers_in(text: str) -> Iterator[str]:
    """Iterate over the numbers of a text as plain decimals, in order: digits, and words such as `twenty-one`."""
    for match in _NUMBER.finditer(text):
        if match["digits"] is not None:
            written = match["digits"].replace(",", "")
        else:
            unit = _NUMBER_WORDS[match["unit"].casefold()] if match["unit"] else 0
            written = str(_NUMBER_WORDS[match["word"].casefold()] + unit)
        scale = _SCALE.match(text, match.end())
        if scale is not None and written.count(".") < 2:  # noqa: PLR2004 - 1.2.3 is a version
            yield f"{float(written) * _SCALES[scale[1].casefold()]:.0f}"
        else:
            # 05 is 5, also in 2024-05-05; 3.10 is another version than 3.1.
            yield written.lstrip("0") or "0" if written.isdigit() else written


def names_in(text: str) -> list[str]:
    """Return the capitalised words that do not open a sentence, in order."""
    return [name for name in _NAME.findall(text) if name.casefold() not in _NOT_NAMES]


def _dates_in(text: str) -> tuple[list[Date], str]:
    """Return the dates of a text, and the text without them."""
    dates: list[Date] = []

    def take(match: re.Match[str]) -> str:
        parts = match.groupdict()
        dates.append(Date(int(parts.get("year") or 0), _month(parts["month"]), int(parts.get("day") or 0)))
        return " "

    for pattern in _DATES:  # the fuller forms first, so that "March 2023" is not read inside "5 March 2023"
        text = pattern.sub(take, text)
    return dates, text


def _month(written: str) -> int:
    if written.isdigit():
        return int(written)
    return next(number for number, name in enumerate(_MONTHS, 1) if name.startswith(written.casefold()[:3]))
