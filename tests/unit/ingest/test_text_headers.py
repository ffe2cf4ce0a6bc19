"""The header at the top of plain text and reStructuredText: who wrote what."""

import pytest

from groundwire.ingest.parsing.text_readers import read_header, read_rst, read_text

PEP = """\
PEP: 12
Title: Owls
 by night
Author: Ada Lovelace <ada@example.org>,
        Hopper, Grace <grace@example.org>
Created: 01-Mar-2019
Post-History:

Abstract
========

Owls: they hunt.
"""


def test_title_and_authors_are_those_of_the_header() -> None:
    for source in (read_rst(PEP), read_text(PEP), read_text("\n\n" + PEP.replace("\n", "\r\n"))):
        assert source.properties.title == "Owls by night"
        assert source.properties.creators[0] == "Ada Lovelace"
    assert read_rst(PEP).text == PEP
    assert [heading.text for heading in read_rst(PEP).outline.headings] == ["Abstract"]


def test_fields_of_restructured_text_begin_with_a_colon() -> None:
    fields = read_header(":Title: Owls\n:Authors: Ada, Grace\n:Date: 2021-05-01\n\nOwls hunt.").fields
    assert (fields.title, fields.creators) == ("Owls", ("Ada", "Grace"))


@pytest.mark.parametrize(
    "text",
    [
        "Title: Owls\nAuthor: Ada\n\nOwls hunt.",
        "Name: Owls\nAuthor: Ada\nStatus: old\n\nOwls hunt.",
        "Owls hunt.\n\nTitle: Owls\nAuthor: Ada\nStatus: old\n",
        "Owls hunt.",
    ],
)
def test_what_is_no_header_states_nothing(text: str) -> None:
    fields = read_header(text).fields
    assert (fields.title, fields.creators) == (None, ())


def test_comments_in_comments_cost_the_authors_not_the_document() -> None:
    fields = read_header(f"Title: Owls\nAuthor: {'(' * 50_000}\nStatus: old\n\nOwls hunt.").fields
    assert (fields.title, fields.creators) == ("Owls", ())
