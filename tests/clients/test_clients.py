"""The main job from other languages, by clients that are made from the contract alone."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import pytest

from tests.clients.toolchains import GO, HERE, JAVA, ROOT, generate, packages, require, run
from tests.e2e.server import ServerProcess
from tests.e2e.transcripts import steps_of

TEXT = (
    "# Tides 🌊\n\nThe moon causes the tides of the sea. Water follows its pull.\n\n"
    "## Spring tides\n\nA spring tide happens when sun and moon stand in line.\n"
)
SERVICE_CONFIG = resources.files("groundwire.api").joinpath("service_config", "all.json")
LONGRUNNING = (
    "cloud.google.com/go/longrunning/autogen/longrunningpb",
    "google.golang.org/genproto/googleapis/longrunning",
)
SOURCES = {
    "go": HERE / "go" / "main.go",
    "java": HERE / "java" / "Client.java",
    "python": HERE / "python" / "client.py",
    "typescript": HERE / "typescript" / "client.ts",
}
PAGES = {
    "go": ROOT / "docs/tutorial/go.md",
    "java": ROOT / "docs/tutorial/java.md",
    "python": ROOT / "docs/how-to/python-without-the-client.md",
    "typescript": ROOT / "docs/tutorial/typescript.md",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path / "data")
    yield running
    running.stop()


def go_client(folder: Path) -> list[str]:
    require("go")
    root = packages(GO)
    module = folder / "src" / "example.com" / "client"
    generate("go", module, root / "usr/bin")
    shutil.copy(SOURCES["go"], module)
    for source in module.rglob("*.pb.go"):  # Debian has genproto of before this package of it moved
        source.write_text(source.read_text().replace(*LONGRUNNING))
    go_path = f"{folder}:{root / 'usr/share/gocode'}"
    # Debian's packages are folders of sources, not modules.
    variables = {"GO111MODULE": "off", "GOPATH": go_path, "GOFLAGS": ""}
    run("go", "vet", "example.com/client", variables=variables)
    run("go", "build", "-o", str(folder / "client"), "example.com/client", variables=variables)
    return [str(folder / "client")]


def typescript_client(folder: Path) -> list[str]:
    require("node", "npm")
    if not (HERE / "typescript/node_modules").exists():
        run("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", cwd=HERE / "typescript")
    for name in ("client.ts", "package.json", "tsconfig.json"):
        shutil.copy(HERE / "typescript" / name, folder)
    (folder / "node_modules").symlink_to(HERE / "typescript/node_modules")
    generate("typescript", folder, folder / "node_modules/.bin")
    run("npm", "run", "build", cwd=folder)
    return ["node", str(folder / "built/client.js")]


def java_client(folder: Path) -> list[str]:
    require("java", "javac")
    root = packages(JAVA)
    (libraries,) = (root / "usr/lib").glob("*-linux-gnu")
    (folder / "plugins").mkdir()
    (folder / "plugins/protoc-gen-grpc-java").symlink_to(root / "usr/bin/grpc_java_plugin")
    generate("java", folder, root / "usr/bin", folder / "plugins", LD_LIBRARY_PATH=str(libraries))
    jars = ":".join(str(jar) for jar in sorted((root / "usr/share/java").glob("*.jar")))
    sources = [str(path) for path in (folder / "gen").rglob("*.java")]
    run("javac", "-nowarn", "-d", str(folder / "classes"), "-cp", jars, *sources, str(SOURCES["java"]))
    return ["java", "-cp", f"{folder / 'classes'}:{jars}", "Client"]


def python_client(_folder: Path) -> list[str]:
    return [sys.executable, str(SOURCES["python"])]


CLIENTS = [
    pytest.param(go_client, marks=pytest.mark.clients),
    pytest.param(java_client, marks=pytest.mark.clients),
    pytest.param(typescript_client, marks=pytest.mark.clients),
    python_client,
]


@pytest.mark.parametrize("make", CLIENTS)
def test_a_client_does_the_main_job(make: Callable[[Path], list[str]], server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    (tmp_path / "tides.md").write_text(TEXT, encoding="utf-8")
    command = [*make(tmp_path / "client"), server.address, str(SERVICE_CONFIG), str(tmp_path / "tides.md")]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr
    said = dict(line.partition(": ")[::2] for line in done.stdout.splitlines() if ": " in line)
    assert int(said["chunks"]) > 0
    assert said["found"].startswith("tides.md")
    assert "moon causes the tides" in said["answer"]
    assert "spring tide" in done.stdout.partition("delta: ")[2]
    assert said["verified"] == "true"
    assert said["reason"] == "INVALID_FIELD"
    assert "query" in done.stdout.partition("reason: ")[2]
    page = PAGES[make.__name__.removesuffix("_client")]
    assert TEXT in page.read_text(encoding="utf-8")
    (shown,) = [step for step in steps_of(page) if "all.json" in step.command]
    assert shown.shows(done.stdout), done.stdout


@pytest.mark.parametrize("language", SOURCES)
def test_a_client_is_short(language: str) -> None:
    lines = SOURCES[language].read_text(encoding="utf-8").splitlines()
    assert 0 < len(lines) < 80


@pytest.mark.parametrize("language", SOURCES)
def test_the_code_of_a_page_is_that_of_the_client(language: str) -> None:
    page = PAGES[language].read_text(encoding="utf-8")
    source = [line.strip() for line in SOURCES[language].read_text(encoding="utf-8").splitlines()]
    blocks = re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        lines = [line.strip() for line in block.splitlines()]
        assert any(source[first : first + len(lines)] == lines for first in range(len(source))), block


@pytest.mark.parametrize("language", SOURCES)
def test_a_page_generates_with_the_template_that_is_tested(language: str) -> None:
    page = PAGES[language].read_text(encoding="utf-8")
    assert f"buf generate --template protos/buf.gen.{language}.yaml" in page


def test_python_can_be_generated_anew(tmp_path: Path) -> None:
    generate("python", tmp_path)
    made = {path.relative_to(tmp_path / "gen") for path in (tmp_path / "gen").rglob("*_pb2.py")}
    protos = [path.relative_to(ROOT / "protos") for path in (ROOT / "protos" / "groundwire").rglob("*.proto")]
    assert made == {path.with_name(f"{path.stem}_pb2.py") for path in protos}
