"""How long a server takes from its start to SERVING, after it was killed in the midst of its work.

    python benchmarks/start.py --starts 10
    python benchmarks/start.py --starts 10 --beside ../before     # another checkout; the starts alternate

Each checkout gets a data folder of its own with some documents. On a machine that has other work, compare the ratio of
the medians, and the processor time, which depends less on what else runs.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from groundwire.processes.child import cpu_s

_HERE = Path(__file__).resolve().parents[1]
_ROOTS = (
    "protos/gen",
    "shared/src",
    *(f"services/{name}/src" for name in ("ingest", "retrieve", "answer", "standalone")),
)
_FILL = """
import sys
from groundwire.client import GroundwireClient
with GroundwireClient(sys.argv[1]) as client:
    client.create_collection(collection="tides")
    for number in range(20):
        text = f"# Tide {number}\\n\\nThe moon moves the sea for the {number}th time. " * 20
        client.ingest_document(collection="tides", source_uri=f"{number}.md", content=text.encode())
"""


@dataclass
class Subject:
    """A checkout, and what its starts took in seconds: by the clock, and of the processor until then."""

    checkout: Path
    data: Path
    options: Sequence[str]
    waited: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        """Return what lets Python import this checkout, compiled once, as an installation is."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return kept | {"PYTHONPATH": os.pathsep.join(str(self.checkout / root) for root in _ROOTS)}

    def start(self) -> tuple["subprocess.Popen[str]", str, float]:
        """Start a server; return it, its address, and the seconds until it was serving."""
        command = [sys.executable, "-m", "groundwire.cli", "serve", "--listen", "127.0.0.1:0", "--data", str(self.data)]
        began_at = time.monotonic()
        server = subprocess.Popen(
            [*command, *self.options],
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        line = server.stdout.readline() if server.stdout else ""
        waited = time.monotonic() - began_at
        if not line.startswith("listening on "):
            raise SystemExit(f"the server of {self.checkout} did not start")
        return server, line.removeprefix("listening on ").strip(), waited

    def fill(self) -> None:
        server, address, _ = self.start()
        subprocess.run([sys.executable, "-c", _FILL, address], env=self.variables, check=True)
        _kill(server)

    def measure(self) -> None:
        server, _, waited = self.start()
        self.waited.append(waited)
        self.worked.append(cpu_s(server.pid) or 0.0)
        _kill(server)

    def shown(self) -> str:
        waited, worked = statistics.median(self.waited), statistics.median(self.worked)
        return (
            f"{self.checkout.name}: {len(self.waited)} starts, median {waited:.2f} s, max {max(self.waited):.2f} s, "
            f"min {min(self.waited):.2f} s; processor time median {worked:.2f} s, min {min(self.worked):.2f} s"
        )


def _kill(server: "subprocess.Popen[str]") -> None:
    server.send_signal(signal.SIGKILL)
    server.wait()
    if server.stdout is not None:
        server.stdout.close()
    time.sleep(0.5)  # its children notice, and end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--beside", type=Path, help="another checkout to compare with")
    parser.add_argument("options", nargs="*", help="options of `groundwire serve`, behind --")
    given = parser.parse_args()
    checkouts = [_HERE, *([given.beside.resolve()] if given.beside else [])]
    with tempfile.TemporaryDirectory() as folder:
        subjects = [Subject(each, Path(folder) / str(number), given.options) for number, each in enumerate(checkouts)]
        for subject in subjects:
            subject.fill()
        for _ in range(given.starts):
            for subject in subjects:
                subject.measure()
    for subject in subjects:
        print(subject.shown())
    if given.beside:
        one, other = subjects
        by_clock = statistics.median(one.waited) / statistics.median(other.waited)
        by_work = statistics.median(one.worked) / statistics.median(other.worked)
        print(f"ratio of the medians: {by_clock:.2f} by the clock, {by_work:.2f} of processor time")


if __name__ == "__main__":
    main()
