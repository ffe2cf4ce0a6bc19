"""Vectors from an endpoint that speaks the protocol of OpenAI: Ollama, vLLM, llama.cpp's server, hosted services."""

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import httpx
import numpy as np

from groundwire.embedders.model import PROBE_TEXTS, ModelTokenizer, check_unicode, probe_digest
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import EmbeddingIdentity, TokenizerDefinition, TokenizerFormat, Vectors
from groundwire.kernel.errors import DeadlineError, PreconditionError, UnavailableError
from groundwire.kernel.vectors import unit_rows

_LOG = logging.getLogger(__name__)

PROVIDER: Final = "openai-compatible+windows"
DEFAULT_MAX_TOKENS: Final = 512
START_PATIENCE_S: Final = 30.0
"""The endpoint may start beside this server, and somewhat later."""
# Longer than an endpoint takes that is there; a person who waits wonders soon.
_SAY_AFTER_S = 1.0

# Texts of one request: what every service takes, and a query waits for at worst.
_BATCH = 32
# Parallel requests for documents, and as many again for queries, so that queries never wait behind an ingest.
_PARALLEL = 4
_REQUEST_S = 60.0
_CONNECT_S = 5.0
_ATTEMPTS = 4
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 10.0
# A request for a query, and one for documents, counts as hung after this time, and health reports it.
_OVERDUE_AFTER_S = {True: 4.0, False: 30.0}
_LOOK_EVERY_S = 2.0
# Of UTF-8. Common tokenizers take 4 to 5 bytes of English for a token, about 3 of code or of Chinese.
_BYTES_PER_TOKEN = 3
_BUSY = frozenset({408, 425, 429})
# Sent in place of a blank text, which services refuse.
_BLANK = "."


@dataclass(frozen=True, slots=True)
class EndpointModel:
    """A model behind a URL; `dimensions` asks the service for shorter vectors, None takes what it gives."""

    url: str
    model: str
    api_key: str = ""
    dimensions: int | None = None
    max_tokens: int = DEFAULT_MAX_TOKENS
    query_prompt: str = ""
    document_prompt: str = ""


class OpenAiCompatibleEmbedder:
    """Requests vectors from an endpoint, with time limits and with retries where they can help.

    Tokens are words and punctuation marks, since the model's own tokenizer is not here. What may have more than
    `max_tokens` is sent in windows, whose vectors are averaged.

    Raises, when it is made:
        PreconditionError: the endpoint refuses the key, the model or the request.
        UnavailableError: it does not answer within `patience_s`, or not as the protocol says.
    """

    def __init__(self, model: EndpointModel, patience_s: float = START_PATIENCE_S) -> None:
        self._model = model
        self.tokenizer = ModelTokenizer(TokenizerDefinition("hashing-words", TokenizerFormat.HASHING_WORDS, ""))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="embedding-endpoint", daemon=True)
        self._client: httpx.AsyncClient | None = None
        self._room = {urgent: asyncio.Semaphore(_PARALLEL) for urgent in (False, True)}
        self._due: dict[object, float] = {}
        self._is_lost = False
        self._looked_at = 0.0
        self._dimensions = 0
        self._thread.start()
        waiting = "waiting for the embedding endpoint %s, for up to %g s"
        slow = threading.Timer(_SAY_AFTER_S, _LOG.warning, (waiting, model.url, patience_s))
        slow.daemon = True
        slow.start()
        try:
            gives_up_at = time.monotonic() + patience_s
            while True:
                try:
                    budget = Budget(max(patience_s, _CONNECT_S))
                    vectors = self._embed(PROBE_TEXTS, self._model.document_prompt, budget, urgent=True)
                    break
                except DeadlineError as error:
                    raise UnavailableError("the embedding endpoint does not answer") from error
                except UnavailableError:
                    if time.monotonic() > gives_up_at:
                        raise
                    time.sleep(min(1.0, patience_s))
            self._dimensions = vectors.shape[1]
            # Vectors made with other prompts are not comparable, so the prompts are part of the identity.
            prompts = f"{self._model.query_prompt}\0{self._model.document_prompt}"
            self.identity = EmbeddingIdentity(
                provider=PROVIDER,
                model_name=self._model.model,
                revision=hashlib.sha256(prompts.encode()).hexdigest()[:12] if prompts != "\0" else "1",
                dimensions=self._dimensions,
                max_tokens=self._model.max_tokens,
                normalized=True,
                probe_digest=probe_digest(vectors),
            )
        except BaseException:
            self.close()
            raise
        finally:
            slow.cancel()

    @property
    def is_responsive(self) -> bool:
        """Return whether the endpoint answers; a lost one is probed every two seconds, in the background."""
        if time.monotonic() > min(list(self._due.values()), default=float("inf")):
            return False
        if self._is_lost and time.monotonic() - self._looked_at > _LOOK_EVERY_S:
            self._looked_at = time.monotonic()
            # Nobody waits for the result: `_ask` itself notes whether the endpoint answers.
            asyncio.run_coroutine_threadsafe(self._ask(PROBE_TEXTS[:1], urgent=True), self._loop)
        return not self._is_lost

    def embed_documents(self, texts: Sequence[str], budget: Budget, *, urgent: bool = False) -> Vectors:
        return self._embed(texts, self._model.document_prompt, budget, urgent=urgent)

    def embed_query(self, text: str, budget: Budget) -> Vectors:
        vector: Vectors = self.embed_queries([text], budget)[0]
        return vector

    def embed_queries(self, texts: Sequence[str], budget: Budget) -> Vectors:
        return self._embed(texts, self._model.query_prompt, budget, urgent=True)

    def close(self) -> None:
        """Cancel what runs, whatever the endpoint does; idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CONNECT_S)

    def _run(self) -> None:
        self._loop.run_forever()
        running = asyncio.all_tasks(self._loop)
        for task in running:
            task.cancel()
        # Callers wait for these tasks in other threads and are released only when the tasks have ended.
        self._loop.run_until_complete(asyncio.wait(running, timeout=_CONNECT_S) if running else asyncio.sleep(0))
        if self._client is not None:
            self._loop.run_until_complete(self._client.aclose())
        self._loop.close()

    def _embed(self, texts: Sequence[str], prompt: str, budget: Budget, *, urgent: bool) -> Vectors:
        check_unicode(texts)
        budget.check()
        if not texts:
            return np.zeros((0, self._dimensions), np.float32)
        room = max(64, self._model.max_tokens * _BYTES_PER_TOKEN - len(prompt.encode()))
        sent, starts = list[str](), list[int]()
        for text in texts:
            starts.append(len(sent))
            rest, windows = text.encode(), list[str]()
            while len(rest) > room:
                end = (rest.rfind(b" ", 1, room) + 1) or room
                windows.append(rest[:end].decode(errors="ignore"))  # a cut character moves to the next window
                rest = rest[len(windows[-1].encode()) :]
            # Endpoints refuse an empty text, and blank windows would only dilute the mean.
            sent += [prompt + each for each in (*windows, rest.decode()) if each.strip()] or [prompt + _BLANK]
        work = asyncio.run_coroutine_threadsafe(self._ask_in_batches(sent, urgent=urgent), self._loop)
        try:
            vectors = budget.result_of(work)
        except CancelledError as error:
            raise UnavailableError("the embedder was closed") from error
        except BaseException:
            work.cancel()
            raise
        return unit_rows(np.add.reduceat(vectors, starts, axis=0))

    async def _ask_in_batches(self, texts: Sequence[str], *, urgent: bool) -> Vectors:
        """Retry each batch while the endpoint is busy or unreachable."""
        # A query gives up early, because a caller waits for it.
        attempts = 2 if urgent else _ATTEMPTS
        found: list[Vectors] = []
        for start in range(0, len(texts), _BATCH):
            async with self._room[urgent]:
                pause_s = _FIRST_PAUSE_S
                for attempt in range(1, attempts + 1):
                    try:
                        found.append(await self._ask(texts[start : start + _BATCH], urgent=urgent))
                        break
                    except UnavailableError:
                        if attempt == attempts:
                            raise
                    await asyncio.sleep(pause_s)
                    pause_s = min(4 * pause_s, _LONGEST_PAUSE_S)
        return np.concatenate(found)

    async def _ask(self, texts: Sequence[str], *, urgent: bool) -> Vectors:
        """Return the unit vectors of a batch, and note whether the endpoint answers."""
        request = object()
        self._due[request] = time.monotonic() + _OVERDUE_AFTER_S[urgent]
        try:
            # For the whole request: the limits of httpx apply to each read, and an endpoint may send byte by byte.
            async with asyncio.timeout(_REQUEST_S):
                body: dict[str, Any] = {"input": list(texts), "encoding_format": "float", "model": self._model.model}
                if self._client is None:
                    headers = {"Authorization": f"Bearer {self._model.api_key}"} if self._model.api_key else {}
                    base = httpx.URL(self._model.url.rstrip("/") + "/")
                    self._client = httpx.AsyncClient(
                        base_url=base,
                        headers=headers,
                        timeout=httpx.Timeout(_REQUEST_S, connect=_CONNECT_S),
                        verify=base.scheme == "https",  # a plain connection needs no certificates, which take a while
                    )
                response = await self._client.post(
                    "embeddings",
                    json=body if self._model.dimensions is None else body | {"dimensions": self._model.dimensions},
                )
        except (httpx.HTTPError, TimeoutError) as error:
            self._is_lost = True
            raise UnavailableError("the embedding endpoint does not answer") from error
        finally:
            del self._due[request]
        code = response.status_code
        self._is_lost = code >= HTTPStatus.INTERNAL_SERVER_ERROR
        if self._is_lost or code in _BUSY:
            raise UnavailableError(f"the embedding endpoint answered {code}")
        if code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise PreconditionError(
                f"the embedding endpoint refuses the key ({code}): set GROUNDWIRE_EMBEDDER_API_KEY to one that it takes"
            )
        if code != HTTPStatus.OK:
            raise PreconditionError(f"the embedding endpoint refuses the request ({code}): see its URL and model")
        failure: Exception | None = None
        try:
            # Endpoints may answer in another order than that of the texts.
            rows = sorted(response.json()["data"], key=lambda row: row["index"])
            vectors = np.array([row["embedding"] for row in rows], np.float32)
            if (
                [row["index"] for row in rows] == list(range(len(texts)))
                and vectors.shape == (len(texts), self._dimensions or vectors.shape[1])
                and np.isfinite(vectors).all()
                and vectors.any(axis=1).all()  # without a direction a vector is like none and like all
            ):
                return unit_rows(vectors)
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            failure = error
        raise UnavailableError("the embedding endpoint did not answer with one vector for each text") from failure
