"""Split a question into what to search for and a filter over the collection's described fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from groundwire.catalog.filters import Scopes
from groundwire.catalog.vocabularies import Vocabularies
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import FieldDescription, FieldType
from groundwire.kernel.filters import ALIASES, BUILT_IN_FIELDS, Filter
from groundwire.kernel.query_log import QueryType
from groundwire.retrieve.queries import check_query_length, classify

BUILT_IN_REGISTRY = (
    FieldDescription("date_created", "When the document was written", FieldType.TIME),
    FieldDescription("creators", "Names of the authors", FieldType.STRING_LIST),
    FieldDescription("tags", "Tags of the document", FieldType.STRING_LIST),
    FieldDescription("project", "Project the document belongs to", FieldType.STRING),
    FieldDescription("category", "Category of the document", FieldType.STRING),
    FieldDescription("page_numbers", "Pages of the passage", FieldType.INTEGER_LIST),
    FieldDescription("chapter", "Chapter of the passage", FieldType.STRING),
    FieldDescription("section", "Section of the passage", FieldType.STRING),
    FieldDescription("section_title", "Nearest heading above the passage", FieldType.STRING),
)
"""Fields that questions may use in collections that describe none themselves."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a collection.

    `asked` is an aware time. `fields` may be used and no others; `is_described` says that the collection described
    them itself. `vocabulary` has the values that occur in the collection, by canonical field name; fields with very
    many values are left out. `content_description` says what the documents are, empty when nobody said.
    """

    text: str
    asked: datetime
    fields: tuple[FieldDescription, ...]
    is_described: bool
    vocabulary: Mapping[str, tuple[str, ...]]
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
    """An extraction, its extractor, and whether it is the whole question because the extractor failed."""

    extraction: Extraction
    query_type: QueryType
    extractor: str
    fell_back: bool


class Extractor(Protocol):
    """Derives filters from questions; safe to call from many threads."""

    @property
    def name(self) -> str:
        """Return the name that callers see, such as `rules`."""

    def extract(self, question: Question, budget: Budget) -> Extraction | None:
        """Return the extraction, which uses fields of the question only; None when it failed.

        Raises:
            CallCancelledError: the caller left.
            DeadlineError: the time of the call is used up.
        """


@dataclass(frozen=True, slots=True)
class ParseQuestion:
    """Parses questions; safe to call from many threads at once."""

    vocabularies: Vocabularies
    extractor: Extractor

    def parse(
        self,
        tenant: str,
        collection: str,
        text: str,
        asked: datetime,
        budget: Budget,
        *,
        scopes: Scopes | None,
        field: str = "question",
        searchable: bool = False,
    ) -> ParsedQuestion:
        """Return the part to search for and the filter; the whole text and none when the extractor failed.

        `asked` is aware. `scopes` are those of the records whose values count, `field` names the text in errors.
        `searchable` leaves out fields that no document has, which a search would refuse.

        Raises:
            CollectionNotFoundError: no such collection.
            InvalidRequestError: the text is longer than the collection takes.
        """
        known = self.vocabularies.read(tenant, collection, scopes)
        check_query_length(text, known.collection, field)
        settings = known.collection.settings
        fields = settings.field_descriptions or BUILT_IN_REGISTRY
        if searchable:
            fields = tuple(
                each
                for each in fields
                if ALIASES.get(each.name, each.name) in BUILT_IN_FIELDS or each.name in known.field_names
            )
        question = Question(
            text=text,
            asked=asked,
            fields=fields,
            is_described=bool(settings.field_descriptions),
            vocabulary=known.values,
            content_description=settings.content_description,
        )
        extraction = self.extractor.extract(question, budget)
        return ParsedQuestion(
            extraction or Extraction(text), classify(text), self.extractor.name, fell_back=extraction is None
        )
