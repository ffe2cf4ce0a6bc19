"""Surface cues of English sentences: what they offer, what they define, what they only announce."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import dropwhile, takewhile

from groundwire.answer.question import DEEDS, NAME_OF_CODE, PURPOSE_ASKED, VERSION_ASKED, Question, QuestionKind
from groundwire.kernel.facts import Fact, FactKind, names_in, read
from groundwire.kernel.words import FUNCTION_WORDS, NEGATION, content_stems, stem, words

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
_OWNER = re.compile(
    r"(?<!\w)(?!(?i:what|who|how|where|that|it|there|here)['\u2019])(?P<name>[\w-]{2,40})['\u2019]s?(?!\w)"
    r"|\bof (?P<named>[A-Z][\w-]{1,40}(?: [A-Z][\w-]{1,40})*)"
)
_OUR = re.compile(r"\b[Oo]ur\b")
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
_DEFINING_VERB = re.compile(
    r"\b(?:(?P<copula>is|are|was|were)"
    r"(?= (?!where )(?:an?|the|one|another|any|part|code|data|how|what|when|\w+ that|\w{3,} \w{3,}(?<!ou)s"
    r"|[\w-]+['\u2019]s (?:\w+ )?(?:way|means|method|tool|name|term|equivalent|answer))\b)"
    r"|(?P<verb>means?|refers? to|stands? for|describes?|lets?|allows?|enables?|provides?|defines?"
    r"|(?:can|may|could) be (?:thought of|seen|regarded|viewed|described) as)|is|are|was|were)\b"
)
# "The library does not provide …".
_DENIES = re.compile(r"(?:n['\u2019]t|\b(?:not|never|no longer)) \Z")
_ADDRESS = re.compile(r"\s*(?:[-*+] )?(?P<name>[^.:]{2,60}):\s*[a-z]{1,10}://\S+")
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
_WHETHER = re.compile(r"\bwhether [^,.;]*\Z")
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
_ABBREVIATED = re.compile(r"\b[A-Z]{1,5}\b")
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
CONSTANT = re.compile(r"\b[A-Z]{5,}\b")
"""Names in capitals: `SIGTERM`."""
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


def is_address_unasked(question: Question, text: str) -> bool:
    """Tell whether a text only says where to find what the question does not ask for: "Source code: https://…"."""
    addresses = [_ADDRESS.fullmatch(line) for line in text.splitlines()]
    return all(
        address is not None and question.stems_of(address["name"]).isdisjoint(question.stems) for address in addresses
    )


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
