"""Whether two short statements about the same thing cannot both hold: another value, number or date, or a negation.

Made for statements of people about themselves and their work, one sentence each, such as memories are. English; what
takes knowledge of the world ("vegetarian" and "eats meat") is not seen. How often the rules are right is measured by
`python benchmarks/quality.py contradictions`.
"""

import re

from groundwire.kernel.facts import Discrepancy, FactKind, Reading, discrepancies, read
from groundwire.kernel.stems import content_stems, stem

_SAME_STATE = (
    (re.compile(r"\b(?:(?:has |have )?(?:moved|relocated) to|lives in)\b", re.IGNORECASE), "live in"),
    (re.compile(r"\b(?:joined|works? for|is employed (?:at|by))\b", re.IGNORECASE), "works at"),
    (re.compile(r"\b(?:was|were|is) (?:moved|postponed|changed|rescheduled) to\b", re.IGNORECASE), "is on"),
    (re.compile(r"\b(?:no longer|not any ?more|stopped)\b", re.IGNORECASE), "not"),
    (re.compile(r"\b(?:I|my|me) (?=\w)", re.IGNORECASE), "user "),
)
"""Ways to say that a state has begun or ended, and whose it is, in the words for the state itself."""
_REPEATABLE_VERBS = """
    asked bought called enjoys has have heard knows learn learns likes loves made met read reads saw speaks spoke talked
    tried visited watched went wrote
"""
_REPEATABLE = frozenset(map(stem, _REPEATABLE_VERBS.split()))
"""What can be true of one thing and of another as well; of these only numbers and negations are opposed."""
_LEAST_AFFIRMED = 0.75
"""Share of the words of a denial that the other statement must have."""
_MEASURED = frozenset({FactKind.DATE, FactKind.NAME, FactKind.NUMBER})


def contradiction(one: str, other: str) -> Discrepancy | None:
    """Return what `one` says and `other` says differently, None when both can hold; linear in their lengths.

    Neither side of it is empty. The two are to be about the same person or thing: where no name is in them, the caller
    sees to that by comparing only statements of one scope.
    """
    left, right = (read(_in_one_form(text)) for text in (one, other))
    found = _opposed(left, right)
    if found is None:
        turned = _opposed(right, left)
        found = turned and Discrepancy(turned.kind, turned.instead, turned.text)
    return found


def _in_one_form(text: str) -> str:
    for pattern, state in _SAME_STATE:
        text = pattern.sub(state, text)
    return text


def _opposed(one: Reading, other: Reading) -> Discrepancy | None:
    """Return the one thing in which they differ; two that differ in more are about different things."""
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
    if found.kind in {FactKind.DATE, FactKind.NAME, FactKind.WORD} and shared & _REPEATABLE:
        return None
    values = {*content_stems(found.text), *content_stems(found.instead)}
    own, its = one.stems - shared - values, other.stems - shared - values
    return None if found.kind in _MEASURED and own and its else found
