"""LangChain's retriever over persistent Chroma, both at their defaults."""

from langchain_chroma import Chroma
from langchain_huggingface import HuggingFaceEmbeddings
from search_job import answer_questions, read_search_job

if __name__ == "__main__":
    job = read_search_job()
    embeddings = HuggingFaceEmbeddings(model_name=job.model)
    store = Chroma(collection_name="bench", embedding_function=embeddings, persist_directory=job.store)
    written = 0
    for part in job.batches():
        ids = [str(written + row) for row in range(len(part.texts))]
        store._collection.add(  # noqa: SLF001 - the vectors are ready, which its own call does not take
            ids=ids, embeddings=part.vectors, documents=part.texts, metadatas=part.fields
        )
        written += len(ids)
    answer_questions(lambda query, limit: store.as_retriever(search_kwargs={"k": limit}).invoke(query))
