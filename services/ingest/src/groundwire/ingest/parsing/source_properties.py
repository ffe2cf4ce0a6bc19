"""What a file says about itself: as fields that keep the rules of the contract, and beside what the caller says."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime

from groundwire.ingest.parsing.source_text import REPLACEMENT, SourceWarning, on_one_line
from groundwire.kernel.document import ISO_639_1, MAX_DESCRIPTION_CHARS, MAX_ENTRIES, MAX_NAME_CHARS, DocumentFields

_LANGUAGE = re.compile(r"([a-z]{2})(?:[-_].*)?", re.IGNORECASE)
_DEFAULTS = DocumentFields()
# Metadata is the caller's alone: no source speaks of it.
_NAMES = tuple(each.name for each in fields(DocumentFields) if each.name != "metadata")


@dataclass(frozen=True, slots=True)
class SourceProperties:
    """What a source says about itself, as far as a caller could have said it; `ignored` values were left out or cut."""

    fields: DocumentFields = field(default_factory=DocumentFields)
    ignored: int = 0

    @property
    def warnings(self) -> Mapping[SourceWarning, int]:
        """Return what the caller should know."""
        return {SourceWarning.PROPERTY_IGNORED: self.ignored} if self.ignored else {}


def source_properties(
    *,
    title: str | None = None,
    creators: Iterable[str] = (),
    subjects: Iterable[str] = (),
    description: str | None = None,
    date_created: datetime | None = None,
    language: str | None = None,
    category: str | None = None,
    tags: Iterable[str] = (),
    project: str | None = None,
) -> SourceProperties:
    """Return the values as fields that requests could have: trimmed, without what is blank.

    What is unreadable or breaks a rule is left out and what is too long is cut; both are counted. `language` may be a
    longer tag such as `de-AT`; a time without offset counts as UTC.
    """
    reading = _Reading()
    values = DocumentFields(
        title=reading.text(title),
        creators=reading.entries(creators),
        subjects=reading.entries(subjects),
        description=reading.text(description, MAX_DESCRIPTION_CHARS),
        date_created=reading.in_utc(date_created),
        language=reading.language(language),
        category=reading.text(category),
        tags=reading.entries(tags, without=","),
        project=reading.text(project),
    )
    return SourceProperties(values, reading.ignored)


class _Reading:
    """Counts what cannot be taken as it is."""

    def __init__(self) -> None:
        self.ignored = 0

    def text(self, value: str | None, max_chars: int = MAX_NAME_CHARS, without: str = REPLACEMENT) -> str | None:
        line = on_one_line(value or "")
        usable = line[:max_chars].strip()
        if REPLACEMENT in usable or without in usable or any(unicodedata.category(char) == "Cc" for char in usable):
            usable = ""
        self.ignored += usable != line
        return usable or None

    def entries(self, values: Iterable[str], without: str = REPLACEMENT) -> tuple[str, ...]:
        readable = (self.text(value, without=without) for value in values)
        unique = tuple(dict.fromkeys(value for value in readable if value))
        self.ignored += max(0, len(unique) - MAX_ENTRIES)
        return unique[:MAX_ENTRIES]

    def language(self, value: str | None) -> str:
        tag = (value or "").strip()
        match = _LANGUAGE.fullmatch(tag)
        if match is not None and match.group(1).lower() in ISO_639_1:
            return match.group(1).lower()
        self.ignored += bool(tag)
        return _DEFAULTS.language

    def in_utc(self, moment: datetime | None) -> datetime | None:
        if moment is None:
            return None
        try:
            moved = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except OverflowError:  # before the year 1 or after 9999 in UTC
            self.ignored += 1
            return None
        return moved.replace(microsecond=moved.microsecond // 1000 * 1000)  # times in requests have milliseconds


def filled_from_source(stated: DocumentFields, properties: DocumentFields) -> DocumentFields:
    """Return what the caller states; what the source says fills what the caller leaves out."""
    missing = {name: getattr(properties, name) for name in _NAMES if getattr(stated, name) == getattr(_DEFAULTS, name)}
    return replace(stated, **missing)


def following_source(stored: DocumentFields, before: DocumentFields, now: DocumentFields) -> DocumentFields:
    """Return the stored fields, of which those that the source said before follow what it says now."""
    changes = {name: getattr(now, name) for name in _NAMES if getattr(stored, name) == getattr(before, name)}
    return replace(stored, **changes)
