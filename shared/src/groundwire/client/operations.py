"""Methods of the clients that are written once, as coroutines, and are blocking or awaited as their owner is."""

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from groundwire.client.transport import AsyncCaller, SyncCaller

Params = ParamSpec("Params")
ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")


class _TwoWays:
    """A method in two forms: `awaited` as it was written, `blocking` as a function that runs it to its end."""

    def __init__(self, awaited: Callable[..., Any], blocking: Callable[..., Any]) -> None:
        self.awaited = awaited
        self.blocking = functools.wraps(awaited)(blocking)

    def __get__(self, owner: Any, kind: type) -> Any:
        """Return the form that fits the owner or, asked of a class, its kind."""
        function = self.blocking if issubclass(kind, SyncCaller) else self.awaited
        return function if owner is None else MethodType(function, owner)


class Operation(_TwoWays, Generic[Params, ResultT]):
    """Decorates a coroutine function of a `Caller`: in a blocking one the method returns what the coroutine returns."""

    def __init__(self, body: Callable[Concatenate[Any, Params], Coroutine[Any, Any, ResultT]]) -> None:
        def blocking(owner: Any, *arguments: Params.args, **named: Params.kwargs) -> Any:
            return _finish(body(owner, *arguments, **named))

        super().__init__(body, blocking)

    @overload
    def __get__(self, owner: None, kind: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, owner: SyncCaller, kind: type) -> Callable[Params, ResultT]: ...
    @overload
    def __get__(self, owner: AsyncCaller, kind: type) -> Callable[Params, Coroutine[Any, Any, ResultT]]: ...
    def __get__(self, owner: Any, kind: type) -> Any:
        """Return the method."""
        return super().__get__(owner, kind)


class StreamOperation(_TwoWays, Generic[Params, ItemT]):
    """Decorates an asynchronous generator of a `Caller`: in a blocking one the method is a generator.

    Whoever leaves the loop early and closes the generator ends what the server does for it.
    """

    def __init__(self, body: Callable[Concatenate[Any, Params], AsyncGenerator[ItemT, None]]) -> None:
        def blocking(owner: Any, *arguments: Params.args, **named: Params.kwargs) -> Generator[ItemT, None, None]:
            items = body(owner, *arguments, **named)
            try:
                while True:
                    try:
                        item = _finish(items.__anext__())
                    except StopAsyncIteration:
                        return
                    yield item
            finally:
                _finish(items.aclose())

        super().__init__(body, blocking)

    @overload
    def __get__(self, owner: None, kind: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, owner: SyncCaller, kind: type) -> Callable[Params, Generator[ItemT, None, None]]: ...
    @overload
    def __get__(self, owner: AsyncCaller, kind: type) -> Callable[Params, AsyncGenerator[ItemT, None]]: ...
    def __get__(self, owner: Any, kind: type) -> Any:
        """Return the method."""
        return super().__get__(owner, kind)


def _finish(coroutine: Any) -> Any:
    """Run a coroutine that awaits only what blocks: it never gives control away, so one step is all of it."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("a coroutine of a blocking client gave control away")
