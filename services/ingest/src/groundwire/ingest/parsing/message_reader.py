"""Read e-mail messages (RFC 5322): who wrote what to whom, and the text of the body. Attachments are not read."""

from contextlib import suppress
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from typing import Any, cast

from groundwire.ingest.parsing.html_reader import HtmlText
from groundwire.ingest.parsing.source_text import SourceText, TextBuilder, on_one_line, source_properties
from groundwire.ingest.parsing.text_encoding import UTF_8, decode_text
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import EmptyDocumentError

_SHOWN = ("From", "To", "Cc", "Date", "Subject")
# To a thousand addresses. The library reads longer ones in quadratic time.
_MAX_HEADER_CHARS = 30_000


def read_message(data: bytes, field: str) -> SourceText:
    """Return the main headers of a message, a blank line and its body: plain text, or else HTML.

    Raises:
        EmptyDocumentError: it has neither such headers nor such a body.
        DocumentEncodingError: the encoding of the body is not the one that it states, nor certain.
        DocumentLimitError: an HTML body would cost too much.
    """
    message = BytesParser(policy=default).parsebytes(data)
    headers: dict[str, Any] = {}
    lengths = {name.casefold(): len(str(raw)) for name, raw in message.raw_items()}
    for name in _SHOWN:
        # What the library raises for broken headers, and for comments in comments.
        with suppress(LookupError, ValueError, AttributeError, TypeError, RecursionError):
            if 0 < lengths.get(name.casefold(), 0) <= _MAX_HEADER_CHARS and message[name]:
                headers[name] = message[name]
    head = "\n".join(f"{name}: {on_one_line(str(header))}" for name, header in headers.items())
    senders = headers["From"].addresses if "From" in headers else ()
    said = source_properties(
        title=str(headers.get("Subject", "")),
        creators=[each.display_name or each.addr_spec for each in senders],
        date_created=headers["Date"].datetime if "Date" in headers else None,
    )
    part = message.get_body(("plain", "html"))
    body = "" if part is None else _text_of(cast("EmailMessage", part), field)
    if part is not None and part.get_content_subtype() == "html":
        page = HtmlText()
        page.builder.add(head)
        page.add_page(body, field)
        source = page.builder.source(DocumentFormat.HTML, said)
    else:
        text = TextBuilder()
        text.add(head)
        text.add(body.strip())
        source = text.source(DocumentFormat.TEXT, said)
    if not source.text:
        raise EmptyDocumentError.of(field, "is a message without text")
    return source


def _text_of(part: EmailMessage, field: str) -> str:
    data = cast("bytes", part.get_payload(decode=True))
    stated = part.get_content_charset(UTF_8)
    # What is valid UTF-8 is that, as in other files, whatever it states; but ISO-2022-JP is ASCII.
    for encoding in (stated,) if data.isascii() else (UTF_8, stated):
        with suppress(LookupError, UnicodeError):  # an unknown encoding, or a wrong one
            return data.decode(encoding)
    return decode_text(data, field)[0]
