"""DOCX: structure, what changes and text boxes come to, properties, and every way it can be refused."""

import re
from datetime import UTC, datetime

import docx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml

from groundwire.ingest.parsing.docx_reader import read_docx
from groundwire.ingest.parsing.source_text import ReadingLimits, SourceText
from groundwire.kernel.document_errors import (
    DocumentEncryptedError,
    DocumentLimitError,
    DocumentMalformedError,
    EmptyDocumentError,
)
from tests.unit.ingest.made_files import make_docx, make_zip, save, with_part

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
MC = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
MAIN = "word/document.xml"


def read(data: bytes) -> SourceText:
    return read_docx(data, ReadingLimits(), "content")


def body(xml: str, doctype: str = "") -> bytes:
    """Return a Word document with this body."""
    content = f'<?xml version="1.0"?>{doctype}<w:document {W} {MC}><w:body>{xml}</w:body></w:document>'
    return with_part(make_docx("Text."), MAIN, content.encode())


def bold(text: str, *, style: str = "") -> str:
    """Return a paragraph in bold type."""
    return paragraph(f"<w:r><w:rPr><w:b/></w:rPr><w:t>{text}</w:t></w:r>", style)


def plain(text: str) -> str:
    return paragraph(f"<w:r><w:t>{text}</w:t></w:r>")


def paragraph(runs: str, style: str = "") -> str:
    return f"<w:p><w:pPr>{style}</w:pPr>{runs}</w:p>"


SECTIONS = "".join(bold(title) + plain("It says so.") * 3 for title in ("Tides", "Waves", "Floods"))


def headings(xml: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.text) for heading in read(body(xml)).outline.headings]


def test_where_no_heading_has_a_style_bold_lines_are_titles() -> None:
    titles = [(1, "Tides"), (1, "Waves"), (1, "Floods")]
    assert headings(SECTIONS) == titles
    assert "# Tides\n\nIt says so." in read(body(SECTIONS)).text
    off = '<w:r><w:rPr><w:b w:val="0"/></w:rPr><w:t>Storms</w:t></w:r>'
    for other in (
        plain("Storms"),
        paragraph(off),
        paragraph("<w:r><w:rPr><w:b/></w:rPr><w:t>Storms</w:t></w:r><w:r><w:t> come in spring</w:t></w:r>"),
        bold("Storms come in spring."),
        bold("Storms:"),
        bold("Storms", style='<w:numPr><w:numId w:val="1"/></w:numPr>'),
        bold("Note") * 4,
        bold(" "),
    ):
        assert headings(SECTIONS + other + plain("It says so.") * 9) == titles, other
    spaced = "<w:r><w:rPr><w:b/></w:rPr><w:t>Storms</w:t></w:r><w:r><w:t> </w:t></w:r>"
    assert headings(SECTIONS + paragraph(spaced) + plain("It says so.") * 9) == [*titles, (1, "Storms")]


def test_bold_lines_are_no_titles_where_headings_have_a_style_or_there_are_too_few_or_many() -> None:
    styled = [plain(name).replace("<w:pPr>", '<w:pPr><w:outlineLvl w:val="1"/>') for name in ("Sea", "Land")]
    assert headings("".join(styled) + SECTIONS) == [(2, "Sea"), (2, "Land")]
    assert headings(styled[0] + SECTIONS) == [(2, "Sea"), (2, "Tides"), (2, "Waves"), (2, "Floods")]
    assert headings("".join(bold(title) + plain("It says so.") * 3 for title in ("Tides", "Waves"))) == []
    assert headings("".join(bold(title) + plain("It says so.") for title in ("Tides", "Waves", "Floods"))) == []


def test_bold_styles_set_titles_unless_a_run_is_not_bold() -> None:
    document = docx.Document()
    document.styles.add_style("Strong line", WD_STYLE_TYPE.PARAGRAPH).font.bold = True
    for title in ("Tides", "Waves", "Floods", "Storms"):
        run = document.add_paragraph(style="Strong line").add_run(title)
        run.bold = False if title == "Waves" else None
        for _ in range(3):
            document.add_paragraph("It says so.")
    assert [heading.text for heading in read(save(document)).outline.headings] == ["Tides", "Floods", "Storms"]


@pytest.mark.parametrize(("term", "told"), [("Definition Term", "Definition"), ("List Heading", "List Contents")])
def test_a_list_of_definitions_is_a_list_of_terms_with_what_explains_them(term: str, told: str) -> None:
    document = docx.Document()
    for name in (term, told):
        document.styles.add_style(name, WD_STYLE_TYPE.PARAGRAPH)
    for style, text in (
        (term, "Ebb"),
        (told, "The sea goes out."),
        (term, "Flow:"),
        (term, "Flood"),
        (told, "The sea comes in."),
        (told, "It comes twice a day."),
    ):
        document.add_paragraph(text, style=style)
    document.add_paragraph("So it is.")
    document.add_paragraph("Neap", style=term)
    document.add_table(1, 2).cell(0, 0).text = "moon"
    document.add_paragraph("Spring", style=term)
    assert read(save(document)).text == (
        "- Ebb: The sea goes out.\n- Flow, Flood: The sea comes in.\n\n"
        "  It comes twice a day.\n\nSo it is.\n\nNeap\n\nmoon\n\nSpring"
    )


def test_a_definition_without_a_term_is_a_paragraph() -> None:
    document = docx.Document()
    document.styles.add_style("Definition", WD_STYLE_TYPE.PARAGRAPH)
    document.add_paragraph("Ebb is when the sea goes out.", style="Definition")
    assert read(save(document)).text == "Ebb is when the sea goes out."


@pytest.mark.parametrize("style", ["Source Code", "HTML Preformatted", "Preformatted Text"])
def test_paragraphs_of_code_are_one_block(style: str) -> None:
    document = docx.Document()
    document.styles.add_style(style, WD_STYLE_TYPE.PARAGRAPH)
    document.add_paragraph("Run this:")
    document.add_paragraph("if tide:\n    wait()", style=style)
    document.add_paragraph("go()", style=style)
    document.add_paragraph("Then swim.")
    found = read(save(document))
    assert found.text == "Run this:\n\n```\nif tide:\n    wait()\ngo()\n```\n\nThen swim."
    assert [found.text[start:end] for start, end in found.outline.verbatim] == ["```\nif tide:\n    wait()\ngo()\n```"]


def test_headings_lists_and_tables_keep_their_form() -> None:
    document = docx.Document()
    document.add_heading("Of Tides", level=0)
    document.add_heading("Moon", level=2)
    document.add_paragraph("It pulls.")
    document.add_paragraph("One", style="List Bullet")
    document.add_paragraph("Two", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip((cell for row in table.rows for cell in row.cells), "abcd", strict=True):
        cell.text = text
    document.sections[0].header.paragraphs[0].text = "Header"
    found = read(save(document))
    assert found.text == "# Of Tides\n\n## Moon\n\nIt pulls.\n\n- One\n- Two\n\n| a | b |\n| --- | --- |\n| c | d |"
    assert [(heading.level, heading.text) for heading in found.outline.headings] == [(1, "Of Tides"), (2, "Moon")]


def test_a_table_has_a_header_where_its_style_or_its_first_row_says_so() -> None:
    def cell(text: str, properties: str = "") -> str:
        return f"<w:tc><w:tcPr>{properties}</w:tcPr><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>"

    def table(first: str) -> str:
        wide = cell("both", '<w:gridSpan w:val="2"/>')
        return f"<w:tbl><w:tr>{first}{cell('Fox')}{cell('Owl')}</w:tr><w:tr>{wide}</w:tr></w:tbl>"

    repeated = "<w:trPr><w:tblHeader/></w:trPr>"
    assert read(body(table(repeated))).text == "| Fox | Owl |\n| --- | --- |\n| both |  |"
    assert read(body(table(""))).text == "| Fox | Owl |\n| both |  |"


def test_a_heading_style_is_known_by_its_outline_level_whatever_its_name() -> None:
    document = docx.Document()
    style = document.styles.add_style("Überschrift", WD_STYLE_TYPE.PARAGRAPH)
    style.element.get_or_add_pPr().append(parse_xml(f'<w:outlineLvl {W} w:val="2"/>'))
    document.add_paragraph("Gezeiten", style="Überschrift")
    assert [heading.level for heading in read(save(document)).outline.headings] == [3]


def test_changes_are_read_as_accepted_and_field_codes_are_not_text() -> None:
    xml = (
        "<w:p><w:r><w:t>The </w:t></w:r><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:del><w:r><w:delText>old</w:delText>"
        "</w:r></w:del><w:r><w:instrText>PAGE</w:instrText><w:tab/><w:t>moon</w:t><w:br/><w:t>x</w:t>"
        "<w:noBreakHyphen/><w:t>y</w:t></w:r></w:p>"
    )
    assert read(body(xml)).text == "The new\tmoon\nx-y"


def test_content_controls_and_text_boxes_are_read_once() -> None:
    box = "<w:txbxContent><w:p><w:r><w:t>In the box</w:t></w:r></w:p></w:txbxContent>"
    xml = (
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>Control</w:t></w:r></w:p></w:sdtContent></w:sdt>"
        f"<w:p><w:r><w:t>Anchor</w:t><mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
        "</mc:AlternateContent></w:r></w:p>"
    )
    assert read(body(xml)).text == "Control\n\nAnchor\n\nIn the box"
    outer = f"<w:p><w:r><w:t>Anchor</w:t>{box.replace('</w:t></w:r>', f'</w:t></w:r><w:r>{box}</w:r>', 1)}</w:r></w:p>"
    assert read(body(outer)).text == "Anchor\n\nIn the box\n\nIn the box"
    paragraph = xml[xml.rindex("<w:p><w:r><w:t>Anchor") :]
    cell = "<w:tc><w:p><w:r><w:t>Cell</w:t></w:r></w:p></w:tc>"
    table = f"<w:tbl><w:tr><w:tc>{paragraph}</w:tc>{cell}</w:tr></w:tbl>"
    assert read(body(table)).text == "| Anchor In the box | Cell |"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ('<w:outlineLvl w:val="1"/>', "## Tide"),
        ('<w:outlineLvl w:val="8"/>', "###### Tide"),
        ('<w:outlineLvl w:val="9"/>', "Tide"),
        ('<w:pStyle w:val="Heading1"/><w:outlineLvl w:val="9"/>', "Tide"),
        ('<w:pStyle w:val="Heading9"/>', "###### Tide"),
        ('<w:numPr><w:ilvl w:val="1"/><w:numId w:val="3"/></w:numPr>', "  - Tide"),
        ('<w:numPr><w:ilvl w:val="99"/></w:numPr>', f"{' ' * 16}- Tide"),
        ('<w:pStyle w:val="ListBullet"/><w:numPr><w:numId w:val="0"/></w:numPr>', "Tide"),
    ],
)
def test_a_paragraph_is_what_its_own_properties_say(properties: str, expected: str) -> None:
    run = "<w:r><w:br/><w:t>Ti</w:t><w:softHyphen/><w:t>de</w:t></w:r>"
    assert read(body(f"<w:p><w:pPr>{properties}</w:pPr>{run}</w:p>")).text == expected


def test_a_style_has_the_level_of_the_one_that_it_is_based_on() -> None:
    document = docx.Document()
    style = document.styles.add_style("Chapter", WD_STYLE_TYPE.PARAGRAPH)
    style.base_style = document.styles["Heading 2"]
    document.add_paragraph("Tides", style="Chapter")
    named = document.styles["Heading 8"]
    named.element.pPr.remove(named.element.pPr.find(f"{{{named.element.nsmap['w']}}}outlineLvl"))
    document.add_paragraph("Ebb", style="Heading 8")
    assert read(save(document)).text == "## Tides\n\n###### Ebb"


def test_a_table_in_a_cell_is_part_of_that_cell() -> None:
    def table(*cells: str) -> str:
        return f"<w:tbl><w:tr>{''.join(f'<w:tc>{cell}</w:tc>' for cell in cells)}</w:tr></w:tbl>"

    ebb, flow = ("<w:p><w:r><w:t>" + word + "</w:t></w:r></w:p>" for word in ("Ebb", "Flow"))
    assert read(body(table(ebb + table(ebb, flow), flow))).text == "| Ebb Ebb Flow | Flow |"


def test_notes_stand_behind_the_text_and_none_is_looked_for_elsewhere() -> None:
    document = docx.Document()
    document.add_paragraph("Text.")
    note = f'<w:footnotes {W}><w:footnote w:id="2"><w:p><w:r><w:t>A note.</w:t></w:r></w:p></w:footnote></w:footnotes>'
    part = Part(PackURI("/word/footnotes.xml"), "application/xml", note.encode(), document.part.package)
    document.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
    document.part.relate_to("https://example.org/", RELATIONSHIP_TYPE.ENDNOTES, is_external=True)
    assert read(save(document)).text == "Text.\n\nA note."


def test_raised_numbers_stay_apart() -> None:
    def run(text: str, kind: str) -> str:
        return f'<w:r><w:rPr><w:vertAlign w:val="{kind}"/></w:rPr><w:t>{text}</w:t></w:r>'

    xml = (
        f"<w:p>{run('10', 'baseline')}{run('-3', 'superscript')}{run('2', 'subscript')}{run('th', 'superscript')}</w:p>"
    )
    assert read(body(xml)).text == "10⁻³2th"


def test_properties_are_read_and_what_libraries_write_is_not() -> None:
    document = docx.Document()
    document.add_paragraph("Text.")
    document.core_properties.title = "Of Tides"
    document.core_properties.author = "Ada; Lin"
    document.core_properties.keywords = "moon; sea"
    document.core_properties.created = datetime(2024, 5, 1, 10, tzinfo=UTC)
    found = read(save(document)).properties
    assert (found.title, found.creators, found.subjects) == ("Of Tides", ("Ada", "Lin"), ("moon", "sea"))
    assert found.date_created == datetime(2024, 5, 1, 10, tzinfo=UTC)
    found = read(make_docx("Text.")).properties
    assert (found.creators, found.date_created) == ((), None)


def test_a_document_without_text_is_refused() -> None:
    with pytest.raises(EmptyDocumentError):
        read(make_docx("", " "))


@pytest.mark.parametrize("share", [0.2, 0.6, 0.99])
def test_a_truncated_document_is_malformed(share: float) -> None:
    data = make_docx("Text.")
    with pytest.raises(DocumentMalformedError) as caught:
        read(data[: int(len(data) * share)])
    assert caught.value.metadata == {"format": "docx"}


@pytest.mark.parametrize("content", [b"", b"no xml", b"<w:p", b"<a>" * 100_000, b"\xff\xfe\x00"])
def test_damaged_xml_is_malformed(content: bytes) -> None:
    with pytest.raises((DocumentMalformedError, EmptyDocumentError)):
        read(with_part(make_docx("Text."), MAIN, content))


def test_damaged_bytes_of_an_entry_are_malformed() -> None:
    data = bytearray(make_docx("Text that is long enough to be packed. " * 50))
    place = data.find(b"word/document.xml") + 40
    data[place : place + 8] = b"\x00" * 8
    with pytest.raises(DocumentMalformedError):
        read(bytes(data))


def test_entities_are_not_expanded() -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    doctype = f'<!DOCTYPE w:document [<!ENTITY l0 "lol">{laughs}]>'
    with pytest.raises(DocumentMalformedError):
        read(body("<w:p><w:r><w:t>Ha &l11;</w:t></w:r></w:p>", doctype))


def test_files_of_the_server_are_not_read() -> None:
    doctype = '<!DOCTYPE w:document [<!ENTITY x SYSTEM "file:///etc/hostname">]>'
    assert read(body("<w:p><w:r><w:t>Name:&x;</w:t></w:r></w:p>", doctype)).text == "Name:"


def test_a_zip_bomb_is_refused_before_it_is_inflated() -> None:
    bomb = with_part(make_docx("Text."), MAIN, b" " * (200 << 20))
    assert len(bomb) < 1 << 20
    with pytest.raises(DocumentLimitError) as caught:
        read(bomb)
    assert caught.value.metadata == {"resource": "zip_ratio", "limit": "200"}


def test_what_it_inflates_to_and_its_entries_are_limited() -> None:
    data = make_docx("Text.")
    with pytest.raises(DocumentLimitError) as caught:
        read_docx(data, ReadingLimits(inflated_bytes=1000), "content")
    assert caught.value.metadata == {"resource": "inflated_bytes", "limit": "1000"}
    with pytest.raises(DocumentLimitError) as caught:
        read(make_zip({f"word/{number}": b"" for number in range(10_001)}))
    assert caught.value.metadata == {"resource": "zip_entries", "limit": "10000"}


def test_entries_that_lie_over_one_another_are_malformed() -> None:
    data = make_zip({"word/document.xml": b"x" * 5000}, compression=0)
    start = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    again = bytearray(data[:start] + data[start:end] * 3 + data[end:])
    tail = again.rindex(b"PK\x05\x06")
    again[tail + 8 : tail + 12] = b"\x03\x00\x03\x00"
    again[tail + 12 : tail + 16] = (3 * (end - start)).to_bytes(4, "little")
    with pytest.raises(DocumentMalformedError, match="overlap"):
        read(bytes(again))


def test_an_encrypted_entry_is_refused_as_encrypted() -> None:
    data = bytearray(make_docx("Text."))
    for found in list(re.finditer(b"PK\x01\x02", bytes(data))):
        data[found.start() + 8] |= 1
    with pytest.raises(DocumentEncryptedError) as caught:
        read(bytes(data))
    assert caught.value.metadata == {"format": "docx"}


def test_the_text_does_not_have_the_table_of_contents() -> None:
    document = docx.Document()
    for name in ("toc 1", "table of figures"):
        document.styles.add_style(name, WD_STYLE_TYPE.PARAGRAPH)
    document.add_paragraph("Contents", "TOC Heading")
    document.add_paragraph("Tides\t1", "toc 1")
    document.add_heading("Tides")
    document.add_paragraph("The sea rises.")
    document.add_paragraph("Figure 1: Ebb\t1", "table of figures")
    assert read(save(document)).text == "# Tides\n\nThe sea rises."


def test_a_table_of_contents_alone_is_no_text() -> None:
    document = docx.Document()
    document.add_paragraph("Contents", "TOC Heading")
    with pytest.raises(EmptyDocumentError, match=r"is a document without text besides its table of contents$"):
        read(save(document))
    with pytest.raises(EmptyDocumentError, match=r"is a document without text$"):
        read(save(docx.Document()))
