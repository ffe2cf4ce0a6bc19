"""Start a server on a free port, ingest a folder, ask a question and verify the citations of the answer.

Everything runs through the `groundwire` command, so each step is one that you can repeat by hand.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

GROUNDWIRE = str(Path(sys.executable).parent / "groundwire")
COLLECTION = "demo"


def main() -> int:
    """Return 0 when the answer came and all its citations verified."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, required=True, help="folder of Markdown files")
    parser.add_argument("--question", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="groundwire-demo-") as scratch, _server(Path(scratch)) as address:
        environment = os.environ | {"GROUNDWIRE_ADDRESS": address}
        return _tour(options.docs, options.question, Path(scratch) / "answer.json", environment)


def _tour(docs: Path, question: str, answer: Path, environment: dict[str, str]) -> int:
    _run(["ingest", str(docs), "-c", COLLECTION], environment)
    _run(["ask", question, "-c", COLLECTION], environment)
    with answer.open("w", encoding="utf-8") as output:
        _run(["ask", question, "-c", COLLECTION, "--json"], environment, output)
    return _run(["verify", str(answer)], environment)


@contextmanager
def _server(scratch: Path) -> Iterator[str]:
    command = [GROUNDWIRE, "serve", "--listen", "127.0.0.1:0", "--data", str(scratch / "data")]
    print("$ groundwire serve", flush=True)
    with (scratch / "server.log").open("w", encoding="utf-8") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603 - our own command
    assert server.stdout is not None  # noqa: S101 - for the type checker: it was asked for
    try:
        line = server.stdout.readline().strip()
        if not line.startswith("listening on "):
            sys.exit(f"the server did not start:\n{(scratch / 'server.log').read_text(encoding='utf-8')}")
        print(line, flush=True)
        yield line.removeprefix("listening on ")
    finally:
        server.terminate()
        server.wait(timeout=30)


def _run(arguments: list[str], environment: dict[str, str], output: TextIO | None = None) -> int:
    shown = " ".join(f'"{word}"' if " " in word else word for word in arguments)
    print(f"\n$ groundwire {shown}", flush=True)
    done = subprocess.run([GROUNDWIRE, *arguments], env=environment, stdout=output, check=False)  # noqa: S603 - our own command
    if done.returncode:
        sys.exit(done.returncode)
    return 0


if __name__ == "__main__":
    sys.exit(main())
