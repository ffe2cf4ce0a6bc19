"""Finds the document that a command names, by id or by source."""

from collections.abc import Sequence
from itertools import takewhile

from groundwire.api.common.v1 import document_pb2
from groundwire.cli.paging import PAGE_SIZE, all_items
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


def deleted_document_id(client: GroundwireClient, collection: str, reference: str) -> str:
    """Return the id of the document with this source that was deleted softly, or `reference` itself if there is none.

    Raises:
        CollectionNotFoundError: no such collection.
        InvalidRequestError: several deleted documents have the source.
    """

    def fetch(token: str) -> tuple[Sequence[document_pb2.Document], str]:
        page = client.list_documents(
            collection=collection,
            source_prefix=reference,
            include_deleted=True,
            page_size=PAGE_SIZE,
            page_token=token,
        )
        return page.documents, page.next_page_token

    # In the order of sources, so that the source itself comes before those that go on behind it.
    same = takewhile(lambda document: document.source_uri == reference, all_items(fetch))
    deleted = [document.document_id for document in same if document.HasField("delete_time")]
    if len(deleted) > 1:
        raise InvalidRequestError.of("DOCUMENT", f"is the source of several: give an id, {' or '.join(deleted)}")
    return deleted[0] if deleted else reference
