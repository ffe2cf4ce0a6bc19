"""Haystack's retrieving pipeline over persistent Chroma, both at their defaults."""

from haystack import Document, Pipeline
from haystack_integrations.components.embedders.sentence_transformers import SentenceTransformersTextEmbedder
from haystack_integrations.components.retrievers.chroma import ChromaEmbeddingRetriever
from haystack_integrations.document_stores.chroma import ChromaDocumentStore
from search_job import answer_questions, read_search_job

if __name__ == "__main__":
    job = read_search_job()
    store = ChromaDocumentStore(collection_name="bench", persist_path=job.store)
    for part in job.batches():
        rows = zip(part.texts, part.fields, part.vectors, strict=True)
        store.write_documents([Document(content=text, meta=fields, embedding=vector) for text, fields, vector in rows])
    pipeline = Pipeline()
    pipeline.add_component("embedder", SentenceTransformersTextEmbedder(model=job.model, progress_bar=False))
    pipeline.add_component("retriever", ChromaEmbeddingRetriever(document_store=store))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    pipeline.warm_up()
    answer_questions(lambda query, limit: pipeline.run({"embedder": {"text": query}, "retriever": {"top_k": limit}}))
