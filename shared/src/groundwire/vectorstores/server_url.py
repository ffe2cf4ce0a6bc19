"""Reads the URLs of vector store servers: `scheme://host:port?option=value`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from groundwire.kernel.errors import FieldViolation, InvalidRequestError

Parse = Callable[[str], Any]
"""Turns the text of an option into its value; raises ValueError, which says what it must be."""


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """Where a server listens, and the options that the URL gives."""

    host: str
    port: int
    is_encrypted: bool
    options: Mapping[str, Any]


def parse_server_url(
    url: str, *, default_port: int, encrypted_schemes: tuple[str, ...], options: Mapping[str, Parse]
) -> ServerUrl:
    """Return the parts of a URL.

    Args:
        url: as the operator wrote it; keys and passwords do not belong into it.
        default_port: when the URL names none.
        encrypted_schemes: those that mean TLS.
        options: what may follow the question mark.

    Raises:
        InvalidRequestError: naming everything that is wrong, under the field `vectors`.
    """
    parts = urlsplit(url)
    problems = []
    if not parts.hostname:
        problems.append("names no host")
    if parts.username or parts.password:
        problems.append("must not hold credentials; use GROUNDWIRE_VECTORS_API_KEY")
    if parts.path.strip("/") or parts.fragment:
        problems.append("must be scheme://host:port with options only")
    port = default_port
    try:
        port = parts.port or default_port
    except ValueError:
        problems.append("has a port that is none")
    given: dict[str, Any] = {}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        try:
            given[name] = _option(options, name, text)
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise InvalidRequestError([FieldViolation("vectors", f"the URL {problem}") for problem in problems])
    return ServerUrl(str(parts.hostname), port, parts.scheme in encrypted_schemes, given)


def whole_number(least: int, most: int) -> Parse:
    """Return the parser of a whole number between two others."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(text)

    return parse


def one_of(*names: str) -> Parse:
    """Return the parser of a choice."""

    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return text

    return parse


def truth(text: str) -> bool:
    """Return whether the text is `true`; the only other one is `false`."""
    if text not in {"true", "false"}:
        raise ValueError("must be true or false")
    return text == "true"


def name_prefix(text: str) -> str:
    """Return what an installation puts before its collections' names, of at most 16 characters."""
    if len(text) > 16 or not text.isascii() or not text.replace("-", "a").isalnum() or text != text.lower():  # noqa: PLR2004 - leaves 47 for the name
        raise ValueError("must be 1 to 16 of a-z, 0-9 and '-'")
    return text


def _option(options: Mapping[str, Parse], name: str, text: str) -> Any:
    parse = options.get(name)
    if parse is None:
        raise ValueError(f"has the unknown option {name!r}; known are {', '.join(sorted(options))}")
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"option {name} {error}") from None
