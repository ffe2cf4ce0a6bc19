"""Generate what is made from the contract into protos/gen, or check that it is fresh.

usage: python scripts/generate_protos.py [--check]

Messages are generated for all files, gRPC stubs for `*_service.proto` only; those of `google.rpc` come from the package
googleapis-common-protos. The descriptor set holds every file, what it imports and all comments. The service configs
tell gRPC clients how long each call may take and when to repeat it. With `--check` nothing is written: the committed
files are compared with what would be generated, and the exit status is 1 with the list of stale files on standard error
when they differ.
"""

import argparse
import json
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from groundwire.rpc.health import ACCEPTING
from groundwire.rpc.methods import CALL_LIMITS, DeadlineTable, Work, is_read

ROOT = Path(__file__).resolve().parents[1]
PROTOS = ROOT / "protos"
GENERATED = PROTOS / "gen"
API = Path("groundwire") / "api"
"""The first package of ours; `groundwire` itself is a namespace and has no `__init__.py`."""
DESCRIPTOR_SET = API / "groundwire.binpb"
"""A serialised `google.protobuf.FileDescriptorSet`, for tools and languages that read no proto files."""
DETAILS = "google/rpc/error_details.proto"
"""No message of ours has one as a field, but every error status does."""
SERVICE_CONFIGS = API / "service_config"
"""A file in JSON for each service, and `all.json` for channels that are used for several."""
RETRY_POLICY = {
    "maxAttempts": 4,
    "initialBackoff": "0.1s",
    "maxBackoff": "2s",
    "backoffMultiplier": 2,
    # AIP-194: UNAVAILABLE only. A server that is full says with its refusal when to come back (its pushback), and
    # nothing of the call was done.
    "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
}


def generate(target: Path) -> None:
    """Write everything below an empty or missing folder.

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
    pool, described_services = DescriptorPool(), list[ServiceDescriptor]()
    for file in FileDescriptorSet.FromString((target / DESCRIPTOR_SET).read_bytes()).file:
        pool.Add(file)
        described_services += [pool.FindServiceByName(f"{file.package}.{service.name}") for service in file.service]
    (target / SERVICE_CONFIGS).mkdir()
    groups = [("all", described_services), *((service.full_name, [service]) for service in described_services)]
    for name, members in groups:
        text = json.dumps(service_config(members), indent=2)
        (target / SERVICE_CONFIGS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def stale_files(fresh: Path, committed: Path) -> list[str]:
    """Return the paths that are missing, superfluous or different in `committed`, in order."""
    expected, found = _contents(fresh), _contents(committed)
    return sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))


def main(arguments: list[str] | None = None) -> int:
    """Generate or check, and return the exit status."""
    parser = argparse.ArgumentParser(description="Generate what is made from the contract.")
    parser.add_argument("--check", action="store_true", help="compare with the committed files, write nothing")
    check = parser.parse_args(arguments).check
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        stale = stale_files(fresh, GENERATED)
        if not check:
            for name in stale:
                source, destination = fresh / name, GENERATED / name
                if source.exists():
                    destination.parent.mkdir(parents=True, exist_ok=True)
                    destination.write_bytes(source.read_bytes())
                else:
                    destination.unlink()  # no longer generated
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


def service_config(services: Iterable[ServiceDescriptor]) -> dict[str, Any]:
    """Return the service config of gRPC for some services: balancing, time limits, and retries where they are safe."""
    limits, groups = DeadlineTable(), dict[str, dict[str, Any]]()
    for service in services:
        for method in service.methods:
            limit_s = limits.limit_s(method.name)
            settings: dict[str, Any] = {} if limit_s is None else {"timeout": f"{limit_s:g}s"}
            if is_safe_to_repeat(method):
                settings["retryPolicy"] = RETRY_POLICY
            group = groups.setdefault(json.dumps(settings), {"name": [], **settings})
            group["name"].append({"service": service.full_name, "method": method.name})
    return {
        # Names with several addresses are spread over; with one address this is the same as the default.
        "loadBalancingConfig": [{"round_robin": {}}],
        # A replica that is going to stop says so here; its calls go elsewhere before it refuses any.
        "healthCheckConfig": {"serviceName": ACCEPTING},
        "methodConfig": list(groups.values()),
        # Stops retrying while more than about one call in ten fails, so that an outage makes no storm. Half of the
        # tokens are left to the calls that a replica works on when it dies: they fail at once, and another takes them.
        "retryThrottling": {"maxTokens": 2 * CALL_LIMITS[Work.SEARCH], "tokenRatio": 0.1},
    }


def is_safe_to_repeat(method: MethodDescriptor) -> bool:
    """Tell whether a call that was perhaps worked on may be sent again: it reads, or its `request_id` names it.

    Streams of requests are not repeated, because what was sent is gone; uploads resume at an offset.
    """
    if method.client_streaming:
        return False
    return is_read(method.name) or "request_id" in method.input_type.fields_by_name


def _contents(folder: Path) -> dict[str, bytes]:
    """Return what the files below a folder hold, by relative path, without what Python caches."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


if __name__ == "__main__":
    sys.exit(main())
