"""Whether two short statements about the same thing cannot both hold: another value, number or date, or a negation.

Made for statements of people about themselves and their work, one sentence each, such as memories are. English; what
takes knowledge of the world ("vegetarian" and "eats meat") is not seen. How often the rules are right is measured by
`python benchmarks/quality.py contradictions`.
"""

import re
from functools import lru_cache

from groundwire.kernel.facts import Discrepancy, FactKind, Reading, discrepancies, read
from groundwire.kernel.words import content_stems, stem, words

# Phrases for the beginning or end of a state and for its owner, with the words for the state; applied in this order.
_SAME_STATE = (
    (re.compile(r"\b(I|we)['\u2019](?:ve|m|re|d)\b", re.IGNORECASE), r"\1"),
    (re.compile(r"\b(?:was|were|is) (?:moved|postponed|changed|rescheduled) to\b", re.IGNORECASE), "is on"),
    (
        re.compile(
            r"\b(?:(?:has |have )?(?:moved|relocated) (?:from (?:\w{1,30} ){1,3})?to|lives in|sits in"
            r"|(?:is |are |am )?(?:based|living) in)\b",
            re.IGNORECASE,
        ),
        "live in",
    ),
    (re.compile(r"\b(?:joined|works? for|is employed (?:at|by))\b", re.IGNORECASE), "works at"),
    (re.compile(r"\b(?:is|are) at (?=\d)", re.IGNORECASE), "is on "),
    (re.compile(r"\b(?:(?:has|have) )?been to\b", re.IGNORECASE), "visited"),
    (re.compile(r"\b(?:loves?|enjoys?|adores?|(?:am|is|are) fond of)\b", re.IGNORECASE), "like"),
    (
        re.compile(r"\b(?:hates?|detests?|dislikes?|loathes?|(?:can't|can\u2019t|cannot) stand)\b", re.IGNORECASE),
        "not like",
    ),
    (
        re.compile(
            r"\b(?:(?:has |have )?(?:given up|quit|got rid of|sold|lost)|gave up|dropped out of|cance(?:l|ll)ed"
            r"|den(?:y|ies|ied)(?: having)?|forbids?)\b",
            re.IGNORECASE,
        ),
        "not",
    ),
    (re.compile(r"\b(?:no longer|not any ?more|stopped)\b", re.IGNORECASE), "not"),
    (re.compile(r"\b(?:I|my|me) (?=\w)", re.IGNORECASE), "user "),
)
_REPEATABLE_VERBS = """
    asked bought called enjoys has have heard knows learn learns likes loves made met read reads saw speaks spoke talked
    tried visited watched went wrote
"""
# Statements that several values may satisfy at once; for these only numbers and negations contradict.
_REPEATABLE = frozenset(map(stem, _REPEATABLE_VERBS.split()))
# What has one value at a time, in words: of any length, and so with no single one that differs.
_ONLY_ONE = re.compile(
    r"(?P<of>.{0,200}?\b(?:prefers?|favou?rite \w{1,30} is|(?:be|is|are|am) called|call me))\b(?P<what>.{1,200})",
    re.DOTALL,
)
# What may precede the name that a statement is about: nothing, or something that belongs to it.
_SUBJECT = re.compile(
    r"(?:(?:the|a|an|project|team) )?|(?!.{0,200}\b(?:I|we|you|he|she|they|it|user|is|are|was|were|has|have|will)\b)"
    r".{0,200}\b(?:of|for|from|between) (?:the |project |team )?",
    re.IGNORECASE | re.DOTALL,
)
_CIRCUMSTANCE = re.compile(r"\b(?:in|on|at|for|with|when|while|over|to)\b")
_SOME_DAYS = re.compile(r"(?:mon|tues|wednes|thurs|fri|satur|sun)days", re.IGNORECASE)
_LONGEST = 600
# Share of the words of a denial that the other statement must have.
_LEAST_AFFIRMED = 0.75
_MEASURED = frozenset({FactKind.DATE, FactKind.NAME, FactKind.NUMBER})


def contradiction(one: str, other: str) -> Discrepancy | None:
    """Return what `one` says and `other` says differently, None when both can hold, or one has over 600 code points.

    Neither side of it is empty. The two are to be about the same person or thing: where no name is in them, the caller
    sees to that by comparing only statements of one scope.
    """
    if max(len(one), len(other)) > _LONGEST:
        return None  # several statements, for which the comparison is quadratic
    left, right = _read(one), _read(other)
    found = _opposed(left, right)
    if found is None:
        turned = _opposed(right, left)
        found = turned and Discrepancy(turned.kind, turned.instead, turned.text)
    if found is not None and found.kind is FactKind.NAME:
        # "Ann is married" says nothing about Ben: both statements must have the same subject.
        return None if _opens(left.text, found.text) and _opens(right.text, found.instead) else found
    ours, theirs = _ONLY_ONE.match(left.text), _ONLY_ONE.match(right.text)
    if found or ours is None or theirs is None or content_stems(ours["of"]) != content_stems(theirs["of"]):
        return found
    mine, its = ([word for word in words(each["what"]) if word != "now"] for each in (ours, theirs))
    # What both end with is no part of the choice: "green tea" and "black tea".
    while mine and its and mine[-1] == its[-1]:
        mine.pop()
        its.pop()
    if not mine or not its or set(mine) & set(its) or _CIRCUMSTANCE.search(" ".join((*mine, *its))):
        return None
    return Discrepancy(FactKind.WORD, " ".join(mine), " ".join(its))


def _opens(text: str, name: str) -> bool:
    return _SUBJECT.fullmatch(text[: text.find(name)]) is not None


@lru_cache(maxsize=1024)
def _read(text: str) -> Reading:
    # A new memory is compared with twenty others, and its neighbours with many of the same ones.
    for pattern, state in _SAME_STATE:
        text = pattern.sub(state, text)
    return read(text)


def _opposed(one: Reading, other: Reading) -> Discrepancy | None:
    """Return the single difference of two statements; statements with more differences are about different things."""
    differences = discrepancies(one, [other])
    opposed = [each for each in differences if each.instead]
    if len(opposed) != 1 or (len(differences) > 1 and opposed[0].kind not in _MEASURED):
        return None
    (found,) = opposed
    shared = one.stems & other.stems
    if found.kind is FactKind.NEGATION:
        return found if found.text and len(shared) >= _LEAST_AFFIRMED * len(one.stems) else None
    if bool(one.denials) != bool(other.denials):
        return None  # "not in Berlin" and "in Paris" agree
    if _SOME_DAYS.fullmatch(found.text) and _SOME_DAYS.fullmatch(found.instead):
        return None  # something done on Mondays may also be done on Thursdays
    if found.kind in {FactKind.DATE, FactKind.NAME, FactKind.WORD} and shared & _REPEATABLE:
        return None
    values = {*content_stems(found.text), *content_stems(found.instead)}
    own, its = one.stems - shared - values, other.stems - shared - values
    return None if found.kind in _MEASURED and own and its else found
