"""Writes documents until it is killed, and says on standard output what it was told is done.

Every line is printed after the call that it speaks of has returned. Run with the path of a catalog file and the
first number.
"""

import sys
from pathlib import Path

from tests.integration.catalog.drafts import TENANT, Catalog, make_collection, make_draft, open_catalog


def main(path: Path, number: int) -> None:
    catalog = open_catalog(path)
    catalog.collections.create(make_collection())
    print("ready", flush=True)  # noqa: T201 - what it is for
    while True:
        _step(catalog, number)
        number += 1


def _step(catalog: Catalog, number: int) -> None:
    """Write a document of five chunks; replace every second and delete every fifth."""
    docs = catalog.collections.get(TENANT, "docs")
    source = f"{number}.md"
    document, _ = catalog.put(docs, make_draft(*(f"word{number} first {part}" for part in range(5)), source=source))
    print("published", source, 1, flush=True)  # noqa: T201 - what it is for
    if number % 2:
        draft = make_draft(
            *(f"word{number} second {part}" for part in range(4)),
            source=source,
            document_id=document.document_id,
            expected=1,
        )
        catalog.put(docs, draft)
        print("published", source, 2, flush=True)  # noqa: T201 - what it is for
    if number % 5 == 0:
        catalog.documents.delete(TENANT, "docs", document.document_id)
        print("deleted", source, 0, flush=True)  # noqa: T201 - what it is for


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
