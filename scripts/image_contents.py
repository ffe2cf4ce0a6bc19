"""Install what each target of the Dockerfile installs, without Docker, and print a table of what is in it.

    python scripts/image_contents.py [TARGET…] [--folder DIR]

Sizes are those of installed files without bytecode; the import time is the best of three, of all that the service
loads before it opens anything.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_STAGE = re.compile(r"^FROM installer AS install-(\w+)$(.*?)(?=^FROM )", re.MULTILINE | re.DOTALL)
_ENTRIES = {"all": ("ingest", "retrieve", "answer")}
_PROBE = """
import importlib, json, sys, time
from importlib.metadata import distributions
folder, *modules = sys.argv[1:]
sys.path.insert(0, folder)
began = time.perf_counter()
for module in modules:
    importlib.import_module(module)
seconds = time.perf_counter() - began
names = sorted(each.name.lower() for each in distributions(path=[folder]))
print(json.dumps({"seconds": seconds, "packages": names}))
"""


@dataclass(frozen=True, slots=True)
class Contents:
    """What an image holds beside Python: its packages, their bytes, and the seconds of an import."""

    target: str
    packages: tuple[str, ...]
    size_bytes: int
    import_s: float


def targets() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the extras of each target, and what it installs without its dependencies."""
    found = {}
    for name, body in _STAGE.findall((ROOT / "Dockerfile").read_text(encoding="utf-8")):
        filled = body
        for argument, value in re.findall(r"^ARG (\w+)=(\S+)$", body, re.MULTILINE):
            filled = filled.replace(f"${argument}", value)
        (extras,) = re.findall(r'install "\$1\[([^\]]+)\]"', filled)
        found[name] = (extras, tuple(re.findall(r'install --no-deps "([^"]+)"', filled)))
    return found


def install(target: str, folder: Path) -> Contents:
    """Install a target into a new folder below `folder` and return what is there then."""
    extras, alone = targets()[target]
    pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check"]
    wheels, place = folder / "wheels", folder / target
    _run(*pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(ROOT))
    (wheel,) = wheels.glob("groundwire-*.whl")
    into = [*pip, "install", "--no-compile", "--target", str(place), "--constraint", str(ROOT / "constraints.txt")]
    _run(*into, f"{wheel}[{extras}]")
    for name in alone:
        _run(*into, "--no-deps", name)
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    modules = [f"groundwire.{service}.bootstrap" for service in _ENTRIES.get(target, (target,))]
    # Nothing but what was installed, whatever this interpreter has besides.
    command = [sys.executable, "-I", "-S", "-c", _PROBE, str(place), *modules]
    runs = [json.loads(_run(*command)) for _ in range(3)]
    return Contents(target, tuple(runs[0]["packages"]), size, min(run["seconds"] for run in runs))


def _run(*command: str) -> bytes:
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout  # noqa: S603 - our own command


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="*", default=[*targets()])
    parser.add_argument("--folder", type=Path, help="where to install; kept then")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        print("| target | packages | size | import |\n|---|---|---|---|")
        for target in options.target:
            made = install(target, options.folder or Path(temporary))
            print(f"| `{target}` | {len(made.packages)} | {made.size_bytes / 1e6:.0f} MB | {made.import_s:.1f} s |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
