"""Runs two replicas of ingest, retrieve and answer on PostgreSQL and a Chroma server, and asks one question.

    python scripts/demo_split.py --docs docs --question "…"

Everything is on loopback, in a folder that is gone afterwards.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from groundwire.api.answer.v1 import citation_pb2  # noqa: E402 - the line above finds the servers of the tests
from groundwire.client import GroundwireClient  # noqa: E402 - the same
from tests.e2e.split import deployment  # noqa: E402 - the same

_COLLECTION = "demo"


def main() -> int:
    """Run the demo; return 1 where there is no answer, or one that does not verify."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=Path, default=ROOT / "docs" / "how-to", help="folder of Markdown documents")
    parser.add_argument("--question", default="What does --processes do?")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="groundwire-split-") as folder,
        deployment(Path(folder), arguments=()) as split,
    ):
        for service, replicas in split.replicas.items():
            print(f"{service:9} {', '.join(replica.address for replica in replicas)}")
        with GroundwireClient(split.address) as client:
            client.create_collection(collection=_COLLECTION)
            for path in sorted(given.docs.glob("*.md")):
                client.ingest_document(collection=_COLLECTION, source_uri=path.name, content=path.read_bytes())
            reply = client.ask(collection=_COLLECTION, question=given.question).answer
            checked = client.verify_citations(citations=reply.citations).verifications if reply.citations else ()
    print(f"\n{given.question}\n\n{reply.content or 'There is no answer in the documents.'}\n")
    for citation, check in zip(reply.citations, checked, strict=True):
        verdict = citation_pb2.CitationVerdict.Name(check.verdict).removeprefix("CITATION_VERDICT_")
        print(f"[{citation.marker}] {citation.source_uri} {citation.span.start}..{citation.span.end}: {verdict}")
    verified = [each.verdict == citation_pb2.CITATION_VERDICT_EXACT for each in checked]
    return 0 if verified and all(verified) else 1


if __name__ == "__main__":
    sys.exit(main())
