"""Turns the exceptions of Chroma into errors of the kernel."""

from collections.abc import Iterator
from contextlib import contextmanager

from groundwire.kernel.errors import CollectionNotFoundError, GroundwireError, StoreUnavailableError


@contextmanager
def translated_errors(collection: str) -> Iterator[None]:
    """Run calls to Chroma about a collection; whatever they raise leaves as an error of the kernel."""
    from chromadb.errors import NotFoundError  # noqa: PLC0415 - chromadb takes a second and a half to import

    try:
        yield
    except GroundwireError:
        raise
    except NotFoundError as error:
        raise CollectionNotFoundError(collection) from error
    except Exception as error:  # the library raises bare built-in exceptions too
        raise StoreUnavailableError(f"chroma failed: {type(error).__name__}: {error}", engine="chroma") from error
