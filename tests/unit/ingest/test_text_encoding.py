# ruff: noqa: RUF001 - letters of other scripts
"""Encodings: what is recognised for certain, what is refused, and that UTF-8 is never taken for anything else."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.ingest.parsing.parsed_document import ParseRules
from groundwire.ingest.parsing.parser_worker import read_source
from groundwire.ingest.parsing.source_text import ReadingLimits, SourceText
from groundwire.ingest.parsing.text_encoding import decode_text
from groundwire.kernel.collection import PROFILES, ProfileName
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import BinaryDocumentError, DocumentEncodingError, EmptyDocumentError

FRENCH = "Le héron cendré se tient dans les roseaux à midi. Il attend les poissons près de l'écluse, là-bas.\n"
GERMAN = "Der Graureiher steht mittags im Schilf. Er wartet auf Fische, während die Boote „größer“ werden.\n"
SPANISH = "La garza real está en los juncos al mediodía. ¿Dónde la vieron por primera vez? El niño lo sabía.\n"
POLISH = "Czapla siwa stoi w trzcinach w południe. Czeka na ryby przy śluzie; właśnie tam widziano żółte łódki.\n"
CZECH = "Volavka popelavá stojí v poledne v rákosí. Čeká na ryby u stavidla; právě tam ji viděli poprvé.\n"
TURKISH = "Gri balıkçıl öğle vakti sazlıkta duruyor, şişe ve ağır.\n"
HUNGARIAN = "A szürke gém délben a nádasban áll. A zsilipnél várja a halakat; ott látták először. Tükörfúrógép.\n"
ICELANDIC = "Gráhegrinn stendur í reyrnum á hádegi. Hann bíður eftir fiski við lokuna; þar sást hann fyrst.\n"
RUSSIAN = "Серая цапля стоит в камышах в полдень. Она ждёт рыбу у старой плотины и не боится лодок.\n"
GREEK = "Ο σταχτοτσικνιάς στέκεται στα καλάμια το μεσημέρι και περιμένει τα ψάρια.\n"
JAPANESE = "アオサギは正午に葦の中に立っています。魚を待っています。水門の近くで最初に見られました。\n"
CHINESE = "苍鹭中午站在芦苇丛中。它在水闸旁等鱼，人们第一次就是在那里看到它的。\n"
TAIWANESE = "蒼鷺中午站在蘆葦叢中。牠在水閘旁等魚，人們第一次就是在那裡看到牠的。\n"
KOREAN = "왜가리는 정오에 갈대밭에 서 있다. 수문 근처에서 물고기를 기다린다.\n"


@pytest.mark.parametrize("times", [1, 40], ids=["short", "long"])
@pytest.mark.parametrize(
    ("text", "codec", "name"),
    [
        (FRENCH, "cp1252", "windows-1252"),
        (GERMAN, "cp1252", "windows-1252"),
        (SPANISH, "cp1252", "windows-1252"),
        (FRENCH, "latin-1", "windows-1252"),
        (POLISH, "cp1250", "windows-1250"),
        (CZECH, "cp1250", "windows-1250"),
        (RUSSIAN, "cp1251", "windows-1251"),
        (RUSSIAN, "koi8_r", "koi8-r"),
        (RUSSIAN, "cp866", "ibm866"),
        (GREEK, "cp1253", "windows-1253"),
        (JAPANESE, "cp932", "shift_jis"),
        (JAPANESE, "euc_jp", "euc-jp"),
        (CHINESE, "gb18030", "gb18030"),
        (TAIWANESE, "big5", "big5"),
        (KOREAN, "euc_kr", "euc-kr"),
        (FRENCH, "utf-16-le", "utf-16-le"),
        (FRENCH, "utf-16-be", "utf-16-be"),
    ],
)
def test_text_is_read_in_its_own_encoding(text: str, codec: str, name: str, times: int) -> None:
    assert decode_text((text * times).encode(codec), "content") == (text * times, name)


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        (FRENCH, "cp1252"),
        (GERMAN, "cp1252"),
        (SPANISH, "cp1252"),
        (ICELANDIC, "cp1252"),
        (POLISH, "cp1250"),
        (CZECH, "cp1250"),
        (HUNGARIAN, "cp1250"),
        (TURKISH, "cp1254"),
        (RUSSIAN, "cp1251"),
        (JAPANESE, "cp932"),
        (JAPANESE, "euc_jp"),
        (CHINESE, "gb18030"),
        (KOREAN, "euc_kr"),
    ],
)
@pytest.mark.parametrize("before", ["", "# Étude\n\n", "1. ", "See https://example.org/a.\n", "A\n" * 20])
def test_a_text_is_read_rightly_or_refused(text: str, codec: str, before: str) -> None:
    sentences = text.split(". ")
    for count in range(1, len(sentences) + 1):
        whole = before.encode(codec, "ignore").decode(codec) + ". ".join(sentences[:count])
        try:
            found, _ = decode_text(whole.encode(codec), "content")
        except DocumentEncodingError:
            continue
        assert found == whole


@pytest.mark.parametrize("text", [FRENCH, RUSSIAN, JAPANESE])
@pytest.mark.parametrize(
    ("mark", "codec"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_a_byte_order_mark_decides_and_is_left_out(text: str, mark: bytes, codec: str) -> None:
    assert decode_text(mark + text.encode(codec), "content") == (text, codec)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1).filter(str.strip))
def test_utf_8_is_never_taken_for_anything_else(text: str) -> None:
    assert decode_text(b"Text: " + text.encode(), "content") == ("Text: " + text, "utf-8")


@pytest.mark.parametrize("text", [FRENCH, RUSSIAN, JAPANESE, POLISH])
def test_damaged_utf_8_is_refused_and_not_read_as_something_else(text: str) -> None:
    data = (text * 20).encode()
    cut = data[: len(data) // 2] + b"\xff" + data[len(data) // 2 :]
    with pytest.raises(DocumentEncodingError) as caught:
        decode_text(cut, "content")
    assert int(caught.value.metadata["offset"]) <= len(data) // 2


@pytest.mark.parametrize(
    "data",
    [
        b"tr\xe8s",  # French or Czech
        "Le café est très bon.".encode("cp1252"),  # French or Czech
        b"text \x81\x8d\x8f text",
    ],
)
def test_what_cannot_be_told_for_certain_is_refused_with_its_place(data: bytes) -> None:
    with pytest.raises(DocumentEncodingError) as caught:
        decode_text(data, "content")
    assert data[int(caught.value.metadata["offset"])] >= 0x80
    assert caught.value.violations[0].field == "content"


@given(st.binary(min_size=1, max_size=200))
def test_any_bytes_end_in_a_text_or_a_typed_refusal(data: bytes) -> None:
    try:
        text, encoding = decode_text(data, "content")
    except (DocumentEncodingError, BinaryDocumentError, EmptyDocumentError):
        return
    assert text.strip()
    assert encoding
    assert "\x00" not in text


def read(data: bytes, name: str, document_format: DocumentFormat | None = None) -> SourceText:
    policy = PROFILES[ProfileName.DOCUMENTS].chunking
    return read_source(data, ParseRules(document_format, policy, None, name, "content"), ReadingLimits())


@pytest.mark.parametrize("codec", ["utf-8", "utf-16", "cp1252"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", FRENCH),
        ("a.md", f"# Étangs\n\n{FRENCH}"),
        ("a.rst", f"Étangs\n======\n\n{FRENCH}"),
        ("a.csv", f"oiseau,fait\nhéron,{FRENCH.replace(',', '')}"),
        ("a.jsonl", '{"oiseau": "héron cendré", "fait": "se tient dans les roseaux à midi près de l\'écluse"}\n'),
        ("a.html", f"<title>Étangs</title><p>{FRENCH}"),
        ("page", f"<!doctype html><p>{FRENCH}"),
    ],
)
def test_every_format_of_text_is_read_in_every_encoding(name: str, text: str, codec: str) -> None:
    expected, found = read(text.encode(), name), read(text.encode(codec), name)
    assert (found.format, found.text, found.outline) == (expected.format, expected.text, expected.outline)
    assert "héron" in found.text
    assert found.encoding == {"utf-8": "utf-8", "utf-16": "utf-16-le", "cp1252": "windows-1252"}[codec]


def test_html_declares_its_encoding_before_anything_is_guessed() -> None:
    assert read("<meta charset=koi8-r><p>море".encode("koi8-r"), "a.html").encoding == "koi8-r"
