"""Prints what commands found: JSON for programs, tables for people."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console, OverflowMethod
    from rich.table import Table
    from rich.text import Text

UNLIMITED = 10_000
"""Characters of a line that goes to a file or another program, so that nothing is wrapped there."""
_GAP = 2
_NARROWEST = 12
"""Characters that the last column of a table has at least."""


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], empty: str, *, is_excerpt: bool = False) -> None:
    """Print rows under their headings, or `empty` when there are none; numbers stand right.

    What does not fit on a terminal goes on in the last column, or is cut off there if that is an excerpt; the others
    hold what commands take and stay on their line.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - --help stays fast

    if not rows:
        typer.echo(empty)
        return
    cells = [[f"{value:,}" if isinstance(value, int | float) else str(value) for value in row] for row in rows]
    widths = [max(cell_len(row[index]) for row in [columns, *cells]) for index in range(len(columns))]
    shown = console()
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
        table.add_row(name, _cell(_in_words(value)))
    _print(table, console())


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


def console(*, stderr: bool = False) -> "Console":
    """Return a console that wraps at the width of the terminal, and nowhere when it is none."""
    from rich.console import Console  # noqa: PLC0415 - --help stays fast

    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, width=None if is_terminal else UNLIMITED)


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
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
