"""Haystack as its guide ingests: a pipeline of splitter, document embedder and writer into persistent Chroma."""

import time

from haystack import Document, Pipeline
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.writers import DocumentWriter
from haystack_integrations.components.embedders.sentence_transformers import SentenceTransformersDocumentEmbedder
from haystack_integrations.document_stores.chroma import ChromaDocumentStore
from job import EQUAL_TOKENS, read_job, tell

WORDS_PER_TOKEN = 0.62
"""Of these corpora; the splitter counts words."""

if __name__ == "__main__":
    job = read_job()
    embedder = SentenceTransformersDocumentEmbedder(model=job.model, progress_bar=False)
    embedder.warm_up()
    embedder.run([Document(content="warm up")])
    started = time.perf_counter()
    words = {"split_length": int(EQUAL_TOKENS * WORDS_PER_TOKEN)} if job.equal_chunks else {}
    store = ChromaDocumentStore(collection_name="bench", persist_path=job.store)
    pipeline = Pipeline()
    pipeline.add_component("splitter", DocumentSplitter(**words))
    pipeline.add_component("embedder", embedder)
    pipeline.add_component("writer", DocumentWriter(store))
    pipeline.connect("splitter", "embedder")
    pipeline.connect("embedder", "writer")
    documents = [Document(content=text, meta={"source": source}) for source, text in job.texts()]
    done = pipeline.run({"splitter": {"documents": documents}}, include_outputs_from={"splitter"})
    tell(job, started, [document.content for document in done["splitter"]["documents"]])
