"""Shows how far a long call is."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

if TYPE_CHECKING:
    from groundwire.api.ingest.v1 import progress_pb2

_WORDS = {
    "EMBEDDING": "embedding",
    "WRITING": "writing vectors",
    "INDEXING": "indexing",
    "CHECKING": "comparing chunks",
    "REPAIRING": "repairing",
}


class OperationDisplay:
    """A bar for the current stage on a terminal, nothing elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=quiet or not sys.stderr.isatty(),
            transient=True,
        )
        self._task = self._bars.add_task("starting", total=None)

    def __enter__(self) -> Self:
        """Start drawing."""
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing and remove the bar."""
        self._bars.stop()

    def show(self, progress: "progress_pb2.Progress") -> None:
        """Show how far it is."""
        from groundwire.api.ingest.v1 import progress_pb2  # noqa: PLC0415 - --help stays fast

        name = progress_pb2.ProgressStage.Name(progress.stage).removeprefix("PROGRESS_STAGE_")
        self._bars.update(
            self._task,
            description=_WORDS.get(name, name.lower()),
            completed=progress.done_count,
            total=progress.total_count or None,
        )
