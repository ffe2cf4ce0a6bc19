"""The file that says which engine wrote a folder of vectors, and in which layout."""

import re
from pathlib import Path

from groundwire.kernel.errors import StoreMismatchError
from groundwire.vectorstores.durable_files import replace_file
from groundwire.vectorstores.stored_fields import LAYOUT

_FORMAT_FILE = "FORMAT"
_FORMAT = re.compile(r"[a-z-]+ [0-9]+")


def claim_folder(folder: Path, engine: str) -> None:
    """Mark a folder as the engine's, or return if it already is; call with the owner lock held.

    A file that a power cut or anything else left empty or garbled is written anew: the engine finds out which
    collections it can open, and the others are made again from the catalog.

    Raises:
        StoreMismatchError: another engine or another layout wrote it; metadata: setting, expected, got.
    """
    marker = folder / _FORMAT_FILE
    expected = f"{engine} {LAYOUT}"
    got = marker.read_text(encoding="ascii", errors="replace").strip() if marker.exists() else ""
    if got == expected:
        return
    if _FORMAT.fullmatch(got):
        message = (
            f"{folder} was written as {got!r}, not {expected!r}; use another folder and rebuild it from the catalog"
        )
        raise StoreMismatchError(message, setting="format", expected=expected, got=got)
    replace_file(marker, f"{expected}\n")
