"""The generator that quotes: what a question asks for, which sentences answer it, and whether they do."""
