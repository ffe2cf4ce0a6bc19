"""The words of a text as the full-text index counts them: folded, without diacritics, reduced to their Porter stems.

Scripts without spaces are cut into pairs of characters, and words with a sign such as C++ are words of their own
(`groundwire.kernel.words`).
"""

import re
import threading
from collections.abc import Collection, Sequence
from functools import cache
from itertools import chain, islice

import pysqlite3

from groundwire.kernel.words import base_form, is_accent, is_pair, signed_words, split_words

WORD_RULES = 5
"""Raise it with every change of what a text is cut into: indexes that were written by other rules are renewed."""
RULES_COUNTER = "word_rules"
"""Counter of a catalog: by which rules all its indexes were written; absent until those of 0.1.0 are renewed."""
# Everything else ends a word in every language, so that each run can be split by itself, whatever surrounds it.
_RUN = re.compile("[0-9A-Za-z\u0080-\U0010ffff]+")
MOST_WORDS = 65_535
"""More than nearly every text of a chunk has; ligatures of scripts without spaces are more words than characters."""
_REMEMBERED_RUNS = 50_000
# A longer run is hardly ever a word, and hardly ever recurs.
_REMEMBERED_CHARS = 40


class IndexWords:
    """Cuts texts with the tokenizers `porter` and `unicode61` of a private SQLite in memory; thread-safe.

    The index and the queries of every catalog go through here, whatever its database: the same words, so the same
    order. Cutting is asked of SQLite once for each run of letters; a text costs about what looking them up costs.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}
        # One for each thread, so that no search waits for the seconds that splitting a large document takes.
        self._of_thread = threading.local()

    def indexed(self, texts: Sequence[str]) -> list[list[str]]:
        """Return what the index has of each text: its words; behind them, so that phrases stay, those with signs.

        They are the first `MOST_WORDS`.
        """
        pairs = zip(texts, self.of_each(texts), strict=True)
        return [(words + signed_words(text))[:MOST_WORDS] for text, words in pairs]

    def sought(self, terms: Sequence[str]) -> list[list[str]]:
        """Return for each term the words that have to stand side by side; one, if it is a word with a sign."""
        signed = [words if (words := signed_words(term)) == [term.casefold()] else None for term in terms]
        return [with_sign or words for with_sign, words in zip(signed, self.of_each(terms), strict=True)]

    def of_each(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the words of each text in order, as often as they occur, but for those with signs."""
        # Most lookups are for a single run of letters.
        runs = [[text] if text.isascii() and text.isalnum() else split_words(text, _RUN) for text in texts]
        unique = set(chain.from_iterable(runs))
        known = self._known
        words = {run: known[run] for run in unique if run in known}
        if len(words) < len(unique):
            unknown = [run for run in unique if run not in words]
            pairs = {run: (run,) for run in unknown if is_pair(run)}
            new = self._cut([run for run in unknown if run not in pairs])
            words |= new | pairs
            # Other threads may add entries at the same time, which is harmless: all add the same facts.
            if len(known) + len(new) > _REMEMBERED_RUNS:
                # Replaced instead of cleared, because other threads may be reading the old one.
                self._known = known = {}
            short = ((run, cut) for run, cut in new.items() if len(run) <= _REMEMBERED_CHARS)
            known.update(islice(short, _REMEMBERED_RUNS))
        return [[word for run in of_text for word in words[run]] for of_text in runs]

    def _cut(self, runs: Collection[str]) -> dict[str, tuple[str, ...]]:
        words: list[list[str]] = [[] for _ in runs]
        connection = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = pysqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            # FTS5 takes the first 32,768 bytes of a word, which may end inside a character.
            connection.text_factory = _whole_characters
            connection.execute(
                "CREATE VIRTUAL TABLE given USING fts5 (words, tokenize = 'porter unicode61 remove_diacritics 2')"
            )
            connection.execute("CREATE VIRTUAL TABLE found USING fts5vocab (given, instance)")
            self._of_thread.connection = connection
        # Irregular forms before Porter, whose stem of "founded" is "found", the past of "find". Folded as queries see
        # them: Unicode makes ß ss, where SQLite folds one letter to one. What is no letter or digit becomes a space,
        # because SQLite takes every sign that is younger than its tables for a letter.
        folded = (
            run if run.isascii() else "".join(each if each.isalnum() or is_accent(each) else " " for each in run)
            for run in map(base_form, map(str.casefold, runs))
        )
        # Rolled back at the end, which empties the table for the next call without deleting rows.
        connection.execute("BEGIN")
        try:
            connection.executemany("INSERT INTO given (rowid, words) VALUES (?, ?)", enumerate(folded))
            for row, word in connection.execute("SELECT doc, term FROM found ORDER BY doc, offset"):
                words[row].append(word)
        finally:
            connection.execute("ROLLBACK")
        return {run: tuple(cut) for run, cut in zip(runs, words, strict=True)}


def _whole_characters(text: bytes) -> str:
    return text.decode("utf-8", "ignore")


@cache
def index_words() -> IndexWords:
    return IndexWords()
