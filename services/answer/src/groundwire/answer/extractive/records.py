"""Picks what could stand in an answer from records: rows of a table file, or objects of JSON Lines."""

import re
from collections.abc import Iterator, Sequence

from groundwire.answer.evidence import Passage
from groundwire.answer.extractive.excerpt import MAX_CHARS, MIN_WORDS, Excerpt
from groundwire.answer.extractive.weights import LABEL_WORDS
from groundwire.answer.plain_text import plain_text, row_text
from groundwire.kernel.sentences import QUESTION_MARKS, BlockKind, split_sentences
from groundwire.kernel.words import words

_RECORD = re.compile(r"\S[^\n]*(?:\n[^\n]+)*")
# A value may go on in the lines below it.
_FIELD = re.compile(r"^(?P<name>[^:\n]{1,60}): (?P<value>[^\n]+(?:\n(?![^:\n]{1,60}: )[^\n]+)*)", re.MULTILINE)


def record_excerpts(passage: Passage, start: int, end: int) -> Iterator[Excerpt]:
    """Yield the excerpts of the records in a range: paragraphs of `name: value` lines, as ingest extracts them.

    A short record is quoted whole, as a row of a table is. Of a long one its sentences are, below what the record is
    about: a question that one of its fields asks, or else its first field, which comes with the short ones.
    """
    for record in _RECORD.finditer(passage.content, start, end):
        fields = [*_FIELD.finditer(passage.content, *record.span())]
        if not fields:
            continue  # the rest of a value that begins before the passage
        cells = [plain_text(field["value"], passage.markup) for field in fields]
        names = [field["name"] for field in fields]
        row = row_text(names, cells) if len(fields) > 1 else f"{names[0]}: {cells[0]}"
        asked = next((cell for cell in cells if cell.endswith(QUESTION_MARKS)), "")
        if asked or len(row) > MAX_CHARS:
            yield from _parts(passage, fields, asked or cells[0])
        elif len(words(row)) >= MIN_WORDS:
            yield Excerpt(passage, BlockKind.TABLE, *record.span(), row, "")


def _parts(passage: Passage, fields: Sequence[re.Match[str]], about: str) -> Iterator[Excerpt]:
    """Yield the sentences of the fields of a record, and its short fields with the first one."""
    opens = True
    for field in fields:
        value = plain_text(field["value"], passage.markup)
        if value == about:
            continue
        if len(words(value)) < LABEL_WORDS:
            said, header = f"{about}: {field['name']}: {value}", ((passage, *fields[0].span()),)
            yield Excerpt(passage, BlockKind.TABLE, *field.span(), said, about, heading=about, header=header)
            continue
        for sentence in split_sentences(field["value"]):
            start, end = (field.start("value") + place for place in (sentence.start, sentence.end))
            text = plain_text(passage.content[start:end], passage.markup)
            if len(words(text)) >= MIN_WORDS and len(text) <= MAX_CHARS:
                yield Excerpt(passage, BlockKind.PROSE, start, end, text, about, heading=about, opens=opens)
                opens = False
