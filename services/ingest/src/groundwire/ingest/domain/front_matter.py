"""Read the descriptive fields from a front matter block at the top of a Markdown file.

Front matter is lines between `---` and `---` (or `...`), the first at the very top. Only flat `key: value` pairs and
lists are understood, which is what such blocks hold in practice; anything else in the block is left
alone. The block stays in the canonical text, but no chunk is made of it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from groundwire.kernel.document import DocumentFields

_BLOCK = re.compile(r"---[ \t]*(?:\r\n|\n|\r)(.*?)^(?:---|\.\.\.)[ \t]*(?:\r\n|\n|\r|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*))?$")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)$")
MAX_BLOCK_CHARS = 65_536
"""A longer block is no front matter."""
_ALIASES = {"author": "creators", "authors": "creators", "creator": "creators", "keywords": "subjects"}
_ALIASES |= {"subject": "subjects", "lang": "language", "summary": "description", "date_created": "date"}
_ISO_639_1 = re.compile(r"[a-z]{2}")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What a front matter block says; absent or unreadable values are None or empty.

    `end` is the code point after the block, 0 when there is none. `tags` are trimmed, unique, without commas.
    """

    end: int = 0
    title: str | None = None
    creators: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    description: str | None = None
    date_created: datetime | None = None
    language: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    project: str | None = None


@dataclass(slots=True)
class _Values:
    lists: dict[str, list[str]] = field(default_factory=dict)

    def one(self, key: str) -> str | None:
        values = self.lists.get(key, [])
        return values[0] if len(values) == 1 and values[0] else None

    def many(self, key: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(value for value in self.lists.get(key, []) if value))


def read_front_matter(text: str) -> FrontMatter:
    """Return the fields of the block at the top of `text`, or an empty result when there is none."""
    block = _BLOCK.match(text, 0, MAX_BLOCK_CHARS)
    if block is None or not any(_KEY.match(line) for line in block.group(1).splitlines()):
        return FrontMatter()
    values = _Values(_read_pairs(block.group(1)))
    language = (values.one("language") or "").lower()
    return FrontMatter(
        end=block.end(),
        title=values.one("title"),
        creators=values.many("creators"),
        subjects=values.many("subjects"),
        description=values.one("description"),
        date_created=_read_date(values.one("date")),
        language=language if _ISO_639_1.fullmatch(language) else None,
        category=values.one("category"),
        tags=tuple(tag for tag in values.many("tags") if "," not in tag),
        project=values.one("project"),
    )


def _read_pairs(block: str) -> dict[str, list[str]]:
    pairs: dict[str, list[str]] = {}
    key: str | None = None
    for line in block.splitlines():
        pair, item = _KEY.match(line), _ITEM.match(line)
        if pair is not None:
            key = _ALIASES.get(pair.group(1).lower(), pair.group(1).lower())
            pairs[key] = _read_value(pair.group(2) or "")
        elif item is not None and key is not None:
            pairs[key].append(_unquote(item.group(1)))
    return pairs


def _read_value(value: str) -> list[str]:
    value = value.strip()
    if value.startswith("[") and value.endswith("]"):
        return [_unquote(part) for part in value[1:-1].split(",") if part.strip()]
    return [_unquote(value)] if value and value not in {"|", ">", "|-", ">-"} else []


def _unquote(value: str) -> str:
    value = value.strip()
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1].strip() if quoted else value


def _read_date(value: str | None) -> datetime | None:
    """Return an aware UTC time; a date or time without offset counts as UTC."""
    try:
        moment = datetime.fromisoformat(value or "")
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def fields_of(front_matter: FrontMatter) -> DocumentFields:
    """Return the values that are present as fields; the others have their defaults."""
    names = FrontMatter.__dataclass_fields__.keys() - {"end"}
    present: Mapping[str, Any] = {name: value for name in names if (value := getattr(front_matter, name))}
    return DocumentFields(**present)
