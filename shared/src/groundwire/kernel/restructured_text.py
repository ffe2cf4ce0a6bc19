"""Reads reStructuredText as Markdown of the same length, so that ranges of one are ranges of the other."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile, zip_longest

from groundwire.kernel.sentences import BlockKind, Sentence, split_sentences

_LINE = re.compile(r"[^\r\n]*+(?:\r\n?|\n|$)")
_VISIBLE = re.compile(r"[^\n]")
# Headings may be underlined with what is a fence or nothing in Markdown.
_ADORNMENT = re.compile(r"^([~^\"'`+*#.:])\1{2,}+(?=[ \t]*+$)", re.MULTILINE)
# Pictures with their options, also where a chunk begins with these, targets of links, rows of badges and what makes no
# text of its own.
_LAYOUT = re.compile(
    r"^[ \t]*+\.\.[ ](?:_[^\n]*|(?:\|[^|\n]+\|[ ])?"
    r"(?:image|figure|contents|toctree|include|raw|meta|highlight|index|(?:current)?module"
    r"|tabs|(?:group-)?tab|tab-(?:set|item))::[^\n]*)"
    r"(?:\n[ \t]++(?::|[a-z]{1,10}+://)[^\n]*+)*+|\A(?:[ \t]*+:(?:align|alt|height|target|width):[^\n]*+\n?)++"
    r"|^(?:\|(?=\S)[^|\n]++(?<=\S)\|_{0,2}[ \t]*+)++$",
    re.MULTILINE,
)
# The entries of a table of contents, each the name of a document, maybe behind its title: what a chunk that begins
# inside of one has of it.
_ENTRIES = re.compile(
    r"(?:\A|(?<=\n\n))(?:[ \t]++(?:[\w./-]++|[^<>\n]{1,80}<[\w./-]++>)[ \t]*+(?:\n|\Z)){2,}+(?=[ \t]*+(?:\n|\Z))"
)
# Directives of docutils and Sphinx behind which prose, code, a table or nothing to read stands. Any other one names
# what it describes, as those of Sphinx's domains and of projects do: `.. py:method:: save()`, `.. setting:: DEBUG`.
_NAMELESS = (
    "acks|attention|caution|centered|code|code-block|compound|container|csv-table|danger|date"
    "|code-tab|default-role|deprecated|doctest|epigraph|error|footer|glossary|grid|group-tab|header|highlights|hint"
    "|hlist|important"
    "|ipython|list-table|literalinclude|math|note|only|parsed-literal|plot|productionlist|prompt|pull-quote|replace"
    "|role|sectnum|seealso|sourcecode|tab|tab-item|tab-set|table|tabs|tabularcolumns|target-notes|testcode|testoutput"
    "|tip|title|todo|unicode"
    "|version(?:added|changed|removed)|warning"
)
_DESCRIPTION = re.compile(
    rf"^(?P<mark>[ \t]*+\.\.[ ](?!(?:{_NAMELESS})::)[a-z][\w:-]{{0,40}}?::[ \t]++)(?P<name>[^\s(][^\n(\[]*+)"
    # With further signatures and options.
    r"(?P<rest>[^\n]*+(?:\n[ \t]*+\S[^\n]*+)*+)",
    re.MULTILINE,
)
# The name of what is called is shown as `save()`, whatever it takes.
_CALLED = re.compile(r"\([^\n]")
# The term of a definition: some words above lines that are indented further.
_TERM = re.compile(
    r"(?P<before>(?:\A|(?<=\n\n)|(?<=\n \n))(?P<indent>[ \t]*+)"
    r"(?:``[^`\n]{1,100}+``|[`\w][\w`'/, -]{0,60}(?<![\s,-])))"
    r"[ \t]*+\n"
    r"(?=(?P=indent)[ \t]++[^\s:.*|>#+-])"
)
# At most 100 columns, because each row looks at all of them.
_SIMPLE_BORDER = re.compile(r"=++(?:[ \t]++=++){1,99}+")
_BORDER = re.compile(rf"{_SIMPLE_BORDER.pattern}|\+(?:[-=]++\+){{1,100}}+")
_COLUMN = re.compile(r"[-=]+")
# The first cell of a row of a `list-table`, whose further cells are items of the same depth.
_LIST_ROW = re.compile(r"(?P<indent>[ \t]*+)\*[ ]++-(?=[ ]|$)")
_OF_LIST_TABLE = re.compile(r"[ \t]*+(?:\.\. list-table::|:[\w-]+:(?:\s|$)|$)")
_HEADER_ROWS = re.compile(r"[ \t]*+:header-rows:\s*[1-9]")
_MOST_OPTIONS = 10
# What is possessive keeps each pattern linear in the text: a match holds the interpreter lock.
_ROLE = re.compile(r"(?<![\w.:+-]):(?P<role>(?:[\w.+-]++:)++)`(?P<content>[^`]++)`")
_ROLES_OF_OBJECTS = frozenset({"attr", "class", "const", "data", "exc", "func", "meth", "mod", "obj", "type"})
_NUMBER = re.compile(r"\d+")
_CODE_MARK = re.compile(r"\w[(\[{]|[\w\])] ?=|[{}]")
_OPENS_CODE = re.compile(r"\s*(?:>>>|\.\.\.|#|@|(?:def|class|import|from|return|raise|print|try|else)\b)")
_OPENS_PROSE = re.compile(r"\s*[A-Z][a-z']* [a-z(]")
# What is not read where the code, list or prose that it announces is.
_MARKER = re.compile(
    r"^[ \t]*+(?:::|\.\. [\w:-]{1,40}?::|\.\. (?:code|code-block|prompt|sourcecode)::[^\n]*+(?:\n[ \t]++:[^\n]*+)*+)"
    r"[ \t]*+$",
    re.MULTILINE,
)
_OPTION = re.compile(r":[\w-]+:(?:\s|$)")
_ANNOUNCES_CODE = re.compile(
    r"^(?!\.\. ).*::$|^\.\. (?:code|sourcecode|code-block|code-tab|doctest|literalinclude|parsed-literal|testcode"
    r"|testoutput|prompt|console|ipython)::"
)


def without_roles(text: str) -> str:
    """Return a text with what a reader sees of each role: `:class:`~typing.List`` is `List`, `:pep:`8`` is `PEP 8`.

    A page without a title of its own, `:doc:`/plugins/web``, goes by the name of its file: `web`.

    Takes time linear in the length of the text.
    """
    return _ROLE.sub(_role_text, text)


def _role_text(match: re.Match[str]) -> str:
    role, content = match["role"], match["content"]
    title, _, target = content.removesuffix(">").partition("<")
    number = _NUMBER.search(target or title) if role in {"pep:", "rfc:"} else None
    if number is not None:
        return f"{role[:-1].upper()} {number[0]}"
    if target and title.strip():
        return title.rstrip()
    if role == "doc:":
        return content.rpartition("/")[2]
    if role.rsplit(":", 2)[-2] in _ROLES_OF_OBJECTS:
        # Sphinx shows only the last part of a name behind a tilde.
        return content.rpartition(".")[2].lstrip("~") if content.startswith("~") else content.lstrip("!.")
    return content


@dataclass(frozen=True, slots=True)
class Description:
    """What Sphinx describes, such as a function: its name, its directive from start to body, and the body to its end.

    The body is indented further than the directive, and is not empty.
    """

    name: str
    start: int
    body: int
    end: int


def descriptions(text: str) -> list[Description]:
    """Return what a text describes, in order; one inside of another comes behind it. Takes linear time."""
    text = text.replace("\r\n", " \n").replace("\r", "\n")
    code = _Ranges(_literal_blocks(text))
    marks = {
        match.start(): match
        for match in _DESCRIPTION.finditer(_LAYOUT.sub(_blank, text))
        if not code.meet(*match.span())
    }
    found: list[Description] = []
    unfinished: list[tuple[int, re.Match[str]]] = []  # with their depths, the outermost first

    def finish(depth: int, end: int) -> None:
        while unfinished and depth <= unfinished[-1][0]:
            match = unfinished.pop()[1]
            if end > match.end():
                name = match["name"].strip() + _call_of(match)
                found.append(Description(name, match.start(), match.end(), end))

    end = 0
    for line in _LINE.finditer(text):
        if line[0].strip():
            depth = len(line[0]) - len(line[0].lstrip())
            finish(depth, end)
            end = line.start() + len(line[0].rstrip())
            if match := marks.get(line.start()):
                unfinished.append((depth, match))
    finish(0, end)
    return sorted(found, key=lambda each: each.start)


def read_rst(text: str) -> tuple[str, list[Sentence]]:
    """Return a text of the same length in which headings, terms and tables are those of Markdown, and its sentences.

    What Sphinx describes (`.. class:: Form`) is a heading, a term comes with what defines it on one line, and what only
    lays out a page is left out. Inside a row of a table characters move; all others stay in their places. Literal
    blocks are code; they and tables are one item each. Takes time linear in the length of the text.
    """
    text = text.replace("\r\n", " \n").replace("\r", "\n")
    code = _Ranges(_literal_blocks(text))

    def rewritten(pattern: re.Pattern[str], shown: Callable[[re.Match[str]], str]) -> str:
        return pattern.sub(lambda match: match[0] if code.meet(*match.span()) else shown(match), text)

    text = rewritten(_LAYOUT, _blank)
    text = rewritten(_ENTRIES, _blank)
    text = rewritten(_DESCRIPTION, _as_heading)
    text = rewritten(_TERM, lambda match: f"{match['before']}:".ljust(len(match[0])))
    text = rewritten(_ADORNMENT, lambda line: "-" * len(line[0]))
    text = rewritten(_MARKER, _blank)
    text, tables = _with_bars(text, code)
    in_table = _Ranges(tables)
    code = _Ranges([span for span in code.spans if not in_table.meet(*span)])
    blocks = [Sentence(BlockKind.TABLE, *span, begins_block=True, ends_block=True) for span in tables]
    blocks += [Sentence(BlockKind.CODE, *span, begins_block=True, ends_block=True) for span in code.spans]
    # What looks like a fence or a heading inside of code says nothing of the text around it.
    prose = list(text)
    for start, end in code.spans:
        prose[start:end] = _VISIBLE.sub(" ", text[start:end])
    for item in split_sentences("".join(prose)):
        if not (in_table.meet(item.start, item.end) or code.meet(item.start, item.end)):
            blocks.append(item)
    return text, sorted(blocks, key=lambda each: each.start)


class _Ranges:
    """Ranges of a text in order, without an overlap."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        self.spans = spans
        self._starts = [start for start, _ in spans]

    def meet(self, start: int, end: int) -> bool:
        """Tell whether a range has a code point in one of them."""
        index = bisect_left(self._starts, end) - 1
        return index >= 0 and self.spans[index][1] > start


def _literal_blocks(text: str) -> list[tuple[int, int]]:
    """Return the ranges of what is code.

    That is what is indented below a line that ends with `::`, and what an interactive session shows up to the next
    blank line. Where the text begins inside of one, indented lines that look like code show it.
    """
    blocks: list[tuple[int, int]] = []
    border: int | None = None  # the depth that a line must pass to belong to the open block, None without one
    announced = 0 if _begins_in_code(text) else None
    for line in _LINE.finditer(text):
        content = line[0].strip()
        depth = len(line[0]) - len(line[0].lstrip())
        end = line.start() + len(line[0].rstrip())
        if not content or (announced is not None and border is None and _OPTION.match(content)):
            border = None if border == -1 else border
        elif border is not None and depth > border:
            blocks[-1] = (blocks[-1][0], end)
        elif (announced is not None and depth > announced) or content.startswith(">>>"):
            blocks.append((line.start() + depth, end))
            border = -1 if content.startswith(">>>") else announced
        else:
            border = None
            announced = depth if _ANNOUNCES_CODE.search(content) else None
    return blocks


def _begins_in_code(text: str) -> bool:
    first = text.lstrip("\n").partition("\n")[0]
    looks_like_code = _CODE_MARK.search(first) is not None and _OPENS_PROSE.match(first) is None
    is_directive = first.lstrip().startswith(".. ")
    return first[:1].isspace() and not is_directive and (looks_like_code or _OPENS_CODE.match(first) is not None)


def _blank(match: re.Match[str]) -> str:
    return _VISIBLE.sub(" ", match[0])


def _call_of(description: re.Match[str]) -> str:
    return "()" if _CALLED.match(description["rest"]) else ""


def _as_heading(match: re.Match[str]) -> str:
    rest = _VISIBLE.sub(" ", match["rest"])
    called = _call_of(match)
    return f"{'#'.ljust(len(match['mark']))}{match['name']}{called}{rest[len(called) :]}"


def _with_bars(text: str, code: _Ranges) -> tuple[str, list[tuple[int, int]]]:
    """Return the text with bars between the cells of its tables, each row on one line, and where the tables stand."""
    lines, written = text.split("\n"), list[str]()
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    tables: list[tuple[int, int]] = []
    index = 0
    while index < len(lines):
        line, end, upper_border = lines[index], index + 1, 1
        list_row = _LIST_ROW.match(line)
        if code.meet(starts[index], starts[end]) or not (list_row or _BORDER.fullmatch(line.strip())):
            written.append(line)
        elif list_row is not None:
            end, upper_border = _end_of_list_table(lines, index, list_row), 0
            nearest = reversed(lines[max(0, index - _MOST_OPTIONS) : index])
            options = list(takewhile(lambda line: _OF_LIST_TABLE.match(line) is not None, nearest))
            written[len(written) - len(options) :] = [" " * len(option) for option in reversed(options)]
            has_header = any(_HEADER_ROWS.match(option) for option in options)
            written += _list_table(lines[index:end], list_row, has_header=has_header)
        elif "+" in line:
            while end < len(lines) and lines[end].lstrip().startswith(("|", "+")):
                end += 1
            columns = [slice(*column.span()) for column in _COLUMN.finditer(line)]
            written += _table(lines[index:end], columns, is_grid=True)
        else:
            end = _end_of_simple_table(lines, index)
            fronts = [column.start() for column in _COLUMN.finditer(line)]
            columns = [slice(front, after) for front, after in zip_longest(fronts, fronts[1:])]
            written += _table(lines[index:end], columns, is_grid=False)
        if end > index + 1 and "".join(lines[index:end]).strip(" \t=+|-"):
            tables.append((starts[index + upper_border], starts[end] - 1))
        index = end
    return "\n".join(written), tables


def _end_of_simple_table(lines: Sequence[str], start: int) -> int:
    """Return the number of the line below a table, which has a blank line below its last border.

    One that is cut off, as by the end of a chunk, ends at its first blank line.
    """
    blank, has_header = len(lines), False
    for number in range(start + 1, len(lines)):
        if not lines[number].strip():
            blank = min(blank, number)
        elif _SIMPLE_BORDER.fullmatch(lines[number].strip()):
            if not "".join(lines[number + 1 : number + 2]).strip():
                return number + 1
            if has_header:
                break  # this one belongs to the next table, and looking no further takes linear time
            has_header = True
    return blank


def _end_of_list_table(lines: Sequence[str], start: int, first: re.Match[str]) -> int:
    """Return the number of the line below the rows, all of which are indented like the first one or further."""
    end = start + 1
    for number in range(start + 1, len(lines)):
        row = _LIST_ROW.match(lines[number])
        is_inside = lines[number].startswith(f"{first['indent']} ") or (row and row["indent"] == first["indent"])
        if lines[number].strip() and not is_inside:
            break
        end = number + 1 if lines[number].strip() else end
    return end


def _list_table(lines: Sequence[str], first: re.Match[str], *, has_header: bool) -> list[str]:
    """Return the lines of a list table, each row on one of them, with a border below the header."""
    column = first.end() - 1
    rows = list[list[str]]()
    for line in lines:
        if _LIST_ROW.match(line):
            rows.append([])
        rows[-1].append(line)
    written = []
    for number, row_lines in enumerate(rows):
        cells = list[list[str]]()
        for place, line in enumerate(row_lines):
            # Further cells begin with a dash below that of the first one.
            if place == 0 or line[column : column + 2] in {"- ", "-"}:
                cells.append([])
                line = line[column + 1 :]  # noqa: PLW2901 - what is behind the mark
            cells[-1].append(line.strip())
        source = "\n".join(row_lines)
        # The border takes the room of the mark below it.
        front = "-\n".ljust(column) if has_header and number == 1 else " " * column
        front += "".join(f"{' '.join(filter(None, cell))}|" for cell in cells[:-1])
        last = " ".join(filter(None, cells[-1]))
        written.append(f"{front}{last.rjust(len(source.rstrip()) - len(front))}".ljust(len(source)))
    return written


def _table(lines: Sequence[str], columns: Sequence[slice], *, is_grid: bool) -> list[str]:
    """Return the lines of a table, its upper border first, with blank ones for all borders but that of the header."""
    borders = [number for number, line in enumerate(lines) if _BORDER.fullmatch(line.strip())]
    header = next((number for number in borders[1:-1] if not is_grid or "=" in lines[number]), 0)
    gap = " |+" if is_grid else " "
    written, row, is_border = [" " * len(lines[0])], list[str](), True
    for number, line in enumerate(lines[1:], start=1):
        # In a simple table a row goes on where the first column is empty, and the header up to its border.
        begins = is_border if is_grid else number > header and bool(line[columns[0]].strip())
        if row and (begins or number == header):
            written.append(_row(row, columns, gap))
            row = []
        is_border = _BORDER.fullmatch(line.strip()) is not None
        if number == header:
            written.append("-" * len(line))
        else:
            row.append(" " * len(line) if is_border else line)
    return [*written, _row(row, columns, gap)] if row else written


def _row(lines: Sequence[str], columns: Sequence[slice], gap: str) -> str:
    """Return a row on one line of the same length, or as it is if a cell spans several columns.

    Between columns stands nothing but what is in `gap`.
    """
    source = "\n".join(lines)
    between = (line[max(0, column.start - 1) : column.start] for line in lines for column in columns)
    if any(each.strip(gap) for each in between):
        return source
    cells = [" ".join(filter(None, (line[column].strip() for line in lines))) for column in columns]
    # There is room for a bar only in front of what is in a column.
    while len(cells) > 1 and not cells[-1]:
        cells.pop()
    front = "".join(f"{cell}|" for cell in cells[:-1])
    return f"{front}{cells[-1].rjust(len(source.rstrip()) - len(front))}".ljust(len(source))
