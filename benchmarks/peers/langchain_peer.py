"""LangChain as its tutorial ingests: recursive splitter, Hugging Face embeddings, persistent Chroma."""

import time

from job import EQUAL_TOKENS, read_job, tell
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_huggingface import HuggingFaceEmbeddings
from langchain_text_splitters import RecursiveCharacterTextSplitter

if __name__ == "__main__":
    job = read_job()
    embeddings = HuggingFaceEmbeddings(model_name=job.model)
    embeddings.embed_documents(["warm up"])
    started = time.perf_counter()
    if job.equal_chunks:
        tokenizer = embeddings._client.tokenizer  # noqa: SLF001 - the model's own
        splitter = RecursiveCharacterTextSplitter.from_huggingface_tokenizer(
            tokenizer, chunk_size=EQUAL_TOKENS, chunk_overlap=0
        )
    else:
        splitter = RecursiveCharacterTextSplitter()
    documents = [Document(text, metadata={"source": source}) for source, text in job.texts()]
    splits = splitter.split_documents(documents)
    Chroma.from_documents(splits, embeddings, collection_name="bench", persist_directory=job.store)
    tell(job, started, [split.page_content for split in splits])
