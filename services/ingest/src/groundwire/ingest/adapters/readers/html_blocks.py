"""Turns the nodes of a page into blocks of text."""

from typing import Any

from groundwire.ingest.domain.text_building import TextBuilder, one_line

_NOISE_NAMES = (
    "head script style noscript template nav svg math iframe object embed canvas audio video select datalist dialog"
)
_BLOCK_NAMES = (
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form header hr html legend li main menu ol p section summary ul table thead tbody tfoot tr"
)
_NOISE = frozenset(_NOISE_NAMES.split())
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_CELLS = frozenset({"td", "th"})
_INDENT = "  "
_MAX_INDENTS = 8


class HtmlBlocks:
    """Takes nodes in document order, each with `enter` and `leave`, and builds the text from them.

    A row of a table becomes a line with its cells between bars, whatever is inside the cells.
    """

    def __init__(self) -> None:
        self.builder = TextBuilder()
        self._inline: list[str] = []
        self._lists: list[int | None] = []
        self._marker = ""
        self._pre = 0
        self._cell_depth = 0
        self._cells: list[str] = []

    def enter(self, node: Any) -> bool:
        """Begin a node; return whether its children are wanted."""
        tag = node.tag
        if tag == "-text":
            self._inline.append(node.text_content or "")
            return False
        if tag in _NOISE or tag.startswith("-") or (tag in _BLOCKS and "hidden" in node.attributes):
            return False
        if tag == "br":
            self._inline.append("\n" if self._pre else "\x00")
        elif self._cell_depth:
            self._enter_in_cell(tag)
        else:
            self._enter_block(tag)
        return True

    def leave(self, node: Any) -> None:
        """End a node."""
        tag = node.tag
        if self._cell_depth:
            self._leave_in_cell(tag)
        elif tag in _HEADINGS:
            self._end_heading(_HEADINGS[tag])
        elif tag == "pre":
            self._end_pre()
        elif tag == "tr":
            self._end_row()
        elif tag in _BLOCKS:
            self._flush()
            if tag in _LISTS and self._lists:
                self._lists.pop()
            if tag == "li":
                self._marker = ""

    def _enter_block(self, tag: str) -> None:
        if tag in _BLOCKS or tag in _HEADINGS or tag in _CELLS or tag == "pre":
            self._flush()
        if tag in _LISTS:
            self._lists.append(0 if tag == "ol" else None)
        elif tag == "li":
            self._begin_item()
        elif tag == "pre":
            self._pre += 1
        elif tag in _CELLS:
            self._cell_depth = 1

    def _enter_in_cell(self, tag: str) -> None:
        if tag in _CELLS:
            self._cell_depth += 1
        if tag in _BLOCKS or tag in _HEADINGS or tag in _CELLS or tag == "pre":
            self._inline.append(" ")

    def _leave_in_cell(self, tag: str) -> None:
        if tag in _CELLS:
            self._cell_depth -= 1
            if not self._cell_depth:
                self._cells.append(self._take_line())
                return
        if tag in _BLOCKS or tag in _HEADINGS or tag == "pre":
            self._inline.append(" ")

    def _begin_item(self) -> None:
        number = self._lists[-1] if self._lists else None
        if number is None:
            self._marker = "- "
        else:
            self._lists[-1] = number + 1
            self._marker = f"{number + 1}. "

    def _end_heading(self, level: int) -> None:
        if self._lists:
            self._flush()
        else:
            self.builder.heading(level, self._take_line())

    def _end_pre(self) -> None:
        self._pre = max(0, self._pre - 1)
        text = "".join(self._inline).strip("\n")
        self._inline.clear()
        self.builder.verbatim(self._take_marker() + text if text.strip() else "")

    def _end_row(self) -> None:
        self._flush()
        cells, self._cells = self._cells, []
        if any(cells):
            self.builder.add(" | ".join(cells), tight=True)

    def _flush(self) -> None:
        """End the paragraph, item or line that was being collected."""
        if self._pre:
            return
        lines = [one_line(line) for line in "".join(self._inline).split("\x00")]
        self._inline.clear()
        text = "\n".join(lines).strip()
        if not text:
            return
        if not self._lists:
            self.builder.add(text)
            return
        indent = _INDENT * min(_MAX_INDENTS, len(self._lists) - 1)
        marker = self._take_marker()
        lead = marker or _INDENT
        following = "\n" + indent + " " * len(lead)
        self.builder.add(indent + lead + text.replace("\n", following), tight=True)

    def _take_marker(self) -> str:
        marker, self._marker = self._marker, ""
        return marker

    def _take_line(self) -> str:
        line = one_line("".join(self._inline).replace("\x00", " "))
        self._inline.clear()
        return line
