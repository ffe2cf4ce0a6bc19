"""LlamaIndex's retriever over persistent Chroma, both at their defaults."""

import chromadb
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from llama_index.vector_stores.chroma import ChromaVectorStore
from search_job import answer_questions, read_search_job

if __name__ == "__main__":
    job = read_search_job()
    embedding = HuggingFaceEmbedding(model_name=job.model)
    store = ChromaVectorStore(
        chroma_collection=chromadb.PersistentClient(path=job.store).get_or_create_collection("bench")
    )
    for part in job.batches():
        rows = zip(part.texts, part.fields, part.vectors, strict=True)
        store.add([TextNode(text=text, metadata=fields, embedding=vector) for text, fields, vector in rows])
    index = VectorStoreIndex.from_vector_store(store, embed_model=embedding)
    answer_questions(lambda query, limit: index.as_retriever(similarity_top_k=limit).retrieve(query))
