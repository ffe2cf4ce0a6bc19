"""What builds clients in other languages: compilers and libraries of Debian, unpacked in a folder of their own.

Nothing is installed: `apt-get download` fetches, `dpkg` unpacks. Only `go`, `javac`, `node` and `npm` must be there.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
UNPACKED = HERE / ".packages"
GO = """
    golang-github-golang-protobuf-1-5-dev golang-github-google-uuid-dev golang-golang-x-net-dev golang-golang-x-sys-dev
    golang-golang-x-text-dev golang-google-genproto-dev golang-google-grpc-dev golang-google-protobuf-dev
    protoc-gen-go-1-5 protoc-gen-go-grpc
"""
JAVA = """
    libgeronimo-annotation-1.3-spec-java libgoogle-gson-java libgrpc-java libguava-java libjsr305-java libnetty-java
    libopencensus-java libperfmark-java libprotobuf-java libprotobuf32 libprotoc32 protobuf-compiler
    protobuf-compiler-grpc-java-plugin
"""


def require(*programs: str) -> None:
    """Fail with the names of what is not there."""
    missing = [program for program in programs if shutil.which(program) is None]
    assert not missing, f"needed for this test and not on the PATH: {', '.join(missing)}"


def run(*command: str, cwd: Path = ROOT, variables: Mapping[str, str] = MappingProxyType({})) -> str:
    """Run a command with some more variables and return what it prints."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def packages(names: str) -> Path:
    """Unpack packages of Debian, unless they are, and return the root of what they hold."""
    require("apt-get", "dpkg")
    missing = [name for name in names.split() if not (UNPACKED / "done" / name).exists()]
    if missing:
        archives = UNPACKED / "archives"
        archives.mkdir(parents=True, exist_ok=True)
        run("apt-get", "download", *missing, cwd=archives)
        for archive in archives.glob("*.deb"):
            run("dpkg", "--extract", str(archive), str(UNPACKED / "root"))
            archive.unlink()
        (UNPACKED / "done").mkdir(exist_ok=True)
        for name in missing:
            (UNPACKED / "done" / name).touch()
    return UNPACKED / "root"


def generate(language: str, target: Path, *plugins: Path, **variables: str) -> None:
    """Run the command of the documentation with plugins from some folders; the files come into `target`/gen."""
    search = os.pathsep.join([*map(str, plugins), str(Path(sys.executable).parent), os.environ["PATH"]])
    template = f"protos/buf.gen.{language}.yaml"
    run("buf", "generate", "--template", template, "--output", str(target), variables={"PATH": search, **variables})
