"""Names the document that a command is about, by id or by source."""

from collections.abc import Callable
from typing import TypeVar

from groundwire.api.common.v1 import document_pb2
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import DocumentNotFoundError, InvalidRequestError

T = TypeVar("T")


def by_id_or_source(document: str, call: Callable[[document_pb2.DocumentReference], T]) -> T:
    """Return what `call` does with the document of this id, else with that of this source or alias.

    Raises:
        DocumentNotFoundError: there is neither; it names what was asked for.
    """
    try:
        return call(document_pb2.DocumentReference(document_id=document))
    except DocumentNotFoundError as error:
        try:
            return call(document_pb2.DocumentReference(source_uri=document))
        except (DocumentNotFoundError, InvalidRequestError):
            raise error from None


def find_document(client: GroundwireClient, collection: str, document: str) -> document_pb2.Document:
    """Return the live document with this id, else the one with this source or alias.

    Raises:
        CollectionNotFoundError: no such collection.
        DocumentNotFoundError: the collection has neither.
    """
    return by_id_or_source(
        document, lambda reference: client.get_document(collection=collection, reference=reference).document
    )
