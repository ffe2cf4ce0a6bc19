"""Finds the document that a command names, by id or by source."""

from groundwire.api.ingest.v1 import document_pb2
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import DocumentNotFoundError, InvalidRequestError


def find_document(client: GroundwireClient, collection: str, reference: str) -> document_pb2.Document:
    """Return the live document with this id, else the one with this source or alias.

    Raises:
        CollectionNotFoundError: no such collection.
        DocumentNotFoundError: the collection has neither.
    """
    try:
        return client.get_document(collection=collection, document_id=reference).document
    except (DocumentNotFoundError, InvalidRequestError) as error:
        # What is no valid id may still be a source.
        try:
            return client.get_document(collection=collection, source_uri=reference).document
        except (DocumentNotFoundError, InvalidRequestError):
            raise error from None


def document_id_of(client: GroundwireClient, collection: str, reference: str) -> str:
    """Return the id of the live document that `reference` names, or `reference` itself when there is none.

    The call that follows then says what is wrong.

    Raises:
        CollectionNotFoundError: no such collection.
    """
    try:
        return find_document(client, collection, reference).document_id
    except (DocumentNotFoundError, InvalidRequestError):
        return reference
