"""Words of a text as they are compared: case-folded, stemmed, with those that carry no subject set apart."""

import re
from functools import lru_cache

from groundwire.kernel.words import split_words

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_FUNCTION_WORDS = """
    a about above after again all also although am an and any are as at be because been before being between both
    but by can could did do does doing done during each either else ever every for from further get gets give given
    gives go had has have having he her here hers him his how however i if in into is it its itself just let like
    made make makes many may me might more most much must my near need needs no nor not of off on once one only or
    other our out over please same shall she should since so some such tell than that the their them then there
    these they thing things this those through to too under until up upon us use used uses using very was way we
    were what when where whether which while who whom whose why will with within without would you your yours
    i'm it's what's don't doesn't isn't aren't can't won't didn't wasn't weren't that's there's let's you're we're
    explain describe mean means meaning called name does happen happens actually really
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""Words that carry no subject; a question made of them alone has nothing to search for."""

NEGATION = re.compile(r"\b(?:not|never|no|none|nor|without|cannot|except)\b|n['\u2019]t\b", re.IGNORECASE)
"""Words that turn a statement round."""


def words(text: str) -> list[str]:
    """Return the words in order, case-folded, identifiers in camel case cut into parts.

    Scripts without spaces give pairs of characters, as in the full-text index.
    """
    return [word.casefold().replace("\u2019", "'") for word in split_words(_CAMEL.sub(" ", text), _WORD)]


def content_stems(text: str) -> list[str]:
    """Return the stems of the words that carry meaning, in order, with repetitions."""
    return [stem(word) for word in words(text) if word not in FUNCTION_WORDS]


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return a word without its common English endings; other languages pass nearly unchanged.

    A light stemmer in the manner of Harman, "How effective is suffixing?", JASIS 42 (1991), the S-stemmer,
    with -ed, -ing and -ly added; words of up to 3 letters stay, and so does what would be left without a vowel.
    Irregular forms become their base first: `begun` and `began` are `begin`, `children` `child`, `6th` is `6`.
    """
    word = word.removesuffix("'s")
    word = _BASE_OF.get(word, word)
    if ordinal := _ORDINAL.fullmatch(word):
        return ordinal[1]
    for ending, replacement, kept in _ENDINGS:
        root = word[: len(word) - len(ending)]
        if word.endswith(ending) and len(root) >= kept and not _VOWELS.isdisjoint(root):
            word = word[: -len(ending)] + replacement
            break
    # `run` for `runn`; double l, s, z stay, as in `call`, `pass`, `buzz`.
    doubled = len(word) > _SHORTEST_UNDOUBLED and word[-1] == word[-2] and word[-1] not in "lsz" and word[-1].isalpha()
    return word[:-1] if doubled else word


# Not among them: forms that are more often other words, such as `left`, `felt`, `lay`, `rose`, `lives` and `bases`.
_IRREGULAR = """
    arise arose arisen, awake awoke awoken, become became, begin began begun, bend bent, bite bit bitten, bleed
    bled, blow blew blown, break broke broken, breed bred, bring brought, build built, burn burnt, buy bought, catch
    caught, choose chose chosen, come came, creep crept, deal dealt, dig dug, draw drew drawn, drink drank drunk,
    drive drove driven, eat ate eaten, fall fell fallen, feed fed, fight fought, find found, flee fled, fly flew
    flown, forbid forbade forbidden, forget forgot forgotten, forgive forgave forgiven, freeze froze frozen, grow
    grew grown, hear heard, hide hid hidden, hold held, keep kept, know knew known, lead led, learn learnt, lend
    lent, lose lost, meet met, overcome overcame, overwrite overwrote overwritten, pay paid, rebuild rebuilt,
    rewrite rewrote rewritten, ride rode ridden, rise risen, run ran, say said, see saw seen, seek sought, sell
    sold, send sent, shake shook shaken, shoot shot, show shown, shrink shrank shrunk, sing sang sung, sink sank
    sunk, sit sat, sleep slept, speak spoke spoken, spend spent, spring sprang sprung, stand stood, steal stole
    stolen, stick stuck, strike struck, swear swore sworn, sweep swept, swim swam swum, take took taken, teach
    taught, tear tore torn, tell told, think thought, throw threw thrown, undergo underwent undergone, understand
    understood, undertake undertook undertaken, wake woke woken, wear wore worn, win won, withdraw withdrew
    withdrawn, write wrote written, child children, man men, woman women, foot feet, tooth teeth, mouse mice, person
    people, half halves, knife knives, shelf shelves, wife wives, index indices, appendix appendices, matrix
    matrices, vertex vertices, criterion criteria, phenomenon phenomena, analysis analyses, hypothesis hypotheses
"""
_BASE_OF = {form: base for base, *forms in map(str.split, _IRREGULAR.split(",")) for form in forms}
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")

# The first that fits is taken, so each stands before those that it ends in.
_ENDINGS = (
    ("ational", "ate", 2), ("ization", "ize", 2), ("ership", "er", 3),
    ("iness", "y", 3), ("ingly", "", 3), ("edly", "", 3),
    ("ations", "at", 3), ("ation", "at", 3),
    ("ies", "y", 2), ("ied", "y", 2),
    ("sses", "ss", 1), ("ches", "ch", 2), ("shes", "sh", 2), ("xes", "x", 2),
    ("ings", "", 3), ("ing", "", 3), ("ed", "", 3), ("ers", "er", 3), ("ily", "y", 3), ("ly", "", 4),
    ("es", "", 3), ("ss", "ss", 0), ("us", "us", 0), ("is", "is", 0), ("s", "", 3), ("e", "", 3),
)  # fmt: skip


_VOWELS = frozenset("aeiouy")
_SHORTEST_UNDOUBLED = 3
