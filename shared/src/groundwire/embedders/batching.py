"""The Embedder of a model: runs the texts of all callers through one engine, batched together.

What waits for the model and what runs next is in `Schedule`: urgent calls first, calls in turns, batches of a bounded
duration.
"""

import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from groundwire.embedders.model import Engine, Frame, LanguageModel, ModelTokenizer, TokenIds, pad
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import GroundwireError, UnavailableError
from groundwire.kernel.latencies import Step
from groundwire.kernel.vectors import unit_rows

_LOG = logging.getLogger(__name__)

SLICE_TEXTS: Final = 128
"""Texts tokenised at a time: the workers run one slice while the caller prepares the next."""

WINDOWS_SUFFIX: Final = "+windows"
"""Of the provider of vectors of whole texts: vectors of their beginnings alone are not comparable with them."""

_LOOKS_EVERY_S = 1.0
_CLOSE_WAIT_S = 5.0
# Documents wait longer for a hung model than questions do: they are long work, and nobody watches each of them.
_DOCUMENTS_WAIT_S = 60.0

BATCH_S: Final = 0.03
"""A batch of documents should take this long while there are queries: what a query waits at worst."""

QUIET_BATCH_S: Final = 0.12
"""The same while nobody asks: at the speed of a core without matrix units four texts of a usual chunk, which cost a
tenth less together than one by one; more together are no faster (measured)."""

QUIET_AFTER_S: Final = 2.0
"""Nobody asks when the last query is so long ago."""

MAX_QUERY_RUN: Final = 16
"""After this many query batches in a row, waiting documents get one: a busy server must still finish its ingest."""

HUNG_AFTER_S: Final = 4.0
"""An inference that is so much overdue hangs: a batch should take a tenth of a second, and health has to tell soon."""

# An inference is overdue when it takes this many times as long as its size suggests; other work shares the cores.
_SLACK = 10.0

# Assumed until the first batch has run: a slow core, since a batch too small costs less than one too long.
_FIRST_TOKENS_PER_S = 5_000.0
# Smoothed: one batch that other work has slowed down must not make the next ones small.
_NEW_SPEED_WEIGHT = 0.2
_MAX_ITEMS = 64
# The shortest document of a batch has at least this share of the longest one's length: the rest is padding.
_MIN_LENGTH_RATIO = 0.85

# This many tokens run together even on a slow machine: short queries, and documents while there are no queries.
_MIN_TOKENS = 512


# Fewer are not worth dividing between workers: each inference has a fixed cost.
_MIN_SHARED_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Item:
    """One token sequence, special tokens included, and the row of its call that it fills."""

    call: "Call"
    row: int
    sequence: TokenIds


@dataclass(eq=False, slots=True)
class Call:
    """One blocked caller: collects the vectors of its sequences in their order.

    `slices` belongs to the schedule (guarded by its lock), the rest is guarded by `_ready`.
    """

    slices: deque[deque[Item]] = field(default_factory=deque)
    _vectors: list[Vectors | None] = field(default_factory=list)
    _missing: int = 0
    error: BaseException | None = None
    _ready: threading.Condition = field(default_factory=threading.Condition)

    def expect(self, sequences: Sequence[TokenIds]) -> list[Item]:
        """Return the call for some sequences, longest first, so that neighbours need little padding."""
        with self._ready:
            first = len(self._vectors)
            self._vectors.extend([None] * len(sequences))
            self._missing += len(sequences)
        items = [Item(self, first + row, sequence) for row, sequence in enumerate(sequences)]
        return sorted(items, key=lambda item: len(item.sequence), reverse=True)

    def deliver(self, row: int, vector: Vectors) -> None:
        """Store one vector of shape (dimensions,)."""
        with self._ready:
            self._vectors[row] = vector
            self._missing -= 1
            if self._missing == 0:
                self._ready.notify_all()

    def fail(self, error: BaseException) -> None:
        """Wake the caller with an error; the first one counts."""
        with self._ready:
            self.error = self.error or error
            self._ready.notify_all()

    def wait(self, budget: Budget, at_most_s: float) -> Vectors | None:
        """Wait for the vectors and return them, float32 of shape (n, dimensions), n >= 1; None if it takes longer.

        Raises the error of the call, if it has one.

        Raises:
            CallCancelledError: the budget was cancelled.
            DeadlineError: the deadline of the budget passed.
        """
        with self._ready:
            is_over = budget.wait_for(self._ready, lambda: self._missing == 0 or self.error is not None, at_most_s)
            if self.error is not None:
                raise self.error
        return np.stack([vector for vector in self._vectors if vector is not None]) if is_over else None


class Schedule:
    """The queue between callers and workers, and what the workers run; thread-safe.

    Urgent calls (queries, and texts that a question waits for) go ahead of all others; within each kind calls take
    turns, so that a large one delays a small one by one batch.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._changed = threading.Condition()
        self._urgent: deque[Call] = deque()
        self._patient: deque[Call] = deque()
        self._running: dict[int, _Running] = {}
        self._urgent_run = 0
        self._asked_at = float("-inf")
        self._tokens_per_s = _FIRST_TOKENS_PER_S
        self._closed = False
        self.batch_sizes: Counter[int] = Counter()

    @property
    def waiting(self) -> tuple[int, int]:
        """Return how many urgent calls and how many others have unfinished work."""
        return len(self._urgent), len(self._patient)

    def add(self, call: Call, items: list[Item], *, urgent: bool) -> None:
        """Queue a slice of a call, sorted by length.

        Raises:
            UnavailableError: the schedule is closed.
        """
        with self._changed:
            if self._closed:
                raise UnavailableError("the embedder is closed")
            if urgent:
                self._asked_at = time.monotonic()
            turns = self._urgent if urgent else self._patient
            if not call.slices:
                turns.append(call)
            call.slices.append(deque(items))
            # A single query needs a single worker.
            self._changed.notify(len(items))

    def drop(self, call: Call) -> None:
        """Remove the queued work of a call that nobody waits for any more."""
        with self._changed:
            for turns in (self._urgent, self._patient):
                if call in turns:
                    turns.remove(call)

    def next_batch(self) -> list[Item]:
        """Return the items to run together now; the worker calls `finish` afterwards.

        Blocks until there are some; empty once closed.
        """
        with self._changed:
            while not self._closed:
                if not self._urgent and not self._patient:
                    self._changed.wait()
                    continue
                if self._urgent and not (self._patient and self._urgent_run >= MAX_QUERY_RUN):
                    self._urgent_run += 1
                    most = max(self._tokens_per_s * BATCH_S, _MIN_TOKENS)
                    # The workers share urgent calls: parts that run in parallel finish sooner than one batch.
                    waiting = sum(len(item.sequence) for call in self._urgent for part in call.slices for item in part)
                    share = max(waiting / self._workers, _MIN_SHARED_TOKENS)
                    batch = self._take(self._urgent, min(share, most), 0.0)
                else:
                    self._urgent_run = 0
                    is_quiet = time.monotonic() - self._asked_at > QUIET_AFTER_S
                    quiet_size = max(self._tokens_per_s * QUIET_BATCH_S, _MIN_TOKENS)
                    size = quiet_size if is_quiet else self._tokens_per_s * BATCH_S
                    batch = self._take(self._patient, size, _MIN_LENGTH_RATIO)
                # Empty when all calls whose turn it was had failed: they have left the queue now.
                if batch:
                    self.batch_sizes[len(batch)] += 1
                    padded = len(batch) * max(len(item.sequence) for item in batch)
                    self._running[id(batch)] = _Running(time.monotonic(), padded / self._tokens_per_s, batch)
                    return batch
            return []

    def finish(self, batch: list[Item]) -> None:
        """Note that a batch of `next_batch` has run."""
        with self._changed:
            del self._running[id(batch)]
            if self._closed:
                self._changed.notify_all()

    def overdue_s(self, call: Call | None = None) -> float:
        """Return for how many seconds the model has been overdue; 0 or less while it is not.

        Without a call it is overdue when all workers are: nothing gets done. With one, also when an inference for this
        call is, whatever the other workers do.
        """
        now = time.monotonic()
        with self._changed:
            everything = list(self._running.values())
            latest = min((each.overdue_s(now) for each in everything), default=0.0)
            overdue = latest if len(everything) >= self._workers else 0.0
            if call is not None:
                overdue = max([overdue, *(each.overdue_s(now) for each in everything if each.serves(call))])
            return overdue

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Wait until nothing runs any more; return whether that happened in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, timeout_s)

    def _take(self, turns: deque[Call], most_tokens: float, min_length_ratio: float) -> list[Item]:
        """Return a batch of the call whose turn it is, filled up with fitting items of the calls behind it.

        At least one; padded, they have at most `most_tokens`, and their lengths are similar.
        """
        batch: list[Item] = []
        shortest, longest = math.inf, 0
        # A failed call stays in the queue until its caller wakes up.
        calls = [call for call in turns if call.error is None]
        for call in calls:
            queue = call.slices[0]
            while queue:
                length = len(queue[0].sequence)
                least, most = min(shortest, length), max(longest, length)
                is_too_much = len(batch) == _MAX_ITEMS or most * (len(batch) + 1) > most_tokens
                if batch and (is_too_much or least < min_length_ratio * most):
                    break
                shortest, longest = least, most
                batch.append(queue.popleft())
            if not queue:
                call.slices.popleft()
        turns.clear()
        turns.extend(call for call in (*calls[1:], *calls[:1]) if call.slices)
        return batch

    def record(self, tokens: int, seconds: float) -> None:
        """Update the measured speed of a worker from a batch of `tokens` (padding included)."""
        with self._changed:
            speed = tokens / max(seconds, 1e-6)
            self._tokens_per_s += _NEW_SPEED_WEIGHT * (speed - self._tokens_per_s)

    def close(self) -> list[Call]:
        """Refuse further work, let the workers end, and return the calls that still wait in the queue."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            return [*self._urgent, *self._patient]


@dataclass(frozen=True, slots=True)
class _Running:
    """An inference that has begun: when (monotonic seconds), how long it should take, and for what."""

    started: float
    usual_s: float
    batch: list[Item]

    def overdue_s(self, now: float) -> float:
        """Return by how many seconds the inference is late; negative while it is not."""
        return now - self.started - _SLACK * self.usual_s

    def serves(self, call: Call) -> bool:
        return any(item.call is call for item in self.batch)


class BatchingEmbedder:
    """Batches across calls: an idle engine starts at once, and texts that arrive meanwhile run together.

    Texts are tokenised in the caller's thread; inferences run in threads of its own, so that a caller can leave an
    inference that hangs.

    With `windows` a text beyond the model's limit is read to its end: its tokens are cut into consecutive windows, and
    its vector is the mean of theirs, weighted by their token counts, at length 1. Texts that fit into one window
    get exactly the vector they have without. Without `windows` the text is cut at the limit.

    Attributes:
        engine_name: library and precision, for operators.
    """

    def __init__(self, engine: Engine, model: LanguageModel, *, windows: bool = False) -> None:
        self.engine_name = engine.name
        self._engine = engine
        self._model = model
        self._window = model.window
        self._windows = windows
        provider = model.identity.provider + (WINDOWS_SUFFIX if windows else "")
        self.identity = replace(model.identity, provider=provider)
        self.tokenizer = ModelTokenizer(model.tokenizer)
        self._schedule = Schedule(engine.parallelism)
        for number in range(engine.parallelism):
            threading.Thread(target=self._work, name=f"embed-{number}", daemon=True).start()

    @property
    def batch_sizes(self) -> Counter[int]:
        """Return how many inferences ran, by the number of their texts."""
        return self._schedule.batch_sizes

    @property
    def waiting(self) -> tuple[int, int]:
        """Return how many urgent calls and how many others wait for the model; cheap, never waits."""
        return self._schedule.waiting

    @property
    def is_responsive(self) -> bool:
        return self._schedule.overdue_s() < HUNG_AFTER_S

    def embed_documents(self, texts: Sequence[str], budget: Budget, *, urgent: bool = False) -> Vectors:
        return self._embed(texts, budget, self._model.document_frame, urgent=urgent)

    def embed_query(self, text: str, budget: Budget) -> Vectors:
        vector: Vectors = self._embed([text], budget, self._model.query_frame, urgent=True)[0]
        return vector

    def embed_queries(self, texts: Sequence[str], budget: Budget) -> Vectors:
        return self._embed(texts, budget, self._model.query_frame, urgent=True)

    def close(self) -> None:
        """Fail all waiting calls, end the workers and close the engine; idempotent.

        An engine that hangs is left to the end of the process: closing it below a running inference may crash.
        """
        for call in self._schedule.close():
            call.fail(UnavailableError("the embedder is closed"))
        if not self._schedule.wait_until_idle(_CLOSE_WAIT_S):
            _LOG.error("the embedding engine hangs: it is left running")
            return
        self._engine.close()

    def _embed(self, texts: Sequence[str], budget: Budget, frame: Frame, *, urgent: bool) -> Vectors:
        if not texts:
            return np.zeros((0, self.identity.dimensions), np.float32)
        call = Call()
        # A query should fail at once when the model hangs; an ingest can wait until it recovers.
        patience_s = HUNG_AFTER_S if urgent else _DOCUMENTS_WAIT_S
        sizes: list[list[int]] = []
        try:
            for start in range(0, len(texts), SLICE_TEXTS):
                budget.check()
                self._refuse_if_hung(call, patience_s)
                sequences: list[TokenIds] = []
                for tokens in self.tokenizer.encode(texts[start : start + SLICE_TEXTS]):
                    # An empty text is a window too: its vector is that of its special tokens.
                    end = max(len(tokens), 1) if self._windows else 1
                    parts = [tokens[at : at + self._window] for at in range(0, end, self._window)]
                    sizes.append([len(part) for part in parts])
                    sequences.extend(frame.around(part) for part in parts)
                self._schedule.add(call, call.expect(sequences), urgent=urgent)
            # The engine is checked now and then, because a call may have no deadline.
            while (vectors := call.wait(budget, _LOOKS_EVERY_S)) is None:
                self._refuse_if_hung(call, patience_s)
        except BaseException:
            self._schedule.drop(call)
            raise
        if len(vectors) == len(sizes):
            return vectors
        # The mean over the windows of each text, weighted by their token counts.
        result = np.empty((len(sizes), vectors.shape[1]), np.float32)
        first = 0
        for row, counts in enumerate(sizes):
            part = vectors[first : first + len(counts)]
            first += len(counts)
            result[row] = part[0] if len(counts) == 1 else unit_rows((np.array(counts, np.float32) @ part)[None])[0]
        return result

    def _refuse_if_hung(self, call: Call, patience_s: float) -> None:
        overdue_s = self._schedule.overdue_s(call)
        if overdue_s >= patience_s:
            raise UnavailableError(f"the embedding model has not answered for {overdue_s:.0f} s")

    def _work(self) -> None:
        # A closed schedule returns an empty batch, which ends the loop.
        while batch := self._schedule.next_batch():
            try:
                self._run(batch)
            except Exception as error:  # noqa: BLE001 - whatever an engine raises belongs to the callers
                # The items of several callers run again alone, so that only the call that caused the error fails.
                if len({id(item.call) for item in batch}) > 1:
                    for item in batch:
                        try:
                            self._run([item])
                        except Exception as own_error:  # noqa: BLE001 - the same
                            item.call.fail(_engine_error(own_error))
                else:
                    batch[0].call.fail(_engine_error(error))
            finally:
                self._schedule.finish(batch)

    def _run(self, batch: list[Item]) -> None:
        input_ids, attention_mask = pad([item.sequence for item in batch], self._model)
        started = time.perf_counter()
        with Step("model.embed"):
            vectors = unit_rows(self._engine.infer(input_ids, attention_mask))
        self._schedule.record(input_ids.size, time.perf_counter() - started)
        for item, vector in zip(batch, vectors, strict=True):
            item.call.deliver(item.row, vector)


def _engine_error(error: Exception) -> GroundwireError:
    if isinstance(error, GroundwireError):
        return error
    _LOG.error("the embedding engine failed", exc_info=error)
    failure = UnavailableError("the embedding engine failed")
    failure.__cause__ = error
    return failure
