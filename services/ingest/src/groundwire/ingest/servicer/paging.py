"""Pages of listings."""

from google.protobuf.message import Message

from groundwire.rpc.pagination import PageTokens, page_size

_DEFAULT_PAGE, _MAX_PAGE = 50, 1000


def page_size_of(requested: int) -> int:
    """Return the number of entries of a page.

    Raises:
        InvalidRequestError: the number is negative.
    """
    return page_size(requested, default=_DEFAULT_PAGE, maximum=_MAX_PAGE)


def next_token(tokens: PageTokens, position: tuple[str | int, ...] | None, tenant: str, request: Message) -> str:
    """Return the token of the next page, empty after the last."""
    return "" if position is None else tokens.issue(position, tenant=tenant, request=request)
