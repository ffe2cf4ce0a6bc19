"""Tell where a text may be cut without tearing what a reader sees as one character."""

import unicodedata

_JOINER = "\u200d"
_MARKS = frozenset({"Mn", "Mc", "Me"})
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_TAGS = range(0xE0020, 0xE0080)
_REGIONAL = range(0x1F1E6, 0x1F200)
_HANGUL_VOWELS_AND_TAILS = range(0x1160, 0x1200)
_HANGUL = range(0xAC00, 0xD7A4)
_HANGUL_LEADS = range(0x1100, 0x1160)
MAX_LOOK_BACK = 64
"""Code points that `cut_before` goes back; longer clusters are cut inside."""


def is_cluster_boundary(text: str, index: int) -> bool:
    """Tell whether no grapheme cluster spans `index`, 0..len(text).

    The rules of Unicode Standard Annex #29 section 3.1.1 for CR LF, combining marks, joiners, emoji
    modifiers and tags, flags and Hangul; prepended marks (GB9b) are left out. Errs on the side of "no".
    """
    if index <= 0 or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    if before < " ":
        return not (before == "\r" and after == "\n")
    if after < "\u0300":
        return before != _JOINER
    if _JOINER in {before, after} or unicodedata.category(after) in _MARKS:
        return False
    code = ord(after)
    if code in _SKIN_TONES or code in _TAGS:
        return False
    if code in _REGIONAL:
        return _regional_before(text, index) % 2 == 0
    return not _joins_hangul(ord(before), code)


def cut_before(text: str, index: int) -> int:
    """Return the last cluster boundary at or before `index`, or `index` when none is within MAX_LOOK_BACK."""
    for candidate in range(index, max(index - MAX_LOOK_BACK, 0), -1):
        if is_cluster_boundary(text, candidate):
            return candidate
    return index


def _regional_before(text: str, index: int) -> int:
    """Count the regional indicators that end at `index`, looking back at most MAX_LOOK_BACK."""
    count = 0
    while count < min(index, MAX_LOOK_BACK) and ord(text[index - 1 - count]) in _REGIONAL:
        count += 1
    return count


def _joins_hangul(before: int, after: int) -> bool:
    if after in _HANGUL_VOWELS_AND_TAILS:
        return before in _HANGUL or before in _HANGUL_LEADS or before in _HANGUL_VOWELS_AND_TAILS
    return before in _HANGUL_LEADS and (after in _HANGUL_LEADS or after in _HANGUL)
