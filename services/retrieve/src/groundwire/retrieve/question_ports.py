"""What deriving filters from questions needs."""

from collections.abc import Mapping
from typing import Protocol

from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.retrieve.domain.self_query.question import Extraction, Question


class DescribedCollection(Protocol):
    """A collection, and what occurs in it."""

    @property
    def collection(self) -> Collection:
        """Return the collection."""
        ...

    @property
    def field_names(self) -> frozenset[str]:
        """Return the names of the metadata fields that occur."""
        ...

    @property
    def values(self) -> Mapping[str, tuple[str, ...]]:
        """Return the texts that occur, by canonical field name; fields with very many are left out."""
        ...


class VocabularyReader(Protocol):
    """Reads what occurs in collections."""

    def read(self, tenant: str, collection: str) -> DescribedCollection:
        """Return a collection and what occurs in it.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """
        ...


class Extractor(Protocol):
    """Derives filters from questions; safe to call from many threads."""

    @property
    def name(self) -> str:
        """Return the name that callers see, such as `rules`."""
        ...

    def extract(self, question: Question, budget: Budget) -> Extraction | None:
        """Return the extraction, which uses fields of the question only; None when it failed.

        Raises:
            CallCancelledError: the caller left.
            DeadlineError: the time of the call is used up.
        """
        ...
