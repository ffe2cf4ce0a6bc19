"""Reads a passage into its headings, sentences, list items, tables and code, also where nothing marks them."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise

from groundwire.answer.evidence import Markup, Passage
from groundwire.answer.extractive.plain_layout import with_bars, with_labels, without_pages
from groundwire.answer.extractive.weights import LABEL_WORDS
from groundwire.answer.plain_text import ends_sentence
from groundwire.kernel.markdown import read_markdown
from groundwire.kernel.restructured_text import read_rst
from groundwire.kernel.sentences import QUESTION_MARKS, BlockKind, Sentence, split_sentences
from groundwire.kernel.words import words

FIELD = re.compile(
    r"^:?[A-Z][\w-]{1,30}(?: [a-z][\w-]{1,20}){0,2}:[ \t]++\S[^\r\n]*+(?:\r?\n[ \t]++[^\s:][^\r\n]*+)*+", re.MULTILINE
)
"""A field of the head of a document: `Author: Ada Lovelace`, one to a line."""
MIN_FIELDS = 3
"""So many fields in a row make the head of a document."""
NUMBER_WORDS = 4
"""Most words of the number or label before a title: "Appendix B.4.7"."""
_WIDER_LINES = 2
_FULL_LINE = 0.75
"""Share of the longest line from which a line may have been ended by the margin."""
_HEADING_WORDS = 10
_OPENS_LINE = frozenset("/$<\"'\u201c\u2018")
# `== Gameplay ==`, the heading of a wiki; some of their dumps have spaces between the signs.
_WIKI_HEADING = re.compile(r"^ ?=[ =]++(?P<title>[^ =\n][^=\n]*+)=[ =]*+$", re.MULTILINE)
# A heading that is a sentence.
_TAGLINE = re.compile(r"#++[ \t]++(?P<text>[^#\n][^\n]*\.)")
_FIRST_LINE = re.compile(r"(?:\A|(?<=\n\n)|(?<=\n\r\n))[^\r\n]{3,}")
# "6.3.1. Description", alone in its paragraph.
_NUMBERED_TITLE = re.compile(r"\s*\d{1,2}(?:\.\d{1,2}){1,5}\.?\s+[^\W\d_][^\n]{0,78}(?<![.,;:!?])\s*")
_BLANK_LINE = re.compile(r"(?:\r?\n[ \t]*)?(?:\r?\n|\Z)")
ASKED = re.compile(r"(?:Q|Question|Frage)\s?\d{0,3}[.:)]\s+")
"""What stands before a question in a list of questions: "Q: May I?", with "A: You may." below it."""
_QUESTION_WORDS = (3, 30)
_END_OF_QUESTION = re.compile(rf"[\w)\]\"'\u2019\u201d](?:{'|'.join(map(re.escape, QUESTION_MARKS))})\Z")
_QUOTES = frozenset("\"'\u201c\u2018\u00ab")
_ANSWERS = frozenset({BlockKind.PROSE, BlockKind.LIST_ITEM})
_REPLIED = re.compile(r"(?:A(?:nswer)?|Antwort)\s?\d{0,3}[.:)]\s+")


def read_items(passage: Passage, titles: Collection[tuple[str, ...]]) -> tuple[str, list[Sentence]]:
    """Return the content of a passage, as long as before, and what it consists of, in order.

    `titles` are the words of each title of a section of a PDF or plain text, which little else tells from other lines.
    """
    content = passage.content
    if passage.markup is Markup.RST:
        content, items = read_rst(content)
        return content, _with_questions(content, _with_paragraphs_that_ask(content, items))
    if passage.markup is Markup.MARKDOWN:
        content = read_markdown(content)
    is_plain = passage.markup is Markup.NONE
    if is_plain:
        content = without_pages(content)
    # Definitions are no fields of the head of a document.
    unlabelled = content
    if is_plain:
        content = with_labels(content, lambda line: is_title(line, titles))

    def with_title_marked(line: re.Match[str]) -> str:
        """Return the first line of a paragraph with the mark of a heading, as long as before, if it is a title."""
        is_alone = _BLANK_LINE.match(content, line.end()) is not None
        is_numbered = is_plain and is_alone and _NUMBERED_TITLE.fullmatch(line[0]) is not None
        return f"# {line[0][2:]}" if is_numbered or is_title(line[0], titles) else line[0]

    marked = _FIRST_LINE.sub(with_title_marked, _WIKI_HEADING.sub(_as_markdown, content))
    if is_plain:
        marked = with_bars(marked)
    items = _with_fields(unlabelled, split_sentences(marked, passage.content))
    items = _with_taglines(content, items)
    if is_plain:
        items = [
            replace(each, kind=BlockKind.HEADING)
            if each.begins_block and is_title(content[each.start : each.end], titles)
            else each
            for each in _along_lines(content, items)
        ]
    return content, _with_questions(content, items if is_plain else _with_paragraphs_that_ask(content, items))


def _with_fields(content: str, items: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences with fields that blank lines separate as one item, as the head of a document is otherwise.

    Books of Project Gutenberg begin so: `Title: Emma`, and two lines below it `Author: Jane Austen`.
    """
    merged: list[Sentence] = []
    run: list[Sentence] = []
    for item in (*items, None):
        field = item and item.begins_block and item.ends_block and FIELD.match(content, item.start, item.end)
        if item is not None and item.kind is BlockKind.PROSE and field and field.end() == item.end:
            run.append(item)
            continue
        merged += run if len(run) < MIN_FIELDS else [replace(run[0], end=run[-1].end)]
        merged += [] if item is None else [item]
        run = []
    return merged


def _with_questions(content: str, items: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences with questions such as "Q: May I?" as headings, and the answers without their "A:"."""
    asked: list[Sentence] = []
    for item in items:
        is_question = item.kind is BlockKind.PROSE and item.begins_block and ASKED.match(content, item.start, item.end)
        reply = _REPLIED.match(content, item.start, item.end) if asked and asked[-1].kind is BlockKind.HEADING else None
        if is_question and content[item.start : item.end].endswith(QUESTION_MARKS):
            asked.append(replace(item, kind=BlockKind.HEADING))
        elif reply is not None and reply.end() < item.end:
            asked.append(replace(item, start=reply.end(), begins_block=True))
        else:
            asked.append(item)
    return asked


def _with_paragraphs_that_ask(content: str, items: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences with paragraphs that only ask what those below them answer as headings.

    A line of a PDF that asks may be the head of a page.
    """
    shown: list[Sentence] = []
    first = 0
    for position, item in enumerate(items):
        shown.append(item)
        if item.begins_block:
            first = position
        is_answered = position + 1 < len(items) and items[position + 1].kind in _ANSWERS
        if not (item.ends_block and item.kind is BlockKind.PROSE and items[first].begins_block and is_answered):
            continue
        text = content[items[first].start : item.end]
        asks = _END_OF_QUESTION.search(text) is not None and text[:1] not in _QUOTES
        if asks and _QUESTION_WORDS[0] <= len(words(text)) <= _QUESTION_WORDS[1]:
            del shown[first - position - 1 :]
            shown.append(Sentence(BlockKind.HEADING, items[first].start, item.end, begins_block=True, ends_block=True))
    return shown


def _with_taglines(content: str, items: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences with headings that say what the one right above is: "The fast library for HTML."."""
    shown = list(items[:1])
    for before, item in pairwise(items):
        tagline = _TAGLINE.fullmatch(content, item.start, item.end) if item.kind is BlockKind.HEADING else None
        is_told = before.kind is BlockKind.HEADING and tagline and len(words(tagline["text"])) >= LABEL_WORDS
        shown.append(replace(item, kind=BlockKind.PROSE, start=tagline.start("text")) if is_told and tagline else item)
    return shown


def _as_markdown(heading: re.Match[str]) -> str:
    """Return the heading of a wiki as one of Markdown, with its title in the same place."""
    before = heading.start("title") - heading.start()
    return f"{'#'.ljust(before)}{heading['title']}".ljust(len(heading[0]))


def _along_lines(content: str, items: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences of a text that is set in lines, cut where a line is left before it is full.

    Nothing else shows in the text of a PDF where a heading, an item of a list or a paragraph ends. A short line without
    a full stop is a heading, and what follows the last line of an item is no part of it.
    """
    lengths = sorted((len(line.rstrip()) for line in content.splitlines() if line[:1] != "|"), reverse=True)
    # Rows of tables and a title over two columns are wider than the text.
    width = lengths[max(min(_WIDER_LINES, len(lengths) // 4), len(lengths) // 10)] if lengths else 0
    laid_out: list[Sentence] = []
    in_item = False
    for item in items:
        is_head = len(FIELD.findall(content, item.start, item.end)) >= MIN_FIELDS
        if is_head or item.kind not in {BlockKind.PROSE, BlockKind.LIST_ITEM}:
            laid_out.append(item)
            continue
        in_item = item.kind is BlockKind.LIST_ITEM and (
            item.begins_block or (in_item and not _is_left(content, laid_out[-1].end, width))
        )
        start = item.start
        while (end := content.find("\n", start, item.end)) != -1:
            following = content[end : item.end].lstrip()
            line_start = content.rfind("\n", 0, end) + 1
            opens = following[:1].isupper() or following[:1] in _OPENS_LINE
            if _is_left(content, end, width) and opens and content[start:end].strip():
                text = content[start:end].rstrip()
                is_heading = not in_item and line_start <= start and len(words(text)) <= _HEADING_WORDS
                kind = BlockKind.HEADING if is_heading else BlockKind.LIST_ITEM if in_item else BlockKind.PROSE
                begins = item.begins_block if start == item.start else True
                laid_out.append(Sentence(kind, start, start + len(text), begins, ends_block=True))
                start = item.end - len(following)
                in_item = False
            else:
                break
        kind = BlockKind.LIST_ITEM if in_item else BlockKind.PROSE
        begins = item.begins_block if start == item.start else True
        laid_out.append(Sentence(kind, start, item.end, begins, item.ends_block))
    return laid_out


def is_title(text: str, titles: Collection[tuple[str, ...]]) -> bool:
    """Tell whether a text is one of the titles, maybe behind a number or label."""
    said = tuple(words(text))
    return not ends_sentence(text) and any(
        said[-len(title) :] == title and len(said) <= len(title) + NUMBER_WORDS for title in titles
    )


def _is_left(content: str, end: int, width: int) -> bool:
    """Tell whether the line that holds the end of a text ends with it, with room for several words more."""
    start = content.rfind("\n", 0, end) + 1
    line = content[start:].partition("\n")[0].rstrip()
    return end >= start + len(line) and len(line) < _FULL_LINE * width
