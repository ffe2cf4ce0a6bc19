"""LlamaIndex as its guide ingests: an IngestionPipeline with sentence splitter, embedding and persistent Chroma."""

import time

import chromadb
from job import EQUAL_TOKENS, read_job, tell
from llama_index.core import Document
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import MetadataMode
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from llama_index.vector_stores.chroma import ChromaVectorStore

if __name__ == "__main__":
    job = read_job()
    embedding = HuggingFaceEmbedding(model_name=job.model)
    embedding.get_text_embedding("warm up")
    started = time.perf_counter()
    if job.equal_chunks:
        splitter = SentenceSplitter(chunk_size=EQUAL_TOKENS, chunk_overlap=0, tokenizer=job.count_tokens)
    else:
        splitter = SentenceSplitter()
    collection = chromadb.PersistentClient(path=job.store).get_or_create_collection("bench")
    pipeline = IngestionPipeline(
        transformations=[splitter, embedding], vector_store=ChromaVectorStore(chroma_collection=collection)
    )
    nodes = pipeline.run(documents=[Document(text=text, metadata={"source": source}) for source, text in job.texts()])
    tell(job, started, [node.get_content(MetadataMode.EMBED) for node in nodes])
