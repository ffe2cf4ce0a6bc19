"""Shows how far a long command is: a bar on a terminal, nothing elsewhere."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from groundwire.cli.output import one_line

if TYPE_CHECKING:
    from groundwire.api.ingest.v1 import progress_pb2

_WORDS = {
    "EMBEDDING": "embedding",
    "WRITING": "writing vectors",
    "INDEXING": "indexing",
    "CHECKING": "comparing chunks",
    "REPAIRING": "repairing",
}


class ProgressBar:
    """A bar with a description and a note; may be used from several threads. `quiet` draws nothing."""

    def __init__(self, description: str, total: int | None = None, *, quiet: bool) -> None:
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=quiet or not sys.stderr.isatty(),
            transient=True,
        )
        self._task = self._bars.add_task(description, total=total, note="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def advance(self, note: str) -> None:
        """Count one more that is done."""
        self._bars.update(self._task, advance=1, note=one_line(note))

    def note(self, note: str) -> None:
        """Say what is going on."""
        self._bars.update(self._task, note=one_line(note))

    def show(self, progress: "progress_pb2.Progress") -> None:
        """Show what the server reports of one long operation."""
        from groundwire.api.ingest.v1 import progress_pb2  # noqa: PLC0415 - --help stays fast

        name = progress_pb2.ProgressStage.Name(progress.stage).removeprefix("PROGRESS_STAGE_")
        self._bars.update(
            self._task,
            description=_WORDS.get(name, name.lower()),
            completed=progress.done_count,
            total=progress.total_count or None,
        )
