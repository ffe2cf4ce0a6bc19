"""Generate the typed Python stubs and the descriptor set of the contract into protos/gen, or check that they are fresh.

usage: python scripts/generate_protos.py [--check]

Messages are generated for all files, gRPC stubs for `*_service.proto` only; those of `google.rpc` come from the package
googleapis-common-protos. The descriptor set holds every file, what it imports and all comments. With `--check` nothing
is written: the committed files are compared with what would be generated, and the exit status is 1 with the list of
stale files on standard error when they differ.
"""

import argparse
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROTOS = ROOT / "protos"
GENERATED = PROTOS / "gen"
API = Path("groundwire") / "api"
"""The first package of ours; `groundwire` itself is a namespace and has no `__init__.py`."""
DESCRIPTOR_SET = API / "groundwire.binpb"
"""A serialised `google.protobuf.FileDescriptorSet`, for tools and languages that read no proto files."""
DETAILS = "google/rpc/error_details.proto"
"""No message of ours has one as a field, but every error status does."""


def generate(target: Path) -> None:
    """Write all stubs and the descriptor set below an empty or missing folder.

    Raises:
        subprocess.CalledProcessError: the compiler refuses a file; it has said why on standard error.
    """
    target.mkdir(parents=True, exist_ok=True)
    messages = sorted(path.relative_to(PROTOS).as_posix() for path in (PROTOS / API).rglob("*.proto"))
    services = [name for name in messages if name.endswith("_service.proto")]
    _compile(["python", "mypy"], target, messages)
    _compile(["grpc_python", "mypy_grpc"], target, services)
    for folder in [target / API, *(path for path in (target / API).rglob("*") if path.is_dir())]:
        (folder / "__init__.py").write_text("", encoding="utf-8")
    (target / API / "py.typed").write_text("", encoding="utf-8")
    described = ["--include_imports", "--include_source_info", f"--descriptor_set_out={target / DESCRIPTOR_SET}"]
    _protoc(described, [*messages, DETAILS])


def stale_files(fresh: Path, committed: Path) -> list[str]:
    """Return the paths that are missing, superfluous or different in `committed`, in order."""
    expected, found = _contents(fresh), _contents(committed)
    return sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))


def main(arguments: list[str] | None = None) -> int:
    """Generate or check, and return the exit status."""
    parser = argparse.ArgumentParser(description="Generate the Python stubs and the descriptor set of the contract.")
    parser.add_argument("--check", action="store_true", help="compare with the committed stubs, write nothing")
    check = parser.parse_args(arguments).check
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        stale = stale_files(fresh, GENERATED)
        if not check:
            _replace(fresh, stale)
            print(f"{len(stale)} files changed in {GENERATED.relative_to(ROOT)}")
            return 0
    for name in stale:
        print(f"stale: {(GENERATED / name).relative_to(ROOT)}", file=sys.stderr)
    return 1 if stale else 0


def _compile(plugins: list[str], target: Path, names: list[str]) -> None:
    """Run the compiler of grpcio-tools; `mypy*` are plugins installed in this environment."""
    scripts = Path(sysconfig.get_path("scripts"))
    options = []
    for plugin in plugins:
        if plugin.startswith("mypy"):
            options += [f"--plugin=protoc-gen-{plugin}={scripts / f'protoc-gen-{plugin}'}"]
            options += [f"--{plugin}_out=quiet:{target}"]
        else:
            options += [f"--{plugin}_out={target}"]
    _protoc(options, names)


def _protoc(options: list[str], names: list[str]) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={PROTOS}", *options, *names]
    subprocess.run(command, check=True, cwd=PROTOS)  # noqa: S603 - our own files, no shell


def _contents(folder: Path) -> dict[str, bytes]:
    """Return what the files below a folder hold, by relative path, without what Python caches."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _replace(fresh: Path, stale: list[str]) -> None:
    """Make the stale files of protos/gen equal to the fresh ones and remove those that are no more."""
    for name in stale:
        source, destination = fresh / name, GENERATED / name
        if source.exists():
            destination.parent.mkdir(parents=True, exist_ok=True)
            destination.write_bytes(source.read_bytes())
        else:
            destination.unlink()


if __name__ == "__main__":
    sys.exit(main())
