"""E-mail messages: the headers that people read, and the body, whatever it is written in."""

import time
from datetime import UTC, datetime

import pytest

from groundwire.ingest.parsing.message_reader import read_message
from groundwire.ingest.parsing.parsed_document import ParseRules
from groundwire.ingest.parsing.parser_worker import read_source
from groundwire.ingest.parsing.source_text import ReadingLimits, SourceText
from groundwire.kernel.collection import PROFILES, ProfileName
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import DocumentEncodingError, EmptyDocumentError

HEAD = """From: =?utf-8?q?J=C3=BCrgen_Ott?= <juergen@example.org>, bob@example.org
To: Ann <ann@example.org>
Received: from mail.example.org
Date: Fri, 01 Nov 2024 10:00:00 +0100
Subject: =?utf-8?b?R3LDvMOfZQ==?=
 from the sea
MIME-Version: 1.0
"""
SHOWN = """From: Jürgen Ott <juergen@example.org>, bob@example.org
To: Ann <ann@example.org>
Date: Fri, 01 Nov 2024 10:00:00 +0100
Subject: Grüße from the sea"""
POLICY = PROFILES[ProfileName.DOCUMENTS].chunking
HTML = "<h1>Harbour</h1><p>The lamp is lit at dusk.</p>"


def message(body: str | bytes, content_type: str = "text/plain; charset=utf-8", transfer: str = "8bit") -> bytes:
    head = f"{HEAD}Content-Type: {content_type}\nContent-Transfer-Encoding: {transfer}\n\n"
    return head.encode() + (body if isinstance(body, bytes) else body.encode())


def of_parts(kind: str, *parts: str) -> bytes:
    inside = "".join(f"--x\n{part}\n" for part in parts)
    return message(f"{inside}--x--\n", f"multipart/{kind}; boundary=x")


def body_of(read: SourceText) -> str:
    assert read.text.startswith(SHOWN)
    return read.text.removeprefix(SHOWN).strip()


def read(data: bytes) -> SourceText:
    return read_message(data, "content")


def test_headers_that_people_read_stand_above_the_body() -> None:
    found = read(message("The tide is high at caf=C3=A9 Lumen=\n at noon.\n\n> Old.\n", transfer="quoted-printable"))
    assert found.text == f"{SHOWN}\n\nThe tide is high at café Lumen at noon.\n\n> Old."
    assert found.format is DocumentFormat.TEXT


def test_sender_subject_and_date_fill_fields() -> None:
    fields = read(message("Text.")).properties
    assert (fields.title, fields.creators) == ("Grüße from the sea", ("Jürgen Ott", "bob@example.org"))
    assert fields.date_created == datetime(2024, 11, 1, 9, tzinfo=UTC)


def test_plain_text_comes_before_html_and_attachments_are_not_read() -> None:
    plain, page = "Content-Type: text/plain\n\nPlain.", f"Content-Type: text/html\n\n{HTML}"
    attached = "Content-Type: text/plain\nContent-Disposition: attachment; filename=a.txt\n\nAttached."
    assert body_of(read(of_parts("alternative", page, plain))) == "Plain."
    assert body_of(read(of_parts("mixed", plain, attached))) == "Plain."


def test_a_body_that_is_html_alone_keeps_its_headings() -> None:
    found = read(message(HTML, "text/html"))
    assert body_of(found) == "# Harbour\n\nThe lamp is lit at dusk."
    assert found.format is DocumentFormat.HTML
    assert [found.text[each.start : each.end] for each in found.outline.headings] == ["# Harbour"]


@pytest.mark.parametrize("stated", ["text/plain; charset=iso-8859-1", "text/plain; charset=x-unknown", "text/plain"])
def test_the_encoding_is_the_stated_one_or_else_recognised(stated: str) -> None:
    text = "Die Möwen über der Küste schreien früh, und die Fähre fährt schon über die Förde."
    encoding = "iso-8859-1" if "8859" in stated else "utf-8"
    assert body_of(read(message(text.encode(encoding), stated))) == text
    assert body_of(read(message(text.encode(), stated))) == text, "UTF-8 is UTF-8 whatever is stated"


def test_a_body_in_ascii_has_the_stated_encoding() -> None:
    assert body_of(read(message("海".encode("iso-2022-jp"), "text/plain; charset=iso-2022-jp", "7bit"))) == "海"


def test_an_encoding_that_is_wrong_and_uncertain_is_refused() -> None:
    with pytest.raises(DocumentEncodingError):
        read(message(b"tr\xe8s"))


@pytest.mark.parametrize("data", [b"\n", b"X-Mailer: none\n\n \n"])
def test_a_message_without_text_is_refused(data: bytes) -> None:
    with pytest.raises(EmptyDocumentError):
        read(data)


@pytest.mark.parametrize("head", ["From: ,\nDate: soon", "From: <<\nDate: 99 Foo 2024 99:99", 'From: "\nDate: -'])
def test_headers_that_mean_nothing_fill_no_field(head: str) -> None:
    found = read(f"{head}\nSubject: Tides\n\nText.".encode())
    assert found.text.endswith("Subject: Tides\n\nText.")
    assert found.properties.date_created is None


@pytest.mark.parametrize("header", ["(" * 20_000, "a@b, " * 20_000], ids=["comments in comments", "too long"])
def test_a_header_that_cannot_be_read_costs_no_more_than_itself(header: str) -> None:
    began = time.thread_time()
    source = read_message(f"From: {header}\nSubject: Owls\n\nThey hunt.".encode(), "content")
    assert source.text == "Subject: Owls\n\nThey hunt."
    assert time.thread_time() - began < 2  # in quadratic time: 6 s and more


def test_messages_are_recognised_by_their_name_unless_they_are_declared_to_be_text() -> None:
    def text(name: str, declared: DocumentFormat | None = None) -> str:
        rules = ParseRules(declared, POLICY, None, name, "content")
        return read_source(message("=C3=A9", transfer="quoted-printable"), rules, ReadingLimits()).text

    assert text("a.EML").endswith("é")
    assert text("a.txt").endswith("=C3=A9")
    assert text("a.eml", DocumentFormat.TEXT).endswith("=C3=A9")
