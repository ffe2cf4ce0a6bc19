"""Full-text search and indexing: the catalog beside one FTS5 table of the same chunks.

    python -m benchmarks.lexical [--chunks 133,10000,100000] [--docs FOLDER] [--per-document 10] [--json FILE]

Both are asked in turns for the best 50 chunks with one to eight words: common ones (in more than a quarter of the
chunks), middling ones (more than a hundredth) and rare ones, no query twice. The table has the tokenizer, the weights
and the row ids that a catalog of one collection would give it. Times are medians; a ratio below 1 means that the
catalog is faster. Texts are the files below the folder in pieces of 900 characters; beyond what there is, halves of
two pieces are put together.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine

from groundwire.catalog.collections import Collections
from groundwire.catalog.database import Database
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import GenerationDraft
from groundwire.catalog.search_view import SearchViews
from groundwire.catalog.sqlite import reading_engine, writing_engine
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import PROFILES, Collection, ProfileName
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.spans import OffsetMap

PIECE = 900
SEED = 20260101
QUERIES = 15
BANDS = {"common": (0.25, 1.0), "middling": (0.01, 0.25), "rare": (0.0, 0.01)}
LENGTHS = (1, 2, 4, 8)
_SEARCH = """
    SELECT json_group_array(key), json_group_array(score) FROM (
        SELECT rowid AS key, -bm25(t, 2.0, 4.0) AS score FROM t
        WHERE t MATCH ? AND rowid BETWEEN 1 AND 1099511627775 ORDER BY score DESC, abs(rowid) LIMIT 50)
"""


def main() -> None:
    options = _parser().parse_args()
    pieces = _pieces(options.docs)
    report = [_measure(pieces, int(count), options.per_document) for count in options.chunks.split(",")]
    if options.json:
        options.json.write_text(json.dumps(report, indent=2))


def _pieces(folder: Path) -> list[str]:
    files = sorted(path for path in folder.rglob("*") if path.suffix in {".md", ".txt", ".rst", ".html", ".jsonl"})
    texts = [path.read_text("utf-8", errors="ignore") for path in files]
    pieces = [text[start : start + PIECE].strip() for text in texts for start in range(0, len(text), PIECE)]
    random.Random(SEED).shuffle(pieces)
    return [piece for piece in pieces if len(piece) > PIECE // 2]


def _measure(pieces: Sequence[str], count: int, per_document: int) -> dict[str, Any]:
    chance = random.Random(SEED)
    texts = list(pieces[:count])
    while len(texts) < count:
        texts.append((chance.choice(pieces)[: PIECE // 2] + chance.choice(pieces)[PIECE // 2 :]).strip())
    with tempfile.TemporaryDirectory(prefix="groundwire-lexical-") as scratch:
        folder = Path(scratch)
        table: Any = writing_engine(folder / "table.db").raw_connection().driver_connection
        database = Database.open(f"sqlite:{folder / 'catalog.db'}")
        collection = Collections(database).create(_collection())
        seconds = {"catalog": 0.0, "fts5": 0.0}
        table.execute("CREATE VIRTUAL TABLE t USING fts5 (c, h, tokenize = 'porter unicode61 remove_diacritics 2')")
        table.execute("INSERT INTO t (t, rank) VALUES ('secure-delete', 1)")
        documents = Documents(database)
        for at in range(0, count, per_document):
            part = texts[at : at + per_document]
            draft = _draft(part, f"{at}.md")
            begun = time.perf_counter()
            documents.publish(documents.begin(collection, [draft])[0])
            seconds["catalog"] += time.perf_counter() - begun
            begun = time.perf_counter()
            table.execute("BEGIN IMMEDIATE")
            rows = ((at + number, text, "heading") for number, text in enumerate(part, start=1))
            table.executemany("INSERT INTO t (rowid, c, h) VALUES (?, ?, ?)", rows)
            table.execute("COMMIT")
            seconds["fts5"] += time.perf_counter() - begun
        sizes = _sizes(database, table)
        report: dict[str, Any] = {"chunks": count, "seconds": seconds, "bytes": sizes, "searches": []}
        added = ", ".join(f"{name} {value / count * 1e6:.0f}" for name, value in seconds.items())
        print(f"{count} chunks: written in us/chunk: {added}; index in bytes/chunk: {sizes}", flush=True)
        reading = reading_engine(folder / "table.db")
        _compare(SearchViews(database), reading, table, count, report)
        reading.dispose()
        database.close()
        table.close()
    return report


def _compare(views: SearchViews, reading: Engine, table: Any, count: int, report: dict[str, Any]) -> None:
    table.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.v USING fts5vocab (main, t, row)")
    shares = [(word, docs / count) for word, docs in table.execute("SELECT term, doc FROM temp.v") if word.isalnum()]
    for band, (least, most) in BANDS.items():
        words = [word for word, share in shares if max(least, 2 / count) < share <= most]
        for length in LENGTHS:
            if len(words) < length:
                continue
            chance = random.Random(SEED)
            queries = [chance.sample(words, length) for _ in range(QUERIES)]
            view = views.open("default", "docs")
            ours, theirs = partial(view.lexical, phrases=[], limit=50), partial(_ask, reading)
            times = [(_time(ours, query), _time(theirs, query)) for query in queries]
            mine, other = (statistics.median(column) * 1e6 for column in zip(*times, strict=True))
            report["searches"].append({"band": band, "words": length, "catalog_us": mine, "fts5_us": other})
            print(
                f"  {band:9}{length} words: {mine:9.0f} us, fts5 {other:9.0f} us, ratio {mine / other:.2f}", flush=True
            )


def _ask(reading: Engine, query: Sequence[str]) -> object:
    """Read as the catalog reads: with a pooled connection, and the position of the collection first of all."""
    with reading.connect() as connection, connection.begin():
        connection.exec_driver_sql("SELECT 1, 2, 3").one()
        quoted = " OR ".join(f'"{word}"' for word in query)
        keys, scores = connection.exec_driver_sql(_SEARCH, (quoted,)).one()
    return np.array(json.loads(keys), dtype=np.int64), np.array(json.loads(scores))


def _time(work: Callable[[list[str]], object], query: list[str]) -> float:
    begun = time.perf_counter()
    work(query)
    return time.perf_counter() - begun


def _sizes(database: Database, table: Any) -> dict[str, int]:
    """Return bytes of rows for each chunk, without what pages add to them, and those of the whole file."""
    postings = "SELECT sum(length(CAST(word AS BLOB)) + length(postings) + length(positions)) FROM lexical_postings"
    with database.read() as connection:
        ours, members, count, pages = (
            connection.exec_driver_sql(statement).scalar_one()
            for statement in (
                postings,
                "SELECT sum(length(members)) FROM lexical_segments",
                "SELECT count(*) FROM chunks",
                "PRAGMA page_count",
            )
        )
    (data,) = table.execute("SELECT sum(length(block)) FROM t_data").fetchone()
    (sizes,) = table.execute("SELECT sum(length(sz)) FROM t_docsize").fetchone()
    whole = pages * 4096 // count
    return {"catalog": (ours + members) // count, "fts5": (data + sizes) // count, "whole catalog": whole}


def _collection() -> Collection:
    identity = EmbeddingIdentity("benchmark", "none", "1", 4, 256, normalized=True, probe_digest="0" * 64)
    profile, now = ProfileName.DOCUMENTS, datetime.now(UTC)
    return Collection("docs", "default", "docs", "gw-docs", profile, identity, PROFILES[profile], now, now)


def _draft(texts: Sequence[str], source: str) -> GenerationDraft:
    text = "\n".join(texts)
    offsets, start, chunks = OffsetMap(text), 0, []
    for number, part in enumerate(texts):
        span = offsets.span(start, start + len(part))
        chunks.append(
            Chunk(
                sequence_num=number,
                span=span,
                content=part,
                token_count=len(part) // 4,
                chapter="chapter",
                section=None,
                hierarchy_path=("heading",),
                level=1,
            )
        )
        start += len(part) + 1
    return GenerationDraft(None, source, DocumentFormat.MARKDOWN, "0" * 64, DocumentFields(), text, chunks, 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", default="133,10000,100000")
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--per-document", type=int, default=10)
    parser.add_argument("--json", type=Path)
    return parser


if __name__ == "__main__":
    main()
