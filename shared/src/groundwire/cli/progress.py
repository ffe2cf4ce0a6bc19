"""Shows how far a long command is: a bar on a terminal, nothing elsewhere."""

import sys
import threading
from types import TracebackType
from typing import Any, Self

import click

from groundwire.api.ingest.v1 import progress_pb2
from groundwire.cli.messages import shown_name
from groundwire.cli.output import one_line

_NOTE_CHARS = 40
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
        # A number that is not known yet is one, so that the bar is empty until then.
        self._bar: Any = click.progressbar(
            length=total or 1,
            label=description,
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
            self._note = _short(note)
            self._bar.update(1)

    def note(self, note: str) -> None:
        with self._lock:
            self._note = _short(note)
            self._bar.render_progress()

    def show(self, progress: progress_pb2.Progress) -> None:
        """Show what the server reports of one long operation."""
        name = shown_name(progress_pb2.ProgressStage.DESCRIPTOR, progress.stage) or "unspecified"
        with self._lock:
            self._bar.label = _WORDS.get(name, name)
            self._bar.length = progress.total_count or 1
            self._bar.pos = min(progress.done_count, self._bar.length)
            self._bar.render_progress()


def _short(note: str) -> str:
    """Return the end of a note, which says more of a path than its beginning."""
    line = one_line(note)
    return line if len(line) <= _NOTE_CHARS else f"…{line[1 - _NOTE_CHARS :]}"
