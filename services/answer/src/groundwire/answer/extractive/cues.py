"""Surface cues of English sentences: what they offer to which kind of question, and what they only announce."""

import re
from functools import lru_cache
from itertools import takewhile

from groundwire.answer.question import PURPOSE_ASKED, VERSION_ASKED, Question, QuestionKind
from groundwire.kernel.facts import Fact, FactKind, names_in, read
from groundwire.kernel.words import FUNCTION_WORDS, content_stems, stem, words

_HOW_MANY = re.compile(r"\b(?:how many|what (?:is|was) the number of) (?P<counted>[^?.,;]{1,60})", re.IGNORECASE)
_COUNTED_WITHIN = 4
"""Words behind a number among which what it counts is named: "15 million new jobs"."""
_ROUGHLY = re.compile(
    r"\b(?:half|third|quarter|once|twice|dozens?|(?:hundred|thousand|million|billion)s|unlimited|indefinitely|forever"
    r"|permanently|as long as|free|an? (?:second|minute|hour|day|night|week|month|quarter|year|decade|century))\b",
    re.IGNORECASE,
)
# Who knows the year of birth knows the age.
_HOW_OLD = re.compile(r"\bhow old\b", re.IGNORECASE)
# Nothing but these answers these questions.
_REQUIRED = [
    (
        re.compile(r"\bhow (?:often|frequently)\b", re.IGNORECASE),
        re.compile(
            r"\b(?:hourly|daily|nightly|weekly|monthly|quarterly|yearly|annual(?:ly)?|once|twice|always|never|regularly"
            r"|(?:every|each|per|an?) (?:\w+ )?(?:second|minute|hour|day|night|week|month|quarter|year|time)s?"
            r"|\w+-(?:hour|day|week|month|year))\b",
            re.IGNORECASE,
        ),
    ),
    (
        re.compile(rf"\b(?:{VERSION_ASKED})", re.IGNORECASE),
        # "3.10", "v20", "version 2", "Java 8".
        re.compile(r"(?<![\w.])(?:v?\d+(?:\.\d+)+|v\d+)\b|\b(?:version|release|[A-Z][a-z+#]{3,}|[A-Z]{2,}) \d{1,2}\b"),
    ),
]
# What else each way to ask for an amount is best answered with.
_AMOUNTS = [
    *_REQUIRED,
    (
        re.compile(r"\bwhat(?:'s| is| are) the default\b", re.IGNORECASE),
        re.compile(r"\bdefaults? (?:(?:values? )?(?:for \w+ )?(?:is|are|of)|to)\b|\bdefaults?: ", re.IGNORECASE),
    ),
    (
        re.compile(r"\bhow (?:long|soon|old)\b", re.IGNORECASE),
        re.compile(
            r"\b(?:\d[\d,.]*|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|thirty|sixty|ninety)[ -]"
            r"(?:\w+ )?(?:milli)?(?:second|minute|hour|day|week|month|year)s?\b|\b\d+ ?ms\b",
            re.IGNORECASE,
        ),
    ),
    (
        re.compile(
            r"\bhow much\b.*\b(?:costs?|pays?|paid|charged?|get|spend|spent|earn|owe|worth|money|price|reimburse\w*"
            r"|expense)\b",
            re.IGNORECASE,
        ),
        re.compile(
            r"[$\u20ac\u00a3\u00a5] ?\d|\b\d[\d,.]* ?(?:%|percent|dollars?|cents?|euros?|pounds?|million|billion)",
            re.IGNORECASE,
        ),
    ),
]
_NEXT_WORD = re.compile(r"[ -]([^\W\d_]+)")
# A name that ends right here; the first word of a sentence is one only in capitals.
_NAME_BEFORE = re.compile(r"(?:(?<=[^\W_,;] )[A-Z]\w*|\b[A-Z]{2,}) $")
_OF_A_YEAR = re.compile(r"\b(?:in|since|until|during|year)\s$", re.IGNORECASE)
_BEFORE_YEAR = 8
_TIME = re.compile(
    r"\b1\d{3}\b|\b20\d\d\b|\bcentur|\b(?:January|February|March|April|May|June|July|August|September|October|November|"
    r"December)\b|\b\d+s\b|\d+ (?:seconds?|minutes?|hours?|days?|weeks?|months?|years?)\b"
    r"|\b(?:when|whenever|once|before|after|until)\b|\b(?:first|second|third|fourth|fifth|last) \w+ to be \w+"
    r"|\b(?:night|dawn|dusk|noon|midnight|morning|evening|daily|weekly|monthly"
    r"|quarterly|yearly|annually|every (?:day|week|month|quarter|year))\b"
)
_PAST = re.compile(r"\bwhen (?:was|were|did)\b", re.IGNORECASE)
_DATED = re.compile(
    r"(?<![\w.])\d++\w*+(?!\.\d)|\bcentur|\b(?:January|February|March|April|May|June|July|August|September|October|November|December)\b"
    r"|\b(?:ago|later|earlier|yesterday|today|tonight|night|dawn|dusk|noon|midnight|morning|evening|afternoon)\b"
)
_REASON = re.compile(
    r"\b(?:because|since|due to|so that|in order|therefore|as a result|cause|reason|why|to avoid|enables?)\b",
    re.IGNORECASE,
)
# What something is good for.
_GOOD_FOR = re.compile(
    r"\b(?:used|meant|intended|designed|reserved|aims?|goals?|purpose|proposes?|allows?|lets?|helps?|provides?|responsible"
    r"|in charge|serves?)\b|\bto (?!the\b|an?\b)[a-z]+",
    re.IGNORECASE,
)
# "To configure it anew, run …" says how, and not what it is good for.
_TO_AN_END = re.compile(r"(?:in order )?to [a-z]+\b[^.;:]*, ", re.IGNORECASE)
# What follows once it is done.
_DONE = re.compile(
    r"(?:(?:after|once|when) (?:you(?:['\u2019]ve| have)|having) |as soon as you |after (?=\w+ing\b))"
    r"(?P<done>[^,]{3,80}),"
    r"|if you (?!want|need|wish|would|like|prefer|have to)(?P<deed>[^,]{3,80}),"
    r" (?:it |they |this |the (?:\w+ ){1,3}?)(?:will|would|may|is|are)\b",
    re.IGNORECASE,
)
_UNDOES = re.compile(
    r"\b(?:disable[sd]?\b|disabling|deactivat|turn(?:ing)? (?:\w+ )?off\b|opt(?:ing)? out\b)", re.IGNORECASE
)
_REVERSED = re.compile(r"(?<![\w-])un-?([a-z]{3,})", re.IGNORECASE)
_STEP = re.compile(
    r"^(?:(?:to|if|when|for|with|in|then|first|next|finally|please|once)\b[^,.]{2,80}, (?:then )?"
    r"|(?:then|first|next|please) )?"
    r"(?:to|run|use|call|create|add|open|type|write|set|give|start|stop|copy|make|put|pass|install|send|delete|remove"
    r"|choose|select|pick|enter|go|check|contact|submit|complete|visit|ask|tell|name|keep|let|replace|restore|enable"
    r"|disable|turn|download|log|sign|fill|follow|review|import|define|declare|click|press|save|read|return|take|build"
    r"|avoid|do|don['\u2019]t|never|always|be)\b"
    r"|\b(?:(?:you|we|users?|employees|members|callers?) (?:can(?! only)|could|must|should|may|need to|have to)|we use"
    r"|(?:allows?|lets?|enables?) (?:you|users?) |by \w+ing"
    r"|using|use the|with the|can (?:\w+ )?be \w+\b[^.;]{0,60}\b(?:with|by|using|via|through))\b",
    re.IGNORECASE,
)
# "How should files be named?" asks for a rule rather than for steps.
_RULE_ASKED = re.compile(r"\bhow (?:should|must|shall)\b", re.IGNORECASE)
_RULE = re.compile(r"\b(?:must|should|shall|recommend\w*|conventions?)\b", re.IGNORECASE)
_EXAMPLE = re.compile(
    r"\b(?:for (?:example|instance)|e\.g\.|such as|an example|examples? (?:is|are|of))", re.IGNORECASE
)
_CONTRAST = re.compile(
    r"\b(?:unlike|whereas|while|in contrast|on the other hand|rather than|instead of|differ(?:s|ed|ences?)?"
    r"|different (?:from|than|to)|compared (?:to|with)"
    r"|than|similar(?:ly)? to|both)\b",
    re.IGNORECASE,
)
_OCCASION = re.compile(
    rf"{_TIME.pattern}"
    r"|(?i:\b(?:if|when(?:ever)?|unless|as soon as|situations?|recommended|appropriate|suitable|useful|best for"
    r"|(?:intended|meant|good|suited) for|in (?:(?:most|all|some|many|such|these|which) )?cases?)\b)"
)
_LISTED = re.compile(
    r"(?:(?<=\w):|\b(?:such as|including|namely|are)) [^:.;,]{2,60}(?:, [^:.;,]{2,60}){1,12},? (?:and|or) "
    r"|(?<=\w): [^:.;,]{2,60} (?:and|or) "
)
_EVIDENCE = {
    QuestionKind.OCCASION: _OCCASION,
    QuestionKind.COMPARISON: _CONTRAST,
    QuestionKind.TIME: _TIME,
    QuestionKind.REASON: _REASON,
    QuestionKind.PROCEDURE: _STEP,
    QuestionKind.EXAMPLE: _EXAMPLE,
}
_ANNOUNCEMENT = re.compile(
    r"\b(?:in|of) (?:this|the next|the previous|a later|the following) (?:chapter|section|part|appendix)|\bchapter \d"
    r"|^this (?:appendix|chapter|section|document|page|part) (?:is|(?:will )?(?:contain|describe|explain|cover|outline"
    r"|discuss|show|introduce|list|provide)(?:e?s)?)\b|\b(?:section|chapter) (?:later|earlier)\b"
    r"|\b(?:we|you)['\u2019]ll (?:\w+ )?(?:see|learn|look|discuss|cover|talk|explore|use|write|build|create|define"
    r"|explain|describe|introduce|start|begin)"
    r"|^an? (?:\w+ ){0,2}(?:list|overview|summary|index|introduction|guide) (?:of|to)\b(?!.*\bis\b)"
    r"|^this is (?:an?|the) (?:list|overview|summary|index)\b"
    r"|^before (?:we|(?:begin|continu|delv|div|discuss|explor|gett|go|jump|look|mov|proceed|start|turn)\w*ing)\b"
    r"|\bwe (?:\w+ly )?(?:review|comment on|discuss|turn to)\b"
    r"|^what follows\b"
    r"|^there are (?:also )?(?:some|several|many|various|different|a few|a number of) (?:\w+ ){1,4}(?:kinds?|types?)\.$"
    r"|\b(?:is|are) (?:described|explained|discussed|documented|covered) (?:in (?:more |greater )?detail )?in\b"
    r"|^here(?:['\u2019]s| is| are)\b[^\n:]*+$|^(?:imagine|picture|suppose|think of|introducing|welcome to)\b"
    r"|^(?:to|for|if you)\b[^.,;:]{2,100}, (?:please )?(?:see|refer to|consult|check|read)\b"
    r"|^(?:please )?(?:see (?:the|our)|(?:learn|read|find out) (?:more|how))\b"
    r"|^(?:for|if you(?:['\u2019]d| would)? (?:like|want|need)) (?:more|further|additional)"
    r" (?:information|details?|help)\b"
    r"|\bthe (?:section|chapter|appendix|page) (?:called|titled|named|on|about)\b"
    r"|\blet['\u2019]s\b|\bas we (?:saw|discussed)|\b(?:listing|figure) \d"
    r"|(?<!, which )\bwe (?:discussed|covered|mentioned)"
    r"|\bquestions?\b[^.]{0,40}\b(?:is|be|are|asks?):? [\u2018\u201c\"']",
    re.IGNORECASE,
)
# Headings of release notes: a version with its date, or what kind of change follows.
_OF_CHANGES = re.compile(
    r"\W*(?:v(?:ersion )?)?\d+(?:\.\d+)+\w*(?:\W+\d{4}-\d\d-\d\d)?\W*"
    r"|.*\b(?:change ?log|release (?:notes|history)|unreleased)\b.*|what(?:['\u2019]s| is) new\b.*"
    r"|(?:added|changed|fixed|removed|deprecated|bug ?fixes|(?:new )?features|improvements|breaking changes)",
    re.IGNORECASE,
)
_ASKS_FOR_CHANGES = re.compile(
    r"\d|\b(?:versions?|releases?|released|chang\w+|new|add(?:s|ed)|remov\w+|fix\w*|since|when|upgrad\w+|deprecat\w+|histor\w+)\b",
    re.IGNORECASE,
)
_BACK_MATTER = re.compile(
    r"\b(?:acknowledge?ments?|thanks|credits|references|bibliography|copyright|footnotes|see also"
    r"|further reading|(?:general )?index)\b",
    re.IGNORECASE,
)
# Sections on ideas that were not taken up describe what is not so. They do tell why, and whether something is so.
_REJECTED = re.compile(
    r"(?:(?:rejected|discarded|deferred|dismissed|alternative|other)(?: \w+)? "
    r"(?:ideas?|approach(?:es)?|proposals?|suggestions?|options?|solutions?|alternatives?|designs?)"
    r"|(?:rejected )?alternatives?(?: considered)?|(?:open|unresolved) (?:issues?|questions?))",
    re.IGNORECASE,
)
_ASKS_FOR_REJECTED = re.compile(
    r"\b(?:reject|discard|dismiss|alternatives?|consider|propos|suggest|option|approach|open|unresolved|instead)"
    r"|^\W*(?:is|are|was|were|do|does|did|can|could|will|would|should|has|have)\b",
    re.IGNORECASE,
)
_ASKS_FOR_WRITING = re.compile(
    r"\b(?:wr(?:ote|itten|ites?)|authors?|creat(?:ed?|ors?)|propos(?:ed?|es)|publish(?:ed)?|draft(?:ed)?|edit(?:ed|ors?)"
    r"|introduced|made|sent|sends?|posted|submitted|issued)\b",
    re.IGNORECASE,
)
_FIELDS_OF_WRITING = {
    QuestionKind.PERSON: re.compile(r"authors?|creators?|writers?|editors?|by|from|sender", re.IGNORECASE),
    QuestionKind.TIME: re.compile(
        r"created|dated?|written|published|posted|sent|submitted|issued|revised", re.IGNORECASE
    ),
}
_PLATITUDE = re.compile(
    r"\b(?:(?:utmost|paramount|great(?:est)?|vital|critical) importance|takes? [^.,;]{2,60} seriously"
    r"|(?:is|are) (?:\w+ly )?(?:committed|dedicated) to|strives? to)\b"
    r"|^(?:we (?:hope|look forward|understand)|we are (?:\w+ly )?(?:excited|proud|pleased|happy|confident)"
    r"|thank you)\b",
    re.IGNORECASE,
)
_TIP = re.compile(
    r"(?:make sure|be (?:sure|aware)|ask|talk to|check|contact|consider|remember|don['\u2019]t forget"
    r"|keep (?:in mind|track|your)|familiarize|speak (?:to|with)|consult|take advantage|here are (?:\w+ ){0,3}tips)\b",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"\s*(?:[-*+] )?(?P<name>[^.:]{2,60}):\s*[a-z]{1,10}://\S+")
_ABBREVIATED = re.compile(r"\b[A-Z]{1,5}\b")


def kind_match(question: Question, text: str) -> float:
    """Return 1 if the sentence has what the kind of question asks for, -1 if not, 0 if the kind asks for nothing."""
    if question.kind in {QuestionKind.PERSON, QuestionKind.PLACE}:
        asked = set(words(question.text))
        # CPU is nobody.
        abbreviated = _ABBREVIATED.findall(text) if question.kind is QuestionKind.PERSON else []
        return 1.0 if set(names_in(text)).difference(asked, map(str.casefold, abbreviated)) else -1.0
    if question.kind is QuestionKind.QUANTITY:
        for how, amount in _REQUIRED:
            if how.search(question.text):
                return 1.0 if any(found[0] not in question.text for found in amount.finditer(text)) else -1.0
        # Neither a date nor a number of the question, such as that of a highway, says how many or how long.
        known = {fact.values for fact in read(question.text).facts}
        is_age = _HOW_OLD.search(question.text) is not None
        numbers = (
            fact
            for fact in read(text).facts
            if fact.values not in known and (_counts(fact, text) or (is_age and fact.kind is FactKind.DATE))
        )
        return 1.0 if any(numbers) or _ROUGHLY.search(text) else -1.0
    pattern = _DATED if asks_for_date(question) else _EVIDENCE.get(question.kind)
    if pattern is None:
        return 0.0
    if question.kind is QuestionKind.PROCEDURE and _RULE_ASKED.search(question.text) and _RULE.search(text):
        return 1.0
    asks_for_purpose = PURPOSE_ASKED.search(question.text) is not None
    if asks_for_purpose and _TO_AN_END.match(text):
        return -1.0
    is_good_for = asks_for_purpose and _GOOD_FOR.search(text) is not None
    return 1.0 if is_good_for or pattern.search(text) else -1.0


def asks_for_date(question: Question) -> bool:
    """Tell whether a question asks when something happened, which a date answers, or a part of a day."""
    return question.kind is QuestionKind.TIME and _PAST.search(question.text) is not None


def has_amount(question: Question, text: str) -> bool:
    """Tell whether the text has the amount asked for: "newest ten messages" for messages, "$20" for what it costs."""
    amount = _amount_asked(question.text)
    if amount is not None:
        return amount.search(text) is not None
    asked = _HOW_MANY.search(question.text)
    if asked is None:
        return False
    # Up to the verb: "new jobs" of "new jobs were created".
    counted = {stem(word) for word in takewhile(lambda word: word not in FUNCTION_WORDS, words(asked["counted"]))}
    known = {fact.values for fact in read(question.text).facts}
    return any(
        not counted.isdisjoint(map(stem, words(text[fact.end :])[:_COUNTED_WITHIN]))
        for fact in read(text).facts
        if fact.values not in known and _counts(fact, text) and fact.text.casefold() != "one"
    )


@lru_cache(maxsize=64)
def _amount_asked(question: str) -> re.Pattern[str] | None:
    """Return what has the amount that a question asks for; it is the same for all that could answer it."""
    return next((amount for how, amount in _AMOUNTS if how.search(question)), None)


def _counts(fact: Fact, text: str) -> bool:
    """Tell whether a fact of a text is a number of something, as in "1500 owls", which reads like a year."""
    if fact.kind is FactKind.NAME:
        return False
    counted = _NEXT_WORD.match(text, fact.end)
    has_counted = counted is not None and counted[1].casefold() not in FUNCTION_WORDS
    if fact.kind is FactKind.DATE:
        is_dated = any(fact.values[1:]) or _OF_A_YEAR.search(text[max(0, fact.start - _BEFORE_YEAR) : fact.start])
        return not is_dated and has_counted
    # "One of them", and the number of "PEP 8", count nothing.
    is_pronoun = fact.text.casefold() == "one" and not has_counted
    return not (is_pronoun or _NAME_BEFORE.search(text, 0, fact.start))


def is_address_unasked(question: Question, text: str) -> bool:
    """Tell whether a text only says where to find what the question does not ask for: "Source code: https://…"."""
    addresses = [_ADDRESS.fullmatch(line) for line in text.splitlines()]
    return all(
        address is not None and question.stems_of(address["name"]).isdisjoint(question.stems) for address in addresses
    )


def is_note_of_change(question: Question, *headings: str) -> bool:
    """Tell whether one of the headings is that of release notes, which say what changed, where that is not asked."""
    return any(_OF_CHANGES.fullmatch(each) for each in headings) and not _ASKS_FOR_CHANGES.search(question.text)


def is_back_matter(question: Question, *headings: str) -> bool:
    """Tell whether a heading is that of thanks, sources, an index or rejected ideas, and unasked for."""
    named = [heading.lstrip("0123456789. ") for heading in headings]
    if any(map(_BACK_MATTER.fullmatch, named)):
        return _BACK_MATTER.search(question.text) is None
    return any(map(_REJECTED.fullmatch, named)) and not (
        question.kind is QuestionKind.REASON or question.is_negated or _ASKS_FOR_REJECTED.search(question.text)
    )


def says_who_or_when_written(question: Question, field: str) -> bool:
    """Tell whether a field of a head, such as `Author` or `Created`, has who wrote a text, or when, as is asked."""
    pattern = _FIELDS_OF_WRITING.get(question.kind)
    return pattern is not None and bool(
        pattern.fullmatch(field.strip(" :")) and _ASKS_FOR_WRITING.search(question.text)
    )


def lists_in_words(text: str) -> bool:
    """Tell whether a sentence names several things: "This section presents three schemes: a, b and c"."""
    return _LISTED.search(text) is not None


def is_step(text: str) -> bool:
    """Tell whether a text begins with what somebody is to do, as the items of instructions do."""
    return _STEP.match(text) is not None


def undoes(question: Question, heading: str, text: str) -> bool:
    """Tell whether a text, or what stands below a heading, says how to be without what the question asks how to do.

    Or what comes after: "After having undone an action, you can redo it".
    """
    done = _DONE.match(text)
    if done is not None and set(question.stems) <= set(content_stems(done["done"] or done["deed"])):
        return True
    # "To un-deprecate a package" for "How do I deprecate a package?".
    reversed_deeds = {stem(verb) for verb in _REVERSED.findall(text)}.intersection(question.stems)
    is_reversed = bool(reversed_deeds.difference(content_stems(_REVERSED.sub("", text))))
    is_undoing = _UNDOES.match(heading) is not None or _UNDOES.search(text) is not None
    return is_reversed or (is_undoing and _UNDOES.search(question.text) is None)


def is_tip(text: str) -> bool:
    """Tell whether a sentence advises somebody, which says little of what is so: `Be sure to ask your doctor`."""
    return _TIP.match(text) is not None


def is_announcement(text: str) -> bool:
    """Tell whether a sentence only says that the text will explain something, or that something matters.

    As in `In this chapter, we'll see` and `Safety is of the utmost importance`.
    """
    return _ANNOUNCEMENT.search(text) is not None or _PLATITUDE.search(text) is not None
