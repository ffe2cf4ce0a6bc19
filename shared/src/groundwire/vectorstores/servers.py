"""Vector store servers: parsing of their URLs, and calls that are retried within bounds."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import parse_qsl, urlsplit

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import FieldViolation, StoreUnavailableError, refuse

_TIMEOUT_S = 30
# What all names of ours begin with, behind the prefix.
_OURS = "gw-"
Parse = Callable[[str], Any]
"""Turns the text of an option into its value; raises ValueError, which says what it must be."""


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Address and options of a vector server; `prefix` stands before the names of all collections."""

    default_port: ClassVar[int]
    known_options: ClassVar[Mapping[str, Parse]]

    host: str
    port: int
    is_encrypted: bool
    options: Mapping[str, Any]
    api_key: str | None = None

    @property
    def prefix(self) -> str:
        return str(self.options.get("prefix", ""))

    @property
    def timeout_s(self) -> int:
        return int(self.options.get("timeout_s", _TIMEOUT_S))

    @classmethod
    def parse(cls, url: str, api_key: str | None) -> Self:
        """Return the server of a URL, encrypted where its scheme ends with an s.

        Raises:
            InvalidRequestError: naming everything that is wrong, under the field `vectors`.
        """
        parts = urlsplit(url)
        # All problems at once, so that the URL has to be corrected only once.
        problems = []
        if not parts.hostname:
            problems.append("names no host")
        if parts.username or parts.password:
            problems.append("must not hold credentials; use GROUNDWIRE_VECTORS_API_KEY")
        if parts.path.strip("/") or parts.fragment:
            problems.append("must be scheme://host:port with options only")
        port = cls.default_port
        try:
            port = parts.port or port
        except ValueError:
            problems.append("has a port that is none")
        given: dict[str, Any] = {}
        # With blank values, which would otherwise be dropped in silence.
        for name, text in parse_qsl(parts.query, keep_blank_values=True):
            if name not in cls.known_options:
                problems.append(f"has the unknown option {name!r}; known are {', '.join(sorted(cls.known_options))}")
                continue
            try:
                given[name] = cls.known_options[name](text)
            except ValueError as error:
                problems.append(f"option {name} {error}")
        refuse(FieldViolation("vectors", f"the URL {problem}") for problem in problems)
        return cls(str(parts.hostname), port, parts.scheme.endswith("s"), given, api_key)


def own_names(prefix: str, names: Iterable[str]) -> list[str]:
    """Return the names of the collections that this system has made on a server, without their prefix, sorted."""
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(f"{prefix}{_OURS}"))


def whole_number(least: int, most: int) -> Parse:
    """Return a parser of whole numbers in a range."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(text)

    return parse


def one_of(*names: str) -> Parse:
    """Return a parser of one of some words."""

    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return text

    return parse


def truth(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError("must be true or false")
    return text == "true"


def name_prefix(text: str) -> str:
    """Parse the prefix of an installation's collection names, at most 16 characters."""
    if len(text) > 16 or not text.isascii() or not text.replace("-", "a").isalnum() or text != text.lower():  # noqa: PLR2004 - leaves 47 for the name
        raise ValueError("must be 1 to 16 of a-z, 0-9 and '-'")
    return text


T = TypeVar("T")

# Pauses before the second and third attempt: long enough for a proxy to find another replica.
_PAUSES_S = (0.1, 0.5)
_MAX_SAID_CHARS = 200


def repeated(call: Callable[[float], T], is_transient: Callable[[Exception], bool], budget: Budget, cap_s: float) -> T:
    """Return the result of a call, after at most three attempts; the error of the last one leaves as it is.

    `call` takes the seconds that it may last, `cap_s` at most, and has the same effect however often it is made.
    `is_transient` tells failures of the connection from answers of the server. All attempts share the budget.

    Raises:
        DeadlineError: the budget is used up.
        CallCancelledError: the budget was cancelled.
    """
    for pause_s in (*_PAUSES_S, None):
        budget.check()
        # Each attempt gets what the ones before left, so that together they last no longer than the caller waits.
        remaining_s = budget.remaining_s()
        try:
            return call(cap_s if remaining_s is None else min(cap_s, remaining_s))
        except Exception as error:
            budget.check()  # when the time is up, that is the reason, whatever the library calls it
            if pause_s is None or not is_transient(error):
                raise
        remaining_s = budget.remaining_s()
        time.sleep(pause_s if remaining_s is None else min(pause_s, remaining_s))
    raise AssertionError("the last attempt returns or raises")


def unavailable(engine: str, error: Exception) -> StoreUnavailableError:
    """Return the error for a failed call: one line of what the library says, without its dump of the connection."""
    details = getattr(error, "details", None)
    said = str(details() if callable(details) else error).strip() or "no reason given"
    message = f"{engine} failed: {type(error).__name__.lstrip('_')}: {said.splitlines()[0][:_MAX_SAID_CHARS]}"
    return StoreUnavailableError(message, engine=engine)
