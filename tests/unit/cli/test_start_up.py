"""What makes the command quick: nothing heavy is imported before it is needed."""

import subprocess
import sys

HEAVY = ["chromadb", "google.protobuf", "grpc", "numpy", "openvino", "pydantic", "qdrant_edge", "sqlalchemy", "torch"]


def test_help_imports_nothing_heavy() -> None:
    code = f"""
import sys
from groundwire.cli.app import app
try:
    app(["--help"])
except SystemExit as ended:
    assert ended.code == 0
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "ingest" in done.stdout
