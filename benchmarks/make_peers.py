"""Makes a virtual environment for each framework that benchmarks/ingest.py compares with.

    python benchmarks/make_peers.py [--folder FOLDER] [langchain] [llamaindex] [haystack]

The versions are pinned in benchmarks/peers/requirements-NAME.txt. An environment that fits its file is left as it is.
"""

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

PEERS = ("langchain", "llamaindex", "haystack")
SCRIPTS = Path(__file__).parent / "peers"
DEFAULT_FOLDER = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "groundwire" / "peers"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", default=PEERS, help=", ".join(PEERS))
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER)
    options = parser.parse_args()
    for name in options.peers:
        if name not in PEERS:
            sys.exit(f"unknown peer {name}; known are {', '.join(PEERS)}")
        make(name, options.folder)


def make(name: str, folder: Path) -> None:
    requirements = SCRIPTS / f"requirements-{name}.txt"
    made = folder / name / "made-from.txt"
    if made.is_file() and made.read_text() == requirements.read_text():
        print(f"{name}: up to date")
        return
    print(f"{name}: installing into {folder / name}")
    venv.create(folder / name, with_pip=True, clear=True)
    subprocess.run([interpreter(name, folder), "-m", "pip", "install", "--quiet", "-r", str(requirements)], check=True)
    made.write_text(requirements.read_text())


def interpreter(name: str, folder: Path = DEFAULT_FOLDER) -> Path:
    """Return the Python of a peer's environment."""
    return folder / name / "bin" / "python"


if __name__ == "__main__":
    main()
