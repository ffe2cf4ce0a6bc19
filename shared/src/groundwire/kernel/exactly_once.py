"""How a repeated request gets the answer of the first one (design D3)."""

from collections.abc import Awaitable, Callable

from groundwire.kernel.errors import ConflictError


def answered_once(find: Callable[[], bytes | None], work: Callable[[], bytes]) -> bytes:
    """Return the earlier answer that `find` knows, else that of `work`, which stores it together with its effect.

    `work` has to fail with ConflictError, and no effect, when the same call was completed while it ran: another thread
    or process may do the same at the same time.
    """
    earlier = find()
    if earlier is not None:
        return earlier
    try:
        return work()
    except ConflictError:
        earlier = find()
        if earlier is None:
            raise  # it is another call that stands in the way
        return earlier


async def answered_once_async(
    find: Callable[[], Awaitable[bytes | None]], work: Callable[[], Awaitable[bytes]]
) -> bytes:
    """Do the same as `answered_once` on the event loop."""
    earlier = await find()
    if earlier is not None:
        return earlier
    try:
        return await work()
    except ConflictError:
        earlier = await find()
        if earlier is None:
            raise
        return earlier
