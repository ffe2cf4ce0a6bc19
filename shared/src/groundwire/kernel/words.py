"""Words of a text, in any script: where they begin and end, and their stems."""

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

# Han, Hiragana, Katakana, Bopomofo and their marks of repetition and length; Thai, Lao, Myanmar and Khmer. Korean has
# spaces, but writes particles onto its words, so that 서울 and 서울은 have a pair in common and no word.
_IDEOGRAPHS = (
    "々〆〇〱-〵ぁ-ゖ゙゚ゝ-ゟァ-ヺー-ヿㄅ-ㄯㆠ-ㆿㇰ-ㇿ㐀-䶿一-鿿豈-龎ｦ-ﾟ\U0001b000-\U0001b16f\U00020000-\U000323af"
)
_SOUTH_EAST_ASIAN = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u1780-\u17d3\u17dd"
_HANGUL = "\u1100-\u11ff\uac00-\ud7a3"
_RUN = re.compile(f"[{_IDEOGRAPHS}{_SOUTH_EAST_ASIAN}{_HANGUL}]+")
_WORD = re.compile(r"[^\W_]+")

# Accents that follow their letter, as in names of files on macOS: composed with it where Unicode can, else left out.
_ACCENTS = re.compile("[\u0300-\u036f]+")

# Letters and digits as wide as ideographs, which East Asian texts mix with the narrow ones.
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_HAS_WIDE = re.compile("[\uff01-\uff5e]")

# Bounded repetitions, so that no text takes more than linear time.
_JOINED = re.compile(r"(?<![\w&])[^\W_]{1,20}(?:&[^\W_]{1,20}){1,3}(?![\w&])")
_TRAILED = re.compile(r"(?<!\w)[A-Za-z][A-Za-z0-9]{0,20}(?:\+\+(?!\+)|#(?![\w#]))")
_LED = re.compile(r"(?:^|(?<=[\s(\[\"'`\u201c\u2018]))\.[A-Za-z][^\W_]{1,20}")
# Operators, options of a letter and variables: `->`, `-e`, `$@`, `$in`. Of a single sign only what is quoted or
# called an operator, since bullets and the question marks of French stand alone as well.
_SIGN, _CLOSING = r"[!#$%&*+\-/:<=>?@\\^|~]", r"[\s)\]`\"'\u2019\u201d.,;:?]"
_OPERATOR = re.compile(
    rf"{_SIGN}(?:(?<=[\s(\[`\"'\u2018\u201c].)|(?<=^.))"
    rf"(?:(?<=-)[A-Za-z](?={_CLOSING}|$)|(?<=\$)(?:[!#$*?@](?!\w)|\w{{1,30}})|{_SIGN}{{1,2}}?(?={_CLOSING}|$)"
    rf"|(?<=[`'\"\u2018\u201c].)(?=[`'\"\u2019\u201d])|(?= operator)|(?<=^.)$)"
)
_RULES = frozenset({"--", "---", "##", "###", "===", "***", "~~~", "^^^", "+++"})
"""Dashes, marks of headings and lines: no operators."""


def split_words(text: str, word: re.Pattern[str] = _WORD) -> list[str]:
    """Return the words of a text in order, as they are written, accents composed with their letters.

    Scripts without spaces give their overlapping pairs of characters: 東京都 gives 東京 and 京都, and a text has a word
    of that script exactly if it has its pairs side by side. A character that stands alone is a word by itself.

    `word` says what a word is in the other scripts; by default letters and digits in a row.
    """
    if text.isascii():  # most texts; the rest concerns other scripts
        return word.findall(text)
    if _HAS_WIDE.search(text):
        text = text.translate(_WIDE)
    if _ACCENTS.search(text):
        text = _ACCENTS.sub("", unicodedata.normalize("NFC", text))
    words: list[str] = []
    end = 0
    for run in _RUN.finditer(text):
        words += word.findall(text, end, run.start())
        # Normalises characters with two spellings: narrow katakana, and voicing marks that follow their letter.
        characters: list[str] = []
        for character in unicodedata.normalize("NFKC", run[0]):
            if characters and unicodedata.category(character).startswith("M"):
                characters[-1] += character  # vowels and tones above, below or after a letter
            else:
                characters.append(character)
        words += characters if len(characters) == 1 else map("".join, pairwise(characters))
        end = run.end()
    return words + word.findall(text, end)


def is_pair(word: str) -> bool:
    """Tell whether a word of `split_words` is of a script without spaces, and thus cannot be reduced to a stem."""
    return _RUN.match(word) is not None


def is_accent(character: str) -> bool:
    """Tell whether a character is an accent of the letter before it, as case folding may set it apart."""
    return _ACCENTS.match(character) is not None


def without_pairs(text: str) -> str:
    """Return the text with a space for every run of a script without spaces."""
    return text if text.isascii() else _RUN.sub(" ", text)


def signed_words(text: str) -> list[str]:
    """Return what a text has that is another word, or none, without its signs, in lower case.

    That is C++, C#, .NET and AT&T, operators such as `->` and `$?`, and options of a single letter such as `-e`.
    `split_words` has their letters as well; these come on top of them.
    """
    words: list[str] = []
    if "&" in text:
        words += _JOINED.findall(text)
    if "++" in text or "#" in text:
        words += _TRAILED.findall(text)
    if "." in text:
        words += _LED.findall(text)
    words += (each for each in _OPERATOR.findall(text) if each not in _RULES)
    return [each.casefold() for each in words]


_WITH_APOSTROPHES = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
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

NEGATION = re.compile(
    r"\b(?:not(?! (?:only|just|limited to)\b)|never|no|none|nor|without|cannot|except)\b|n['\u2019]t\b", re.IGNORECASE
)
"""Words that turn a statement round."""


def words(text: str) -> list[str]:
    """Return the words in order, case-folded, identifiers in camel case cut into parts.

    Scripts without spaces give pairs of characters, as in the full-text index.
    """
    return [word.casefold().replace("\u2019", "'") for word in split_words(_CAMEL.sub(" ", text), _WITH_APOSTROPHES)]


def content_stems(text: str) -> list[str]:
    """Return the stems of the words that carry meaning, in order, with repetitions."""
    return [stem(word) for word in words(text) if word not in FUNCTION_WORDS]


def base_form(word: str) -> str:
    """Return the base of an irregular English form: `wrote` and `written` are `write`, `children` is `child`.

    The word is expected in lower case; any other comes back as it is.
    """
    return _BASE_OF.get(word, word)


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return a word without its common English endings; other languages pass nearly unchanged.

    A light stemmer in the manner of Harman, "How effective is suffixing?", JASIS 42 (1991), the S-stemmer,
    with -ed, -ing and -ly added; words of up to 3 letters stay, and so does what would be left without a vowel.
    Irregular forms become their base first: `begun` and `began` are `begin`, `children` `child`, `6th` is `6`.
    """
    word = base_form(word.removesuffix("'s"))
    if ordinal := _ORDINAL.fullmatch(word):
        return ordinal[1] or ordinal[2]
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
    withdrawn, write wrote written, cling clung, foresee foresaw foreseen, hang hung, mislead misled, misunderstand
    misunderstood, override overrode overridden, oversee oversaw overseen, overthrow overthrew overthrown, prove
    proven, redo redid redone, redraw redrew redrawn, resell resold, rethink rethought, sew sewn, shine shone, slide
    slid, sow sown, spin spun, string strung, strive strove striven, swell swollen, undo undid undone, unwind unwound,
    uphold upheld, weave wove woven, withhold withheld, child children, man men, woman women, foot feet, tooth teeth,
    mouse mice, person people, half halves, knife knives, shelf shelves, wife wives, index indices, appendix
    appendices, matrix matrices, vertex vertices, criterion criteria, phenomenon phenomena, analysis analyses,
    hypothesis hypotheses, alias aliases, atlas atlases, bias biases, canvas canvases, lens lenses
"""
_BASE_OF = {form: base for base, *forms in map(str.split, _IRREGULAR.split(",")) for form in forms}
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)|v(\d+)")

# The first that fits is taken, so each stands before those that it ends in.
_ENDINGS = (
    ("ational", "ate", 2), ("ization", "ize", 2), ("ership", "er", 3),
    ("able", "", 5), ("iness", "y", 3), ("ingly", "", 3), ("edly", "", 3),
    ("ations", "at", 3), ("ation", "at", 3),
    ("ies", "y", 2), ("ied", "y", 2), ("ie", "y", 2),
    ("sses", "ss", 1), ("ches", "ch", 2), ("shes", "sh", 2), ("xes", "x", 2),
    ("ings", "", 3), ("ing", "", 3), ("ed", "", 3), ("ers", "er", 3), ("ily", "y", 3), ("ly", "", 4),
    ("es", "", 3), ("ss", "ss", 0), ("us", "us", 0), ("is", "is", 0), ("s", "", 3), ("e", "", 3),
)  # fmt: skip


_VOWELS = frozenset("aeiouy")
_SHORTEST_UNDOUBLED = 3
