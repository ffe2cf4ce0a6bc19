"""The files that benchmarks/ingest.py ingests."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDERS = {"rust_book": "rust_book/src", "peps": "peps", "chunking_evaluation": "chunking_evaluation/corpora"}
"""Folders of documents, of 16 kB on average."""

SMALL = {"squad": "squad/dev-v1.1.json"}
"""Files with paragraphs, of which each becomes a document of about 150 tokens."""

SUFFIXES = {".md", ".rst", ".txt"}


def corpus(data: Path, names: Sequence[str], limit: int, scratch: Path) -> list[Path]:
    """Return the files of some corpora, at most `limit` of each if it is not 0; made ones are put into `scratch`."""
    files: list[Path] = []
    for name in names:
        if name in SMALL:
            found = _paragraphs(data / SMALL[name], scratch / name, limit)
        elif name in FOLDERS:
            found = sorted(path for path in (data / FOLDERS[name]).rglob("*") if _is_document(path))
        else:
            sys.exit(f"unknown corpus {name}; known are {', '.join([*FOLDERS, *SMALL])}")
        files += found[: limit or None]
    return files or sys.exit(f"no files below {data}")


def _is_document(path: Path) -> bool:
    return path.suffix in SUFFIXES and path.stat().st_size > 0


def _paragraphs(source: Path, folder: Path, limit: int) -> list[Path]:
    articles = json.loads(source.read_text(encoding="utf-8"))["data"]
    texts = [(article["title"], each["context"]) for article in articles for each in article["paragraphs"]]
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, (title, text) in enumerate(texts[: limit or None]):
        path = folder / f"{number:05}-{title.replace('/', '_')}.txt"
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths
