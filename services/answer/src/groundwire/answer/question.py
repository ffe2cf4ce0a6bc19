"""What a question asks for, read off its wording; English cues, other languages fall back to OTHER."""

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from groundwire.answer.courtesy import without_courtesy
from groundwire.answer.grounding.similarity_scale import AS_IS, SimilarityScale
from groundwire.kernel.words import FUNCTION_WORDS, NEGATION, content_stems, signed_words, stem, words


class QuestionKind(StrEnum):
    """What an answering sentence has to offer."""

    DEFINITION = "definition"
    PROCEDURE = "procedure"
    REASON = "reason"
    OCCASION = "occasion"
    PERSON = "person"
    TIME = "time"
    PLACE = "place"
    QUANTITY = "quantity"
    ENUMERATION = "enumeration"
    EXAMPLE = "example"
    COMPARISON = "comparison"
    OTHER = "other"


EXPLAINED = frozenset(
    {
        QuestionKind.DEFINITION,
        QuestionKind.PROCEDURE,
        QuestionKind.REASON,
        QuestionKind.OCCASION,
        QuestionKind.EXAMPLE,
        QuestionKind.COMPARISON,
        QuestionKind.OTHER,
    }
)
"""Kinds that ask for an explanation rather than for a name, a number or a list."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with what the scorer needs of it.

    `stems` are the distinct stems of its content words in order; `subject` those of the thing a definition is
    asked of, empty for other kinds; `is_term` is true when only a definition of it answers; `sides` are the stems of
    each of two things that are compared. `wants_code` is true when it asks for code, a command or an example.
    `is_negated` is true when it asks for what is not so; "covered and not covered" asks for both.
    `compounds` are pairs of its words with the one that the material has for both: ("back up", "backup"). `is_set_off`
    is true where the material writes the subject in italics or quotes wherever it mentions it. `scale` is how the
    relevance of the passages is to be read.
    """

    text: str
    kind: QuestionKind
    stems: tuple[str, ...]
    subject: tuple[str, ...]
    wants_code: bool
    is_term: bool = False
    is_negated: bool = False
    sides: tuple[frozenset[str], ...] = ()
    compounds: tuple[tuple[str, str], ...] = ()
    is_set_off: bool = False
    scale: SimilarityScale = AS_IS

    @property
    def asked_for(self) -> frozenset[str]:
        """Return the stems of what "Which …" or "What … does" asks for, empty for other questions."""
        asked = _ASKED_NOUN.match(self.text)
        return frozenset(content_stems(asked["noun"])) if asked else frozenset()

    def stems_of(self, text: str) -> frozenset[str]:
        """Return the stems of a heading or the like, where "Back up" is `backup` if it is that in the question."""
        lowered = text.casefold()
        joined = (stem(one) for pair, one in self.compounds if pair in lowered)
        return frozenset((*content_stems(text), *joined))


# "What degree does she need?", but not "What does she need?".
_VERBS = "is|are|was|were|do|does|did|can|could|should|must|will|would|has|have"
_ASKED_NOUN = re.compile(
    rf"\W*(?:(?:in|at|on|for|to|with) )?(?:what|which) (?!(?:{_VERBS}|if|about|happens?)\b)"
    rf"(?P<noun>[\w-]+(?: [\w-]+)?) (?:{_VERBS})\b",
    re.IGNORECASE,
)
_BOTH = re.compile(r"\b(?:and|or)(?: \w+)? not\b", re.IGNORECASE)
# A cue counts at the front of the question or of a clause, behind a preposition: "What happens when ..." does not ask
# for a time. Those of `_ANYWHERE` are safe inside a question too ("Rust has how many ...").
# Each separator is tried once: a question of commas alone takes no longer than one of words.
_FRONT = (
    r"(?:^\W*+|[,;:]\s++[^\w,;:]*+)(?:(?:so|and|but|please|explain|show me"
    r"|in|at|on|for|to|from|by|since|until|during|with|of|about)\s++)*"
)
_MEASURES = "long|old|far|large|big|tall|high|often|fast|deep|wide|late|early|soon"
VERSION_ASKED = (
    r"(?:what|which) (?:(?:is|was) the )?(?:(?!an? )[\w.+-]+ ){0,2}versions?"
    r"(?! (?:control|numbers?|identifiers?|strings?|schemes?|specifiers?))"
)
"""Pattern of questions for a version: "which Python version", "what is the latest version"."""
# "The best height" asks for an opinion.
_MEASURE_ASKED = (
    r"what(?:'s| is| was| are| were) the (?!best |ideal |right )(?:[\w-]+ ){0,3}(?:rate|limit|size|length|width|height"
    r"|weight|price|cost|fee|salary|population|speed|temperature|age|port|percentage|timeout|budget|score|distance"
    r"|capacity)"
)
_PURPOSE = r"what (?:is|was|are|were) the (?:purpose|point|motivation|goal|aim|role|use) (?:of|for|behind)\b"
_TIMES = "year|date|day|month|century|decade|time|era|period"
_PLACES = "city|country|state|place|region|county|town|continent"
# Who does what "How do …?" asks for; "How do closures work?" asks for no steps.
_ACTORS = (
    r"i|we|you|one|they|(?:an? |the |my |our |new |other )*(?:user|employee|member|customer|client|caller|people|person"
    r"|somebody|someone|developer|operator|administrator|admin|programmer|student|patient|manager|author|team)s?"
)
# "How is it enabled?" asks for what to do, "How is it stored?" for what happens.
_DONE = (
    "enabled|disabled|activated|turned (?:on|off)|installed|configured|created|added|deleted|removed|started|stopped"
    "|published|invoked|called|used|declared|defined|specified|written|changed|updated|upgraded|built|tested|deployed"
)
_CUES = {
    QuestionKind.QUANTITY: rf"how (?:{_MEASURES})|{VERSION_ASKED}|{_MEASURE_ASKED}",
    QuestionKind.TIME: rf"when(?! should| would| to\b| is it)|(?:what|which) (?:{_TIMES})",
    QuestionKind.OCCASION: r"when (?:should|would|to|is it)\b",
    QuestionKind.PERSON: r"who(?:m|se)?",
    QuestionKind.PLACE: rf"where|(?:what|which) (?:{_PLACES})",
    QuestionKind.REASON: r"why|how come|what (?:is|was|are|were) the (?:reasons?|causes?|purpose|point|motivation)"
    rf"|{_PURPOSE}|(?:for )?what reason",
    QuestionKind.PROCEDURE: rf"how (?:to|(?:do|can|should|could|might|must|may|would) (?:{_ACTORS}))"
    r"|how (?:can|should|could|might|must|may) (?:[\w-]+ ){1,4}be"
    rf"|how (?:is|are) (?:[\w-]+ ){{1,4}}(?:{_DONE})"
    r"|what (?:do|should|must) (?:i|we|you|one) (?:do )?(?:to|in order to)"
    r"|what (?:do|should|must|can) (?:i|we|you|one) do (?:if|when|about|with|in case)"
    r"|(?:what are the )?steps (?:to|for)"
    r"|what is the (?:[a-z]+ )?(?:way|command|option|syntax|method) (?:to|for)(?= \w)"
    r"|what is the (?:process|procedure) (?:for|of|to|when)|what steps",
    QuestionKind.ENUMERATION: r"list|name (?:all|the|some)|enumerate|(?:what|which) (?:are|were) (?:all |the |some )*"
    r"(?:\w+ ){0,3}\w+s\b|(?:which|what) (?!is\b|was\b|does\b|has\b)(?:[\w-]+ ){0,2}?(?:[\w-]{2,}[^s\W]s)"
    r" (?:of|are|do|does|did|can|could|may|were|have|has|exist|implement|support|must|should|will|need)",
}
_ANYWHERE = {
    QuestionKind.QUANTITY: r"how (?:many|much)|what (?:percent|percentage|number|amount|proportion|fraction)",
    QuestionKind.EXAMPLE: r"(?:an?|one|another|some|any|more|for) examples?|examples? of",
}
_PATTERNS = [
    *((kind, re.compile(rf"\b(?:{cues})\b", re.IGNORECASE)) for kind, cues in _ANYWHERE.items()),
    *((kind, re.compile(rf"{_FRONT}(?:{cues})(?!\w)", re.IGNORECASE)) for kind, cues in _CUES.items()),
]
PURPOSE_ASKED = re.compile(rf"\b{_PURPOSE}", re.IGNORECASE)
"""Asks what something is good for."""
# What an answer has in place of these words: a number, a date, a name.
_ASKED_FOR = re.compile(
    rf"\bhow (?:{_MEASURES})\b(?: (?:do|does|did|will|would|can) it take\b)?|\b(?:what|which) (?:{_TIMES}|{_PLACES})\b"
    rf"|\bwhat (?:else )?happen(?:s|ed)\b|\b(?:takes?|took) place\b|\bstands? for\b|{PURPOSE_ASKED.pattern}",
    re.IGNORECASE,
)
DEEDS = "do|set|specify|control|configure|return|represent|determine|indicate|enable|provide|hold|contain|store"
"""What "What does … do?" may end with."""
_MEANS = r"(?:mean|stand for)(?: in [^?.,;]{1,40})?"
_SUBJECT = re.compile(
    r"^\W*(?:what(?:'s|\u2019s| is| are| was| were)(?: meant by)?|define"
    r"|explain|describe|tell me about"
    rf"|what do(?:es)?(?= .* (?:{_MEANS}|(?:{DEEDS}|say)(?: in \w+)?)\W*$))"
    r" (?!\w+ed (?:in|from|by|with|at|on|as|when|if|during|since)\b)"
    r"(?:an? |the |exactly )*(?P<subject>(?:[^?.,;]|\.(?=\w)){1,60}?)"
    rf"(?: {_MEANS}| (?:{DEEDS})| say| (?:used |needed |good |meant )?for| about)?"
    r"(?: in (?:rust|python|general|simple terms|(?-i:[A-Z])[\w+#.-]*))?\W*$",
    re.IGNORECASE,
)
# Asks what a thing is, and for nothing that it has: neither "the default port" nor "the capital of".
_TERM = re.compile(
    r"^\W*(?:what(?:'s|\u2019s| is| are)|define) (?:an? )?"
    r"(?!(?:the|not|my|your|our|his|her|its|their|this|that|these|those|there|it|wrong|new)\b)"
    r"(?![^?]*s['\u2019] |[^?]*['\u2019]s )"  # the phone number that somebody has
    r"(?:(?!(?:of|for|by|in|on|at|to|about|with|from|known|used|called|needed)\b)[^\s?.,;]++ ?+){1,4}\W*$",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"\b(?:source code|code (?:for|to|example|sample|that|of)|the code|snippet|syntax (?:of|for)|examples?"
    r"|(?:which|what) command|the command|one-liner|show me)\b",
    re.IGNORECASE,
)
_PARTS_OF_LANGUAGES = "keyword|statement|operator|expression|loop|clause|block|modifier|builtin|command"
# "The use keyword", and `use` or 'use' alone.
_KEYWORD_NAMED = re.compile(rf"\b([a-z]{{2,8}}) (?:{_PARTS_OF_LANGUAGES})s?\b", re.IGNORECASE)
_KEYWORD_MARKED = re.compile(
    r"(?<![\w`'])(?:``?|['\"\u2018\u201c])([a-z]{2,8})(?:``?|['\"\u2019\u201d])(?![\w'])", re.IGNORECASE
)
# "What does HAVING do?", but neither IT nor the US.
_KEYWORD_IN_CAPITALS = re.compile(r"(?<![\w-])(?!(?:US|IT|WHO)\b)[A-Z]{2,8}(?![\w-])")
NAME_OF_CODE = (
    r"\b(?:[^\W_]+_\w+(?:\.\w+)*|[a-z]\w+(?:\.[a-z]\w+)+"
    r"|(?-i:[a-z]{2,20}[0-9]{0,3}(?:[A-Z][a-z0-9]{1,20}){1,6}))\b"
)
"""Pattern of names of code and of settings: `top_k`, `os.urandom`, `DOCUMENT_ENCODING`, `onRequest`, but not iPhone."""
_NAMED_IN_CODE = re.compile(NAME_OF_CODE)
_LONG_OPTION = re.compile(r"(?<![\w-])--[A-Za-z][\w-]++")
# Names that are function words in lower case, and would be left out as such.
_SMALL_NAMES = re.compile(r"\b(?:US|IT|WHO|(?<=\w )Go)\b")
_LONGEST_SUBJECT = 4
_SHORTEST_SLIP = 5
_LEAST_LIKENESS = 0.85
"""Ratio of `difflib` from which a word is taken for a slip of another, which are two letters of thirteen."""
# Say that code is asked for, not what it is about.
_REQUESTS = frozenset(stem(word) for word in ("example", "snippet", "syntax"))
# Sentences that set two things apart say "unlike" or "whereas" rather than "difference".
_COMPARISON = re.compile(
    r"\b(?:differences? (?:between|of)|differ(?:s|ent)? from|compared? (?:to|with)|versus|vs\.?)(?=\W)"
    r"|^\W*compare\b",
    re.IGNORECASE,
)
_SIDES = re.compile(r"\b(?:between|compare) ([^,;]{1,60}?) (?:and|with|to) ([^,;]{1,60}?)\W*$", re.IGNORECASE)


def read_question(text: str, vocabulary: AbstractSet[str] = frozenset()) -> Question:
    """Return the question with its kind, content stems and subject.

    Two words that the material writes as one are one: `back up` is `backup` where that is in the `vocabulary`, which
    holds the words of the material as stems. A word that it does not have and that looks like a slip of one that it
    has, is that one.
    """
    text = without_courtesy(text)
    compares = _COMPARISON.search(text) is not None
    named = subject_asked_for(text)
    is_keyword = named and any(
        each.fullmatch(named) for each in (_KEYWORD_NAMED, _KEYWORD_MARKED, _KEYWORD_IN_CAPITALS)
    )
    of_language = keywords(named) if named and is_keyword and not text.isupper() else []
    subject = tuple(dict.fromkeys((*of_language, *content_stems(named)))) if named else ()
    kind = next((kind for kind, pattern in _PATTERNS if pattern.search(text)), QuestionKind.OTHER)
    if kind is QuestionKind.OTHER and compares:
        kind = QuestionKind.COMPARISON
    if kind in {QuestionKind.OTHER, QuestionKind.ENUMERATION} and 0 < len(subject) <= _LONGEST_SUBJECT:
        # "What are disjoint bases?", but not "What are the disjoint bases?".
        is_plural = kind is QuestionKind.ENUMERATION and len(subject) > 1 and not _TERM.match(text)
        kind = QuestionKind.ENUMERATION if is_plural else QuestionKind.DEFINITION
    wants_code = _CODE.search(text) is not None
    asked, compounds = _compounded(_COMPARISON.sub(" ", _ASKED_FOR.sub(" ", text)), vocabulary)
    stems = [_as_written(each, vocabulary) for each in content_stems(asked) if not (wants_code and each in _REQUESTS)]
    sides = _SIDES.search(text) if kind is QuestionKind.COMPARISON else None
    compared = sides.groups() if sides else ()
    stems_of_sides = [frozenset((*content_stems(each), *signed_words(each))) for each in compared]
    if len(set(stems_of_sides)) < len(compared):
        stems_of_sides = [frozenset(exact_words(each)) for each in compared]  # before_send and after_send
    return Question(
        text=text,
        kind=kind,
        stems=tuple(dict.fromkeys((*stems, *of_language, *exact_words(text)))),
        subject=subject if kind is QuestionKind.DEFINITION else (),
        wants_code=wants_code,
        is_term=kind is QuestionKind.DEFINITION and _TERM.match(text) is not None,
        is_negated=is_negated(text),
        sides=tuple(filter(None, stems_of_sides)),
        compounds=compounds,
    )


def is_negated(text: str) -> bool:
    """Tell whether a question or a heading is about what is not so; "to panic or not to panic" is about both."""
    return NEGATION.search(_BOTH.sub("", text)) is not None


def subject_asked_for(question: str) -> str | None:
    """Return what a question asks to be explained, such as `a slice` without its article; None for other questions."""
    match = None if _COMPARISON.search(question) else _SUBJECT.match(without_courtesy(question))
    return match["subject"] if match else None


def keywords(text: str) -> list[str]:
    """Return the words of a language that are function words of English, in backticks: `use` of "the use keyword"."""
    is_shouted = " " in text and text.isupper()
    found = _KEYWORD_MARKED.findall(text) + ([] if is_shouted else _KEYWORD_IN_CAPITALS.findall(text))
    # Looking at each word of a text takes as long as stemming it, and few texts speak of a language.
    if any(part in text for part in _PARTS_OF_LANGUAGES.split("|")):
        found += _KEYWORD_NAMED.findall(text)
    return [f"`{word.casefold()}`" for word in found if word.casefold() in FUNCTION_WORDS]


def exact_words(text: str) -> list[str]:
    """Return what a text has that its words alone are not, in lower case: signs, options, names of code, IT and Go.

    So `->` is more than nothing, and `SESSION_COOKIE_NAME` is not `SESSION_COOKIE_PATH`, nor `--clear` `--clear-all`.
    Of `a.b_c` there is `b_c` too.
    """
    small = [] if text.isupper() else _SMALL_NAMES.findall(text)
    names = [each.casefold() for each in (*_NAMED_IN_CODE.findall(text), *small)]
    parts = (part for each in names for part in each.split(".") if part != each and "_" in part)
    options = map(str.casefold, _LONG_OPTION.findall(text))
    return [*signed_words(text), *options, *names, *parts]


def without_names_of_code(text: str) -> str:
    """Return a text without its names of code and of settings."""
    return _NAMED_IN_CODE.sub(" ", text)


def _as_written(asked: str, vocabulary: AbstractSet[str]) -> str:
    if asked in vocabulary or len(asked) < _SHORTEST_SLIP or not asked.isalpha():
        return asked
    # First letters are rarely wrong, and to compare with all words of the material takes as long as the rest.
    alike = [word for word in vocabulary if word[0] == asked[0] and abs(len(word) - len(asked)) <= 1]
    return next(iter(get_close_matches(asked, sorted(alike), 1, _LEAST_LIKENESS)), asked)


def _compounded(text: str, vocabulary: AbstractSet[str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the words of a text, those pairs in one that the vocabulary has in one, but not as words apart.

    The pairs come second, each with the word that it became.
    """
    compounded: list[str] = []
    pairs: list[tuple[str, str]] = []
    for word in words(text):
        # "Python 2" is not the command `python2`.
        is_one = compounded and word.isalpha() and stem(compounded[-1] + word) in vocabulary
        if is_one and not {stem(compounded[-1]), stem(word)} <= vocabulary:
            pairs.append((f"{compounded[-1]} {word}", compounded[-1] + word))
            compounded[-1] += word
        else:
            compounded.append(word)
    return " ".join(compounded), tuple(pairs)
