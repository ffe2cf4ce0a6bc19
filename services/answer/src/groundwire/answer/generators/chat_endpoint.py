"""Streams chat completions from an endpoint that speaks the protocol of OpenAI.

llama.cpp's server, Ollama, vLLM and hosted services do: `POST chat/completions` with `"stream": true`, answered by
server-sent events. The first two and vLLM count tokens besides, each in its own way.
"""

import asyncio
import codecs
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, TypeAlias, TypeVar

import httpx

from groundwire.answer.answers import GenerationFailure
from groundwire.answer.ports import GenerationFailedError
from groundwire.kernel.budget import Budget
from groundwire.kernel.identifiers import without_controls
from groundwire.rpc import request_context

Message: TypeAlias = dict[str, str]
T = TypeVar("T")

# An endpoint that never ends a line or a reply must not fill the memory.
_MAX_LINE_BYTES = 256 * 1024
_MAX_REPLY_BYTES = 4 * 1024 * 1024
# Not worth a longer wait: without an answer the number of tokens is estimated.
_COUNT_S = 2.0
_RETRY_AFTER_S = 0.2
# What a client may repeat although it is a 4xx.
_BUSY = frozenset({408, 425, 429})
_BYTES_PER_TOKEN = 3
# What the template of a model may add to the messages.
_TEMPLATE_TOKENS = 64
# A first line that has none of them is that of a web page or of a JSON document; that of a comment has no name.
_FIELDS = frozenset({b"data", b"event", b"id", b"retry", b""})
# The limit of tokens, or a filter that does not let the rest pass.
_CUTS = frozenset({"length", "content_filter"})


@dataclass(frozen=True, slots=True)
class Piece:
    """The next text of the model; `is_cut` in the last piece means that the endpoint ended it early."""

    text: str
    is_cut: bool = False


def estimated_tokens(text: str) -> int:
    """Return one token for each three bytes of UTF-8, rounded up.

    Common tokenizers take 4 to 5 bytes of English for a token, about 3 of code and one character of Chinese, which has
    three bytes: the estimate is on the safe side of most texts.
    """
    return -(-len(text.encode()) // _BYTES_PER_TOKEN)


class ChatEndpoint:
    """One model behind one URL. Holds no connection between two calls, so that there is nothing to close.

    `url` is that of the API, such as `http://127.0.0.1:8080/v1`; `model` and `api_key` may be empty. There is a
    connection within `connect_s`, and a sign of life of the endpoint every `idle_s` at most. Prompt and reply have
    `context_tokens` together, the reply `reply_tokens`. What the model writes carries `name`.
    """

    def __init__(
        self,
        url: str,
        model: str,
        api_key: str,
        *,
        name: str,
        context_tokens: int,
        reply_tokens: int,
        connect_s: float,
        idle_s: float,
    ) -> None:
        self.name = name
        self.prompt_tokens = context_tokens - reply_tokens - _TEMPLATE_TOKENS
        self._reply_tokens = reply_tokens
        self._url = httpx.URL(url.rstrip("/") + "/")
        self._model = model
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = httpx.Timeout(idle_s, connect=connect_s)
        # Once for all clients, and not for a plain connection: reading the certificates takes longer than the rest of a
        # request.
        self._certificates = httpx.create_ssl_context(verify=self._url.scheme == "https")
        self._has_tokenizer = True

    async def complete(self, messages: Sequence[Message], budget: Budget) -> AsyncGenerator[Piece, None]:
        """Yield the reply piece by piece; closing the generator closes the connection.

        What fails before the first piece is tried once more, unless time is what it lacked.

        Raises:
            GenerationFailedError: the endpoint did not answer, not in time, not as it should, or not to the end.
        """
        for attempt in (1, 2):
            has_begun = False
            try:
                async with aclosing(self._pieces(messages, budget)) as pieces:
                    async for piece in pieces:
                        has_begun = True
                        yield piece
            except GenerationFailedError as error:
                may_help = error.failure in {GenerationFailure.UNAVAILABLE, GenerationFailure.INTERRUPTED}
                remaining_s = budget.remaining_s()
                has_time = remaining_s is None or remaining_s > _RETRY_AFTER_S
                if has_begun or attempt > 1 or not may_help or not has_time:
                    raise
                await asyncio.sleep(_RETRY_AFTER_S)
            else:
                return

    @staticmethod
    def time_limit(limit_s: float, share: float) -> Budget:
        """Return the time for one reply: `limit_s`, but at most a share of the time that the current call has left."""
        remaining_s = request_context.current().budget.remaining_s()
        return Budget(limit_s if remaining_s is None else min(limit_s, share * remaining_s))

    async def count_tokens(self, text: str, budget: Budget) -> int:
        """Return the number of tokens, by the endpoint's tokenizer if it has one, else estimated."""
        if not self._has_tokenizer:
            return estimated_tokens(text)
        # llama.cpp reads `content`, vLLM reads `prompt` and `model`; each ignores what is the other's.
        body = {"content": text, "prompt": text, "model": self._model, "add_special": False}
        limit_s = budget.part(at_most_s=_COUNT_S).remaining_s()
        try:
            async with asyncio.timeout(limit_s), self._client() as client:
                response = await client.post(self._url.join("/tokenize"), json=body)
            if response.is_client_error and response.status_code not in _BUSY:
                self._has_tokenizer = False  # an endpoint of another kind, which need not be asked again
            response.raise_for_status()
            reply = response.json()
            count = reply["count"] if "count" in reply else len(reply["tokens"])
            is_count = isinstance(count, int) and not isinstance(count, bool) and count >= 0
            return count if is_count else estimated_tokens(text)
        except (httpx.HTTPError, TimeoutError, ValueError, KeyError, TypeError, RecursionError):
            return estimated_tokens(text)

    async def _pieces(self, messages: Sequence[Message], budget: Budget) -> AsyncGenerator[Piece, None]:
        body: dict[str, Any] = {
            "messages": list(messages),
            "max_tokens": self._reply_tokens,
            # The likeliest words, so that the same question has the same answer as far as the endpoint allows.
            "temperature": 0,
            "stream": True,
        }
        if self._model:
            body["model"] = self._model
        client = self._client()
        try:
            request = client.build_request("POST", self._url.join("chat/completions"), json=body)
            response = await _within(budget, client.send(request, stream=True))
            if (code := response.status_code) != HTTPStatus.OK:
                is_passing = code in _BUSY or code >= HTTPStatus.INTERNAL_SERVER_ERROR
                failure = GenerationFailure.UNAVAILABLE if is_passing else GenerationFailure.REJECTED
                raise GenerationFailedError(failure, f"the endpoint answered {code}")
            events = _events(_lines(response.aiter_bytes()))
            # A piece may end within a character beyond U+FFFF, whose halves JSON escapes separately.
            halves = codecs.getincrementaldecoder("utf-16-le")("replace")
            is_over = False
            while not is_over:
                piece, is_over = _read(*await _within(budget, anext(events)))
                if piece is not None:
                    whole = halves.decode(piece.text.encode("utf-16-le", "surrogatepass"), final=is_over)
                    # No session or answer can be kept with NUL, and a terminal obeys other control characters.
                    yield replace(piece, text=without_controls(whole))
        except StopAsyncIteration as error:
            raise GenerationFailedError(GenerationFailure.INTERRUPTED, "the stream ended before the reply") from error
        # Before timeouts in general: nobody is there, which a second attempt may find changed.
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise GenerationFailedError(GenerationFailure.UNAVAILABLE, f"no connection: {error}") from error
        except (httpx.TimeoutException, TimeoutError) as error:
            raise GenerationFailedError(GenerationFailure.TIMEOUT, "the time limit has passed") from error
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            raise GenerationFailedError(GenerationFailure.INTERRUPTED, str(error)) from error
        except httpx.HTTPError as error:
            raise GenerationFailedError(GenerationFailure.INVALID_REPLY, str(error)) from error
        finally:
            await client.aclose()

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(headers=self._headers, timeout=self._timeout, verify=self._certificates)


async def _within(budget: Budget, work: Awaitable[T]) -> T:
    async with asyncio.timeout(budget.remaining_s()):
        return await work


async def _lines(parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a stream without their ends, which are LF, CR or CRLF.

    The length of a line and of the stream are limited.
    """
    rest, total, follows_cr = b"", 0, False
    async for part in parts:
        total += len(part)
        # A line that ends with CR is not held back until it is known whether LF follows, which may take long.
        text = rest + (part.removeprefix(b"\n") if follows_cr else part)
        follows_cr = part.endswith(b"\r")
        lines = text.splitlines()
        rest = lines.pop() if text and not text.endswith((b"\n", b"\r")) else b""
        if total > _MAX_REPLY_BYTES or len(rest) > _MAX_LINE_BYTES:
            raise GenerationFailedError(GenerationFailure.INVALID_REPLY, "the reply is too long")
        for line in lines:
            yield line
    yield rest


async def _events(lines: AsyncIterator[bytes]) -> AsyncGenerator[tuple[bytes, bool], None]:
    """Yield the data of server-sent events, each with whether it is known to be whole: the last one may be cut.

    https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
    """
    data: list[bytes] = []
    is_stream = False
    async for line in lines:
        field, _, value = line.partition(b":")
        if not is_stream and line.strip():
            field = field.removeprefix(codecs.BOM_UTF8)
            if field not in _FIELDS:
                raise GenerationFailedError(GenerationFailure.INVALID_REPLY, "the reply is no stream of events")
            is_stream = True
        if field == b"data":
            data.append(value)
        elif not line and data:
            yield b"\n".join(data), True
            data.clear()
    if data:
        yield b"\n".join(data), False


def _read(data: bytes, is_whole: bool) -> tuple[Piece | None, bool]:
    """Return the piece of text in an event, if there is one, and whether the reply is over."""
    if data.strip() == b"[DONE]":
        return None, True
    try:
        choices = json.loads(data)["choices"]
        if not choices:
            return None, False  # the count of tokens used
        text = (choices[0].get("delta") or {}).get("content") or ""
        finish = choices[0].get("finish_reason")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        if not is_whole:
            raise GenerationFailedError(GenerationFailure.INTERRUPTED, "the stream ended within an event") from error
        raise GenerationFailedError(GenerationFailure.INVALID_REPLY, "an event does not follow the protocol") from error
    if not isinstance(text, str):
        raise GenerationFailedError(GenerationFailure.INVALID_REPLY, "the content is not text")
    return Piece(text, is_cut=finish in _CUTS), finish is not None
