"""Prints what commands found: JSON for programs, text and tables for people.

Everything that a command prints goes through this module (the linter refuses other ways), because most of it comes
from documents: their authors must not be able to move the cursor, fill the clipboard, hide words or forge a line.
"""

import json
import os
import shutil
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from types import TracebackType
from typing import Any, Self, TextIO, TypeAlias

import click
from google.protobuf.message import Message

from groundwire.api.ingest.v1 import progress_pb2
from groundwire.cli.messages import message_json, shown_name
from groundwire.cli.options import is_json
from groundwire.kernel.errors import GroundwireError, InvalidRequestError, PreconditionError

Styled: TypeAlias = tuple[str, str]
"""A text and its style, such as `("failed", "bold red")`; the style shows on a terminal only."""

# Columns of a table that goes to a file or another program, so that nothing is wrapped there.
_UNWRAPPED = 10_000
_GAP = 2
# Minimum width of the last column of a table.
_NARROWEST = 12

# Unicode categories whose characters take no cell of their own.
_WITHOUT_WIDTH = frozenset({"Mn", "Me", "Cf"})

# Persian, Indic scripts and emoji cannot be written without these two; they are harmless.
_JOINERS = "\u200c\u200d"


class _Escapes(dict[int, str | int]):
    """Table for `str.translate` that escapes invisible characters, except the `allowed`.

    These are control characters, marks that turn the direction of writing, zero-width and tag characters, private and
    unassigned code points, and lone surrogates, which stand for bytes of file names.
    """

    def __init__(self, allowed: str, escape: Callable[[str], str]) -> None:
        super().__init__((ord(character), character) for character in allowed + _JOINERS)
        self._escape = escape

    # Filled as characters are met: a table of all of Unicode would slow down the start of every command.
    def __missing__(self, code: int) -> str | int:
        character = chr(code)
        has_look = character.isprintable() or unicodedata.category(character) == "Zs"
        self[code] = code if has_look else self._escape(character)
        return self[code]


def _as_python(character: str) -> str:
    return repr(character)[1:-1]


_LINE = _Escapes("", _as_python)
_LINES = _Escapes("\n\t", _as_python)
_JSON = _Escapes("\n", lambda character: json.dumps(character)[1:-1])


def one_line(text: str) -> str:
    """Return a text that stays on its line: line ends are escaped with all else that is not printable."""
    return text if text.isprintable() else text.translate(_LINE)


def many_lines(text: str) -> str:
    """Return a text with its line ends and tabs, and everything else escaped that is not printable."""
    return text if text.isprintable() else text.translate(_LINES)


def print_line(*parts: str | Styled, err: bool = False, end: str = "\n") -> None:
    """Print the parts as one line on standard output, or with `err` on the error stream."""
    styled = [(part, "") if isinstance(part, str) else part for part in parts]
    _write([(one_line(text), style) for text, style in styled], err=err, end=end)


def print_text(text: str, *, wrap: bool = True, end: str = "\n") -> None:
    """Print a text of many lines; `wrap` breaks those that are too long for the terminal between words."""
    _write([(many_lines(text), "")], err=False, end=end, wrap=wrap)


def print_marked(parts: Sequence[tuple[str, bool]]) -> None:
    """Print the parts of a text of many lines, some of which are marked: in colour, or as `⟦…⟧` where there is none."""
    is_coloured = is_terminal() and _has_colours()
    shown = [
        (many_lines(text) if is_coloured or not marked else f"⟦{many_lines(text)}⟧", "bold yellow" if marked else "")
        for text, marked in parts
    ]
    _write(shown, err=False, end="\n")


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


def error_json(error: GroundwireError) -> dict[str, Any]:
    """Return an error as `--json` prints it, with its violations if fields of the request are wrong."""
    shown: dict[str, Any] = {"reason": error.reason, "message": error.message, "metadata": error.metadata}
    if isinstance(error, InvalidRequestError):
        shown["violations"] = [{"field": each.field, "description": each.description} for each in error.violations]
    return shown


def print_json(value: Any, *, err: bool = False, indent: int | None = 2) -> None:
    """Print a value as JSON, messages in it with the field names of the protos.

    What is not printable is escaped as JSON does it, so that the data stay exact.
    """
    stream = sys.stderr if err else sys.stdout
    is_utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not is_utf8, indent=indent, default=message_json)
    _echo(text.translate(_JSON) + "\n", err=err)


def printed_as_json(value: Any) -> bool:
    """Print a value where `--json` asks for it, and tell whether it does."""
    if is_json():
        print_json(value)
    return is_json()


def print_list(
    items: Any, columns: Sequence[str], rows: Sequence[Sequence[Any]], empty: str, *, is_excerpt: bool = False
) -> None:
    """Print what a command lists: `items` where `--json` asks for JSON, else their rows as `print_table` does."""
    if not printed_as_json(items):
        print_table(columns, rows, empty, is_excerpt=is_excerpt)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], empty: str, *, is_excerpt: bool = False) -> None:
    """Print rows under their headings, or `empty` when there are none; numbers stand right.

    What does not fit on a terminal is wrapped in the last column, or cut off if that is an excerpt; the others
    hold what commands take and stay on their line.
    """
    if not rows:
        print_line(empty)
        return
    cells = [
        [one_line(f"{value:,}" if isinstance(value, int | float) else str(value)) for value in row] for row in rows
    ]
    widths = [max(_cells(row[index]) for row in [columns, *cells]) for index in range(len(columns))]
    room = max(_NARROWEST, _columns() - sum(widths[:-1]) - _GAP * (len(columns) - 1))
    widths[-1] = min(widths[-1], room)
    is_number = [any(isinstance(row[index], int | float) for row in rows) for index in range(len(columns))]
    for number, row in enumerate([list(columns), *cells]):
        last = _folded(row[-1], widths[-1])
        if is_excerpt and len(last) > 1:
            start = row[-1][: widths[-1] - 1]
            while _cells(start) >= widths[-1]:  # wide characters take two columns
                start = start[:-1]
            last = [f"{start}…"]
        leads = [row[:-1], *([""] * (len(row) - 1) for _ in last[1:])]
        for lead, end in zip(leads, last, strict=True):
            padded = [
                " " * (width - _cells(text)) + text if right else text + " " * (width - _cells(text))
                for text, width, right in zip([*lead, end], widths, is_number, strict=True)
            ]
            _write([((" " * _GAP).join(padded).rstrip(), "" if number else "bold")], err=False, end="\n", wrap=False)


def print_fields(fields: Mapping[str, Any]) -> None:
    """Print names and values below one another; nested names are joined by dots, what is empty is left out."""
    shown: dict[str, str] = {}
    for name, value in flat_fields(fields).items():
        match value:
            case bool():
                text = "yes" if value else "no"
            case list() if all(isinstance(item, str | int | float) for item in value):
                text = ", ".join(map(str, value))
            case list():
                text = json.dumps(value, ensure_ascii=False)
            case _:
                text = str(value)
        shown[one_line(name)] = many_lines(text)
    width = max(map(_cells, shown), default=0)
    for name, value in shown.items():
        room = max(_NARROWEST, _columns() - width - _GAP)
        lines = [part for line in value.split("\n") for part in _folded(line, room)]
        for index, line in enumerate(lines):
            lead = (name if index == 0 else "").ljust(width + _GAP)
            _write([(lead, "dim"), (line, "")], err=False, end="\n", wrap=False)


def print_message(message: Message, *, text: str = "", hidden: Sequence[str] = ()) -> None:
    """Print a message where `--json` asks for it, else its fields but the `hidden` ones, and its field `text` below."""
    if printed_as_json(message):
        return
    fields = message_json(message, short_names=True)
    shown = {name: value for name, value in fields.items() if name != text and name not in hidden}
    print_fields(shown)
    if text:
        print_line()
        print_text(fields[text])


def confirm(question: str, *, abort: bool = False) -> bool:
    """Ask a person; the question goes to the error stream, because the output may go to a file."""
    try:
        return click.confirm(one_line(question), abort=abort, err=True)
    except click.Abort as unanswered:
        if unanswered.__context__ is not None:  # Ctrl-C or Ctrl-D, after which the cursor is still behind the question
            print_line(err=True)
        raise


def is_terminal(*, err: bool = False) -> bool:
    """Tell whether what is printed reaches a person at a terminal."""
    return (sys.stderr if err else sys.stdout).isatty()


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as `1 chunk` or `2,000 chunks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def excerpt(text: str, length: int) -> str:
    """Return the beginning of a text on one line, with an ellipsis where something is missing."""
    line = " ".join(text.split())
    return line[:length] + ("…" if len(line) > length else "")


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


def _write(parts: Sequence[Styled], *, err: bool, end: str, wrap: bool = True) -> None:
    """Print parts whose texts are escaped already."""
    if not is_terminal(err=err):
        _echo("".join(text for text, _ in parts) + end, err=err)
        return
    parts = [(text.expandtabs(), style) for text, style in parts]
    text = "".join(text for text, _ in parts)
    wrapped = _wrapped(text, _columns(err=err)) if wrap else text
    # The texts have as many characters wrapped as before, so that each part is found at its old place.
    places = pairwise(accumulate((len(text) for text, _ in parts), initial=0))
    styled = ""
    for (_, style), (start, stop) in zip(parts, places, strict=True):
        part, words = wrapped[start:stop], style.split()
        if part and words and _has_colours():
            colour = next((word for word in words if word not in {"bold", "dim"}), None)
            part = click.style(part, fg=colour, bold="bold" in words or None, dim="dim" in words or None)
        styled += part
    _echo(styled + end, err=err)


def _has_colours() -> bool:
    """Tell whether terminal and person want colours."""
    return "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _columns(*, err: bool = False) -> int:
    """Return how many characters a line holds: as many as anything has where there is no terminal."""
    return shutil.get_terminal_size().columns if is_terminal(err=err) else _UNWRAPPED


def _cells(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for wide characters, none for marks on others."""
    if text.isascii():
        return len(text)
    visible = [each for each in text if unicodedata.category(each) not in _WITHOUT_WIDTH]
    return len(visible) + sum(unicodedata.east_asian_width(each) in "WF" for each in visible)


def _wrapped(text: str, width: int) -> str:
    """Return the text with line ends in place of the spaces at which lines would be too long; words stay whole."""
    if len(text) * 2 <= width:  # no character is wider than two
        return text
    characters = list(text)
    column, space = 0, -1
    for index, character in enumerate(text):
        if character == "\n":
            column, space = 0, -1
            continue
        column += _cells(character)
        if character == " ":
            space = index
        elif column > width and space >= 0:
            characters[space] = "\n"
            column, space = _cells(text[space + 1 : index + 1]), -1
    return "".join(characters)


def _folded(text: str, width: int) -> list[str]:
    """Return the lines of a column: broken between words, and inside those that are longer than a line."""
    if _cells(text) <= width:
        return [text]
    lines = [""]
    for line in _wrapped(text, width).split("\n"):
        for character in line:
            if _cells(lines[-1]) + _cells(character) > width:
                lines.append("")
            lines[-1] += character
        lines.append("")
    return lines[:-1]


def _echo(text: str, *, err: bool) -> None:
    with _closable(sys.stderr if err else sys.stdout):
        click.echo(text, nl=False, err=err)


@contextmanager
def _closable(stream: TextIO) -> Iterator[None]:
    """Let the reader of a stream leave (`groundwire docs list | head`): nothing is wrong, and the command is done.

    Raises:
        PreconditionError: standard output cannot be written, as where it is a file on a full disk.
    """
    try:
        yield
    except OSError as error:
        # What is left in the buffer goes nowhere: at exit it would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if stream is not sys.stdout:
            return
        if isinstance(error, BrokenPipeError):
            raise click.exceptions.Exit from error
        raise PreconditionError(f"standard output cannot be written: {error.strerror}") from error


_NOTE_CHARS = 40
_BAR_CHARS = 36
# Room for `files`, the position and what stands between them.
_BESIDE_CHARS = 26
_WORDS = {
    "embedding": "embedding",
    "writing": "writing vectors",
    "indexing": "indexing",
    "checking": "comparing chunks",
    "deleting": "deleting documents",
}


class ProgressBar:
    """A bar with a description and a note; may be used from several threads. `quiet` draws nothing."""

    def __init__(self, description: str, total: int | None = None, *, quiet: bool) -> None:
        self._note = ""
        self._lock = threading.Lock()
        # A line that does not fit is wrapped, and drawn once more below itself each time.
        columns = shutil.get_terminal_size().columns
        bar_chars = min(_BAR_CHARS, columns // 4)
        self._note_chars = max(0, min(_NOTE_CHARS, columns - bar_chars - _BESIDE_CHARS))
        # A number that is not known yet is one, so that the bar is empty until then.
        self._bar: Any = click.progressbar(
            length=total or 1,
            label=description,
            width=bar_chars,
            hidden=quiet or not sys.stderr.isatty(),
            show_pos=True,
            show_percent=False,
            item_show_func=lambda _: self._note,
            file=sys.stderr,
        )

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    def advance(self, note: str) -> None:
        """Count one more that is done."""
        with self._lock:
            self._note = _end_of(note, self._note_chars)
            self._bar.update(1)

    def note(self, note: str) -> None:
        with self._lock:
            self._note = _end_of(note, self._note_chars)
            self._bar.render_progress()

    def show(self, progress: progress_pb2.Progress) -> None:
        """Show what the server reports of one long operation."""
        name = shown_name(progress, "stage") or "unspecified"
        with self._lock:
            self._bar.label = _WORDS.get(name, name)
            self._bar.length = progress.total_count or 1
            self._bar.pos = min(progress.done_count, self._bar.length)
            self._bar.render_progress()


def _end_of(note: str, most_chars: int) -> str:
    """Return the end of a note, which says more of a path than its beginning."""
    line = one_line(note)
    return line if len(line) <= most_chars else f"…{line[len(line) - most_chars + 1 :]}"[:most_chars]
