"""The file that says which engine wrote a folder of vectors, and in which layout."""

from pathlib import Path

from groundwire.kernel.errors import StoreMismatchError
from groundwire.vectorstores.stored_fields import LAYOUT

_FORMAT_FILE = "FORMAT"


def claim_folder(folder: Path, engine: str) -> None:
    """Mark a new folder as the engine's, or return if it already is; call with the owner lock held.

    Raises:
        StoreMismatchError: another engine or another layout wrote it; metadata: setting, expected, got.
    """
    marker = folder / _FORMAT_FILE
    expected = f"{engine} {LAYOUT}"
    if not marker.exists():
        marker.write_text(f"{expected}\n", encoding="ascii")
    got = marker.read_text(encoding="ascii", errors="replace").strip()
    if got != expected:
        message = (
            f"{folder} was written as {got!r}, not {expected!r}; use another folder and rebuild it from the catalog"
        )
        raise StoreMismatchError(message, setting="format", expected=expected, got=got)
