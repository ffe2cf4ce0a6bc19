"""How far a sentence says what something is, and what names a thing: headings, labels, kinds of things."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import dropwhile

from groundwire.answer.question import DEEDS, NAME_OF_CODE, Question
from groundwire.kernel.words import FUNCTION_WORDS, NEGATION, content_stems, stem, words

_OWNER = re.compile(
    r"(?<!\w)(?!(?i:what|who|how|where|that|it|there|here)['\u2019])(?P<name>[\w-]{2,40})['\u2019]s?(?!\w)"
    r"|\bof (?P<named>[A-Z][\w-]{1,40}(?: [A-Z][\w-]{1,40})*)"
)
_OUR = re.compile(r"\b[Oo]ur\b")
_DEFINING_VERB = re.compile(
    r"\b(?:(?P<copula>is|are|was|were)"
    r"(?= (?!where )(?:an?|the|one|another|any|part|code|data|how|what|when|\w+ that|\w{3,} \w{3,}(?<!ou)s"
    r"|[\w-]+['\u2019]s (?:\w+ )?(?:way|means|method|tool|name|term|equivalent|answer))\b)"
    r"|(?P<verb>means?|refers? to|stands? for|describes?|lets?|allows?|enables?|provides?|defines?"
    r"|(?:can|may|could) be (?:thought of|seen|regarded|viewed|described) as)|is|are|was|were)\b"
)
# "The library does not provide …".
_DENIES = re.compile(r"(?:n['\u2019]t|\b(?:not|never|no longer)) \Z")
# How something comes about or where it stands does not say what it is: "Environments are created by calls".
_ON_CONDITION = re.compile(r" (?:\w+ ){1,2}(?:if|when|whenever|unless|as long as)\b", re.IGNORECASE)
_MADE = re.compile(
    r" (?:\w+ly )?(?!used|designed|meant|intended|called|known|defined as|indicated|denoted|represented"
    r"|characteri[sz]ed|composed)(?:\w+(?:ed|wn|en)|read|set|put|kept|held|sent|built|run|found) (?:\w+ly )?"
    r"(?:by|in|from|on|with|when|if|at|after|before|as|via|through|using)\b",
    re.IGNORECASE,
)
# Nor does whether it is there, or still is, or what it is doing: "The plugin is deprecated".
_THERE = re.compile(
    r" (?:also |now |only )?(?:available|supported|included|installed|enabled|hosted|deprecated|obsolete"
    r"|(?!(?:any|every|some|no)thing\b)\w+ing\b)",
    re.IGNORECASE,
)
# What something is or does besides, or unlike another thing, comes after what it is: "Split DNS can also be used …".
_MOREOVER = re.compile(r"\balso (?!known|called|referred|named)|, however, ")
# What holds for most of a kind does not say what the kind is.
_PARTLY = re.compile(r"(?:almost all|nearly all|not all|most|many|some|several|(?:a )?few|no)\b", re.IGNORECASE)
_KIND_WITHIN = 3
"""Words that carry meaning, behind "is", among which it is said of what kind a thing is."""
INTRODUCED_AS_TERM = 0.6
BELOW_ITS_NAME = 0.8
_INTRODUCED = re.compile(
    r"\b(?:called|named|known as|termed|meant by|referred to as) (?:an? |the )?(?P<term>[^.,;:()]{2,60})"
)
# "See whether the top layer is called “Floating Selection”" introduces no term.
_WHETHER = re.compile(r"\bwhether [^,.;]{0,80}\Z")
_OR = re.compile(r" or (?:an? |the )?")
# "… Rules Check (ERC)" and "(Multiversion Concurrency Control, MVCC)".
_ABBREVIATION = re.compile(r"(?:[\s\"\u201d]\(|, )(?P<term>[A-Z]{2,6})\)")
# "This PEP introduces …", "A new type … is added".
_PRESENTED = re.compile(
    r"(?:^|(?<=[.!?] ))(?:(?:(?:this|the present) (?:[A-Z]{3}|proposal|document|paper|article|specification|standard"
    r"|package|module|library|crate)|it)"
    r" (?:introduces|proposes|defines|describes|specifies|adds|provides|implements|presents|standardi[sz]es)"
    r"(?: (?:to )?(?:add|introduce|define|adding|introducing|the addition of))? (?P<what>[^.,;:()]{2,80})"
    r"|(?:an?|the) new (?P<added>[^.,;:()]{2,60}?) (?:is|are) (?:added|introduced|proposed|provided)\b)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+")
# A name of several words, and an adjective before it: "The installable IBM Watson® Assistant".
_NAME_AT_FRONT = re.compile(r"(?:(?:The|An?) )?(?:[a-z-]+ )?(?P<name>[A-Z][\w-]*[®™]?(?: [A-Z][\w-]*[®™]?)+)")
# What opens so says something of the thing under a condition.
_SUBORDINATE = re.compile(
    r"(?:for (?:each|every|any)|while|if|when(?:ever)?|although|though|because|since|unless|as|where|once)\b",
    re.IGNORECASE,
)
_DOES = re.compile(r"(?!(?:is|was|has|does|requires|needs|depends|expects)$)[a-z]{2,}[a-rt-z]s")
_ADVERB = re.compile(r"only|just|\w{3,}ly")
_ARTICLES = frozenset({"a", "an", "the"})
_ASIDE = re.compile(
    r"^\w+ly,? |^[Tt]he (?:\w+ )?(?:point|idea|purpose|aim|goal|role|job) of |, (?:the|an?|also|short for) [^,]{1,60},"
    r"|, on the other hand,|, however,|\([^)]{1,40}\)|, or [^,]{1,30},|, (?:which|who) [^,]{1,80},"
    r"| of (?:an?|any|each|every|the) (?:\w+ )?\w+\s?$"
)
# Two names of one thing, as in "Copayment: A copayment, also known as a copay, is ..." and "BorgBackup (short: Borg)".
_ALIAS = re.compile(
    r"(?:^(?=[^,:(]{2,40}:)|, (?:also )?(?:known as|called|abbreviated) )(?P<term>[^,:(]{2,40})(?<! to)(?=[,:])"
    r"|\((?:in short|short|also|or|a\.?k\.?a\.?)(?: known as| called| for)?:? (?!an? )(?P<alias>[^(),:]{2,40})\)",
    re.IGNORECASE,
)
# "Copays are a great way to save money" praises them and does not say what they are; "a powerful program that plays
# music" does.
_PRAISING = (
    r"(?:(?:very|more|most|\w+ly) )?(?:great|good|better|best|excellent|important|essential|crucial|critical|vital|key"
    r"|valuable|useful|helpful|powerful|popular|common|similar|perfect|fundamental|central|integral)"
)
_PRAISE = re.compile(
    rf" (?:also )?(?:{_PRAISING}\b|(?:an?|the) {_PRAISING} (?:way|part|choice|option|idea|tool|thing|step|place|source"
    r"|resource|reason|aspect|feature|benefit|example|consideration|element|component|factor|topic|concept)s?\b"
    r"|an example of\b)",
    re.IGNORECASE,
)
# "Be aware of the formulary, which is a list of medications"; the same with a dash; "Race conditions, in which …".
_APPOSITION = re.compile(
    r"(?:, which (?:is|are|was|were) |\u2014)(?=(?:an?|the|any) )|, in which "
    r"|, which (?:involves?|means?|refers? to|consists? of|lets?|allows?) "
)
_TOLD_BEHIND_COLON = re.compile(r": (?=(?:it|this|that) (?:is|means) |an? )")
# "You can use the `only` option to …" tells what it does, and what it is for.
# "The `only` option can be used to …" does so, too.
_USED = re.compile(
    r"\buse (?:an? |the )?(?P<term>[^.,;:()]{2,60}?) (?:to|when|if|for)\b"
    r"|(?<!\w)(?:an? |the )?(?P<used>[^.,;:()]{2,40}?) (?:can be|may be|is|are) used(?:, [^,]{1,60},)?"
    r" (?:to|when|for)\b",
    re.IGNORECASE,
)
_ASKS_FOR_DEEDS = re.compile(rf"\b(?:{DEEDS})\W*$", re.IGNORECASE)
_ASKS_FOR_USE = re.compile(rf"\b(?:{DEEDS}|for)\W*$", re.IGNORECASE)
KINDS = frozenset(
    content_stems(
        "type method function operator keyword command statement expression macro trait struct enum module crate"
        " package library class object attribute field option flag setting value plan service record concept term tool"
        " directive builtin mode extension plugin middleware pragma clause environment platform system framework"
        " software application program database language protocol format standard project directory folder hierarchy"
        " area archive implementation setup filesystem"
    )
)
"""Stems of what says of what kind a thing is: "the match statement" for `match`, "the String type" for `String`."""
_OPTION = re.compile(r"(?<!\S)--?[A-Za-z][\w-]*+")
# "re.X, re.VERBOSE": a thing of two names.
_ALIASES = re.compile(r"(?<!\S)\w{1,60}[._]\w[\w.]{0,60}(?=, |\Z)")
REFERENCE = re.compile(rf"{_OPTION.pattern}[^.:!?]{{0,60}}|{NAME_OF_CODE}(?:\(\))?")
"""A heading that is the name of what its section describes: `--fail-fast N`, `MAX_AGE`, `os.urandom()`."""
SAYS_WHAT_IS_ABOVE = re.compile(r"description|overview|introduction|summary|abstract|about|purpose", re.IGNORECASE)
"""A heading of what says what the thing is that the heading above names."""
PART_OF_SECTION = re.compile(
    rf"{SAYS_WHAT_IS_ABOVE.pattern}|requirements|usage|synopsis|details|notes?|background|(?:specific )?options"
    r"|examples?|rationale|definition|parameters|syntax",
    re.IGNORECASE,
)
"""A heading that says which part of a section follows, and not what that is about."""
LABEL = re.compile(r"(?P<term>[^:.\n]{2,60}?)(?:(?<! to):| [-\u2013\u2014])\s")
"""A term in front of what explains it: "Coinsurance: the share that you pay", as glossaries and lists have it."""
# `Rc<T>` is Rc.
_TYPE_PARAMETER = re.compile(r"(?<=\w)<[A-Z](?:, ?[A-Z])*>")
_MARK = r"(?:\*\*|__|\*|_|\u201c|\u201d|\")"
_TERM = re.compile(rf"(?<!\w){_MARK}(?P<term>[^*_\"\u201d]{{2,60}}){_MARK}(?!\w)")


def definition_match(question: Question, text: str, source: str) -> float:
    """Return how far the sentence defines the question's subject, or one of the things that it compares.

    1 if the subject is its own and it says what that is (`Ownership is a set of rules`), 0.7 if it only says something
    of it (`Ownership is new to many`) or says what it is in passing (`… ownership, which is a set of rules`), 0.6 if it
    introduces it as a term (`… is called ownership`), 0.3 if it opens with it, only praises it or only says that it is
    there, else 0. What something does is all that "What does … do?" asks for, and gives 1. Terms are set off in the
    `source` of the text, which has its marks.
    """
    if question.subject:
        subject = set(question.subject)
        owner = _OWNER.search(question.text)
        # "What is Contoso's mission?", and Contoso says: "Our mission is to fly."
        text = _OUR.sub(owner["name"] or owner["named"], text) if owner else text
        is_used = _ASKS_FOR_USE.search(question.text) is not None and any(
            subject - KINDS <= _stems(match["term"] or match["used"], subject) <= subject | KINDS
            for match in _USED.finditer(text)
        )
        told = max(defines(subject, text, source), 0.7 * is_used, 1.0 * _defines_as(question.subject, text))
        label = LABEL.match(text)
        if label and subject <= _stems(label["term"], subject):
            # "Superuser status: A superuser may …".
            told = max(told, min(0.7, defines(subject, text[label.end() :], "")))
        if told <= INTRODUCED_AS_TERM or label or not _ASKS_FOR_DEEDS.search(question.text):
            return told
        verb = _DEFINING_VERB.search(text)
        # What something is tells less of what it does than a sentence that says so.
        return 0.7 if verb and verb["copula"] else 1.0
    return max((defines(side, text, source) for side in question.sides), default=0.0)


def _defines_as(subject: Sequence[str], text: str) -> bool:
    """Tell whether "A fast-forward is a special type of merge" says what a fast-forward merge is."""
    verb = _DEFINING_VERB.search(text)
    if len(subject) == 1 or verb is None or not verb["copula"] or LABEL.match(text):
        return False
    kind = content_stems(text[verb.end() :])[:_KIND_WITHIN]
    return subject[-1] in kind and defines(set(subject[:-1]), text, "") == 1.0


def is_name_of(heading: str, subject: AbstractSet[str]) -> bool:
    """Tell whether a heading is nothing but the name of a subject, given as stems, or has it among its options."""
    names = _OPTION.findall(heading) if REFERENCE.fullmatch(heading) else _ALIASES.findall(heading)
    asked = subject - KINDS or subject
    return any(bool(asked) and asked <= _stems(name, subject) <= subject | KINDS for name in (*names, heading))


def defines(subject: AbstractSet[str], text: str, source: str) -> float:
    """Return how far a sentence defines a subject, given as stems; see `definition_match`."""
    shortened = _with_abbreviation(subject, text)
    is_spelled_out = shortened != text
    text = _without_maker(subject, _TYPE_PARAMETER.sub("", shortened))
    verb = None if _SUBORDINATE.match(text) or _PARTLY.match(text) else _DEFINING_VERB.search(text)
    if verb is not None:
        front = _ASIDE.sub(" ", text[: verb.start()])
        defined = _stems(front, subject)
        is_denied = (
            NEGATION.match(text, verb.end() + 1) is not None or _DENIES.search(text, 0, verb.start()) is not None
        )
        is_praise = not verb["verb"] and _PRAISE.match(text, verb.end()) is not None
        aliases = (match["term"] or match["alias"] for match in _ALIAS.finditer(text, 0, verb.start()))
        is_named = any(_stems(alias, subject) == subject for alias in aliases)
        # "#[entry] is an attribute that …" says what the entry macro is.
        is_subject = (subject - KINDS or subject) <= defined and defined - subject <= KINDS
        if (is_subject or is_named) and not is_denied and not is_praise:
            if _MOREOVER.search(text, 0, verb.end()):
                return 0.5
            if verb["copula"] or verb["verb"]:
                return 1.0
            if _THERE.match(text, verb.end()) or _ON_CONDITION.match(text, verb.end()):
                return 0.3
            return 0.5 if _MADE.match(text, verb.end()) else 0.7
        if is_praise:
            return 0.3 if is_subject else 0.0
        # "Rust's closures are ...", but not "The crate root is ..." for a crate.
        is_head = set(content_stems(front)[-len(subject) :]) == subject
        if is_head and len(defined) == len(subject) + 1 and verb["copula"]:
            return 0.7
    label = LABEL.match(text)
    if label is not None and is_name_of(_ASIDE.sub(" ", label["term"]), subject):
        said = words(text[label.end() :])
        if len(said) > 1 and 2 * sum(map(str.isalpha, said)) > len(said):  # but not "udeb: libz 1 (>= 1:1.2)"
            return 0.7
    # Behind a colon, what has a name of several words: much else ends with a single one.
    told = (*_APPOSITION.finditer(text), *(_TOLD_BEHIND_COLON.finditer(text) if len(subject) > 1 else ()))
    if any(_ends_with(subject, text[: each.start()]) for each in told):
        return 0.7
    # "A trait object points to both": whatever it does tells what it is.
    begun = words(text)[: len(subject) + 4]
    opening = [word for word in begun if word not in _ARTICLES and not _ADVERB.fullmatch(word)]
    first = [word for word in opening if stem(word) in subject or stem(word) not in KINDS][: len(subject) + 1]
    is_subject = {stem(word) for word in first[:-1]} == subject
    # "tar --lists" is a command, "@flask/lists" a name.
    does = re.search(rf"\b{re.escape(first[-1])}\b", text) if is_subject and _DOES.fullmatch(first[-1]) else None
    if does is not None and f" {first[-1]} " == text[does.start() - 1 : does.end() + 1]:
        return 0.7
    # "A split DNS setup" is what split DNS is; "tuple structs" are no tuples.
    kinds = KINDS if len(subject) > 1 else frozenset()
    # "Known as realized gains or capital gains" introduces both.
    introducing = (match for match in _INTRODUCED.finditer(text) if not _WHETHER.search(text, 0, match.start()))
    names = (name for match in introducing for name in (match["term"], *_OR.split(match["term"])))
    terms = [_stems(name, subject) for name in names]
    introduced = any(subject <= term <= subject | kinds for term in terms)
    if introduced or sets_off(subject, source) or _presents(subject, text) or is_spelled_out:
        return INTRODUCED_AS_TERM
    return 0.3 if subject <= {stem(word) for word in words(text)[: len(subject) + 1]} else 0.0


def _presents(subject: AbstractSet[str], text: str) -> bool:
    """Tell whether a text presents a subject as new: "This PEP introduces a new vectorcall protocol"."""
    for match in _PRESENTED.finditer(text):
        if subject <= set(content_stems(match["what"] or match["added"])[: len(subject) + _KIND_WITHIN]):
            return True
    return False


def sets_off(subject: AbstractSet[str], source: str) -> bool:
    """Tell whether a text with its marks sets a subject off by emphasis or quotes, as it does to introduce a term."""
    return any(subject == _stems(match["term"], subject) for match in _TERM.finditer(source))


def _with_abbreviation(subject: AbstractSet[str], text: str) -> str:
    """Return the text with "the Electrical Rules Check (ERC) tool" as "the ERC tool" where ERC is the subject.

    What an abbreviation stands for has all its letters in their order, from the first of a word on, in no more words
    than it has letters (Schwartz & Hearst, 2003).
    """
    for match in _ABBREVIATION.finditer(text):
        term = match["term"].casefold()
        if {stem(term)} == subject:
            before = [*_WORD.finditer(text, 0, match.start())][-len(term) :]
            initials = "".join(word[0][0] for word in before).casefold()
            long = before[initials.find(term[0]) :] if term[0] in initials else []
            letters = iter("".join(word[0].casefold() for word in long))
            if all(letter in letters for letter in term):
                return f"{text[: long[0].start()]}{match['term']}{text[match.end() :]}"
    return text


def _without_maker(subject: AbstractSet[str], text: str) -> str:
    """Return "Watson Assistant is a tool" for "The IBM Watson® Assistant is a tool" where that is the subject."""
    match = _NAME_AT_FRONT.match(text) if len(subject) > 1 else None
    for word in [*_WORD.finditer(text, match.start("name"), match.end())][1:] if match else ():
        if set(content_stems(text[word.start() :])[: len(subject)]) == subject:
            return text[word.start() :]
    return text


def _ends_with(subject: AbstractSet[str], text: str) -> bool:
    """Tell whether a text ends with a subject, or with what kind of thing it is: "the multiplot mode"."""
    said = content_stems(text)
    kinds = len(said) - len([*dropwhile(lambda word: word in KINDS - subject, reversed(said))])
    return set(said[len(said) - kinds - len(subject) : len(said) - kinds]) == subject


def _stems(text: str, subject: AbstractSet[str] = frozenset()) -> set[str]:
    """Return the stems of the words that carry meaning, with the keywords that the subject has, such as `use`."""
    kept = {word for word in words(text) if f"`{word}`" in subject}
    return {
        f"`{word}`" if word in kept else stem(word)
        for word in words(text)
        if word in kept or word not in FUNCTION_WORDS
    }
