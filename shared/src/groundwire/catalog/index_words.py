"""The words of a text exactly as the full-text index cuts it."""

import threading
from collections.abc import Sequence

import pysqlite3


class IndexWords:
    """Cuts texts with SQLite's own `unicode61` tokenizer, in a private database in memory; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection = pysqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.execute(
            "CREATE VIRTUAL TABLE given USING fts5 (words, tokenize = 'unicode61 remove_diacritics 2')"
        )
        self._connection.execute("CREATE VIRTUAL TABLE found USING fts5vocab (given, instance)")

    def of(self, text: str) -> list[str]:
        """Return the words of a text in order, repeated as often as they occur, folded but not stemmed."""
        return self.of_each([text])[0]

    def of_each(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the words of each text."""
        words: list[list[str]] = [[] for _ in texts]
        with self._lock:
            self._connection.executemany("INSERT INTO given (rowid, words) VALUES (?, ?)", enumerate(texts))
            for row, word in self._connection.execute("SELECT doc, term FROM found ORDER BY doc, offset"):
                words[row].append(word)
            self._connection.execute("DELETE FROM given")
        return words
