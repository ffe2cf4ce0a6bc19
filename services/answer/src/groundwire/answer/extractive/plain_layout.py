"""Reads what the layout of a plain text tells as Markdown of the same length: definitions, options, tables, pages."""

import re
from collections.abc import Callable

from groundwire.answer.plain_text import GAP, ends_sentence
from groundwire.kernel.words import content_stems, words

RULE = re.compile(r"[-=+|][-=+| \t]+")
"""The line below the header of a table."""
_LINE = re.compile(r"[^\n]+")
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
    r"(?P<before>(?:\A|(?<=\n\n)|(?<=\n\r\n))(?P<indent>[ \t]*+)(?![ \d]+[.)]|[A-Z][.)] |[A-Z][A-Z ]{3,}+\r?\n)"
    r"(?P<term>[\w'\"`(\[<$/-](?:[^\s]| (?! )){0,60}+)(?<![.,;:?!]))[ \t]*+\r?\n(?:[ \t]*+\r?\n)?"
    r"(?=(?P=indent)[ \t]++(?P<told>[^\W\d_][^\r\n]*+)(?:\r?\n(?P=indent)[ \t]++\S[^\r\n]*+)*+(?<=[.!?])"
    r"(?:\r?\n[ \t]*+\r?\n|(?:\r?\n)?\Z))"
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
    r"(?:^[ \t]*+\d{1,2}(?:\.\d{1,2}){0,5}+\.?[ \t\xa0]+[^\W\d][^\n]*[^\s.;:,][ \t]*+(?:\r?\n|\Z)){4,}+", re.MULTILINE
)
_SUBSECTION = re.compile(r"^[ \t]*+\d+\.\d", re.MULTILINE)
_LEAST_ROWS, _LEAST_GAPS = 2, 2


def without_pages(text: str) -> str:
    """Return a text without the heads, feet and breaks of its pages, and without tables of contents."""
    text = _LINE.sub(_without_entry_of_contents, text)
    return _CONTENTS.sub(_without_contents, _without_page_breaks(text))


def with_labels(text: str, is_title: Callable[[str], bool]) -> str:
    """Return a text with a colon behind each term that is explained right below it, and behind each option.

    Titles of sections, which the predicate knows, are no terms.
    """
    return _TERM.sub(lambda term: _with_colon(term, is_title), _with_options(text))


def with_bars(text: str) -> str:
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


def _without_entry_of_contents(line: re.Match[str]) -> str:
    is_entry = _LEADERS.search(line[0]) is not None and _TO_A_PAGE.search(line[0].rstrip()) is not None
    return " " * len(line[0]) if is_entry else line[0]


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


def _with_colon(term: re.Match[str], is_title: Callable[[str], bool]) -> str:
    """Return a term with a colon behind it, as long as before, unless it is a title or its definition has it again."""
    opening = " ".join(words(term["told"])[:_OPENING_WORDS])
    is_repeated = not set(content_stems(term["term"])).isdisjoint(content_stems(opening))
    is_heading = is_repeated or is_title(term["before"])
    return term[0] if is_heading else f"{term['before']}:".ljust(len(term[0]))
