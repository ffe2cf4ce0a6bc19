"""Turns failures of the database library into kernel errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from groundwire.kernel.errors import DataLossError, ExhaustedError, StoreUnavailableError

_DAMAGED = ("malformed", "not a database", "corrupt")
_FULL = ("disk is full", "disk full")


@contextmanager
def translated_failures() -> Iterator[None]:
    """Raise kernel errors for what the database library raises inside the block.

    Broken constraints and wrong SQL are bugs of ours and pass unchanged.

    Raises:
        DataLossError: the file is damaged.
        ExhaustedError: the disk is full.
        StoreUnavailableError: any other failure of the file, or no connection is free.
    """
    try:
        yield
    except PoolTimeoutError as error:
        raise StoreUnavailableError("all read connections of the catalog are in use", engine="catalog") from error
    except DatabaseError as error:
        said = str(error.orig).lower()
        if any(word in said for word in _DAMAGED):
            raise DataLossError("the catalog file is damaged", what="catalog") from error
        if any(word in said for word in _FULL):
            raise ExhaustedError("no space is left for the catalog", what="disk") from error
        if isinstance(error, OperationalError):
            raise StoreUnavailableError("the catalog did not answer", engine="catalog") from error
        raise
