"""Where the test data are."""

import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """Return the folder of the test data: GROUNDWIRE_TEST_DATA, else `shared/data` beside the checkout."""
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    return Path(os.environ.get("GROUNDWIRE_TEST_DATA", beside))


def need(*paths: Path) -> None:
    """Stop unless all paths are there."""
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        sys.exit(f"no data: {', '.join(missing)}")
