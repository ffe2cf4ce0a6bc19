"""Reads a passage into its headings, sentences, list items, tables and code, also where nothing marks them."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise

from groundwire.answer.evidence import Markup, Passage
from groundwire.answer.extractive.weights import LABEL_WORDS
from groundwire.answer.plain_text import GAP, ends_sentence
from groundwire.kernel.markdown import read_markdown
from groundwire.kernel.restructured_text import read_rst
from groundwire.kernel.sentences import QUESTION_MARKS, BlockKind, Sentence, split_sentences
from groundwire.kernel.words import content_stems, words

FIELD = re.compile(
    r"^:?[A-Z][\w-]{1,30}(?: [a-z][\w-]{1,20}){0,2}:[ \t]++\S[^\r\n]*+(?:\r?\n[ \t]++[^\s:][^\r\n]*+)*+", re.MULTILINE
)
"""A field of the head of a document: `Author: Ada Lovelace`, one to a line."""
MIN_FIELDS = 3
"""So many fields in a row make the head of a document."""
RULE = re.compile(r"[-=+|][-=+| \t]+")
"""The line below the header of a table."""
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
_LINE = re.compile(r"[^\n]+")
_FIRST_LINE = re.compile(r"(?:\A|(?<=\n\n)|(?<=\n\r\n))[^\r\n]{3,}")
# "6.3.1. Description", alone in its paragraph.
_NUMBERED_TITLE = re.compile(r"\s*\d{1,2}(?:\.\d{1,2}){1,5}\.?\s+[^\W\d_][^\n]{0,78}(?<![.,;:!?])\s*")
_BLANK_LINE = re.compile(r"(?:\r?\n[ \t]*)?(?:\r?\n|\Z)")
# In a table of contents or an index, dots lead to the number of a page: "4.11 Upstream location . . . . . 28".
_LEADERS = re.compile(r"(?: \.){4}|\.{5}")
_TO_A_PAGE = re.compile(r"[ .](?:\d{1,3}|[ivxlc]{1,6})$")
# The foot of a page or the head of the next one, as in texts of the IETF; one of them has the number of the page.
_HEAD_OR_FOOT = re.compile(r"\A\s*+[^\s|][^\n]{0,80}?[ ]{6}[^\n]{0,80}\s*+")
_PAGE_NUMBER = re.compile(r"(?:\b[Pp]age |[ ]{6})\d{1,4}\]?\s*\Z")
_LEAST_BETWEEN_PAGES = 3
_LINE_END = re.compile(r"[\r\n\f]")
# The term of a definition: some words above text that is indented further, maybe with a blank line between.
_TERM = re.compile(
    # Neither a numbered title, nor one in capitals, nor columns of a table.
    r"(?P<before>(?:\A|(?<=\n\n))(?P<indent>[ \t]*+)(?![ \d]+[.)]|[A-Z][.)] |[A-Z][A-Z ]{3,}+\n)"
    r"(?P<term>[\w'\"`(\[<$/-](?:[^\s]| (?! )){0,60}+)(?<![.,;:?!]))[ \t]*+\n(?:[ \t]*+\n)?"
    r"(?=(?P=indent)[ \t]++(?P<told>[^\W\d_][^\n]*+)(?:\n(?P=indent)[ \t]++\S[^\n]*+)*+(?<=[.!?])"
    r"(?:\n[ \t]*+\n|\n?\Z))"
)
_OPENING_WORDS = 2
# "-a, --all", with what it does behind two spaces or in the next line.
_OPTION = re.compile(
    r"(?P<indent>[ \t]*+)(?P<option>--?[\w?#@][^\s]{0,60}+(?:[ ](?![ ])[^\s]{1,60}+){0,6}+)"
    r"(?:(?P<gap>[ ]{2,}+)\S|\s*+$)"
)
_MARK_WIDTH = 2
_VISIBLE = re.compile(r"[^\r\n]")
# "1. Introduction" and "1.1. Purpose", line below line.
_CONTENTS = re.compile(
    r"(?:^[ \t]*+\d{1,2}(?:\.\d{1,2}){0,5}+\.?[ \t\xa0]+[^\W\d][^\n]*[^\s.;:,][ \t]*+(?:\n|\Z)){4,}+", re.MULTILINE
)
_SUBSECTION = re.compile(r"^[ \t]*+\d+\.\d", re.MULTILINE)
_LEAST_ROWS, _LEAST_GAPS = 2, 2
ASKED = re.compile(r"(?:Q|Question|Frage)\s?\d{0,3}[.:)]\s+")
"""What stands before a question in a list of questions: "Q: May I?", with "A: You may." below it."""
_REPLIED = re.compile(r"(?:A(?:nswer)?|Antwort)\s?\d{0,3}[.:)]\s+")


def read_items(passage: Passage, titles: Collection[tuple[str, ...]]) -> tuple[str, list[Sentence]]:
    """Return the content of a passage, as long as before, and what it consists of, in order.

    `titles` are the words of each title of a section of a PDF, which nothing but these tell from other lines.
    """
    content = passage.content
    if passage.markup is Markup.RST:
        content, items = read_rst(content)
        return content, _with_questions(content, items)
    if passage.markup is Markup.MARKDOWN:
        content = read_markdown(content)
    is_plain = passage.markup is Markup.NONE
    if is_plain:
        content = _without_page_breaks(_LINE.sub(_without_entry_of_contents, content))
        content = _CONTENTS.sub(_without_contents, content)
    # Definitions are no fields of the head of a document.
    unlabelled = content
    if is_plain:
        content = _TERM.sub(lambda term: _with_colon(term, titles), _with_options(content))

    def with_title_marked(line: re.Match[str]) -> str:
        """Return the first line of a paragraph with the mark of a heading, as long as before, if it is a title."""
        is_alone = _BLANK_LINE.match(content, line.end()) is not None
        is_numbered = is_plain and is_alone and _NUMBERED_TITLE.fullmatch(line[0]) is not None
        return f"# {line[0][2:]}" if is_numbered or is_title(line[0], titles) else line[0]

    marked = _FIRST_LINE.sub(with_title_marked, _WIKI_HEADING.sub(_as_markdown, content))
    if is_plain:
        marked = _with_bars(marked)
    items = _with_fields(unlabelled, split_sentences(marked, passage.content))
    items = _with_taglines(content, items)
    if is_plain:
        items = [
            replace(each, kind=BlockKind.HEADING)
            if each.begins_block and is_title(content[each.start : each.end], titles)
            else each
            for each in _along_lines(content, items)
        ]
    return content, _with_questions(content, items)


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


def _without_entry_of_contents(line: re.Match[str]) -> str:
    is_entry = _LEADERS.search(line[0]) is not None and _TO_A_PAGE.search(line[0].rstrip()) is not None
    return " " * len(line[0]) if is_entry else line[0]


def _with_options(text: str) -> str:
    """Return a text in which each option of a manual page is an item of a list, with a colon behind it.

    Several lines may name it: the last one has the colon.
    """
    lines = text.splitlines(keepends=True)
    above = 0  # the indent of the option that the line above belongs to, 0 for none
    is_named = False  # by the line above, which does not yet tell what it does
    for place, line in enumerate(lines):
        option, below = _OPTION.match(line), "".join(lines[place + 1 : place + 2])
        indent = len(line) - len(line.lstrip())
        follows = is_named and indent == above
        begins = follows or not "".join(lines[place - 1 : place]).strip() or 0 < indent <= above
        if option is None or not begins or indent < _MARK_WIDTH:
            above, is_named = (above if line.strip() and indent > above else 0), False
            continue
        is_told = bool(option["gap"]) or len(below) - len(below.lstrip(" \t")) > indent
        is_named = not is_told and below.startswith(f"{option['indent']}-")
        if not (is_told or is_named):
            continue
        above = indent
        front = line[:indent] if follows else f"{line[: indent - _MARK_WIDTH]}- "
        named = f"{front}{option['option']}{':' if is_told else ''}"
        lines[place] = named + line[len(named) :] if option["gap"] or is_named else named.ljust(len(line))
    return "".join(lines)


def _with_colon(term: re.Match[str], titles: Collection[tuple[str, ...]]) -> str:
    """Return a term with a colon behind it, as long as before, unless it is a title or its definition has it again."""
    opening = " ".join(words(term["told"])[:_OPENING_WORDS])
    is_repeated = not set(content_stems(term["term"])).isdisjoint(content_stems(opening))
    is_heading = is_repeated or is_title(term["before"], titles)
    return term[0] if is_heading else f"{term['before']}:".ljust(len(term[0]))


def _without_contents(lines: re.Match[str]) -> str:
    return _VISIBLE.sub(" ", lines[0]) if _SUBSECTION.search(lines[0]) else lines[0]


def _without_page_breaks(text: str) -> str:
    """Return a text with spaces for the feet and heads of its pages, and for the line ends within a sentence there."""
    lines = text.splitlines(keepends=True)
    told = [place for place, line in enumerate(lines) if line.strip()]
    for before, foot, head, after in zip(told, told[1:], told[2:], told[3:], strict=False):
        is_apart = head - foot >= _LEAST_BETWEEN_PAGES or "\f" in "".join(lines[foot + 1 : head + 1])
        both = (lines[foot], lines[head])
        if (
            is_apart
            and before + 1 < foot
            and head + 1 < after
            and all(map(_HEAD_OR_FOOT.fullmatch, both))
            and any(map(_PAGE_NUMBER.search, both))
        ):
            lines[foot], lines[head] = (_VISIBLE.sub(" ", line) for line in both)
            if lines[after].lstrip()[0].islower() and not ends_sentence(lines[before].rstrip()):
                between = "".join(lines[before:after])
                lines[before] = _LINE_END.sub(" ", between[:-1]) + "\n"
                lines[before + 1 : after] = [""] * (after - before - 1)
    return "".join(lines)


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


def _with_bars(text: str) -> str:
    """Return a text whose lines in columns begin with a bar, which makes a table of Markdown of them."""
    lines = text.splitlines(keepends=True)
    rows: list[int] = []
    for place, line in enumerate([*lines, ""]):
        is_rule = len(rows) == 1 and RULE.fullmatch(line.rstrip()) is not None
        # Cells of a row that fill their columns are nearer to each other.
        if is_rule or len(GAP.findall(line.strip())) >= (1 if rows else _LEAST_GAPS):
            rows.append(place)
            continue
        if len(rows) >= _LEAST_ROWS:
            lines[rows[0] : place] = (f"|{each[1:]}" for each in lines[rows[0] : place])
        rows = []
    return "".join(lines)


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
