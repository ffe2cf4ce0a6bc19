"""Checks every chunk of a folder against the bytes of its file: `text[start:end] == content` in both units.

    python -m benchmarks.exactness --docs FOLDER [--profile book] [--embedder hashing:64]

Uses a server process of its own with a temporary data folder and asks it over gRPC. Exits with 1 if a chunk differs.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.served import GROUNDWIRE, server
from groundwire.api.common.v1 import document_pb2
from groundwire.client import GroundwireClient
from groundwire.client.contract import Contract
from groundwire.client.transport import all_items

COLLECTION = "exactness"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--profile", default="documents")
    parser.add_argument("--embedder", default="hashing:64")
    options = parser.parse_args()
    with server(["--embedder", options.embedder]) as address:
        command = [*GROUNDWIRE, "ingest", str(options.docs), "-c", COLLECTION, "--profile", options.profile]
        subprocess.run([*command, "--address", address], check=False)
        return check(address, options.docs)


def check(address: str, folder: Path) -> int:
    chunks, wrong, texts = 0, 0, 0
    with GroundwireClient(address) as client:
        documents = client.list_documents(collection=COLLECTION, page_size=1000).documents
        for document in documents:
            raw = (folder / document.source_uri).read_bytes().removeprefix(BYTE_ORDER_MARK)
            text = raw.decode()
            reference = document_pb2.DocumentReference(document_id=document.document_id)
            parts = client.document_text(collection=COLLECTION, reference=reference)
            texts += "".join(part.text for part in parts) == text
            listed = all_items.blocking(
                client, Contract.list_chunks, "chunks", collection=COLLECTION, reference=reference
            )
            for chunk in listed:
                chunks += 1
                span = chunk.span
                exact = text[span.start : span.end] == chunk.content == raw[span.start_byte : span.end_byte].decode()
                wrong += not exact
    print(f"{len(documents)} documents, {texts} stored exactly; {chunks} chunks, {wrong} wrong")
    return int(wrong > 0 or texts < len(documents))


if __name__ == "__main__":
    sys.exit(main())
