"""The truth: documents, generations, texts, chunks, sessions and their bookkeeping in one SQL database."""
