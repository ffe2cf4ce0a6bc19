"""Load the library of a format when the first document needs it."""

from importlib import import_module
from typing import Any

from groundwire.kernel.errors import MissingExtraError

EXTRA = "formats"


def load(module: str) -> Any:
    """Return a module of one of the libraries of the extra `formats`.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        message = f"reading this format needs {package}: pip install 'groundwire[{EXTRA}]'"
        raise MissingExtraError(message, extra=EXTRA) from error
