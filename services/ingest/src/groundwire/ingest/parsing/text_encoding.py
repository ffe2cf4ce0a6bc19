"""Detects the encoding of a document's bytes and decodes them to the exact canonical text.

The canonical text is the decoded bytes without a leading byte order mark. Nothing else changes: line ends, tabs,
normalisation forms and trailing white space stay. UTF-8, UTF-16 and UTF-32 are recognised by the bytes, older encodings
by charset-normalizer, and HTML also by its declaration.
"""

import codecs
import re
from contextlib import suppress

from groundwire.ingest.parsing.source_text import load, utf_8_text
from groundwire.kernel.document_errors import BinaryDocumentError, DocumentEncodingError, EmptyDocumentError

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
# Texts without a mark have none of them; small numbers in binary data look like UTF-16 otherwise.
_CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\f\r")

_SIGNATURES = {
    b"%PDF-": "PDF",
    b"PK\x03\x04": "ZIP or office",
    b"\x89PNG": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF8": "GIF",
    b"\x7fELF": "ELF",
    b"\x1f\x8b": "gzip",
    b"\xd0\xcf\x11\xe0": "office",
    b"SQLite format 3\x00": "SQLite",
}
_NOT_IN_TEXT = bytes(set(range(0x20)) - {0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x1B}) + b"\x7f"
_MAX_CONTROL_SHARE = 0.01
_NON_BLANK = re.compile(r"\S")

_HTML_MARKS = ((codecs.BOM_UTF8, UTF_8), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_DECLARED = re.compile(
    rb"<(?:meta\b[^>]{0,512}?charset|\?xml\b[^>]{0,200}?encoding)\s*+=\s*+[\"']?\s*+([A-Za-z0-9_.:-]{1,40})",
    re.IGNORECASE,
)
_DECLARED_WITHIN = 1024
# A declaration of UTF-16 that can be read as ASCII is wrong, and pages that declare Latin-1 hold Windows-1252
# (WHATWG, Encoding Standard, sections 4.2 and 6.1; HTML Standard, section 13.2.3.2).
_MEANT = {"utf-16": "utf-8", "utf-16-le": "utf-8", "utf-16-be": "utf-8", "iso8859-1": "cp1252", "ascii": "cp1252"}
# Only the codecs of the standard: others of Python's read escapes or take quadratic time.
_OF_THE_STANDARD = re.compile(
    r"utf-(?:8|16.*)|ascii|cp(?:125\d|866|874)|iso8859-\d+|koi8-[ru]|gb(?:2312|k|18030)|big5\w*|euc_(?:jp|kr)|shift_jis"
    r"|iso2022_jp|mac-\w+"
)


def decode_text(data: bytes, field: str) -> tuple[str, str]:
    """Return the canonical text of a file's bytes, and the name of their encoding.

    Bytes that are valid UTF-8 are UTF-8. A byte order mark is left out.

    Raises:
        EmptyDocumentError: no bytes, or white space only.
        BinaryDocumentError: it is no text.
        DocumentEncodingError: not valid in the encoding, or the encoding is uncertain; says where.
        MissingExtraError: detecting the encoding needs a library that is not installed.
    """
    wide = wide_encoding(data)
    if wide is not None:
        return _decoded_as(data, wide, field), wide
    try:
        return checked_text(data, field), UTF_8
    except DocumentEncodingError as error:
        offset = int(error.metadata["offset"])
    encoding = _detected(data, offset)
    if encoding is None:
        why = f"is not valid UTF-8 at byte {offset}, and its encoding is uncertain: convert it to UTF-8"
        raise DocumentEncodingError.of(field, why, offset=offset)
    return _decoded_as(data, encoding, field), _NAMES.get(encoding, encoding)


def checked_text(data: bytes, field: str) -> str:
    """Return the canonical text of a file's bytes after checking that it is text.

    Raises:
        EmptyDocumentError: no bytes, or white space only.
        BinaryDocumentError: `binary_kind` says what it is.
        DocumentEncodingError: not UTF-8; says where, in bytes of the file.
    """
    if not data:
        raise EmptyDocumentError.of(field, "is empty")
    kind = binary_kind(data)
    if kind is not None:
        raise BinaryDocumentError.of(field, f"is {kind}, not text", found=kind)
    try:
        text = canonical_text(data)
    except UnicodeDecodeError as error:
        raise _invalid(field, "UTF-8", error.start, error.reason) from None
    if _NON_BLANK.search(text) is None:
        raise EmptyDocumentError.of(field, "contains only white space")
    return text


def canonical_text(data: bytes) -> str:
    """Return the decoded UTF-8 without a leading byte order mark.

    Raises:
        UnicodeDecodeError: `start` is the offset of the first bad byte in `data`.
    """
    return utf_8_text(data, len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)


def binary_kind(data: bytes) -> str | None:
    """Return what binary content seems to be, None for what may be text.

    Content is binary with a known signature at its start, a NUL byte, or more than 1 % control characters.
    """
    kind = next((name for signature, name in _SIGNATURES.items() if data.startswith(signature)), None)
    if kind is not None:
        return f"a {kind} file"
    nul = data.find(0)
    if nul >= 0:
        return f"binary data with NUL at byte {nul}"
    controls = len(data) - len(data.translate(None, _NOT_IN_TEXT))
    if controls <= _MAX_CONTROL_SHARE * len(data):
        return None
    return f"binary data with {controls} control character{'' if controls == 1 else 's'}"


def _invalid(field: str, encoding: str, offset: int, reason: str) -> DocumentEncodingError:
    return DocumentEncodingError.of(field, f"is not valid {encoding} at byte {offset}: {reason}", offset=offset)


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


def _decoded_as(data: bytes, encoding: str, field: str) -> str:
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise _invalid(field, encoding, error.start, error.reason) from None
    if "\x00" in text:
        raise BinaryDocumentError.of(field, f"is not text in {encoding}", found="binary data")
    if not text.strip():
        raise EmptyDocumentError.of(field, "contains only white space")
    return text


def _detected(data: bytes, offset: int) -> str | None:
    """Return the one encoding that the bytes around the first that is not UTF-8 can be in, None when in doubt."""
    # If most of what is not ASCII is UTF-8, guessing another encoding would garble all of it.
    # A part of it is enough to judge, and bounds the time.
    head = data[: 1 << 20]
    valid = sum(len(character) for character in _UTF_8_CHARACTER.findall(head))
    if 2 * valid >= sum(1 for _ in _HIGH_BYTE.finditer(head)):
        return None
    # From the start of a line, at which a character begins in every candidate.
    start = data.rfind(b"\n", max(0, offset - _SIDE_BYTES), offset) + 1 or max(0, offset - _SIDE_BYTES)
    sample = data[start : start + _SAMPLE_BYTES]
    if start + _SAMPLE_BYTES < len(data):
        sample = sample[: sample.rfind(b"\n") + 1 or None]  # not in the middle of a character
    detector = load("charset_normalizer")
    matches = list(detector.from_bytes(sample, cp_isolation=list(_CANDIDATES), threshold=_MAX_CHAOS))
    if not matches:
        return None
    best = matches[0]
    close = [
        match
        for match in matches
        if match.chaos <= best.chaos + _CLOSE_CHAOS and match.coherence >= best.coherence - _CLOSE_COHERENCE
    ]
    if all(_LATIN.intersection(match.could_be_from_charset) for match in close):
        if len(close) == 1 and len(_LATIN.intersection(close[0].could_be_from_charset)) > 1:
            return "cp1252" if "cp1252" in close[0].could_be_from_charset else None
        sound: set[str] = set()
        for match in close:
            text = str(match)
            letters = {char for char in _NOT_ASCII.findall(text.lower()) if char.isalpha()}
            for encoding in _LATIN.intersection(match.could_be_from_charset):
                own = _LETTERS[encoding].get(match.language)
                if own is not None and letters <= set(own) and _SIGN_IN_WORD.search(text) is None:
                    sound.add(encoding)
        return sound.pop() if len(sound) == 1 else None
    # Chinese and Japanese encodings read one another's bytes; only Japanese has kana.
    japanese = [
        match
        for match in close
        if len(_KANA.findall(str(match))) >= _KANA_SHARE * max(1, len(_NOT_ASCII.findall(str(match))))
    ]
    if len(japanese) == 1:
        return str(japanese[0].encoding)
    return str(best.encoding) if len(close) == 1 else None


def decode_html(data: bytes, field: str) -> tuple[str, str]:
    """Return the text of the bytes without a byte order mark, and the name of their encoding.

    Raises:
        DocumentEncodingError: the bytes are not valid in that encoding, or it is uncertain; says where.
    """
    mark, encoding = next(((mark, name) for mark, name in _HTML_MARKS if data.startswith(mark)), (b"", ""))
    declared = None if mark else _DECLARED.search(data[:_DECLARED_WITHIN])
    if declared is not None:
        with suppress(LookupError):
            name = codecs.lookup(declared.group(1).decode("ascii")).name
            if _OF_THE_STANDARD.fullmatch(name):
                encoding = _MEANT.get(name, name)
    if not encoding:
        return decode_text(data, field)
    try:
        return data[len(mark) :].decode(encoding), encoding
    except UnicodeDecodeError as error:
        raise _invalid(field, encoding, error.start + len(mark), error.reason) from None
