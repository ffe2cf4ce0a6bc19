"""Errors of every kind, provoked on a server whose folders are damaged under it, name nothing of its inside."""

import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pool, message_factory, text_format
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.rpc import error_details_pb2, status_pb2

from tests.e2e.server import ServerProcess

DETAILS = (
    error_details_pb2.ErrorInfo,
    error_details_pb2.BadRequest,
    error_details_pb2.ResourceInfo,
    error_details_pb2.RetryInfo,
)
# A path of two parts at least, not in a URL and not in a type.googleapis.com/… name.
PATH = re.compile(r"(?<![\w/:.])/[\w.-]+/[\w./-]+")
UNMAKEABLE = "an index cannot be made: "
"""Begins a message that has a path in the server's log."""
BROKEN = {
    "DOCUMENT_FORMAT_PDF": b"%PDF-1.7\n1 0 obj <<>> endobj\ntrailer <</Root 9 0 R>>\n%%EOF",
    "DOCUMENT_FORMAT_DOCX": b"PK\x03\x04" + b"\0" * 60,
    "DOCUMENT_FORMAT_HTML": b"<div " + b" ".join(b"a%d=1" % number for number in range(2000)) + b">x</div>",
    "DOCUMENT_FORMAT_CSV": b'a,b\n"' + b"x" * 200_000,
    "DOCUMENT_FORMAT_JSONL": b'{"text": \n',
    "DOCUMENT_FORMAT_MARKDOWN": b"\xff\xfe\x00 \x81",
    "DOCUMENT_FORMAT_RST": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
}


class Caller:
    """Makes calls by their names, so that a call that is added to the contract is tried as well."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address, options=[("grpc.enable_retries", 0)])
        packed = resources.files("groundwire.api").joinpath("groundwire.binpb").read_bytes()
        pool = descriptor_pool.DescriptorPool()
        self.methods: dict[str, MethodDescriptor] = {}
        for file in FileDescriptorSet.FromString(packed).file:
            pool.Add(file)
            for service in file.service:
                found = pool.FindServiceByName(f"{file.package}.{service.name}")
                self.methods |= {method.name: method for method in found.methods}
        self.said: list[tuple[str, status_pb2.Status]] = []

    def call(self, name: str, text: str = "") -> list[Any]:
        """Send a request given in the text format; note the error, or return the responses."""
        method = self.methods[name]
        request = text_format.Parse(text, message_factory.GetMessageClass(method.input_type)())
        send: Any = self.channel.stream_stream(
            f"/{method.containing_service.full_name}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
        )
        try:
            return list(send(iter([request]), timeout=20))
        except grpc.RpcError as error:
            failed: Any = error
            trailers = dict(failed.trailing_metadata())
            assert failed.code() is not grpc.StatusCode.UNKNOWN, f"{name}: {failed.details()}"
            self.said.append((name, status_pb2.Status.FromString(trailers.get("grpc-status-details-bin", b""))))
            self.said[-1][1].message = failed.details()
            return []

    def reasons(self) -> set[str]:
        infos = [unpacked for _, status in self.said for unpacked in details(status)]
        return {info.reason for info in infos if isinstance(info, error_details_pb2.ErrorInfo)}


def details(status: status_pb2.Status) -> Iterator[Any]:
    for packed in status.details:
        (kind,) = [kind for kind in DETAILS if packed.Is(kind.DESCRIPTOR)]
        yield (unpacked := kind())
        assert packed.Unpack(unpacked)


def processes(root: int) -> set[int]:
    """Return the process and all that it started, directly or not."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {root}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def text_of(status: status_pb2.Status) -> str:
    return "\n".join([status.message, *(str(detail) for detail in details(status))])


def test_no_error_names_a_path_or_a_process_of_the_server(tmp_path: Path) -> None:
    data = tmp_path / "kept-in-here"
    server = ServerProcess(data, ("--embedder", "hashing:64", "--vectors", f"qdrant-edge:{data / 'points'}"))
    own = processes(server.process.pid)
    caller = Caller(server.address)
    try:
        caller.call("CreateCollection", 'collection: "c"')
        caller.call("IngestDocument", 'collection: "c" source_uri: "a.md" text: "# Tides\\n\\nThe moon causes tides."')
        refuse_requests(caller)
        refuse_documents(caller)
        own |= processes(server.process.pid)
        lose_the_engine(caller, data, own - {server.process.pid})
        own |= processes(server.process.pid)
        lose_the_catalog(caller, data)
        own |= processes(server.process.pid)
    finally:
        server.kill()

    assert len(caller.said) > 100
    assert caller.reasons() >= {"INVALID_FIELD", "COLLECTION_NOT_FOUND", "DOCUMENT_MALFORMED", "DATA_LOSS"}
    assert any(UNMAKEABLE in status.message for _, status in caller.said), "the folder of the engine was not missed"
    numbers = re.compile(rf"\b(?:{'|'.join(str(number) for number in own if number > 999)})\b|\bpid\b")
    for name, status in caller.said:
        text = text_of(status)
        found = [pattern for pattern in (PATH, numbers, re.compile(re.escape(data.name))) if pattern.search(text)]
        assert not found, f"{name}: {text}"


def refuse_requests(caller: Caller) -> None:
    """Call everything with nothing, with a collection that is not there, and with one that is."""
    for text in ("", 'collection: "missing"', 'collection: "c"'):
        for name, method in caller.methods.items():
            collection = method.input_type.fields_by_name.get("collection")
            is_name = collection is not None and collection.message_type is None
            if (not text or is_name) and name not in {"DeleteCollection", "CreateCollection"}:
                caller.call(name, text)


def refuse_documents(caller: Caller) -> None:
    """Send documents of every format that cannot be read, at once and in parts."""
    for kind, content in BROKEN.items():
        packed = "".join(f"\\{byte:03o}" for byte in content)
        caller.call("IngestDocument", f'collection: "c" source_uri: "b" format: {kind} content: "{packed}"')
        caller.call("PlanIngest", f'collection: "c" source_uri: "b" format: {kind} content: "{packed}"')


def lose_the_engine(caller: Caller, data: Path, children: set[int]) -> None:
    """Put a file where the engine has its folder, and kill the processes of the server."""
    shutil.rmtree(data / "points")
    (data / "points").write_text("no folder", encoding="utf-8")
    for child in children:
        os.kill(child, signal.SIGKILL)
    until = time.monotonic() + 30
    while not any(UNMAKEABLE in status.message for _, status in caller.said) and time.monotonic() < until:
        caller.call("IngestDocument", f'collection: "c" source_uri: "d.md" text: "Number {time.monotonic()}"')
        caller.call("Retrieve", 'collection: "c" query: "tides"')
        time.sleep(0.2)


def lose_the_catalog(caller: Caller, data: Path) -> None:
    """Overwrite the files of the catalog in the middle, and then take the whole folder away."""
    for path in data.glob("catalog*"):
        if path.is_file():
            with path.open("r+b") as file:
                file.seek(4096)
                file.write(b"\xff" * max(0, path.stat().st_size - 4096))
    refuse_requests(caller)
    shutil.rmtree(data, ignore_errors=True)
    refuse_requests(caller)
