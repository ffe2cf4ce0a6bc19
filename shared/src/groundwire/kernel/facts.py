"""Facts of a statement that its source must state too: numbers, dates, names, and which way it says them.

Sentence vectors barely reflect them: "the limit is 20" and "the limit is not 30" lie within 0.05 of each other. What is
read here are surface forms of English, with numbers, dates and identifiers of any language. That two names have changed
places ("Ann paid Bob") is not seen.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from itertools import dropwhile, islice, takewhile

from groundwire.kernel.words import FUNCTION_WORDS, NEGATION, content_stems, stem, words


class FactKind(StrEnum):
    """What a fact is."""

    NUMBER = "NUMBER"
    DATE = "DATE"
    NAME = "NAME"
    NEGATION = "NEGATION"
    DIRECTION = "DIRECTION"
    WORD = "WORD"


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that stands at `text[start:end]`, in code points of the statement it was read from.

    `values` are its normal forms: the number; year, month and day of a date, empty where it has none; the words of a
    name, case-folded. `before` and `after` are the stems of the content words beside it, empty at the ends; that after
    a number is its unit. A `weak` one may be none: a capital that opens a sentence, the word "one".
    """

    kind: FactKind
    text: str
    start: int
    end: int
    values: tuple[str, ...]
    before: str = ""
    after: str = ""
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """A fact of a statement that its sources lack.

    `text` is the fact as the statement has it, empty where it lacks a negation that the source has. `instead` is what
    the closest source has in that place, empty when it has nothing there: with it the two contradict each other.
    """

    kind: FactKind
    text: str
    instead: str = ""


@dataclass(frozen=True)
class Reading:
    """A text with its facts in order."""

    text: str
    facts: tuple[Fact, ...]

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(content_stems(self.text))

    @cached_property
    def denials(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return for each negation its text and the stems that it denies, at most four: those behind it in its clause.

        "It is not true that" and the like deny what follows; "no more" at the end denies what comes before.
        """
        found: list[tuple[str, tuple[str, ...]]] = []
        for match in _DENIAL.finditer(self.text):
            if not _NOT_ONLY.match(self.text, match.end()):
                is_elliptic = _DENIES_THE_SAME.match(self.text, match.start()) is not None
                clause = _CLAUSE_END.split(self.text[match.end() : match.end() + _DENIED_CHARS], maxsplit=1)[0]
                denied = [*dropwhile(_INTRODUCING.__contains__, content_stems(clause))][:_DENIED_WORDS]
                if _ANY_MORE.fullmatch(clause):
                    before = _CLAUSE_END.split(self.text[max(0, match.start() - _DENIED_CHARS) : match.start()])[-1]
                    denied = content_stems(before)[-_DENIED_WORDS:]
                found.append((match[0], () if is_elliptic else tuple(denied)))
        return tuple(found)

    def of(self, kind: FactKind) -> list[Fact]:
        return [fact for fact in self.facts if fact.kind is kind]


# Dates

_MONTH_NAMES = """
    january jan, february feb, march mar, april apr, may, june jun, july jul, august aug, september sept sep,
    october oct, november nov, december dec
"""
_MONTHS = {name: number for number, names in enumerate(_MONTH_NAMES.split(","), start=1) for name in names.split()}
_MONTH = (
    r"(?P<month>Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
_DATE = re.compile(
    r"(?<![\w.-])(?P<iso>\d{4}-\d{2}-\d{2})(?![\w-])"
    rf"|(?<![\w.,])(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:[-\u2013]\d{{1,2}})?(?: of)?[ ]?)?\b{_MONTH}"
    r"(?: (?P<late_day>\d{1,2})(?:st|nd|rd|th)?(?![\w:]|[.,]\d)(?:[-\u2013]\d{1,2}\b)?)?"
    r"(?:,? ?(?:of )?(?P<year>\d{4})\b)?"
)


# Numbers

_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
_CARDINALS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_VALUES = {
    **{word: value for value, word in enumerate(_CARDINALS.split())},
    **{word: 10 * value for value, word in enumerate(_TENS.split(), start=2)},
    **{word: value for value, word in enumerate(_ORDINALS.split(), start=1)},
    **_SCALES,
}
_NUMBER_WORD = "|".join(sorted((*_VALUES,), key=len, reverse=True))
_NUMBER = re.compile(
    r"(?<![\w.])(?P<sign>[-\u2212](?=\d))?(?P<digits>\d++(?:[.,:]\d++)*+)(?P<suffix>[^\W\d_]{1,3}(?!\w)|[ ]?%)?"
    rf"|\b(?P<words>(?:{_NUMBER_WORD})(?:[ -](?:{_NUMBER_WORD})\b){{0,15}}+)\b",
    re.IGNORECASE,
)
_SCALE_AFTER = re.compile(r"[ -](hundred|thousand|million|billion|trillion|dozen)\b", re.IGNORECASE)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_PERCENT = re.compile(r"\s?(?:percent|per cent)\b", re.IGNORECASE)
_HEDGE = re.compile(
    r"\b(?:about|around|approximately|roughly|nearly|almost|some|circa|ca\.|c\.)\s+[$€£]?$", re.IGNORECASE
)
_HEDGE_CHARS = 16
_HEDGED_SHARE = Decimal("0.05")
_YEAR = re.compile(r"(?:1\d|20)\d\ds?")
_MEASURE_STEMS = """
    % second s ms sec minut min hour h day week month year km m cm mm mile meter metr kg g gram ton lb kb mb gb tb byt
    dollar euro pound
"""
_MEASURES = frozenset(_MEASURE_STEMS.split())
_ORDINAL_SUFFIXES = frozenset({"st", "nd", "rd", "th"})
_WEAK_NUMBERS = frozenset({"one", "second", "first", "zero"})


def _numbers(text: str, taken: Sequence[tuple[int, int]]) -> Iterator[Fact]:
    done = 0
    for match in _NUMBER.finditer(text):
        start, end = match.span()
        if start < done or any(first < end and start < last for first, last in taken):
            continue
        if match["words"]:
            # "two hundred" is 200, "twenty-five" 25; thousands and above end a group: "two thousand three hundred".
            total = current = 0
            for word in re.split(r"[ -]", match["words"].casefold()):
                if word not in _SCALES:
                    current += _VALUES[word]
                    continue
                current = max(1, current) * _SCALES[word]
                if _SCALES[word] > _SCALES["hundred"]:
                    total, current = total + current, 0
            weak = match["words"].casefold() in _WEAK_NUMBERS
            yield _fact(FactKind.NUMBER, text, start, end, (str(total + current),), weak=weak)
            continue
        suffix = (match["suffix"] or "").strip().casefold()
        digits = match["digits"]
        plain = digits.replace(",", "") if _THOUSANDS.fullmatch(digits) else digits
        # What is no single number, a version or a time, stays as it is.
        is_number = ":" not in plain and "," not in plain and plain.count(".") < 2  # noqa: PLR2004 - a decimal point
        value = ("-" if match["sign"] else "") + (f"{Decimal(plain).normalize():f}" if is_number else plain)
        scale = _SCALE_AFTER.match(text, end)
        if scale is not None and "." not in suffix:
            end = scale.end()
            with suppress(ArithmeticError):  # a version or a time
                value = f"{(Decimal(value) * _SCALES[scale[1].casefold()]).normalize():f}"
        percent = _PERCENT.match(text, end)
        after = "%" if suffix == "%" or percent else "" if suffix in _ORDINAL_SUFFIXES | {"s"} else suffix
        done = end = percent.end() if percent else end
        if _YEAR.fullmatch(match[0]):
            yield _fact(FactKind.DATE, text, start, end, (value, "", ""))
        else:
            yield _fact(FactKind.NUMBER, text, start, end, (value,), after=after)


# Names

_TOKEN = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?(?:_[^\W_]+)*")
_END_CHARS = 12
_JOINTS = frozenset({" ", "-", " & ", "\u2013"})
_TITLES = frozenset({"Dr", "Mr", "Mrs", "Ms", "St", "Prof"})
_COMMON_CAPITALS = frozenset({"i", "i'm", "i've", "i'd", "i'll"})
_OPENERS = """
    additionally alternatively consequently currently finally first furthermore generally hence however instead likewise
    meanwhile moreover nevertheless next otherwise second similarly thereby therefore third thus typically usually yes
    add build call change check choose click compare configure connect copy create define delete disable edit enable
    ensure enter export follow import install keep load log move note pass press provide put read remember remove rename
    replace restart run select send set show start stop store switch try type update write
"""
# Words that join a sentence to the one before, or tell a reader to do something, open sentences and belong to no name.
_NO_NAMES = FUNCTION_WORDS.union(_OPENERS.split())


def _names(text: str, taken: Sequence[tuple[int, int]]) -> Iterator[Fact]:
    """Yield runs of capitalised words, identifiers and words with digits; what opens a sentence alone is weak."""
    run: list[re.Match[str]] = []
    others, passed = sorted(taken), 0
    for token in _TOKEN.finditer(text):
        # Tokens do not overlap one another, nor do the taken ranges, so one pass over both is enough.
        while passed < len(others) and others[passed][1] <= token.start():
            passed += 1
        is_free, written = passed == len(others) or others[passed][0] >= token.end(), token[0]
        is_identifier = "_" in written or (any(map(str.isdigit, written)) and not written.isdigit())
        is_name = (written[0].isupper() or is_identifier) and written.casefold() not in _COMMON_CAPITALS
        if is_free and is_name:
            word, between = (run[-1][0], text[run[-1].end() : token.start()]) if run else ("", " ")
            if between not in _JOINTS and not (between == ". " and (len(word) == 1 or word in _TITLES)):
                yield from _name_of(text, run)
                run = []
            run.append(token)
        elif run:
            yield from _name_of(text, run)
            run = []
    if run:
        yield from _name_of(text, run)


def _name_of(text: str, run: Sequence[re.Match[str]]) -> Iterator[Fact]:
    # A sentence may begin behind opening marks, and the one before may end with closing ones.
    bare = text[max(0, run[0].start() - _END_CHARS) : run[0].start()].rstrip(" \t'\"([\u201c\u2018*_")
    opens = not bare or bare.endswith("\n") or bare.rstrip("'\")]\u201d\u2019*_")[-1:] in {".", "!", "?", ":", ";"}
    word = run[0][0]
    # The first word of a sentence may have its capital for that alone: "Set MAX_SIZE", "Instead Ada".
    precedes_identifier = word[1:].islower() and len(run) > 1 and "_" in run[1][0]
    only_opens = opens and (word.casefold() in _NO_NAMES or precedes_identifier)
    parts = run[1:] if only_opens else run
    if not parts:
        return
    first = parts[0][0]
    is_plain = first[1:].islower() or len(first) == 1
    start, end = parts[0].start(), parts[-1].end()
    values = tuple(_folded(part[0]) for part in parts)
    yield _fact(FactKind.NAME, text, start, end, values, weak=opens and len(run) == 1 and is_plain)


def _folded(token: str) -> str:
    folded = token.casefold().replace("\u2019", "'")
    return folded.removesuffix("'s").removesuffix("'")


# Bounded, so that reading stays linear where a text has nothing but numbers.
_BESIDE_CHARS = 60


def _fact(
    kind: FactKind, text: str, start: int, end: int, values: tuple[str, ...], *, after: str = "", weak: bool = False
) -> Fact:
    front = text[max(0, start - _BESIDE_CHARS) : start]
    before = next(reversed(_words_only(front[front.rfind("\n") + 1 :])), "")
    following = after or next(iter(_words_only(_CLAUSE_END.split(text[end : end + _BESIDE_CHARS], maxsplit=1)[0])), "")
    return Fact(kind, text[start:end].strip(), start, end, values, before, following, weak)


def _words_only(text: str) -> list[str]:
    return [each for each in content_stems(text) if not each[0].isdigit()]


def read(text: str) -> Reading:
    """Return what a text states; takes time linear in its length."""
    dates: list[Fact] = []
    for match in _DATE.finditer(text):
        if match["iso"]:
            values = tuple(str(int(part)) for part in match["iso"].split("-"))
        else:
            day, year = match["day"] or match["late_day"] or "", match["year"] or ""
            if match["month"] in {"May", "March", "Mar"} and not day and not year:
                continue  # a verb at the front of a sentence, or a name
            month = str(_MONTHS[match["month"].casefold()])
            values = (year, month, str(int(day)) if day else "")
        dates.append(_fact(FactKind.DATE, text, match.start(), match.end(), values))
    # Digits of a date are no numbers, and its month is no name: what is read first takes its place.
    numbers = list(_numbers(text, [(fact.start, fact.end) for fact in dates]))
    taken = [(fact.start, fact.end) for fact in (*dates, *numbers)]
    facts = sorted((*dates, *numbers, *_names(text, taken)), key=lambda fact: fact.start)
    return Reading(text, tuple(facts))


# Negations and directions

_DENIAL = re.compile(
    rf"{NEGATION.pattern}|\b(?:neither|nobody|nothing|unable|fail(?:s|ed)? to|refus(?:es|ed) to|lack(?:s|ed)?|hardly"
    r"|barely|rarely|seldom)\b",
    re.IGNORECASE,
)
_NOT_ONLY = re.compile(r"\s+(?:only|just|merely|least)\b", re.IGNORECASE)
# "Neither do visitors" denies what the sentence before said, which is not told here.
_DENIES_THE_SAME = re.compile(
    r"\b(?:neither|nor) (?:do|does|did|is|are|was|were|has|have|had|can|could|will|would|may|must|should)\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[,;:.!?()\u2014]|\bbut\b", re.IGNORECASE)
_DENIED_WORDS = 4
# Behind a negation, what they introduce is denied: "it is not true that", "nobody claims that", "no longer".
_INTRODUCING = frozenset(
    content_stems("true correct right case fact say said claim claimed believe think mean imply suggest longer")
)
_ANY_MORE = re.compile(r"\s*(?:more|longer|any\s?more|any longer)\s*", re.IGNORECASE)
_DENIED_CHARS = 80
_DENYING_PREFIXES = ("un", "non", "dis", "in", "im", "ir")

_OPPOSITES = """
    increase decrease, increase reduce, rise fall, rose fell, grow shrink, before after, above below, over under,
    more less, more fewer, most least, maximum minimum, max min, always never, allow forbid, allow prohibit,
    allow deny, permit forbid, enable disable, accept reject, win lose, won lost, early late, earlier later,
    high low, higher lower, highest lowest, large small, larger smaller, largest smallest, long short, longer shorter,
    longest shortest, old new, older newer, older younger, oldest youngest, oldest newest, fast slow, faster slower,
    north south, northern southern, east west, eastern western, open close, begin end, start end, start stop,
    inside outside, include exclude, success failure, succeed fail, true false, all none, import export, buy sell,
    male female, son daughter, father mother, husband wife, brother sister, public private, upper lower, top bottom,
    ascending descending, required optional, mandatory optional, legal illegal, former current, first last,
    encrypt decrypt, add remove, add delete, create delete, create destroy, push pull, lock unlock, both neither,
    strong weak, rich poor, hot cold, warm cold, better worse, best worst, cheaper dearer, alive dead, born died,
    guilty innocent, positive negative, internal external, synchronous asynchronous, often rarely, support oppose
"""


_OPPOSITE_OF: dict[str, set[str]] = {}
for _pair in _OPPOSITES.replace("\n", " ").split(","):
    _one, _other = map(stem, _pair.split())
    _OPPOSITE_OF.setdefault(_one, set()).add(_other)
    _OPPOSITE_OF.setdefault(_other, set()).add(_one)


# Comparing

# The share of a statement's other content words that a sentence must have to be about the same thing.
_ALIGNED = 0.6


def discrepancies(
    statement: Reading, evidence: Sequence[Reading], context: Iterable[str] = ()
) -> tuple[Discrepancy, ...]:
    """Return the facts of a statement that its evidence lacks or contradicts, in order; negations come last.

    Args:
        statement: what is to be supported.
        evidence: the sentences that it rests on, the closest first; not empty.
        context: texts beside the evidence, such as its heading and title, where names may stand that it only points at.
    """
    missing = lacking(statement, evidence, context)
    found: list[Discrepancy] = []
    for fact in statement.facts:
        instead = _substitute(statement, fact, evidence[0])
        if instead or fact in missing:
            found.append(Discrepancy(fact.kind, fact.text, instead))
    found += _opposed(statement, evidence)
    if found:
        return tuple(found)
    met = content_stems(" ".join(fact.text for fact in statement.facts))  # such as a number or name in another spelling
    own = statement.stems.difference(met, *(each.stems for each in evidence))
    if len(own) != 1 or len(statement.stems) < _FEWEST_ALIKE:
        return ()
    # All but one word is said by the closest sentence, which has another in its place. That may be a synonym; but who
    # says the same in other words seldom changes a single one.
    (word,), ours, theirs = own, _in_context(statement.text), _in_context(evidence[0].text)
    others = (other for other, its in theirs.items() if its == ours.get(word) and other not in ours)
    return tuple(Discrepancy(FactKind.WORD, word, other) for other in islice(others, 1))


def lacking(statement: Reading, evidence: Sequence[Reading], context: Iterable[str] = ()) -> list[Fact]:
    """Return the numbers, dates and names of a statement that its evidence lacks, in order, weak ones left out."""
    names = {_folded(token[0]) for text in (*context, *(e.text for e in evidence)) for token in _TOKEN.finditer(text)}
    return [fact for fact in statement.facts if not fact.weak and not _is_met(statement, fact, evidence, names)]


def names_in(text: str) -> list[str]:
    """Return the words of names in a text, case-folded, in order; a capital that opens a sentence is none."""
    return [word for fact in read(text).of(FactKind.NAME) if not fact.weak for word in fact.values]


def _is_met(statement: Reading, fact: Fact, evidence: Sequence[Reading], names: set[str]) -> bool:
    stated = [other for each in evidence for other in each.facts]
    match fact.kind:
        case FactKind.NAME:
            if all(_is_named(value, names) for value in fact.values):
                return True
            # One may be made of the initials of the other: UN, United Nations.
            initials = "".join(value[0] for value in fact.values)
            if len(fact.values) > 1:
                return initials in names
            spelled = ("".join(value[0] for value in other.values) for other in stated if other.kind is FactKind.NAME)
            return len(fact.values[0]) > 1 and any(fact.values[0] in each for each in spelled)
        case FactKind.DATE:
            year, month, day = fact.values
            years = {other.values[0] for other in stated}
            if not month:
                return year in years
            return any(
                other.kind is FactKind.DATE
                and other.values[1] == month
                and day in {"", other.values[2]}
                and (year in {"", other.values[0]} or (not other.values[0] and year in years))
                for other in stated
            )
        case _:
            equal = [other for other in stated if other.values[0] == fact.values[0] and other.kind is not FactKind.NAME]
            if not equal:
                # "About 50" is met by a number within 5 % of it.
                hedge = _HEDGE.search(statement.text[max(0, fact.start - _HEDGE_CHARS) : fact.start])
                numbers = [other.values[0] for other in stated if hedge and other.kind is FactKind.NUMBER]
                with suppress(ArithmeticError):  # a version or a time
                    value, exact = Decimal(fact.values[0]), [*map(Decimal, numbers)]
                    return any(abs(value - each) <= abs(each) * _HEDGED_SHARE for each in exact)
                return False
            # 30 seconds are neither 30 times nor 30 minutes.
            units = {other.after for other in equal}
            if not fact.after or units & {"", fact.after}:
                return True
            is_counted_otherwise = any(other.after == fact.after for other in stated if other.kind is FactKind.NUMBER)
            return not is_counted_otherwise and not (fact.after in _MEASURES and units <= _MEASURES)


def _is_named(value: str, names: set[str]) -> bool:
    if len(value) == 1 or not names.isdisjoint((value, f"{value}s", stem(value))):
        return True
    # India and Indian, China and Chinese differ only in their endings.
    return any(
        (shared := len(list(takewhile(lambda pair: pair[0] == pair[1], zip(value, other, strict=False)))))
        >= _SHORTEST_ROOT
        and {value[shared:], other[shared:]} <= _ENDINGS_OF_NATIONS
        for other in names
    )


_SHORTEST_ROOT = 4
_ENDINGS_OF_NATIONS = frozenset({"", "a", "n", "an", "ian", "ean", "e", "ese", "y", "ish", "s", "ns"})


def _substitute(statement: Reading, fact: Fact, closest: Reading) -> str:
    """Return what the closest sentence, if it says the rest, has in the place of a fact that it lacks; else nothing."""
    own = set(content_stems(fact.text))
    rest = statement.stems - own
    if not rest or len(rest & closest.stems) < _ALIGNED * len(rest):
        return ""
    same = [other for other in closest.facts if other.values == fact.values]
    if not same and _is_met(statement, fact, [closest], {_folded(token[0]) for token in _TOKEN.finditer(closest.text)}):
        return ""
    named = {value for each in statement.facts for value in each.values}
    others = [
        other
        for other in closest.of(fact.kind)
        if not any(other.values == each.values for each in statement.facts)
        and not (fact.kind is FactKind.NAME and named.issuperset(other.values))
    ]
    if same:
        # "The default is 120, not 30" has both numbers, but the other one in this place.
        in_place = any(other.before == fact.before for other in same)
        others = [
            o for o in others if not in_place and fact.before and (o.before, o.after) == (fact.before, fact.after)
        ]
    elif fact.kind is FactKind.DATE:
        others = [other for other in others if list(map(bool, other.values)) == list(map(bool, fact.values))]
    else:
        others = [
            other
            for other in others
            if (fact.after and fact.after == other.after) or (fact.before and fact.before == other.before)
        ]
    return others[0].text if others else ""


def _opposed(statement: Reading, evidence: Sequence[Reading]) -> Iterator[Discrepancy]:
    """Yield what the closest sentence denies and the statement affirms, the reverse, and words of opposite meaning."""
    closest = evidence[0]
    denied = {word for _, stems in closest.denials for word in stems}
    for cue, stems in statement.denials:
        if any(each.denials for each in evidence) and (
            not stems or denied & set(stems) or not closest.stems & set(stems)
        ):
            continue
        everywhere = frozenset().union(*(each.stems for each in evidence))
        if not any(prefix + word in everywhere for word in stems for prefix in _DENYING_PREFIXES):
            yield Discrepancy(FactKind.NEGATION, cue, " ".join(sorted(closest.stems & set(stems))))
    if not statement.denials:
        for cue, stems in closest.denials:
            if (
                stems
                and set(stems[:2]) <= statement.stems
                and len(statement.stems & closest.stems) >= _ALIGNED * len(statement.stems)
            ):
                yield Discrepancy(FactKind.NEGATION, "", cue)
                break
    if len(statement.stems & closest.stems) < _ALIGNED * (len(statement.stems) - 1):
        return
    for word in words(statement.text):
        root = stem(word)
        others = _OPPOSITE_OF.get(root, set()) & _all_stems(closest.text)
        if others and root not in _all_stems(closest.text) and not others & _all_stems(statement.text):
            yield Discrepancy(FactKind.DIRECTION, word, min(others))


_FEWEST_ALIKE = 4


def _in_context(text: str) -> dict[str, tuple[str, str]]:
    """Return each content stem with the one before and the one after it, empty at the ends."""
    stems = ["", *content_stems(text), ""]
    return {stem: (stems[index - 1], stems[index + 1]) for index, stem in enumerate(stems[1:-1], start=1)}


def _all_stems(text: str) -> frozenset[str]:
    return frozenset(map(stem, words(text)))
