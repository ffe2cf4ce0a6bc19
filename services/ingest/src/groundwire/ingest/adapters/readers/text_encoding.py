"""Decode text files: UTF-8 and UTF-16 by their bytes, what older programs wrote by charset-normalizer."""

import codecs
import re
from collections.abc import Sequence
from typing import Any

from groundwire.ingest.adapters.readers.libraries import load
from groundwire.ingest.domain.decoding import checked_text
from groundwire.kernel.document_errors import BinaryDocumentError, DocumentEncodingError, EmptyDocumentError
from groundwire.kernel.errors import FieldViolation

UTF_8 = "utf-8"
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LATIN = frozenset({"cp1252", "cp1250", "cp1254"})
_CANDIDATES = (*sorted(_LATIN), "cp1251", "cp1253", "koi8_r", "cp866", "cp932", "euc_jp", "gb18030", "big5", "euc_kr")
# Names of the WHATWG Encoding Standard for those that Python calls otherwise.
_NAMES = {"cp932": "shift_jis", "cp866": "ibm866", "koi8_r": "koi8-r", "euc_jp": "euc-jp", "euc_kr": "euc-kr"}
_NAMES |= {name: name.replace("cp", "windows-") for name in (*_LATIN, "cp1251", "cp1253")}
# For each of the Latin encodings its languages and, beside A to Z, the letters of each. What another one of them makes
# of a text nearly always has letters of no single language, or signs inside words.
_WESTERN = "àáâãäåæçèéêëìíîïñòóôõöøùúûüÿœß"
_WESTERN_LANGUAGES = "English French German Dutch Spanish Portuguese Italian Swedish Danish Norwegian Finnish"
_LETTERS = {
    "cp1252": dict.fromkeys(_WESTERN_LANGUAGES.split(), _WESTERN),
    "cp1250": {
        "Polish": "ąćęłńóśźż",
        "Czech": "áčďéěíňóřšťúůýž",
        "Slovak": "áäčďéíľňóôšťúýž",
        "Hungarian": "áéíóöőúüű",
        "Croatian": "čćđšž",
        "Slovene": "čšž",
        "Romanian": "ăâîşţ",
    },
    "cp1254": {"Turkish": "âçğîıöşûü"},
}
_SIGN_IN_WORD = re.compile(r"(?<=[^\W\d_])[¹²³¿¡£¥¦¬¯\u00b8\u02db](?=[^\W\d_])")
_KANA = re.compile("[\u3040-\u30ff]")
_NOT_ASCII = re.compile("[^\x00-\x7f]")
_UTF_8_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_HIGH_BYTE = re.compile(rb"[\x80-\xff]")
_SAMPLE_BYTES = 1 << 14
_SIDE_BYTES = 1 << 10
_MAX_CHAOS = 0.2
_CLOSE_CHAOS, _CLOSE_COHERENCE = 0.05, 0.1
_KANA_SHARE = 0.2
_NUL_SHARE = 0.4
_CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\f\r")
"""Texts without a mark have none of them; small numbers in binary data look like UTF-16 otherwise."""


def read_text(data: bytes, field: str) -> tuple[str, str]:
    """Return the canonical text of a file's bytes, and the name of their encoding.

    Bytes that are valid UTF-8 are UTF-8. A byte order mark is left out.

    Raises:
        EmptyDocumentError: no bytes, or white space only.
        BinaryDocumentError: it is no text.
        DocumentEncodingError: not valid in the encoding, or the encoding cannot be told; says where.
        MissingExtraError: telling the encoding needs a library that is not installed.
    """
    wide = wide_encoding(data)
    if wide is not None:
        return _decoded(data, wide, field), wide
    try:
        return checked_text(data, field), UTF_8
    except DocumentEncodingError as error:
        offset = int(error.metadata["offset"])
    encoding = _detected(data, offset)
    if encoding is None:
        why = f"is not valid UTF-8 at byte {offset}, and its encoding cannot be told for certain: convert it to UTF-8"
        raise DocumentEncodingError([FieldViolation(field, why)], offset=offset)
    return _decoded(data, encoding, field), _NAMES.get(encoding, encoding)


def wide_encoding(data: bytes) -> str | None:
    """Return which of UTF-16 and UTF-32 a text is in by its byte order mark, or the NULs of its ASCII; else None."""
    marked = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    if marked is not None:
        return marked
    sample = data[:4096]
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    least = max(1.0, _NUL_SHARE * (len(sample) // 2))
    if odd >= least and not even:
        return "utf-16-le" if _CONTROLS.isdisjoint(sample[0::2]) else None
    return "utf-16-be" if even >= least and not odd and _CONTROLS.isdisjoint(sample[1::2]) else None


def _decoded(data: bytes, encoding: str, field: str) -> str:
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        violation = FieldViolation(field, f"is not valid {encoding} at byte {error.start}: {error.reason}")
        raise DocumentEncodingError([violation], offset=error.start) from None
    if "\x00" in text:
        raise BinaryDocumentError([FieldViolation(field, f"is no text in {encoding}")], found="binary data")
    if not text.strip():
        raise EmptyDocumentError([FieldViolation(field, "has white space only")])
    return text


def _detected(data: bytes, offset: int) -> str | None:
    """Return the one encoding that the bytes around the first that is not UTF-8 can be in, None when in doubt."""
    if _is_damaged_utf_8(data[: 1 << 20]):
        return None
    start = data.rfind(b"\n", max(0, offset - _SIDE_BYTES), offset) + 1 or max(0, offset - _SIDE_BYTES)
    sample = data[start : start + _SAMPLE_BYTES]
    if start + _SAMPLE_BYTES < len(data):
        sample = sample[: sample.rfind(b"\n") + 1 or None]  # not in the middle of a character
    found = load("charset_normalizer").from_bytes(sample, cp_isolation=list(_CANDIDATES), threshold=_MAX_CHAOS)
    matches = list(found)
    if not matches:
        return None
    best = matches[0]
    close = [
        match
        for match in matches
        if match.chaos <= best.chaos + _CLOSE_CHAOS and match.coherence >= best.coherence - _CLOSE_COHERENCE
    ]
    if all(_LATIN.intersection(match.could_be_from_charset) for match in close):
        return _latin(close)
    japanese = [match for match in close if _share(_KANA, str(match)) >= _KANA_SHARE]
    if len(japanese) == 1:
        return str(japanese[0].encoding)
    return str(best.encoding) if len(close) == 1 else None


def _latin(close: Sequence[Any]) -> str | None:
    """Return the only Latin encoding that makes a text of one of its languages, in its letters; None when in doubt.

    Windows-1252 where the text is the same in all of them.
    """
    if len(close) == 1 and len(_LATIN.intersection(close[0].could_be_from_charset)) > 1:
        return "cp1252" if "cp1252" in close[0].could_be_from_charset else None
    sound = {
        encoding
        for match in close
        for encoding in _LATIN.intersection(match.could_be_from_charset)
        if _is_in_language(str(match), _LETTERS[encoding].get(match.language))
    }
    return sound.pop() if len(sound) == 1 else None


def _is_in_language(text: str, letters: str | None) -> bool:
    own = {char for char in _NOT_ASCII.findall(text.lower()) if char.isalpha()}
    return letters is not None and own <= set(letters) and _SIGN_IN_WORD.search(text) is None


def _is_damaged_utf_8(data: bytes) -> bool:
    """Tell whether most of what is not ASCII is UTF-8: guessing would turn all of it into something else."""
    valid = sum(len(character) for character in _UTF_8_CHARACTER.findall(data))
    return 2 * valid >= sum(1 for _ in _HIGH_BYTE.finditer(data))


def _share(pattern: re.Pattern[str], text: str) -> float:
    return len(pattern.findall(text)) / max(1, len(_NOT_ASCII.findall(text)))
