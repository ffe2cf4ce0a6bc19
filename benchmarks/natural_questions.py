"""Asks 450 questions as a newcomer would, over eight corpora, and prints the answers to be graded.

    python benchmarks/natural_questions.py [--only CORPUS] [--data DIR] [--address HOST:PORT]

Each line of `natural_questions.tsv` is a corpus, a question and words that a right answer quotes (a regular
expression), none where nothing answers it: then a refusal is right. The last line that is printed counts the right
ones. An answer that counts as right may still be padded, so read them; rules were made with these questions in view.

The corpora are the handbook of this repository and folders of GROUNDWIRE_TEST_DATA (else `shared/data` beside the
checkout). With `--address` the questions are asked of a server whose collections have the names of the corpora;
otherwise of a server of its own, whose data `--data` keeps.
"""

import argparse
import re
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.quality_sets.data import data_folder, need
from benchmarks.served import served_client
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import AlreadyExistsError

_ROOT = Path(__file__).resolve().parents[1]
_FORMATS = frozenset({".md", ".rst", ".pdf", ".txt"})
_FOLDERS = {
    "handbook": ("docs",),
    "rust": ("rust_book/src",),
    "peps": ("peps",),
    "northwind": ("northwind/pdf",),
    "speech": ("chunking_evaluation/corpora/state_of_the_union.md",),
    "wiki": ("chunking_evaluation/corpora/wikitexts.md",),
    "standards": ("peps",),
    "design": ("docs/adr", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"),
}
_PEPS = {
    "peps": re.compile(
        "pep-(?:0004|0020|0100|0160|0290|0350|0354|038[04]|0394|04[01]4|0420|0440|0454|0484|0490|0530|0544|0550|0570"
        "|0584|0594|0604|0634|0764|0810|3000|3100|3124|3140|8000|8014)"
    ),
    "standards": re.compile("pep-(?:0374|0424|0450|0520|0524|0564|0600|0654|0680|0684)"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=_FOLDERS, action="append", help="leave out the other corpora")
    parser.add_argument("--data", type=Path, help="where to keep the collections")
    parser.add_argument("--address", help="a server that has the collections")
    options = parser.parse_args()
    names = options.only or list(_FOLDERS)
    if options.address:
        with GroundwireClient(options.address) as client:
            _ask(client, names)
        return
    with served_client([], options.data) as client:
        for name in names:
            ingest(client, name)
        _ask(client, names)


def ingest(client: GroundwireClient, name: str) -> None:
    root = _ROOT if name in {"handbook", "design"} else data_folder()
    with suppress(AlreadyExistsError):
        client.create_collection(collection=name)
    for part in _FOLDERS[name]:
        need(base := root / part)
        for path in [base] if base.is_file() else sorted(base.rglob("*")):
            is_chosen = _PEPS[name].fullmatch(path.stem) is not None if name in _PEPS else path.suffix in _FORMATS
            if is_chosen and (name != "handbook" or "adr" not in path.parts):
                source = path.name if path == base else path.relative_to(base).as_posix()
                client.ingest_document(collection=name, source_uri=source, content=path.read_bytes())


def _ask(client: GroundwireClient, names: list[str]) -> None:
    verdicts = Counter[str]()
    lines = Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        name, question, quoted = line.split("\t")
        if name not in names:
            continue
        answer = client.ask(collection=name, question=question).answer
        if not quoted:
            verdict = "wrongly answered" if answer.grounded else "right"
        elif not answer.grounded:
            verdict = "wrongly refused"
        else:
            verdict = "right" if re.search(quoted, answer.content, re.IGNORECASE) else "other words"
        verdicts[verdict] += 1
        print(f"{number}. {name}: {question} ({verdict})\n{answer.content}\n   confidence {answer.confidence:.2f}")
        for citation in answer.citations:
            print(f"   [{citation.marker}] {citation.source_uri}, {citation.section_heading}")
        for citation in answer.opposing_citations:
            print(f"   but [{citation.marker}] {citation.source_uri}: {citation.quote}")
    print(f"{verdicts.total()} questions: " + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))


if __name__ == "__main__":
    main()
