"""Quality of retrieval on real questions, asked of a server through its public calls.

    python benchmarks/quality.py SET [--data DIR] [--embedder URL]

SET is book, chunking, squad, conversations, memory, answers, ground, contradictions or topics, each described in its
module below `benchmarks/quality_sets`; `--help` after the name shows its options. Every table but those of the last
four has a row for each retriever alone, for both, and for a plain hybrid of the same chunks, and the differences; one
table for the questions that defaults were chosen on, one for those held out. The data are looked for in
GROUNDWIRE_TEST_DATA, else in `shared/data` beside the checkout. With `--data` the collections are kept there, but for
those of `memory`, so that a second run embeds nothing. Questions above the query limit are cut to it.

Intervals are 95 % percentile bootstrap over questions; differences are paired.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.quality_sets import (
    answers,
    book,
    chunking,
    contradictions,
    conversations,
    ground,
    memory,
    squad,
    topics,
)

_SETS = {
    "book": book,
    "chunking": chunking,
    "squad": squad,
    "conversations": conversations,
    "answers": answers,
    "ground": ground,
    "contradictions": contradictions,
    "memory": memory,
    "topics": topics,
}


def main() -> None:
    options = _parser().parse_args()
    options.run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sets = parser.add_subparsers(required=True)
    for name, module in _SETS.items():
        chosen = sets.add_parser(name, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        chosen.add_argument("--data", type=Path, help="where to keep the collections")
        chosen.add_argument("--embedder", default="sentence-transformers:all-MiniLM-L6-v2")
        module.add_options(chosen)
        chosen.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    main()
