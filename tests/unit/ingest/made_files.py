"""Small files of our own: PDFs written by hand, zips, and Word documents made with python-docx."""

import io
import zipfile
from collections.abc import Mapping, Sequence

import docx
from docx.document import Document

Placed = tuple[float, float, str, float, str]
"""A piece of text on a page: x and y in points from the lower left, the font, its size, the text.

The font F2 is bold, F3 that of a typewriter.
"""


def make_pdf(
    pages: Sequence[str | Sequence[Placed]],
    *,
    info: Mapping[str, str] | None = None,
    bookmarks: Sequence[tuple[str, int]] = (),
    code_font: str = "/BaseFont /Courier",
    meant: Mapping[str, str] | None = None,
) -> bytes:
    """Return a PDF with these texts, one line of a page for each of their lines, or each piece where it is placed.

    `bookmarks` are titles with the index of their page, `code_font` entries of the font F3. `meant` are what single
    characters of the text mean in the other fonts.
    """
    page_numbers = [4 + 2 * index for index in range(len(pages))]
    first_bookmark = 4 + 2 * len(pages) + 1
    kids = " ".join(f"{number} 0 R" for number in page_numbers)
    outlines = f" /Outlines {first_bookmark - 1} 0 R" if bookmarks else ""
    meaning = f"/ToUnicode {3 + 2 * len(pages) + (len(bookmarks) + 1 if bookmarks else 0) + 1} 0 R" if meant else ""
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R{outlines} >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica {meaning} >>",
    ]
    for number, text in zip(page_numbers, pages, strict=True):
        bold = f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold {meaning} >>"
        code = f"<< /Type /Font /Subtype /Type1 {code_font} /Encoding /WinAnsiEncoding >>"
        font = f"/Resources << /Font << /F1 3 0 R /F2 {bold} /F3 {code} >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] {font} /Contents {number + 1} 0 R >>")
        content = _content(text)
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    objects += _bookmark_objects(bookmarks, page_numbers, first_bookmark)
    if meant:
        lines = [f"<{ord(code):02X}> <{shown.encode('utf-16-be').hex()}>" for code, shown in meant.items()]
        table = "\n".join(
            ["1 begincodespacerange", "<00> <FF>", "endcodespacerange", f"{len(lines)} beginbfchar", *lines]
        )
        objects.append(f"<< /Length {len(table) + 10} >>\nstream\n{table}\nendbfchar\nendstream")
    if info:
        entries = " ".join(f"/{key} ({value})" for key, value in info.items())
        objects.append(f"<< {entries} >>")
    return _assemble(objects, len(objects) if info else None)


def make_tagged_pdf(
    pages: Sequence[Sequence[tuple[str, str]]],
    *,
    roles: Mapping[str, str] | None = None,
    bookmarks: Sequence[tuple[str, int]] = (),
) -> bytes:
    """Return a PDF whose structure says what its lines are.

    A page consists of the types of nested elements and the lines in the innermost: `("Sect/H1", "Tides")`. Lines
    without a type are no part of the structure. `roles` are the standard types of others.
    """
    page_numbers = [4 + 2 * index for index in range(len(pages))]
    first_bookmark = 4 + 2 * len(pages) + 1
    objects = [
        "",
        f"<< /Type /Pages /Kids [{' '.join(f'{number} 0 R' for number in page_numbers)}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for index, pieces in enumerate(pages):
        lines = [
            " ".join(
                [
                    f"/P << /MCID {mark} >> BDC" if path else "/Artifact BMC",
                    *(f"({line}) Tj T*" for line in text.splitlines()),
                    "EMC",
                ]
            )
            for mark, (path, text) in enumerate(pieces)
        ]
        content = "\n".join(["BT /F1 12 Tf 14 TL 72 720 Td", *lines, "ET"])
        font = "/Resources << /Font << /F1 3 0 R >> >> /MediaBox [0 0 612 792]"
        objects += [
            f"<< /Type /Page /Parent 2 0 R {font} /StructParents {index} /Contents {page_numbers[index] + 1} 0 R >>",
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        ]
    objects += _bookmark_objects(bookmarks, page_numbers, first_bookmark) or [""]
    document = len(objects) + 2  # behind the root of the structure
    objects += ["", ""]
    outermost, parents = [], []
    for number, pieces in zip(page_numbers, pages, strict=True):
        innermost = []
        for mark, (path, _) in enumerate(pieces):
            if not path:
                innermost.append("null")
                continue
            *outer, inner = path.split("/")
            parent = document
            for at, name in enumerate([*outer, inner]):
                outermost += [len(objects) + 1] if at == 0 else []
                kid = str(mark) if at == len(outer) else f"{len(objects) + 2} 0 R"
                kind = f"/Type /StructElem /S /{name} /P {parent} 0 R"
                objects.append(f"<< {kind} /Pg {number} 0 R /K [{kid}] >>")
                parent = len(objects)
            innermost.append(f"{parent} 0 R")
        parents.append(f"[{' '.join(innermost)}]")
    kids = " ".join(f"{number} 0 R" for number in outermost)
    objects[document - 1] = f"<< /Type /StructElem /S /Document /P {document - 1} 0 R /K [{kids}] >>"
    tree = " ".join(f"{index} {marks}" for index, marks in enumerate(parents))
    types = " ".join(f"/{name} /{role}" for name, role in (roles or {}).items())
    objects[document - 2] = (
        f"<< /Type /StructTreeRoot /K [{document} 0 R] /ParentTree << /Nums [{tree}] >> /RoleMap << {types} >> >>"
    )
    outlines = f" /Outlines {first_bookmark - 1} 0 R" if bookmarks else ""
    structure = f"/MarkInfo << /Marked true >> /StructTreeRoot {document - 1} 0 R"
    objects[0] = f"<< /Type /Catalog /Pages 2 0 R {structure}{outlines} >>"
    return _assemble(objects, None)


def _content(text: str | Sequence[Placed]) -> str:
    if not isinstance(text, str):
        return "\n".join(f"BT /{font} {size} Tf {x} {y} Td ({piece}) Tj ET" for x, y, font, size, piece in text)
    lines = [f"({line}) Tj T*" for line in text.splitlines() if line.strip()]
    return "\n".join(["BT /F1 12 Tf 14 TL 72 720 Td", *lines, "ET"]) if lines else ""


def _bookmark_objects(bookmarks: Sequence[tuple[str, int]], page_numbers: Sequence[int], first: int) -> list[str]:
    if not bookmarks:
        return []
    last = first + len(bookmarks) - 1
    made = [f"<< /Type /Outlines /First {first} 0 R /Last {last} 0 R /Count {len(bookmarks)} >>"]
    for offset, (title, page_index) in enumerate(bookmarks):
        following = f" /Next {first + offset + 1} 0 R" if offset < len(bookmarks) - 1 else ""
        target = f"[{page_numbers[page_index]} 0 R /XYZ 0 720 0]"
        made.append(f"<< /Title ({title}) /Parent {first - 1} 0 R /Dest {target}{following} >>")
    return made


def _assemble(objects: Sequence[str], info: int | None) -> bytes:
    body = b"%PDF-1.4\n"
    offsets = []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    told = f" /Info {info} 0 R" if info else ""
    size = len(objects) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R{told} >>\nstartxref\n{len(body)}\n%%EOF\n"
    return body + f"xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}".encode("latin-1")


def save(document: Document) -> bytes:
    """Return the bytes of a Word document."""
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def make_docx(*paragraphs: str) -> bytes:
    """Return a Word document of plain paragraphs."""
    document = docx.Document()
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    return save(document)


def make_zip(entries: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip with these entries."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def with_part(document: bytes, name: str, content: bytes) -> bytes:
    """Return a zip with one of its entries replaced."""
    with zipfile.ZipFile(io.BytesIO(document)) as archive:
        entries = {entry: archive.read(entry) for entry in archive.namelist()}
    return make_zip({**entries, name: content})
