"""Reads all pages of a list."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

ItemT = TypeVar("ItemT")
PAGE_SIZE = 200


def all_items(fetch: Callable[[str], tuple[Sequence[ItemT], str]]) -> Iterator[ItemT]:
    """Yield the items of every page.

    `fetch` takes a page token, empty at first, and returns items and the next token, empty at the end.
    """
    token = ""
    while True:
        items, token = fetch(token)
        yield from items
        if not token:
            return
