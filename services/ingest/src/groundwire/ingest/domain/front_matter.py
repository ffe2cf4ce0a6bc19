"""Read the descriptive fields from a front matter block at the top of a Markdown file.

Front matter is lines between `---` and `---` (or `...`), the first at the very top. Only flat `key: value` pairs and
lists are understood, which is what such blocks hold in practice; anything else in the block is left
alone. Values keep the rules for values in requests; those that do not are left out and counted. The block stays in the
canonical text, but no chunk is made of it.
"""

import re
from dataclasses import dataclass, field, replace
from datetime import datetime

from groundwire.ingest.domain.source_properties import SourceProperties, source_properties

_BLOCK = re.compile(r"---[ \t]*(?:\r\n|\n|\r)(.*?)^(?:---|\.\.\.)[ \t]*(?:\r\n|\n|\r|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*))?$")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)$")
MAX_BLOCK_CHARS = 65_536
"""A longer block is no front matter."""
_ALIASES = {"author": "creators", "authors": "creators", "creator": "creators", "keywords": "subjects"}
_ALIASES |= {"subject": "subjects", "lang": "language", "summary": "description", "date_created": "date"}


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What a front matter block says; `end` is the code point after the block, 0 when there is none."""

    end: int = 0
    properties: SourceProperties = field(default_factory=SourceProperties)


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
    date_created, is_unreadable = _read_date(values.one("date"))
    properties = source_properties(
        title=values.one("title"),
        creators=values.many("creators"),
        subjects=values.many("subjects"),
        description=values.one("description"),
        date_created=date_created,
        language=values.one("language"),
        category=values.one("category"),
        tags=values.many("tags"),
        project=values.one("project"),
    )
    return FrontMatter(block.end(), replace(properties, ignored=properties.ignored + is_unreadable))


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


def _read_date(value: str | None) -> tuple[datetime | None, bool]:
    """Return the time, and whether there is a value that is none."""
    try:
        return datetime.fromisoformat(value or ""), False
    except ValueError:
        return None, bool(value)
