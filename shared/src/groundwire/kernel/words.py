"""Where words begin and end, in any script: one answer for the full-text index, for queries and for answers."""

import re
import unicodedata
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
    """Return the words of a text that are others, or none, without their signs: C++, C#, .NET, AT&T; in lower case.

    `split_words` has their letters as well; these come on top of them.
    """
    words: list[str] = []
    if "&" in text:
        words += _JOINED.findall(text)
    if "++" in text or "#" in text:
        words += _TRAILED.findall(text)
    if "." in text:
        words += _LED.findall(text)
    return [each.casefold() for each in words]
