"""How long a query may be (requirements S3-01, C15)."""

from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import InvalidRequestError


def check_query_length(query: str, collection: Collection, field: str) -> None:
    """Return if a query, counted in code points, is within its collection's limit.

    Raises:
        InvalidRequestError: naming `field`.
    """
    limit = collection.settings.limits.max_query_chars
    if len(query) > limit:
        raise InvalidRequestError.of(field, f"must be at most {limit} characters, has {len(query)}")
