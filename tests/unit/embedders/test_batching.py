"""Batches across callers: order of work, fairness, errors and the end."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from groundwire.embedders import batching
from groundwire.embedders.batching import MAX_QUERY_RUN, BatchingEmbedder, Call
from groundwire.embedders.model import TokenIds, pad
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import CallCancelledError, DeadlineError, OverloadedError, UnavailableError
from tests.unit.embedders.word_engine import END, PAD, START, WordEngine, word_model


@pytest.fixture
def engine() -> WordEngine:
    return WordEngine()


@pytest.fixture
def embedder(engine: WordEngine) -> Iterator[BatchingEmbedder]:
    embedder = BatchingEmbedder(engine, word_model())
    yield embedder
    engine.gate.set()
    embedder.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(40) as pool:
        yield pool


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize(("lengths", "padded"), [([3], 8), ([8, 2], 8), ([9], 12), ([12, 5], 12)])
def test_sequences_are_padded_to_a_multiple_of_eight_within_the_limit_of_the_model(
    lengths: list[int], padded: int
) -> None:
    sequences = [np.full(length, START, np.int64) for length in lengths]
    input_ids, mask = pad(sequences, word_model(max_tokens=12))
    assert input_ids.shape == mask.shape == (len(lengths), padded)
    assert mask.sum(axis=1).tolist() == lengths
    assert input_ids.tolist() == [[START] * length + [PAD] * (padded - length) for length in lengths]


def queued_queries(embedder: BatchingEmbedder) -> int:
    return sum(len(part) for call in embedder._schedule._urgent for part in call.slices)


def queued_texts(embedder: BatchingEmbedder) -> int:
    return sum(len(part) for call in embedder._schedule._patient for part in call.slices)


def hold(engine: WordEngine, embedder: BatchingEmbedder, threads: ThreadPoolExecutor) -> "Future[Vectors]":
    """Occupy the worker with one text until the gate opens."""
    engine.gate.clear()
    future = threads.submit(embedder.embed_documents, ["w0"], Budget())
    assert engine.entered.acquire(timeout=10)
    return future


def test_an_idle_engine_gets_a_query_at_once_and_alone(engine: WordEngine, embedder: BatchingEmbedder) -> None:
    vector = embedder.embed_query("w3 w3", Budget())
    assert int(vector.argmax()) == 3
    assert engine.batches == [[[START, 3, 3, END]]]


def test_an_error_is_told_at_once_and_leaves_the_engine_usable(
    embedder: BatchingEmbedder, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "_LOOKS_EVERY_S", 60.0)
    for _ in range(3):
        with pytest.raises(UnavailableError, match="engine failed"):
            threads.submit(embedder.embed_query, "w49", Budget()).result(10)
    assert int(embedder.embed_query("w1", Budget()).argmax()) == 1
    assert embedder.embed_documents(["w1"], Budget()).shape[0] == 1


def test_closing_waits_for_a_query_that_runs(threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_CLOSE_WAIT_S", 60.0)
    engine = WordEngine()
    embedder = BatchingEmbedder(engine, word_model())
    engine.gate.clear()
    query = threads.submit(embedder.embed_query, "w1", Budget())
    assert engine.entered.acquire(timeout=10)
    closing = threads.submit(embedder.close)
    time.sleep(0.05)
    assert not engine.is_closed
    engine.gate.set()
    closing.result(10)
    assert int(query.result(10).argmax()) == 1
    assert engine.is_closed


def test_closing_ends_the_workers() -> None:
    before = set(threading.enumerate())
    embedder = BatchingEmbedder(WordEngine(parallelism=2), word_model())
    workers = set(threading.enumerate()) - before
    assert len(workers) == 2
    embedder.close()
    eventually(lambda: not any(worker.is_alive() for worker in workers))


def test_a_call_that_is_cancelled_while_its_texts_are_cut_into_tokens_stops_there(
    embedder: BatchingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget, encode, slices = Budget(), embedder.tokenizer.encode, list[int]()

    def cancelled_meanwhile(texts: Sequence[str]) -> list[TokenIds]:
        slices.append(len(texts))
        budget.cancel()
        return encode(texts)

    monkeypatch.setattr(embedder.tokenizer, "encode", cancelled_meanwhile)
    with pytest.raises(CallCancelledError):
        embedder.embed_documents(["w1"] * 500, budget)
    assert slices == [batching.SLICE_TEXTS]


def test_queries_that_arrive_meanwhile_run_together(
    engine: WordEngine, embedder: BatchingEmbedder, threads: ThreadPoolExecutor
) -> None:
    held = hold(engine, embedder, threads)
    futures = [threads.submit(embedder.embed_query, f"w{number}", Budget()) for number in range(1, 33)]
    eventually(lambda: queued_queries(embedder) == 32)
    engine.gate.set()
    assert [int(future.result(10).argmax()) for future in futures] == list(range(1, 33))
    held.result(10)
    assert [len(batch) for batch in engine.batches] == [1, 32]
    assert embedder.batch_sizes == {1: 1, 32: 1}


def test_queries_go_ahead_of_documents_that_wait(
    engine: WordEngine, embedder: BatchingEmbedder, threads: ThreadPoolExecutor
) -> None:
    held = hold(engine, embedder, threads)
    documents = threads.submit(embedder.embed_documents, ["w1 w1"] * 500, Budget())
    eventually(lambda: queued_texts(embedder) == 500)
    query = threads.submit(embedder.embed_query, "w2", Budget())
    eventually(lambda: queued_queries(embedder) == 1)
    engine.gate.set()
    query.result(10)
    assert documents.result(10).shape[0] == 500
    held.result(10)
    assert engine.batches[1] == [[START, 2, END]]


def test_a_query_waits_for_at_most_one_batch_of_a_large_ingest(
    engine: WordEngine, embedder: BatchingEmbedder, threads: ThreadPoolExecutor
) -> None:
    engine.gate.clear()
    documents = threads.submit(embedder.embed_documents, ["w1 w1 w1 w1"] * 2_000, Budget())
    assert engine.entered.acquire(timeout=10)
    query = threads.submit(embedder.embed_query, "w2", Budget())
    eventually(lambda: queued_queries(embedder) == 1)
    before = len(engine.batches)
    engine.gate.set()
    query.result(10)
    documents.result(10)
    assert before == 1
    assert engine.batches[before] == [[START, 2, END]]
    assert max(len(batch) for batch in engine.batches) <= 64


def test_documents_get_a_turn_although_queries_never_end(
    engine: WordEngine, embedder: BatchingEmbedder, threads: ThreadPoolExecutor
) -> None:
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            embedder.embed_query("w5 w5", Budget())

    askers = [threads.submit(ask) for _ in range(8)]
    eventually(lambda: len(engine.batches) > MAX_QUERY_RUN)
    assert threads.submit(embedder.embed_documents, ["w1"] * 10, Budget()).result(10).shape[0] == 10
    stop.set()
    for asker in askers:
        asker.result(10)


def test_documents_get_a_turn_after_each_run_of_queries(
    engine: WordEngine, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = BatchingEmbedder(engine, word_model(max_tokens=600))
    monkeypatch.setattr(embedder._schedule, "record", lambda *_: None)  # the speed of 5,000 tokens/s stays
    held = hold(engine, embedder, threads)
    # Each of them is more than half of a batch.
    documents = threads.submit(embedder.embed_documents, ["w1 " * 300] * 3, Budget())
    queries = threads.submit(embedder.embed_queries, ["w2 " * 300] * 40, Budget())
    eventually(lambda: queued_texts(embedder) == 3 and queued_queries(embedder) == 40)
    engine.gate.set()
    for future in (held, queries, documents):
        future.result(10)
    run = [2] * MAX_QUERY_RUN
    assert [batch[0][1] for batch in engine.batches] == [0, *run, 1, *run, 1, *run[: 40 - 2 * MAX_QUERY_RUN], 1]
    embedder.close()


def test_calls_take_turns(engine: WordEngine, embedder: BatchingEmbedder, threads: ThreadPoolExecutor) -> None:
    held = hold(engine, embedder, threads)
    large = threads.submit(embedder.embed_documents, ["w1 w1 w1 w1 w1 w1"] * 1_500, Budget())
    eventually(lambda: queued_texts(embedder) == 1_500)
    small = threads.submit(embedder.embed_documents, ["w2"] * 20, Budget())
    eventually(lambda: queued_texts(embedder) == 1_520)
    engine.gate.set()
    small.result(10)
    large.result(10)
    held.result(10)
    first_small = next(number for number, batch in enumerate(engine.batches) if batch[0][1] == 2)
    assert first_small <= 2


def test_small_documents_of_several_callers_share_a_batch(
    engine: WordEngine, embedder: BatchingEmbedder, threads: ThreadPoolExecutor
) -> None:
    held = hold(engine, embedder, threads)
    futures = [threads.submit(embedder.embed_documents, [f"w{number} w{number}"], Budget()) for number in range(1, 9)]
    eventually(lambda: queued_texts(embedder) == 8)
    assert embedder.waiting == (0, 8)
    long = threads.submit(embedder.embed_documents, ["w9 w9 w9 w9 w9 w9"], Budget())
    eventually(lambda: queued_texts(embedder) == 9)
    engine.gate.set()
    assert [int(future.result(10)[0].argmax()) for future in futures] == list(range(1, 9))
    assert int(long.result(10)[0].argmax()) == 9
    held.result(10)
    assert sorted(len(batch) for batch in engine.batches) == [1, 1, 8]


def test_batches_of_documents_grow_while_nobody_asks(
    engine: WordEngine, embedder: BatchingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder._schedule, "record", lambda *_: None)  # the speed of 5,000 tokens/s stays
    texts = [" ".join(["w1"] * 8)] * 128
    embedder.embed_documents(texts, Budget())
    quiet = {len(batch) for batch in engine.batches}
    engine.batches.clear()
    embedder.embed_query("w2", Budget())
    embedder.embed_documents(texts, Budget())
    asked = {len(batch) for batch in engine.batches if len(batch) > 1}
    assert max(quiet) == 60  # of 10 tokens each: 0.12 s
    assert max(asked) == 15  # 0.03 s


def test_a_batch_that_was_faster_makes_the_next_ones_a_little_larger(
    engine: WordEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = BatchingEmbedder(engine, word_model(max_tokens=200))
    embedder._schedule.record(20_000, 2.0)  # twice the speed that is assumed, of which a fifth counts
    monkeypatch.setattr(embedder._schedule, "record", lambda *_: None)
    embedder.embed_documents(["w1 " * 98] * 20, Budget())
    assert [len(batch) for batch in engine.batches] == [7, 7, 6]  # of 100 tokens each: 0.12 s at 6,000 tokens/s
    embedder.close()


def test_a_slow_machine_still_runs_short_documents_together_while_nobody_asks(
    engine: WordEngine, embedder: BatchingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(100):
        embedder._schedule.record(1, 1.0)
    monkeypatch.setattr(embedder._schedule, "record", lambda *_: None)
    embedder.embed_documents([" ".join(["w1"] * 8)] * 50, Budget())
    assert [len(batch) for batch in engine.batches] == [50]  # of 10 tokens each


@pytest.mark.parametrize(
    ("texts", "sizes"),
    [
        (["w1 " * 8] * 4 + ["w1"], [5]),  # of 10 tokens, and of 3
        (["w1 " * 98] * 8, [5, 3]),  # of 100 tokens: 512 are the most that there are in one batch
    ],
)
def test_queries_of_any_length_run_together_within_the_time_of_a_batch(
    engine: WordEngine,
    threads: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    texts: list[str],
    sizes: list[int],
) -> None:
    embedder = BatchingEmbedder(engine, word_model(max_tokens=200))
    monkeypatch.setattr(embedder._schedule, "record", lambda *_: None)
    held = hold(engine, embedder, threads)
    queries = threads.submit(embedder.embed_queries, texts, Budget())
    eventually(lambda: queued_queries(embedder) == len(texts))
    engine.gate.set()
    assert queries.result(10).argmax(axis=1).tolist() == [1] * len(texts)
    held.result(10)
    assert [len(batch) for batch in engine.batches] == [1, *sizes]
    embedder.close()


def test_neighbours_in_a_batch_have_similar_lengths(engine: WordEngine, embedder: BatchingEmbedder) -> None:
    lengths = [1 + (number * 7) % 8 for number in range(batching.SLICE_TEXTS)]
    vectors = embedder.embed_documents([" ".join(["w1"] * length) for length in lengths], Budget())
    assert vectors.shape[0] == len(lengths)
    padded = sum(len(batch) * max(map(len, batch)) for batch in engine.batches)
    needed = sum(len(row) for batch in engine.batches for row in batch)
    assert padded <= 1.2 * needed
    assert all(min(map(len, batch)) >= 0.85 * max(map(len, batch)) for batch in engine.batches)


def test_texts_are_cut_at_the_limit_of_the_model(engine: WordEngine, embedder: BatchingEmbedder) -> None:
    embedder.embed_documents([" ".join(f"w{number}" for number in range(20))], Budget())
    assert engine.batches == [[[START, *range(8), END]]]


def test_an_error_reaches_only_the_caller_whose_text_caused_it(
    engine: WordEngine, embedder: BatchingEmbedder, threads: ThreadPoolExecutor
) -> None:
    held = hold(engine, embedder, threads)
    texts = ["w1", "w49", "w2", "w3"]
    futures = [threads.submit(embedder.embed_query, text, Budget()) for text in texts]
    eventually(lambda: queued_queries(embedder) == 4)
    engine.gate.set()
    held.result(10)
    with pytest.raises(UnavailableError, match="engine failed") as failure:
        futures[1].result(10)
    assert isinstance(failure.value.__cause__, RuntimeError)
    assert [int(futures[number].result(10).argmax()) for number in (0, 2, 3)] == [1, 2, 3]


def test_after_an_error_the_rest_of_the_call_is_not_computed(engine: WordEngine, embedder: BatchingEmbedder) -> None:
    # The longest goes first, so the poisoned text is in the first batch.
    with pytest.raises(UnavailableError):
        embedder.embed_documents(["w49 w1 w1 w1 w1 w1", *["w1"] * 127], Budget())
    assert embedder.embed_documents(["w4"], Budget()).shape[0] == 1
    assert sum(map(len, engine.batches)) < 128


def test_of_several_errors_of_a_call_the_first_one_is_told() -> None:
    call = Call()
    call.expect([np.full(3, START, np.int64)])
    call.fail(OverloadedError("first"))
    call.fail(UnavailableError("second"))
    with pytest.raises(OverloadedError, match="first"):
        call.wait(Budget(), 1.0)


def test_errors_of_ours_are_passed_on(engine: WordEngine, embedder: BatchingEmbedder) -> None:
    engine.failure = OverloadedError("too much")
    with pytest.raises(OverloadedError):
        embedder.embed_query("w1", Budget())


def test_closing_fails_those_who_wait_and_finishes_what_runs(engine: WordEngine, threads: ThreadPoolExecutor) -> None:
    embedder = BatchingEmbedder(engine, word_model())
    held = hold(engine, embedder, threads)
    query = threads.submit(embedder.embed_query, "w1", Budget())
    documents = threads.submit(embedder.embed_documents, ["w1"] * 300, Budget())
    eventually(lambda: queued_queries(embedder) == 1 and queued_texts(embedder) == 300)
    closing = threads.submit(embedder.close)
    for waiting in (query, documents):
        with pytest.raises(UnavailableError, match="closed"):
            waiting.result(10)
    engine.gate.set()
    closing.result(10)
    assert held.result(10).shape[0] == 1
    assert engine.is_closed
    embedder.close()
    with pytest.raises(UnavailableError, match="closed"):
        embedder.embed_query("w1", Budget())
    with pytest.raises(UnavailableError, match="closed"):
        embedder.embed_documents(["w1"], Budget())
    assert embedder.embed_documents([], Budget()).shape[0] == 0


def test_several_workers_lose_and_mix_nothing(threads: ThreadPoolExecutor) -> None:
    engine = WordEngine(parallelism=3)
    embedder = BatchingEmbedder(engine, word_model())
    texts = [" ".join([f"w{number % 40}"] * (1 + number % 7)) for number in range(1_000)]
    futures = [threads.submit(embedder.embed_documents, texts, Budget()) for _ in range(4)]
    queries = [threads.submit(embedder.embed_query, f"w{number}", Budget()) for number in range(1, 40)]
    for future in futures:
        assert (future.result(20).argmax(axis=1) == np.arange(1_000) % 40).all()
    assert [int(query.result(20).argmax()) for query in queries] == list(range(1, 40))
    embedder.close()


def test_a_question_is_not_delayed_by_the_many_texts_of_another(
    engine: WordEngine, embedder: BatchingEmbedder, threads: ThreadPoolExecutor
) -> None:
    held = hold(engine, embedder, threads)
    many = threads.submit(embedder.embed_documents, ["w1 w1 w1 w1 w1 w1"] * 1_000, Budget(), urgent=True)
    eventually(lambda: queued_queries(embedder) == 1_000)
    question = threads.submit(embedder.embed_query, "w2", Budget())
    eventually(lambda: queued_queries(embedder) == 1_001)
    engine.gate.set()
    question.result(10)
    many.result(10)
    held.result(10)
    first = next(number for number, batch in enumerate(engine.batches) if [START, 2, END] in batch)
    assert first <= 2


def test_workers_share_the_texts_that_somebody_waits_for(threads: ThreadPoolExecutor) -> None:
    engine = WordEngine(parallelism=2)
    embedder = BatchingEmbedder(engine, word_model(max_tokens=60))
    engine.gate.clear()
    texts = [f"w{number} " * 50 for number in range(1, 9)]
    urgent = threads.submit(embedder.embed_documents, texts, Budget(), urgent=True)
    for _ in range(2):  # the second worker begins while the first has not finished
        assert engine.entered.acquire(timeout=10)
    engine.gate.set()
    assert urgent.result(10).argmax(axis=1).tolist() == list(range(1, 9))
    assert max(len(batch) for batch in engine.batches) == 4
    embedder.close()


def test_workers_do_not_share_what_is_too_little(threads: ThreadPoolExecutor) -> None:
    engine = WordEngine(parallelism=2)
    embedder = BatchingEmbedder(engine, word_model())
    held = [hold(engine, embedder, threads) for _ in range(engine.parallelism)]
    few = threads.submit(embedder.embed_queries, ["w1"] * 8, Budget())
    eventually(lambda: queued_queries(embedder) == 8)
    engine.gate.set()
    for future in (*held, few):
        future.result(10)
    assert [len(batch) for batch in engine.batches] == [1, 1, 8]
    embedder.close()


def test_urgent_documents_go_ahead_of_those_that_wait(
    engine: WordEngine, embedder: BatchingEmbedder, threads: ThreadPoolExecutor
) -> None:
    held = hold(engine, embedder, threads)
    ingest = threads.submit(embedder.embed_documents, ["w1 w1 w1 w1 w1 w1"] * 1_000, Budget())
    eventually(lambda: queued_texts(embedder) == 1_000)
    urgent = threads.submit(embedder.embed_documents, ["w2"] * 20, Budget(), urgent=True)
    eventually(lambda: queued_queries(embedder) == 20)
    engine.gate.set()
    urgent.result(10)
    ingest.result(10)
    held.result(10)
    assert engine.batches[1] == [[START, 2, END]] * 20


@pytest.mark.parametrize("kind", ["query", "documents"])
def test_who_waits_for_a_hung_model_ends_with_its_deadline_and_leaves_nothing_behind(
    engine: WordEngine, embedder: BatchingEmbedder, threads: ThreadPoolExecutor, kind: str
) -> None:
    held = hold(engine, embedder, threads)
    embed = {"query": lambda: embedder.embed_query("w1", Budget(0.2))}
    embed["documents"] = lambda: embedder.embed_documents(["w1"] * 500, Budget(0.2))
    started = time.monotonic()
    with pytest.raises(DeadlineError):
        threads.submit(embed[kind]).result(10)
    assert time.monotonic() - started < 3
    assert queued_queries(embedder) == queued_texts(embedder) == 0
    engine.gate.set()
    assert held.result(10).shape[0] == 1
    assert [len(batch) for batch in engine.batches] == [1], "nothing is computed for a caller that has left"


def test_who_runs_on_a_hung_model_ends_too_and_the_model_serves_again_afterwards(
    engine: WordEngine, embedder: BatchingEmbedder, threads: ThreadPoolExecutor
) -> None:
    engine.gate.clear()
    with pytest.raises(DeadlineError):
        threads.submit(embedder.embed_query, "w1", Budget(0.2)).result(10)
    cancelled = Budget()
    documents = threads.submit(embedder.embed_documents, ["w1"] * 500, cancelled)
    eventually(lambda: queued_texts(embedder) == 500)
    cancelled.cancel()
    with pytest.raises(CallCancelledError):
        documents.result(10)
    engine.gate.set()
    assert int(embedder.embed_query("w3", Budget(10)).argmax()) == 3
    assert embedder.is_responsive


def test_a_model_that_hangs_is_noticed_and_refuses_at_once_until_it_answers(
    engine: WordEngine, embedder: BatchingEmbedder, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "HUNG_AFTER_S", 0.3)
    monkeypatch.setattr(batching, "_DOCUMENTS_WAIT_S", 3.0)
    monkeypatch.setattr(batching, "_LOOKS_EVERY_S", 0.05)
    assert embedder.is_responsive
    engine.gate.clear()
    running, waiting = (threads.submit(embedder.embed_query, "w1", Budget()) for _ in range(2))
    documents = threads.submit(embedder.embed_documents, ["w1"], Budget())
    for future in (running, waiting):
        with pytest.raises(UnavailableError, match="has not answered for"):
            future.result(10)
    assert not documents.done(), "an ingest has more patience"
    with pytest.raises(UnavailableError, match="has not answered for"):
        documents.result(10)
    assert not embedder.is_responsive
    monkeypatch.setattr(batching, "_LOOKS_EVERY_S", 60.0)
    started = time.monotonic()
    with pytest.raises(UnavailableError, match="has not answered for"):
        embedder.embed_query("w1", Budget())
    assert time.monotonic() - started < 30, "before it waits, not after the first look"
    engine.gate.set()
    eventually(lambda: embedder.is_responsive)
    assert int(embedder.embed_query("w3", Budget(10)).argmax()) == 3


def test_a_large_batch_of_a_slow_model_may_take_longer(
    engine: WordEngine, embedder: BatchingEmbedder, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "HUNG_AFTER_S", 0.3)
    for _ in range(100):
        embedder._schedule.record(1_000, 1.0)
    engine.gate.clear()
    documents = threads.submit(embedder.embed_documents, ["w1 " * 8] * 50, Budget())  # half a second
    assert engine.entered.acquire(timeout=10)
    time.sleep(1.2)
    assert embedder.is_responsive
    engine.gate.set()
    assert documents.result(10).shape[0] == 50


def two_impatient_workers(monkeypatch: pytest.MonkeyPatch) -> tuple[WordEngine, BatchingEmbedder]:
    """Return an engine of two workers, each of which counts as hung after a second."""
    monkeypatch.setattr(batching, "HUNG_AFTER_S", 1.0)
    monkeypatch.setattr(batching, "_LOOKS_EVERY_S", 0.05)
    engine = WordEngine(parallelism=2)
    return engine, BatchingEmbedder(engine, word_model())


def test_one_hung_worker_fails_its_own_call_and_the_other_worker_serves_the_rest(
    threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, embedder = two_impatient_workers(monkeypatch)
    engine.gate.clear()
    stuck = threads.submit(embedder.embed_query, "w1", Budget())
    assert engine.entered.acquire(timeout=10)
    free, engine.gate = engine.gate, threading.Event()  # the first one stays behind its own gate
    engine.gate.set()
    with pytest.raises(UnavailableError, match="has not answered for"):
        stuck.result(10)
    monkeypatch.setattr(batching, "_LOOKS_EVERY_S", 60.0)
    assert embedder.is_responsive
    assert int(embedder.embed_query("w3", Budget(10)).argmax()) == 3
    engine.gate.clear()
    recent = threads.submit(embedder.embed_query, "w4", Budget())
    assert engine.entered.acquire(timeout=10)
    assert engine.entered.acquire(timeout=10)
    assert embedder.is_responsive, "one of them has only just begun"
    engine.gate.set()
    assert int(recent.result(10).argmax()) == 4
    free.set()
    embedder.close()


def test_all_callers_of_an_inference_that_hangs_are_told(
    threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, embedder = two_impatient_workers(monkeypatch)
    held = [hold(engine, embedder, threads) for _ in range(engine.parallelism)]
    together = [threads.submit(embedder.embed_query, text, Budget()) for text in ("w1", "w2")]
    eventually(lambda: queued_queries(embedder) == 2)
    first, engine.gate = engine.gate, threading.Event()
    first.set()
    for future in held:
        assert future.result(10).shape[0] == 1
    for future in together:
        with pytest.raises(UnavailableError, match="has not answered for"):
            future.result(10)
    engine.gate.set()
    embedder.close()


def test_closing_does_not_wait_for_a_model_that_hangs(
    threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "_CLOSE_WAIT_S", 0.2)
    engine = WordEngine()
    embedder = BatchingEmbedder(engine, word_model())
    held = hold(engine, embedder, threads)
    threads.submit(embedder.close).result(10)
    assert not engine.is_closed, "an engine is not closed below an inference"
    engine.gate.set()
    held.result(10)
