"""Build the wheel from the source distribution, install it in a clean environment and run the tests against it.

usage: python scripts/test_wheel.py [ARGUMENT OF PYTEST…]

Arguments choose tests, such as `tests/architecture -x`; without any, those of `make test` run. They run in a folder
that holds only `tests/` and what they read, so that every import of `groundwire` comes from the installed wheel
(tests/architecture/test_layout.py asserts it).
"""

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
# What tests read beside themselves. Sources are left behind on purpose.
FOLDERS = ["benchmarks", "deploy", "docs", "protos/google", "protos/groundwire", "scripts", "tests"]
FILES = [
    ".dockerignore",
    ".env",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "constraints.txt",
    "docker-compose.yml",
    "protos/README.md",
    "protos/buf.gen.go.yaml",
    "protos/buf.gen.java.yaml",
    "protos/buf.gen.python.yaml",
    "protos/buf.gen.typescript.yaml",
    "protos/buf.yaml",
]


def main() -> int:
    """Return the exit code of the test run."""
    with tempfile.TemporaryDirectory(prefix="groundwire-wheel-") as folder:
        scratch = Path(folder)
        venv.create(scratch / "venv", with_pip=True)
        python = str(scratch / "venv" / "bin" / "python")
        _call(python, "-m", "pip", "install", "--quiet", "--upgrade", "pip>=25.1", "build")
        _call(python, "-m", "build", "--outdir", str(scratch / "dist"), str(ROOT))
        (wheel,) = (scratch / "dist").glob("*.whl")
        _call(python, "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), f"{wheel}[all]")
        _call(python, "-m", "pip", "install", "--quiet", "--group", f"{ROOT / 'pyproject.toml'}:dev")
        checkout = scratch / "checkout"
        made = shutil.ignore_patterns("__pycache__", "node_modules", ".packages")
        for name in FOLDERS:
            shutil.copytree(ROOT / name, checkout / name, ignore=made)
        for name in FILES:
            shutil.copy(ROOT / name, checkout / name)
        # The settings of pytest without the source roots: the wheel must be what is imported.
        text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        head, _, rest = text.partition("pythonpath = [")
        _, _, tail = rest.partition("]\n")
        (checkout / "pyproject.toml").write_text(f'{head}pythonpath = ["."]\n{tail}', encoding="utf-8")
        if DATA.exists():
            (checkout.parent / "shared").mkdir()
            (checkout.parent / "shared" / "data").symlink_to(DATA)
        spread = ["-n", "logical", "--dist", "loadfile", "--no-loadscope-reorder"]
        markers = ["-m", "not slow and not faults and not limits and not clients"]
        command = [python, "-m", "pytest", *spread, *markers, *sys.argv[1:]]
        return subprocess.run(command, cwd=checkout, check=False).returncode  # noqa: S603 - our own command


def _call(*command: str) -> None:
    subprocess.run(command, check=True)  # noqa: S603 - our own command


if __name__ == "__main__":
    sys.exit(main())
