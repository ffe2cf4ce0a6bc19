"""In the default configuration nothing leaves the machine: every address that the server's processes name is noted."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.server import STARTED, groundwire

TRACE = ["strace", "-D", "-f", "--seccomp-bpf", "-qq", "-e", "trace=connect,sendto,sendmsg", "-e", "signal=none"]
"""Of all processes and threads, native code as well; `-D` leaves the server the child of this process."""
_ADDRESS = re.compile(r'inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"')
_TRIED = """
import socket
for family, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
    with socket.socket(family, socket.SOCK_DGRAM) as tried:
        try:
            tried.connect((address, 53))
        except OSError:
            pass
"""


def _addresses(trace: Path) -> set[str]:
    return {v4 or v6 for v4, v6 in _ADDRESS.findall(trace.read_text(encoding="utf-8", errors="replace"))}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Where addresses are noted; what is noted is seen to hold attempts."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    attempts = tmp_path / "attempts.txt"
    subprocess.run([*TRACE, "-o", str(attempts), sys.executable, "-c", _TRIED], check=True)
    if not attempts.exists():
        pytest.skip("processes may not be traced here")
    assert _addresses(attempts) == {"192.0.2.1", "2001:db8::1"}
    return tmp_path / "trace.txt"


@pytest.mark.requirement("R26")
@pytest.mark.parametrize("engine", ["qdrant-edge", "chroma"])
def test_a_server_speaks_to_nobody_outside(trace: Path, notes: Path, tmp_path: Path, engine: str) -> None:
    data = tmp_path / "data"
    serve = [sys.executable, "-m", "groundwire.cli", "serve", "--listen", "127.0.0.1:0", "--data", str(data)]
    command = [*TRACE, "-o", str(trace), *serve, "--vectors", f"{engine}:{data / 'vectors'}"]
    with (
        (tmp_path / "log.txt").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            line = server.stdout.readline().strip()
            assert line.startswith(STARTED), (tmp_path / "log.txt").read_text()
            address = line.removeprefix(STARTED)
            for arguments in (
                ("ingest", "-c", "docs", str(notes)),
                ("search", "-c", "docs", "What causes the tides?"),
                ("ask", "-c", "docs", "What causes the tides?"),
                ("memory", "add", "-c", "people", "Ada likes tea."),
                ("collections", "delete", "docs", "--yes", "--force"),
            ):
                done = groundwire(*arguments, address=address)
                assert done.returncode == 0, done.stderr
        finally:
            server.terminate()
            assert server.wait(60) == 0
    # What is sent between the server's own processes is in the trace, so that it is of them.
    assert "sendto(" in trace.read_text(encoding="utf-8", errors="replace")
    assert _addresses(trace) <= {"127.0.0.1", "::1"}
