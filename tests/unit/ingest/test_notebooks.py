"""Jupyter notebooks: the Markdown and the code of their cells."""

import json
from typing import Any

import pytest

from groundwire.ingest.parsing.parsed_document import ParseRules
from groundwire.ingest.parsing.parser_worker import read_source
from groundwire.ingest.parsing.source_text import ReadingLimits, SourceText
from groundwire.kernel.collection import PROFILES, ProfileName
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import EmptyDocumentError


def cell(kind: str, source: Any, **more: Any) -> dict[str, Any]:
    return {"cell_type": kind, "metadata": {}, "source": source, **more}


CELLS = [
    cell("markdown", ["# Tides\n", "\n", "The moon causes them.\n"]),
    cell("code", "import sea\nprint('```')\n", outputs=[{"output_type": "stream", "text": ["printed"]}]),
    cell("raw", "not shown"),
    cell("code", ""),
    cell("markdown", "## Springs\nTwice a month."),
]
TEXT = """# Tides

The moon causes them.

````python
import sea
print('```')
````

## Springs
Twice a month."""


def read(data: str, name: str = "a.ipynb", declared: DocumentFormat | None = None) -> SourceText:
    rules = ParseRules(declared, PROFILES[ProfileName.DOCUMENTS].chunking, None, name, "content")
    return read_source(data.encode(), rules, ReadingLimits())


def notebook(cells: Any, **metadata: Any) -> str:
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def test_cells_are_read_in_order_as_markdown_without_what_they_printed() -> None:
    found = read(notebook(CELLS, language_info={"name": "python"}), "Tides.IPYNB")
    assert (found.text, found.format) == (TEXT, DocumentFormat.MARKDOWN)
    assert [heading.text for heading in found.outline.headings] == ["Tides", "Springs"]
    (code,) = (found.text[start:end] for start, end in found.outline.verbatim)
    assert code == TEXT[TEXT.index("````") : TEXT.index("\n## Springs")]


@pytest.mark.parametrize("language", [None, {}, {"name": "`\n# no"}, {"name": 3}])
def test_a_language_that_is_no_name_is_left_out(language: Any) -> None:
    metadata = {} if language is None else {"language_info": language}
    assert read(notebook([cell("code", "x = 1")], **metadata)).text in {"```\nx = 1\n```", "```3\nx = 1\n```"}


@pytest.mark.parametrize(
    "text",
    [
        '{"cells": [{"cell_type"',
        '{"worksheets": [], "metadata": {}, "nbformat": 3}',
        "[1]",
        notebook([cell("code", [1])]),
        notebook({"a": 1}),
        notebook([1]),
        "[" * 100_000,
    ],
)
def test_what_is_no_notebook_stays_text(text: str) -> None:
    found = read(text)
    assert (found.text, found.format) == (text, DocumentFormat.TEXT)


def test_a_notebook_is_one_by_its_name_and_not_if_it_is_declared_to_be_text() -> None:
    data = notebook(CELLS)
    assert read(data, "a.json").text == data
    assert read(data, declared=DocumentFormat.TEXT).text == data


def test_a_notebook_without_text_is_refused() -> None:
    with pytest.raises(EmptyDocumentError, match="notebook without text"):
        read(notebook([cell("code", " \n"), cell("markdown", [])]))
