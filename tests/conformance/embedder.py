"""The specification of Embedder: one test per promise of the port.

A subject is a subclass, beside a fixture `embedder` that is opened once.
"""

import atexit
import functools
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from groundwire.embedders.factory import open_embedder
from groundwire.embedders.model import ModelTokenizer
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Embedder, Vectors
from groundwire.kernel.errors import CallCancelledError, DeadlineError, InvalidRequestError

TEXTS = (
    "Ownership is a set of rules that govern how a program manages memory.",
    "x",
    "Überraschung: 東京タワー, Ω≈ç√ and 🦊🦊 beside e\u0301 combining marks.",
    "",
    " \n\t ",
    "A closure captures its environment. " * 20,
    'fn main() { println!("{}", vec![1, 2, 3].iter().sum::<i32>()); }',
)
"""Short, long, empty and not ASCII; all within 256 tokens."""


@functools.cache
def model_cache() -> Path:
    """Return a folder for converted models; kept between runs, since entries are keyed by all they depend on."""
    return Path(__file__).parents[2] / ".pytest_cache" / "groundwire-models"


@functools.cache
def opened(url: str) -> Embedder:
    """Return the embedder of a URL, opened once for all tests of this process."""
    embedder = open_embedder(url, cache_dir=model_cache())
    atexit.register(embedder.close)
    return embedder


def cosines(left: Vectors, right: Vectors) -> Vectors:
    """Return the cosine of each pair of unit rows."""
    return np.asarray((left * right).sum(axis=-1))


class EmbedderContract:
    """What every embedder promises."""

    reads_all: ClassVar[bool]
    """Whether text beyond `identity.max_tokens` influences the vector."""

    def test_rows_are_float32_of_the_dimension_and_of_length_one(self, embedder: Embedder) -> None:
        vectors = embedder.embed_documents(TEXTS, Budget())
        assert vectors.dtype == np.float32
        assert vectors.shape == (len(TEXTS), embedder.identity.dimensions)
        assert embedder.identity.normalized
        assert np.abs(np.linalg.norm(vectors, axis=1) - 1.0).max() < 1e-5

    def test_no_texts_give_no_rows(self, embedder: Embedder) -> None:
        vectors = embedder.embed_documents([], Budget())
        assert vectors.shape == (0, embedder.identity.dimensions)
        assert vectors.dtype == np.float32

    def test_rows_are_in_the_order_of_the_texts(self, embedder: Embedder) -> None:
        forward = embedder.embed_documents(TEXTS, Budget())
        backward = embedder.embed_documents(TEXTS[::-1], Budget())
        assert cosines(forward, backward[::-1]).min() > 0.9999
        # Not because all are alike:
        assert cosines(forward[:2], forward[1:3]).max() < 0.9

    def test_a_vector_does_not_depend_on_its_batch(self, embedder: Embedder) -> None:
        alone = np.stack([embedder.embed_documents([text], Budget())[0] for text in TEXTS])
        among_others = embedder.embed_documents([*TEXTS, *("another text of the same batch",) * 150], Budget())[
            : len(TEXTS)
        ]
        assert cosines(alone, among_others).min() > 0.9999

    def test_the_caller_may_change_the_result(self, embedder: Embedder) -> None:
        first = embedder.embed_documents(TEXTS[:2], Budget())
        kept = first.copy()
        first *= 0
        query = embedder.embed_query(TEXTS[0], Budget())
        query *= 0
        assert cosines(embedder.embed_documents(TEXTS[:2], Budget()), kept).min() > 0.9999

    def test_a_query_is_one_vector_beside_its_document(self, embedder: Embedder) -> None:
        query = embedder.embed_query(TEXTS[0], Budget())
        assert query.dtype == np.float32
        assert query.shape == (embedder.identity.dimensions,)
        assert abs(float(np.linalg.norm(query)) - 1.0) < 1e-5
        similarity = embedder.embed_documents(TEXTS, Budget()) @ query
        assert int(similarity.argmax()) == 0

    def test_queries_together_are_the_queries_alone(self, embedder: Embedder) -> None:
        alone = np.stack([embedder.embed_query(text, Budget()) for text in TEXTS])
        together = embedder.embed_queries(TEXTS, Budget())
        assert together.dtype == np.float32
        assert together.shape == alone.shape
        assert cosines(alone, together).min() > 0.9999
        assert embedder.embed_queries([], Budget()).shape == (0, embedder.identity.dimensions)

    def test_texts_that_share_words_are_nearer(self, embedder: Embedder) -> None:
        query = embedder.embed_query("the rules of ownership and memory", Budget())
        near, far = (
            embedder.embed_documents([TEXTS[0], "Bake the bread at 220 degrees for half an hour."], Budget()) @ query
        )
        assert near > far

    def test_many_threads_get_their_own_vectors(self, embedder: Embedder) -> None:
        texts = [f"text number {number} of {number * number}" for number in range(12)]
        expected = embedder.embed_documents(texts, Budget())
        got: dict[int, Vectors] = {}

        def ask(number: int) -> None:
            if number % 2:
                got[number] = embedder.embed_query(texts[number], Budget())
            else:
                got[number] = embedder.embed_documents(texts, Budget())[number]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(got) == 12
        assert cosines(np.stack([got[number] for number in range(12)]), expected).min() > 0.9999

    @pytest.mark.requirement("T32")
    def test_text_beyond_the_limit_counts_as_the_identity_says(self, embedder: Embedder) -> None:
        beginning = "memory safety without a garbage collector " * (embedder.identity.max_tokens // 6 + 1)
        if len(beginning) > 100_000:
            beginning = beginning[:4_000]
        ending = "sourdough bread rises overnight in a warm kitchen " * 60
        plain, longer = embedder.embed_documents([beginning, beginning + ending], Budget())
        assert embedder.identity.provider.endswith("+windows") <= self.reads_all
        if self.reads_all:
            assert cosines(plain, longer) < 0.98
        else:
            assert cosines(plain, longer) > 0.9999

    def test_a_spent_or_cancelled_budget_ends_every_call(self, embedder: Embedder) -> None:
        cancelled = Budget()
        cancelled.cancel()
        for budget, error in ((Budget(0), DeadlineError), (cancelled, CallCancelledError)):
            with pytest.raises(error):
                embedder.embed_documents(TEXTS, budget)
            with pytest.raises(error):
                embedder.embed_query(TEXTS[0], budget)
            with pytest.raises(error):
                embedder.embed_queries(TEXTS, budget)
        assert embedder.embed_query(TEXTS[0], Budget(60)).shape == (embedder.identity.dimensions,)

    def test_a_call_ends_soon_after_it_was_cancelled(self, embedder: Embedder) -> None:
        budget = Budget()
        with ThreadPoolExecutor(1) as pool:
            # Work for many seconds on every embedder.
            call = pool.submit(embedder.embed_documents, [TEXTS[5]] * 200_000, budget)
            time.sleep(0.2)
            budget.cancel()
            with pytest.raises(CallCancelledError):
                call.result(60)
        assert embedder.embed_query(TEXTS[0], Budget(60)).shape == (embedder.identity.dimensions,)
        assert embedder.is_responsive

    def test_urgent_documents_are_documents(self, embedder: Embedder) -> None:
        urgent = embedder.embed_documents(TEXTS, Budget(), urgent=True)
        assert cosines(urgent, embedder.embed_documents(TEXTS, Budget())).min() > 0.9999

    @pytest.mark.parametrize("text", ["\ud800", "fine \udfff not"])
    def test_lone_surrogates_are_refused(self, embedder: Embedder, text: str) -> None:
        with pytest.raises(InvalidRequestError, match="surrogates"):
            embedder.embed_documents(["good", text], Budget())
        with pytest.raises(InvalidRequestError, match="surrogates"):
            embedder.embed_query(text, Budget())
        with pytest.raises(InvalidRequestError, match="surrogates"):
            embedder.tokenizer.count(text)

    def test_the_identity_is_complete(self, embedder: Embedder) -> None:
        identity = embedder.identity
        assert identity == embedder.identity
        assert identity.provider
        assert identity.model_name
        assert identity.revision
        assert identity.dimensions == len(embedder.embed_query("x", Budget()))
        assert identity.max_tokens > 0
        assert len(bytes.fromhex(identity.probe_digest)) == 32

    @pytest.mark.requirement("T33")
    @pytest.mark.parametrize("text", TEXTS)
    def test_tokens_are_counted_and_lie_in_the_text(self, embedder: Embedder, text: str) -> None:
        offsets = embedder.tokenizer.offsets(text)
        assert embedder.tokenizer.count(text) == len(offsets)
        assert all(0 <= start <= end <= len(text) for start, end in offsets)
        assert offsets == sorted(offsets)
        covered = {position for start, end in offsets for position in range(start, end)}
        missed = [character for position, character in enumerate(text) if position not in covered]
        assert not any(character.isascii() and character.isalnum() for character in missed)

    def test_counts_are_not_cut_at_the_limit(self, embedder: Embedder) -> None:
        assert embedder.tokenizer.count("word " * 3_000) == 3_000

    def test_the_tokenizer_can_be_built_again_elsewhere(self, embedder: Embedder) -> None:
        definition = pickle.loads(pickle.dumps(embedder.tokenizer.definition))  # noqa: S301 - our own
        again = ModelTokenizer(definition)
        assert again.name == embedder.tokenizer.name
        assert [again.offsets(text) for text in TEXTS] == [embedder.tokenizer.offsets(text) for text in TEXTS]
