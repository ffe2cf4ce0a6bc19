"""Finds the document that a command names, by id or by source."""

from itertools import takewhile

from groundwire.client import Collection
from groundwire.kernel.errors import DocumentNotFoundError, InvalidRequestError


def document_id_of(collection: Collection, reference: str) -> str:
    """Return the id of the live document that `reference` names, or `reference` itself when there is none.

    The call that follows then says what is wrong.

    Raises:
        CollectionNotFoundError: no such collection.
    """
    try:
        return collection.document(reference).document_id
    except (DocumentNotFoundError, InvalidRequestError):
        return reference


def deleted_document_id(collection: Collection, reference: str) -> str:
    """Return the id of the document with this source that was deleted softly, or `reference` itself if there is none.

    Raises:
        CollectionNotFoundError: no such collection.
        InvalidRequestError: several deleted documents have the source.
    """
    # In the order of sources, so that the source itself comes before those that go on behind it.
    listed = collection.documents(source_prefix=reference, include_deleted=True)
    same = takewhile(lambda document: document.source == reference, listed)
    deleted = [document.document_id for document in same if document.delete_time is not None]
    if len(deleted) > 1:
        raise InvalidRequestError.of("DOCUMENT", f"is the source of several: give an id, {' or '.join(deleted)}")
    return deleted[0] if deleted else reference
