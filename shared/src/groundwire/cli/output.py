"""Prints what commands found: JSON for programs, text and tables for people.

Everything that a command prints goes through this module (the linter refuses other ways), because most of it comes
from documents: whoever wrote one must not be able to move the cursor, fill the clipboard, hide words or forge a line.
"""

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import typer

if TYPE_CHECKING:
    from rich.console import Console, OverflowMethod
    from rich.table import Table
    from rich.text import Text

Styled: TypeAlias = tuple[str, str]
"""A text and its style, such as `("failed", "bold red")`; the style shows on a terminal only."""

_UNWRAPPED = 10_000
"""Columns of a table that goes to a file or another program, so that nothing is wrapped there."""
_GAP = 2
_NARROWEST = 12
"""Characters that the last column of a table has at least."""

_JOINERS = "\u200c\u200d"
"""Persian, Indic scripts and emoji cannot be written without these two; they are harmless."""


class _Escapes(dict[int, str | int]):
    """Table for `str.translate`: what has no look of its own is escaped, except `kept`.

    That are control characters, marks that turn the direction of writing, zero-width and tag characters, private and
    unassigned code points, and lone surrogates, which stand for bytes of file names.
    """

    def __init__(self, kept: str, escape: Callable[[str], str]) -> None:
        super().__init__((ord(character), character) for character in kept + _JOINERS)
        self._escape = escape

    def __missing__(self, code: int) -> str | int:
        character = chr(code)
        has_look = character.isprintable() or unicodedata.category(character) == "Zs"
        self[code] = code if has_look else self._escape(character)
        return self[code]


def _as_python(character: str) -> str:
    return repr(character)[1:-1]


def _as_json(character: str) -> str:
    return json.dumps(character)[1:-1]


_LINE = _Escapes("", _as_python)
_LINES = _Escapes("\n\t", _as_python)
_JSON = _Escapes("\n", _as_json)


def one_line(text: str) -> str:
    """Return a text that stays on its line: line ends are escaped with all else that is not printable."""
    return text if text.isprintable() else text.translate(_LINE)


def many_lines(text: str) -> str:
    """Return a text with its line ends and tabs, and everything else escaped that is not printable."""
    return text if text.isprintable() else text.translate(_LINES)


def print_line(*parts: str | Styled, err: bool = False, end: str = "\n") -> None:
    """Print the parts as one line on standard output, or with `err` on the error stream."""
    _write([(one_line(text), style) for text, style in map(_styled, parts)], err=err, end=end)


def print_text(text: str, *, wrap: bool = True, end: str = "\n") -> None:
    """Print a text of many lines; `wrap` breaks those that are too long for the terminal between words."""
    _write([(many_lines(text), "")], err=False, end=end, wrap=wrap)


def print_exactly(parts: Iterable[str]) -> None:
    """Print a stored text: to a file or program byte for byte, with its own line ends; on a terminal escaped."""
    if is_terminal():
        for part in parts:
            _write([(many_lines(part), "")], err=False, end="", wrap=False)
        return
    with _closable(sys.stdout):
        for part in parts:
            sys.stdout.buffer.write(part.encode("utf-8"))
        sys.stdout.buffer.flush()


def print_json(value: Any, *, err: bool = False, indent: int | None = 2) -> None:
    """Print a value as JSON; what is not printable is escaped as JSON does it, so the data stay exact."""
    stream = sys.stderr if err else sys.stdout
    text = json.dumps(value, ensure_ascii=not _is_utf8(stream), indent=indent)
    _echo(text.translate(_JSON) + "\n", err=err)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], empty: str, *, is_excerpt: bool = False) -> None:
    """Print rows under their headings, or `empty` when there are none; numbers stand right.

    What does not fit on a terminal goes on in the last column, or is cut off there if that is an excerpt; the others
    hold what commands take and stay on their line.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - --help stays fast

    if not rows:
        print_line(empty)
        return
    cells = [
        [one_line(f"{value:,}" if isinstance(value, int | float) else str(value)) for value in row] for row in rows
    ]
    widths = [max(cell_len(row[index]) for row in [columns, *cells]) for index in range(len(columns))]
    shown = _console(err=False)
    room = max(_NARROWEST, shown.width - sum(widths[:-1]) - _GAP * (len(columns) - 1))
    widths[-1] = min(widths[-1], room)
    shown.width = max(shown.width, sum(widths) + _GAP * (len(columns) - 1))
    table = _table(show_header=True)
    for index, (name, width) in enumerate(zip(columns, widths, strict=True)):
        is_number = any(isinstance(row[index], int | float) for row in rows)
        overflow: OverflowMethod = "ellipsis" if is_excerpt else "fold"
        table.add_column(
            name, justify="right" if is_number else "left", width=width, overflow=overflow, no_wrap=is_excerpt
        )
    for row in cells:
        table.add_row(*map(_cell, row))
    _print(table, shown)


def print_fields(fields: Mapping[str, Any]) -> None:
    """Print names and values below one another; nested names are joined by dots, what is empty is left out."""
    table = _table(show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in flat_fields(fields).items():
        table.add_row(_cell(one_line(name)), _cell(many_lines(_in_words(value))))
    _print(table, _console(err=False))


def confirm(question: str) -> bool:
    """Ask a person; the question goes to the error stream."""
    return typer.confirm(one_line(question), err=True)


def is_terminal(*, err: bool = False) -> bool:
    """Tell whether what is printed reaches a person at a terminal."""
    return (sys.stderr if err else sys.stdout).isatty()


def short_model(name: str) -> str:
    """Return the name of a model without the organisation it is published by."""
    return name.rsplit("/", 1)[-1]


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as `1 chunk` or `2,000 chunks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def page_place(pages: Sequence[int]) -> str:
    """Return pages as part of a place, such as ` · page 3` or ` · pages 3–5`; empty for what has none."""
    if not pages:
        return ""
    return f" · page {pages[0]}" if len(pages) == 1 else f" · pages {pages[0]}–{pages[-1]}"


def flat_fields(fields: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested fields under names joined by dots, without those that are empty."""
    flat: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, Mapping):
            flat |= flat_fields(value, f"{prefix}{name}.")
        elif value not in ("", [], None):
            flat[prefix + name] = value
    return flat


def _in_words(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case list() if all(isinstance(item, str | int | float) for item in value):
            return ", ".join(map(str, value))
        case list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def _styled(part: str | Styled) -> Styled:
    return (part, "") if isinstance(part, str) else part


def _write(parts: Sequence[Styled], *, err: bool, end: str, wrap: bool = True) -> None:
    """Print parts whose texts are escaped already."""
    if not is_terminal(err=err):
        _echo("".join(text for text, _ in parts) + end, err=err)
        return
    from rich.text import Text  # noqa: PLC0415 - --help stays fast

    _console(err=err).print(Text.assemble(*parts), end=end, soft_wrap=not wrap)


def _console(*, err: bool) -> "Console":
    """Return a console as wide as the terminal, and as wide as anything when there is none.

    It is for tables and texts of this module alone: rich takes control sequences as they are.
    """
    from rich.console import Console  # noqa: PLC0415 - --help stays fast

    width = None if is_terminal(err=err) else _UNWRAPPED
    return Console(stderr=err, highlight=False, markup=False, emoji=False, width=width)


def _is_utf8(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "") == "utf8"


def _cell(text: str) -> "Text":
    from rich.text import Text  # noqa: PLC0415 - --help stays fast

    return Text(text)


def _table(*, show_header: bool) -> "Table":
    from rich.table import Table  # noqa: PLC0415 - --help stays fast

    return Table(box=None, show_header=show_header, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")


def _print(table: "Table", shown: "Console") -> None:
    """Print a table without the spaces that fill its last column."""
    with shown.capture() as captured:
        shown.print(table)
    _echo("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()), err=False)


def _echo(text: str, *, err: bool) -> None:
    with _closable(sys.stderr if err else sys.stdout):
        typer.echo(text, nl=False, err=err)


@contextmanager
def _closable(stream: TextIO) -> Iterator[None]:
    """Let the reader of a stream leave (`groundwire docs list | head`): nothing is wrong, and the command is done."""
    try:
        yield
    except BrokenPipeError as error:
        # What is left in the buffer goes nowhere: at exit it would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if stream is sys.stdout:
            raise typer.Exit from error
