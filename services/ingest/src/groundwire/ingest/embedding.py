"""Vectors of chunks: known ones from the catalog, the others from the model, each text once."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

import numpy as np

from groundwire.catalog.vectors import NewVectors, VectorCache
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import LEAD_CHARS, Chunk, embedding_text
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Embedder, Vectors
from groundwire.kernel.errors import EmbeddingMismatchError
from groundwire.kernel.vectors import unit_rows

_LOOK_UP_BATCH = 1000
# Bounds the texts in memory; progress is reported after each batch.
_MISSING_PER_BATCH = 256


@dataclass(frozen=True, slots=True)
class EmbeddedChunks:
    """Vectors in the order of the chunks, float32, shape (n, d), rows L2-normalised.

    `embedded` texts went through the model; `beyond_model` chunks are longer than what it reads. `unstored` are the
    vectors among them that the catalog does not have yet, if any.
    """

    vectors: Vectors
    embedded: int
    beyond_model: int
    unstored: NewVectors | None = None


@dataclass(frozen=True, slots=True)
class ChunkEmbedder:
    """Embeds each text that the catalog does not know, once; keeps the vectors of every batch as soon as it is made.

    `tokens_per_batch` bounds the work between two checks of the budget, and what is embedded again after a crash.
    """

    cache: VectorCache
    embedder: Embedder
    tokens_per_batch: int

    def embed(
        self,
        chunks: Sequence[Chunk],
        budget: Budget,
        report: Callable[[int], None],
        stored: Container[str] | None = None,
    ) -> EmbeddedChunks:
        """Return one vector a chunk, in order; `report` gets the number of chunks that have theirs, rising.

        Only vectors with a hash in `stored` are looked up, if it is given; others are made even if another call has
        stored them meanwhile.

        The vectors of the last batch are left to a transaction that the caller makes anyway: of a small document that
        is all there is, and one transaction less is a third of its flushes to disk. The chunks are in the catalog
        already, which protects the stored vectors from the sweep.

        Raises:
            UnavailableError: the model does not answer.
        """
        identity_digest = self.embedder.identity.digest
        hashes, tokens = [chunk.embedding_hash for chunk in chunks], self.token_counts(chunks)
        vectors: dict[str, Vectors] = {}
        known = hashes if stored is None else [name for name in hashes if name in stored]
        for start in range(0, len(known), _LOOK_UP_BATCH):
            vectors |= self.cache.get(identity_digest, known[start : start + _LOOK_UP_BATCH])
        # Chunks of equal texts share a hash: the text is embedded once, and all of them count as done then.
        missing: dict[str, list[int]] = {}
        for row, name in enumerate(hashes):
            if name not in vectors:
                missing.setdefault(name, []).append(row)
        done = len(chunks) - sum(map(len, missing.values()))
        report(done)
        unstored: NewVectors | None = None
        batches: list[list[str]] = []
        # Full from the start, so that the first text opens a batch.
        size = self.tokens_per_batch
        for name, rows in missing.items():
            if size >= self.tokens_per_batch:
                batches.append([])
                size = 0
            batches[-1].append(name)
            # At least one, or texts without tokens would make a batch without end.
            size += max(1, tokens[rows[0]])
        for batch in batches:
            budget.check()
            texts = [chunks[missing[name][0]].embedding_text for name in batch]
            # Stores are promised length 1, whatever the model returns.
            made = unit_rows(self.embedder.embed_documents(texts, budget))
            unstored = NewVectors(identity_digest, batch, made)
            if batch is not batches[-1]:  # a crash must not cost what took minutes to compute
                self._store(unstored)
            vectors.update(zip(batch, made, strict=True))
            done += sum(len(missing[name]) for name in batch)
            report(done)
        stacked = np.stack([vectors[name] for name in hashes])
        return EmbeddedChunks(stacked, len(missing), self.beyond_model(tokens), unstored)

    def embed_missing(
        self,
        collection: Collection,
        budget: Budget,
        report: Callable[[int, int], None] = lambda _done, _total: None,
        document_ids: Sequence[str] | None = None,
    ) -> int:
        """Make the vectors that chunks of a collection lack, or of some documents; return how many texts were embedded.

        Every batch is stored as soon as it is made, so an interrupted run resumes where it stopped. `report` gets how
        many chunks have got their vector, and of how many. `collection.identity` is the one of the embedder.

        Raises:
            UnavailableError: the model does not answer.
        """
        embedded = done = 0
        # Of a few documents there is nearly never anything to count.
        total = self.cache.count_missing(collection) if document_ids is None else 0
        report(0, total)
        while chunks := self.cache.missing(collection, _MISSING_PER_BATCH, document_ids):
            budget.check()
            made = self.embed(chunks, budget, lambda _: None)
            if made.unstored is not None:
                self._store(made.unstored)
            embedded, done = embedded + made.embedded, done + len(chunks)
            report(done, max(done, total))
        return embedded

    def stored_times(self, collection: Collection, chunks: Sequence[Chunk]) -> dict[str, int | None]:
        """Return when the stored vectors of the texts were made, None for texts that the collection does not have."""
        hashes, stored = [chunk.embedding_hash for chunk in chunks], dict[str, int | None]()
        for start in range(0, len(hashes), _LOOK_UP_BATCH):
            stored |= self.cache.times(collection, hashes[start : start + _LOOK_UP_BATCH])
        return stored

    def beyond_model(self, tokens: Sequence[int]) -> int:
        """Return how many texts of so many tokens are longer than what the model reads."""
        identity = self.embedder.identity
        if identity.provider.endswith("+windows"):
            return 0  # such a model reads long texts in windows
        return sum(each > identity.max_tokens for each in tokens)

    def token_counts(self, chunks: Sequence[Chunk]) -> list[int]:
        """Return the tokens of each embedded text; the headings of a section are counted once."""
        # Most chunks of a document share theirs, and counting is the slow part.
        headings = {chunk.headings: 0 for chunk in chunks}
        for path in headings:
            headings[path] = self.embedder.tokenizer.count(embedding_text(path, ""))
        counts = []
        for chunk in chunks:
            own = chunk.token_count
            if chunk.upper:  # only its beginning is embedded: an estimate by its share of the characters
                own = own * LEAD_CHARS // max(LEAD_CHARS, len(chunk.content))
            counts.append(headings[chunk.headings] + own)
        return counts

    def refuse_other_model(self, collection: Collection) -> None:
        """Raise EmbeddingMismatchError when the vectors of a collection are another model's."""
        own = self.embedder.identity
        if collection.identity != own:
            expected, got = collection.identity.label, own.label
            models = f"was embedded by {expected}, this server has {got}"
            message = f"collection {collection.name!r} {models}; `groundwire reembed` or Reembed moves it to this model"
            raise EmbeddingMismatchError(message, expected=expected, got=got)

    def _store(self, new: NewVectors) -> None:
        self.cache.put(new.identity_digest, new.embedding_hashes, new.vectors)


def new_texts(chunks: Sequence[Chunk], known: Container[str]) -> dict[str, int]:
    """Return the texts that are not among those with the `known` hashes: a row of each by its embedding hash.

    Responses count these texts. How many texts the model really reads depends on what other
    collections hold, which is nobody's business. Texts with a vector of the caller are left out.
    """
    names = ((row, chunk.embedding_hash) for row, chunk in enumerate(chunks) if chunk.given_embedding_hash is None)
    return {name: row for row, name in names if name not in known}
