"""Turn what a file says about itself into fields that keep the rules of the contract."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from groundwire.ingest.domain.text_building import REPLACEMENT, one_line
from groundwire.kernel.document import DocumentFields

_MAX_NAME_CHARS = 1024
_MAX_DESCRIPTION_CHARS = 8192
_MAX_ENTRIES = 64
_LANGUAGE = re.compile(r"([a-z]{2})(?:[-_].*)?", re.IGNORECASE)


def source_properties(
    *,
    title: str | None = None,
    creators: Iterable[str] = (),
    subjects: Iterable[str] = (),
    description: str | None = None,
    date_created: datetime | None = None,
    language: str | None = None,
) -> DocumentFields:
    """Return the values as fields: trimmed, cut to their longest, without what is blank or unreadable.

    `language` may be a longer tag such as `de-AT`; a time without offset counts as UTC.
    """
    found = _LANGUAGE.fullmatch((language or "").strip())
    return DocumentFields(
        title=_readable(title, _MAX_NAME_CHARS),
        creators=_entries(creators),
        subjects=_entries(subjects),
        description=_readable(description, _MAX_DESCRIPTION_CHARS),
        date_created=_in_utc(date_created),
        language=found.group(1).lower() if found else DocumentFields().language,
    )


def _entries(values: Iterable[str]) -> tuple[str, ...]:
    readable = (_readable(value, _MAX_NAME_CHARS) for value in values)
    return tuple(dict.fromkeys(value for value in readable if value))[:_MAX_ENTRIES]


def _readable(value: str | None, max_chars: int) -> str | None:
    text = one_line(value or "")[:max_chars].strip()
    return text if text and REPLACEMENT not in text else None


def _in_utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    try:
        moved = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        return None
    return moved.replace(microsecond=moved.microsecond // 1000 * 1000)
