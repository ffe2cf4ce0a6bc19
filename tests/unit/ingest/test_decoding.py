"""What is text, and what exactly it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.ingest.parsing import source_text
from groundwire.ingest.parsing.source_text import check_size
from groundwire.ingest.parsing.text_encoding import canonical_text, checked_text
from groundwire.kernel.document_errors import (
    BinaryDocumentError,
    DocumentEncodingError,
    DocumentTooLargeError,
    EmptyDocumentError,
)


@pytest.mark.requirement("S4-21")
@pytest.mark.requirement("C25")
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), st.integers(1, 40))
def test_text_comes_back_exactly_whatever_the_block_size(text: str, block_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_text, "_BLOCK_BYTES", max(4, block_bytes))
        assert canonical_text(text.encode()) == text.removeprefix("\ufeff")


def test_line_ends_and_normal_forms_are_kept() -> None:
    text = "\u00e8 e\u0300\r\nline\rline\n \t\n"
    assert checked_text(text.encode(), "content") == text


def test_a_byte_order_mark_is_dropped_and_nothing_else() -> None:
    assert checked_text(b"\xef\xbb\xbf\xef\xbb\xbfa", "content") == "\ufeffa"


@pytest.mark.parametrize("data", [b"", b" \r\n\t", b"\xef\xbb\xbf", "\u2003\n".encode()])
def test_a_document_without_text_is_refused(data: bytes) -> None:
    with pytest.raises(EmptyDocumentError) as caught:
        checked_text(data, "content")
    assert caught.value.violations[0].field == "content"


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n and so on",
        b"%PDF-1.7 all of it printable",
        b"# Title\n\n\x00",
        "# Title".encode("utf-16"),
        b"text \x01\x02\x03\x04 text",
        b"\xff\xd8\xff\xe0 jpeg",
    ],
)
def test_binary_content_is_refused(data: bytes) -> None:
    with pytest.raises(BinaryDocumentError) as caught:
        checked_text(data, "content")
    assert caught.value.violations[0].field == "content"


def test_form_feeds_and_terminal_escapes_are_text() -> None:
    text = "page one\x0cpage two \x1b[1mbold\x1b[0m"
    assert checked_text(text.encode(), "content") == text


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=50), st.integers(4, 20))
def test_the_offset_of_the_first_bad_byte_is_told(text: str, block_bytes: int) -> None:
    good = ("a" * 100 + text).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_text, "_BLOCK_BYTES", block_bytes)
        with pytest.raises(DocumentEncodingError) as caught:
            checked_text(good + b"\xc3(", "content")
    assert caught.value.metadata["offset"] == str(len(good))


def test_a_character_cut_off_at_the_end_is_bad() -> None:
    with pytest.raises(DocumentEncodingError) as caught:
        checked_text("ab€".encode()[:-1], "content")
    assert caught.value.metadata["offset"] == "2"


def test_too_many_bytes_are_refused_with_both_sizes() -> None:
    check_size(10, 10, "content")
    with pytest.raises(DocumentTooLargeError) as caught:
        check_size(11, 10, "content")
    assert caught.value.metadata == {"size_bytes": "11", "limit_bytes": "10"}
