"""Names, ids and keys, and the characters of texts: what is allowed, and how new ids are made."""

import hashlib
import json
import random
import re
import unicodedata
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from groundwire.kernel.errors import InvalidRequestError

_COLLECTION = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?")
_ENTITY = re.compile(r"entity:[^\s:][^\x00-\x1f\x7f]{0,127}")
_CONVERSATION = re.compile(r"conv-[A-Za-z0-9._-]{1,64}")
_CALLER_ID = re.compile(r"[A-Za-z0-9._:#-]{1,128}")

MAX_SOURCE_URI_CHARS = 1024
METADATA_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
SHA256 = re.compile(r"[0-9a-fA-F]{64}")
WITHOUT_CONTROLS = "must not contain control characters except tab, newline and return"
"""The rule that a text with `has_controls` breaks."""
GLOBAL_SCOPE = "global"
ENTITY_SCOPE = "entity:"
"""What stands before the name of an entity in its scope."""
DEFAULT_TENANT = "default"
"""The tenant of every call of a server that has no credentials configured."""


def has_controls(text: str) -> bool:
    """Tell whether a text has control characters other than tab, newline and return."""
    # Nearly all single-line texts are printable, which is quick to check.
    return not text.isprintable() and any(_is_control(char) for char in text)


def without_controls(text: str) -> str:
    """Return a text without the characters for which `has_controls` is true."""
    return "".join(char for char in text if not _is_control(char)) if has_controls(text) else text


def _is_control(char: str) -> bool:
    return unicodedata.category(char) == "Cc" and char not in "\t\n\r"


def parse_collection_name(name: str, field: str = "collection") -> str:
    """Return the name if it is 1 to 63 of `[a-z0-9_-]`, first and last alphanumeric.

    Raises:
        InvalidRequestError: naming `field`.
    """
    if _COLLECTION.fullmatch(name) is None:
        raise InvalidRequestError.of(
            field, "must be 1 to 63 characters of a-z, 0-9, '_' and '-', starting and ending alphanumeric"
        )
    return name


def parse_caller_id(value: str, field: str) -> str:
    """Return an id if it is 1 to 128 of letters, digits and `._:#-` without `..`.

    Raises:
        InvalidRequestError: naming `field`.
    """
    if _CALLER_ID.fullmatch(value) is None or ".." in value:
        raise InvalidRequestError.of(
            field, "must be 1 to 128 letters, digits or any of '. _ : # -', without two dots in a row"
        )
    return value


def parse_uuid(value: str, field: str) -> str:
    """Return a UUID in its canonical lower-case form (8-4-4-4-12).

    Raises:
        InvalidRequestError: naming `field`.
    """
    try:
        parsed = uuid.UUID(value)
    except ValueError:
        parsed = None
    # The library also accepts braces, `urn:uuid:` and digits without hyphens: several spellings of one id.
    if parsed is None or str(parsed) != value.lower():
        raise InvalidRequestError.of(field, "must be a UUID like 123e4567-e89b-42d3-a456-426614174000")
    return str(parsed)


def parse_source_uri(value: str, field: str = "source_uri") -> str:
    """Return a source path or URL exactly as sent if it is a harmless name.

    A source is a name, never opened by the server. Refused are empty and over-long ones, control
    characters, lone surrogates, and `..` as a path segment.

    Raises:
        InvalidRequestError: naming `field`.
    """
    # Both kinds of slashes, because a client on Windows may use the source as a path.
    segments = re.split(r"[/\\]", value)
    if not value.strip() or len(value) > MAX_SOURCE_URI_CHARS:
        raise InvalidRequestError.of(field, f"must be 1 to {MAX_SOURCE_URI_CHARS} characters, not blank")
    if any(unicodedata.category(char) in {"Cc", "Cs"} for char in value):
        raise InvalidRequestError.of(field, "must not contain NUL or control characters")
    if ".." in segments:
        raise InvalidRequestError.of(field, "must not contain '..' as a path segment")
    return value


def is_approved(source_uri: str, prefixes: Sequence[str]) -> bool:
    """Tell whether a source may be ingested and returned (requirements S3-34, C30): it begins with one of the prefixes.

    Without prefixes every source is approved. A prefix that ends with the host of a URL means that host:
    `https://docs.example` approves `https://docs.example/a` and not `https://docs.example.org`.
    """
    for prefix in prefixes:
        # Within a path every continuation is below it; after a bare host only what cannot be part of the host name.
        authority, rest = prefix.partition("://")[2], source_uri.removeprefix(prefix)
        if source_uri.startswith(prefix) and (not authority or not rest or "/" in authority or rest[0] in "/?#"):
            return True
    return not prefixes


def parse_scope(value: str, field: str = "scope") -> str:
    """Return a scope if it is `global` or `entity:<name>`, the name 1 to 128 characters (requirement S0-10).

    Raises:
        InvalidRequestError: naming `field`.
    """
    if value != GLOBAL_SCOPE and _ENTITY.fullmatch(value) is None:
        raise InvalidRequestError.of(field, "must be 'global' or 'entity:' and a name of 1 to 128 characters")
    return value


def parse_entity(value: str, field: str = "entity") -> str:
    """Return the scope of an entity if its name has 1 to 128 characters (requirement S0-10).

    Raises:
        InvalidRequestError: naming `field`.
    """
    scope = f"{ENTITY_SCOPE}{value}"
    if _ENTITY.fullmatch(scope) is None:
        rule = "must be a name of 1 to 128 characters without control characters, not beginning with a space or ':'"
        raise InvalidRequestError.of(field, rule)
    return scope


def parse_conversation_id(value: str, field: str = "conversation_id") -> str:
    """Return an id if it is `conv-` and 1 to 64 of letters, digits and `._-` (requirement C04).

    Raises:
        InvalidRequestError: naming `field`.
    """
    if _CONVERSATION.fullmatch(value) is None:
        raise InvalidRequestError.of(field, "must be 'conv-' and 1 to 64 of letters, digits and '._-'")
    return value


def etag_of(state: Any) -> str:
    """Make an etag that changes with the state of a resource, given as values that `json` or `str` can write."""
    written = json.dumps(state, sort_keys=True, default=str)
    return hashlib.sha256(written.encode()).hexdigest()[:24]


def quick_id() -> str:
    """Return the id of something that it only names: nobody who guesses it can do anything with it.

    The system's own generator gives up the interpreter lock, for which a busy server would wait again.
    """
    return f"{random.getrandbits(128):032x}"


def new_document_id() -> str:
    """Make a document id: `doc_` and a random UUID (requirement S1-56)."""
    return f"doc_{uuid.uuid4()}"


def prefixed_chunk_id(document_id: str, sequence_num: int) -> str:
    """Make the chunk id of the PREFIXED scheme: `<document id>#chunk_007` (requirement S1-51)."""
    return f"{document_id}#chunk_{sequence_num:03d}"


def engine_collection_name(tenant: str, collection_uid: str, identity_digest: str) -> str:
    """Make the engine name of a collection: 35 characters, stable, one per tenant, collection and embedding.

    Because the tenant is part of the name, no query can forget the tenant predicate (design D4).
    """
    # No part contains NUL, so different parts never join to the same string.
    digest = hashlib.sha256(f"{tenant}\x00{collection_uid}\x00{identity_digest}".encode()).hexdigest()
    return f"gw-{digest[:32]}"


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The key of an idempotent call (design D3): id, method, and SHA-256 of its body without the id."""

    request_id: str
    method: str
    body_digest: str
