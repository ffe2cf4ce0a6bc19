"""Asks sixty questions as a newcomer would, over four corpora, and prints the answers for a reader to grade.

    python benchmarks/natural_questions.py [--only CORPUS] [--data DIR] [--address HOST:PORT]

The corpora are the handbook of this repository and folders of GROUNDWIRE_TEST_DATA (else `shared/data` beside the
checkout). Four questions have no answer there. With `--address` they are asked of a server whose collections have the
names of the corpora; otherwise of a server of its own, whose data `--data` keeps.
"""

import argparse
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.quality_sets.stack import data_folder, need
from benchmarks.served import server
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import AlreadyExistsError

_ROOT = Path(__file__).resolve().parents[1]
_FORMATS = frozenset({".md", ".rst", ".pdf", ".txt"})
_QUESTIONS = {
    "handbook": """
        What does exit code 2 mean?
        How do I delete a collection?
        How do I back up the data?
        What is a span?
        When does a session expire?
        How long can a question be?
        Which operators do filters have?
        How many messages does the window of a session hold?
        What happens when a document is deleted?
        How do I upload a large file?
        What is the default address of the server?
        How is the confidence of an answer computed?
        How do I keep a folder in sync with a collection?
        Give me an example of a filter with two conditions
        What does FAILED_PRECONDITION mean?
        Can I use it without a network?
        How do I search Chinese documents?
        What is the price of a licence?
    """,
    "rust": """
        What is ownership?
        What is shadowing?
        What does the question mark operator do?
        How do I create a new project with Cargo?
        What is the difference between String and &str?
        Why does Rust not have null?
        What is a trait?
        How do threads communicate in Rust?
        What is the borrow checker?
        Show me an example of a match expression
        What are the rules of references?
        How do I write a unit test?
        What is interior mutability?
        What is the default integer type?
        What is Rc<T> used for?
        How do I bake bread?
    """,
    "peps": """
        What is a namespace package?
        How are version numbers compared?
        What is the Zen of Python?
        Who is the author of PEP 380?
        What does PEP 404 say?
        What is the purpose of PEP 484?
        Why was PEP 354 rejected?
        How does structural pattern matching work?
        What does async for do?
        When was PEP 3000 created?
        What is a positional-only parameter?
        How do I write the union of two types?
        What is the status of PEP 8000?
    """,
    "northwind": """
        What is a deductible?
        Does the Standard plan cover emergency services?
        How much does PerksPlus reimburse?
        What activities are covered by PerksPlus?
        Who leads the finance department?
        What is balance billing?
        How do I file an appeal?
        What is the difference between Northwind Health Plus and Standard?
        Are vision exams covered?
        What does the Chief Technology Officer do?
        When are performance reviews held?
        What are the values of the company?
        What is the airspeed of an unladen swallow?
    """,
}
_FOLDERS = {"rust": "rust_book/src", "peps": "peps", "northwind": "northwind/pdf"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=_QUESTIONS, action="append", help="leave out the other corpora")
    parser.add_argument("--data", type=Path, help="where to keep the collections")
    parser.add_argument("--address", help="a server that has the collections")
    options = parser.parse_args()
    names = options.only or list(_QUESTIONS)
    if options.address:
        with GroundwireClient(options.address) as client:
            _ask(client, names)
        return
    with (
        tempfile.TemporaryDirectory(prefix="groundwire-questions-") as scratch,
        server(options.data or Path(scratch), []) as address,
        GroundwireClient(address) as client,
    ):
        for name in names:
            _ingest(client, name)
        _ask(client, names)


def _ingest(client: GroundwireClient, name: str) -> None:
    folder = _ROOT / "docs" if name == "handbook" else data_folder() / _FOLDERS[name]
    need(folder)
    with suppress(AlreadyExistsError):
        client.create_collection(collection=name)
    for path in sorted(folder.rglob("*")):
        if path.suffix in _FORMATS and "adr" not in path.parts:
            source = path.relative_to(folder).as_posix()
            client.ingest_document(collection=name, source_uri=source, content=path.read_bytes())


def _ask(client: GroundwireClient, names: list[str]) -> None:
    number = 0
    for name in names:
        for line in _QUESTIONS[name].strip().splitlines():
            number += 1
            answer = client.ask(collection=name, question=line.strip()).answer
            print(f"{number}. {name}: {line.strip()}\n{answer.content}\n   confidence {answer.confidence:.2f}")
            for citation in answer.citations:
                print(f"   [{citation.marker}] {citation.source_uri}, {citation.section_heading}")


if __name__ == "__main__":
    main()
