"""Page tokens: opaque, bound to the request they belong to, and signed, so that callers cannot make their own."""

import base64
import hashlib
import hmac
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import structlog
from google.protobuf.message import Message

from groundwire.kernel.errors import FieldViolation, InvalidPageTokenError, InvalidRequestError, PreconditionError
from groundwire.rpc import request_context

Position: TypeAlias = tuple[str | int, ...]
"""Where the next page begins: the sort key of the last row of this one."""

DEFAULT_PAGE_SIZE: Final = 50
"""Entries of a page of a request that does not say how many."""
MAX_PAGE_SIZE: Final = 1000
"""Most entries of a page."""
MAX_PAGE_BYTES: Final = 3 << 20
"""Bytes after which a page ends: below the 4 MiB that clients accept by default."""

KEY_FILE: Final = "page-token.key"
"""The file in the data folder that `load_key` reads."""

MessageT = TypeVar("MessageT", bound=Message)
RowT = TypeVar("RowT")
_FRAMING_BYTES = 8  # the tag and the length of an entry in its list
_KEY_BYTES = 32
# 128 bits cannot be guessed, and tokens stay short.
_MAC_BYTES = 16
# A data folder has a single owner process, so no other process creates a key at the same time.
_loading = threading.Lock()
_log = structlog.get_logger(__name__)
_PAGING_FIELDS = ("page_size", "page_token")


class PageTokens:
    """Issues and reads page tokens with one secret key.

    A token is good for the same tenant and the same request except for `page_size`. Servers that share
    callers share the key.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def issue(self, position: Sequence[str | int], *, tenant: str, request: Message) -> str:
        """Make the `next_page_token` of a page that ends at `position`."""
        body = json.dumps(list(position), separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._mac(body, tenant, request) + body).decode().rstrip("=")

    def read(self, token: str, *, tenant: str, request: Message) -> Position | None:
        """Return the position in a token, or None for the empty token of a first page.

        Raises:
            InvalidPageTokenError: the token was changed, or issued for another request, tenant or key.
        """
        if not token:
            return None
        try:
            raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except ValueError as error:
            raise _invalid() from error
        mac, body = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(body, tenant, request)):
            raise _invalid()
        return tuple(json.loads(body))

    def begin(self, request: Any, *, maximum: int = MAX_PAGE_SIZE) -> tuple[Position | None, int]:
        """Return where the page that the current call asks for begins, None at the start, and how many rows to read.

        Raises:
            InvalidRequestError: the size is negative, or the token is not one of this request.
        """
        # One row more than the page holds: if there is one, another page follows.
        limit = page_size(request.page_size, maximum=maximum) + 1
        return self.read(request.page_token, tenant=request_context.current().tenant, request=request), limit

    def page(
        self,
        request: Message,
        rows: Sequence[RowT],
        limit: int,
        message: Callable[[RowT], MessageT | None],
        position: Callable[[RowT], Position],
    ) -> tuple[list[MessageT], str]:
        """Return the messages of the rows that were read for the page of the current call, and the next token.

        `limit` is that of `begin`; `message` returns None for what is gone by now.
        """
        entries = ((made, position(row)) for row in rows[: limit - 1] if (made := message(row)) is not None)
        following = position(rows[limit - 2]) if len(rows) == limit else None
        return self.fill(entries, following, tenant=request_context.current().tenant, request=request)

    def fill(
        self,
        entries: Iterable[tuple[MessageT, Position]],
        next_position: Position | None,
        *,
        tenant: str,
        request: Message,
    ) -> tuple[list[MessageT], str]:
        """Return the messages of a page, as many as fit into `MAX_PAGE_BYTES` but one at least, and the next token.

        `entries` are the messages of a page that may be too large, each with its position; not all may be taken.
        `next_position` is where the page after all of them begins, None when they are the last.
        """
        positions: list[Position] = []

        def noted() -> Iterator[MessageT]:
            for message, position in entries:
                positions.append(position)
                yield message

        messages = as_many_as_fit(noted())
        following = positions[len(messages) - 1] if len(positions) > len(messages) else next_position
        return messages, "" if following is None else self.issue(following, tenant=tenant, request=request)

    def _mac(self, body: bytes, tenant: str, request: Message) -> bytes:
        scope = type(request)()
        scope.CopyFrom(request)
        for field in _PAGING_FIELDS:
            scope.ClearField(field)
        parts = (tenant.encode(), scope.DESCRIPTOR.full_name.encode(), scope.SerializeToString(deterministic=True))
        digest = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in (*parts, body):
            digest.update(len(part).to_bytes(8, "big") + part)  # lengths keep ("ab", "c") and ("a", "bc") apart
        return digest.digest()[:_MAC_BYTES]


def as_many_as_fit(messages: Iterable[MessageT]) -> list[MessageT]:
    """Return the first messages, at least one, that fit into `MAX_PAGE_BYTES` together; the others are not built."""
    fitting: list[MessageT] = []
    total = 0
    for message in messages:
        total += message.ByteSize() + _FRAMING_BYTES
        if fitting and total > MAX_PAGE_BYTES:
            break
        fitting.append(message)
    return fitting


def page_size(requested: int, *, maximum: int = MAX_PAGE_SIZE) -> int:
    """Return the size of a page: `DEFAULT_PAGE_SIZE` for 0, at most `maximum`.

    Raises:
        InvalidRequestError: it is negative.
    """
    if requested < 0:
        raise InvalidRequestError.of("page_size", "must not be negative")
    return min(requested or DEFAULT_PAGE_SIZE, maximum)


def load_key(path: Path) -> bytes:
    """Return the 32-byte key stored in a file that only its owner can read; make it at the first use.

    A file that cannot be a key, as after a power cut or a full disk, gets a new one: with an empty key everybody could
    sign tokens. Tokens given out before are refused then.

    Raises:
        PreconditionError: the file cannot be read or made.
    """
    try:
        with _loading:
            try:
                key = path.read_bytes()
            except FileNotFoundError:
                return _new_key(path)
            if len(key) == _KEY_BYTES and len(set(key)) > 1:
                return key
            _log.warning("the key of page tokens is damaged; a new one is made", file=path.name)
            path.unlink()
            return _new_key(path)
    except OSError as error:
        raise PreconditionError(f"cannot read or make {path.name} in the data folder: {error.strerror}") from error


def _new_key(path: Path) -> bytes:
    """Create the file unless another process is faster, and return its content."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(_KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())  # otherwise a power cut may leave the name without the bytes
    try:
        path.hardlink_to(draft)  # unlike a rename it fails when another process was faster
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_bytes()


def _invalid() -> InvalidPageTokenError:
    return InvalidPageTokenError([FieldViolation("page_token", "is not a token of this request; start without one")])
