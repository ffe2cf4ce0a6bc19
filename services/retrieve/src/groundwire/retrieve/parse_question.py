"""Split a question into what to search for and a filter over the collection's described fields."""

from dataclasses import dataclass
from datetime import datetime

from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import FieldDescription
from groundwire.kernel.filter_fields import ALIASES, BUILT_IN_FIELDS
from groundwire.retrieve.domain.query_limits import check_query_length
from groundwire.retrieve.domain.query_types import classify
from groundwire.retrieve.domain.self_query.question import (
    BUILT_IN_REGISTRY,
    Extraction,
    ParsedQuestion,
    Question,
    Vocabulary,
)
from groundwire.retrieve.question_ports import DescribedCollection, Extractor, VocabularyReader


@dataclass(frozen=True, slots=True)
class ParseQuestion:
    """Parses questions; safe to call from many threads at once."""

    vocabularies: VocabularyReader
    extractor: Extractor

    def __call__(
        self,
        tenant: str,
        collection: str,
        text: str,
        asked: datetime,
        budget: Budget,
        *,
        field: str = "question",
        searchable: bool = False,
    ) -> ParsedQuestion:
        """Return the part to search for and the filter; the whole text and none when the extractor failed.

        Args:
            tenant: whose collection.
            collection: its name.
            text: the question.
            asked: when it was asked; aware.
            budget: of the call.
            field: name of the text in errors.
            searchable: leave out fields that no document has, which a search would refuse.

        Raises:
            CollectionNotFoundError: no such collection.
            InvalidRequestError: the text is longer than the collection takes.
        """
        found = self.vocabularies.read(tenant, collection)
        check_query_length(text, found.collection, field)
        settings = found.collection.settings
        question = Question(
            text=text,
            asked=asked,
            fields=tuple(each for each in _registry(found) if not searchable or _occurs(each, found)),
            is_described=bool(settings.field_descriptions),
            vocabulary=Vocabulary(found.values),
            content_description=settings.content_description,
        )
        extraction = self.extractor.extract(question, budget)
        fell_back = extraction is None
        return ParsedQuestion(extraction or Extraction(text), classify(text), self.extractor.name, fell_back)


def _registry(found: DescribedCollection) -> tuple[FieldDescription, ...]:
    return found.collection.settings.field_descriptions or BUILT_IN_REGISTRY


def _occurs(field: FieldDescription, found: DescribedCollection) -> bool:
    return ALIASES.get(field.name, field.name) in BUILT_IN_FIELDS or field.name in found.field_names
