"""URLs of catalogs: `sqlite:FILE`, and those of PostgreSQL databases; the command line reads them without either."""

from pathlib import Path

from groundwire.kernel.errors import InvalidRequestError


def is_on_server(url: str) -> bool:
    """Tell whether it is that of a PostgreSQL database, which several processes can share."""
    return url.startswith(("postgresql:", "postgres:"))


def below(folder: Path, url: str, file: str, field: str) -> str:
    """Return the URL with the path of its file, which is below a data folder; `file` is that of `sqlite:` alone.

    Raises:
        InvalidRequestError: the URL is of another form; names the field.
    """
    if url.startswith("sqlite:"):
        if "?" in url:  # else they would become part of the name of the file
            raise InvalidRequestError.of(field, f"{url!r} has options, and sqlite:FILE takes none")
        return f"sqlite:{folder / (url.removeprefix('sqlite:') or file)}"
    if not is_on_server(url):
        raise InvalidRequestError.of(field, f"{url!r} must have the form sqlite:FILE or postgresql://…")
    return url


def file_of(url: str) -> Path:
    """Return the file of the catalog at `sqlite:FILE`.

    Raises:
        InvalidRequestError: the URL is of another form.
    """
    scheme, separator, rest = url.partition(":")
    if scheme != "sqlite" or not separator or not rest.strip("/"):
        raise InvalidRequestError.of("catalog", f"must look like sqlite:FILE or postgresql://…, not {scheme}:…")
    return Path(rest.removeprefix("//")).absolute()
