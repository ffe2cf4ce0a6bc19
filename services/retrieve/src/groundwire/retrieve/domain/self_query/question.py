"""What an extractor gets and what it gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from groundwire.kernel.collection import FieldDescription, FieldType
from groundwire.kernel.filters import Filter
from groundwire.kernel.query_log import QueryType


def _built_in(name: str, description: str, kind: FieldType) -> FieldDescription:
    return FieldDescription(name, description, kind)


BUILT_IN_REGISTRY = (
    _built_in("date_created", "When the document was written", FieldType.TIME),
    _built_in("creators", "Names of the authors", FieldType.STRING_LIST),
    _built_in("tags", "Tags of the document", FieldType.STRING_LIST),
    _built_in("project", "Project the document belongs to", FieldType.STRING),
    _built_in("category", "Category of the document", FieldType.STRING),
    _built_in("page_numbers", "Pages of the passage", FieldType.INTEGER_LIST),
    _built_in("chapter", "Chapter of the passage", FieldType.STRING),
    _built_in("section", "Section of the passage", FieldType.STRING),
    _built_in("section_title", "Nearest heading above the passage", FieldType.STRING),
)
"""Fields that questions may use in collections that describe none themselves."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Values that occur in a collection, by canonical field name; fields with very many values are left out."""

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a collection.

    `asked` is an aware time. `fields` may be used and no others; `is_described` says that the collection described
    them itself. `content_description` says what the documents are, empty when nobody said.
    """

    text: str
    asked: datetime
    fields: tuple[FieldDescription, ...]
    is_described: bool
    vocabulary: Vocabulary
    content_description: str = ""

    def described(self, name: str) -> FieldDescription | None:
        """Return the description of a field, None when the question must not use it."""
        return next((each for each in self.fields if each.name == name), None)


@dataclass(frozen=True, slots=True)
class Extraction:
    """The part to search for, never blank, and the filter over the fields named, in the order of first use."""

    semantic_query: str
    where: Filter | None = None
    field_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """An extraction, who made it, and whether it is the whole question because the extractor failed."""

    extraction: Extraction
    query_type: QueryType
    extractor: str
    fell_back: bool
