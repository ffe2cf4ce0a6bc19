"""Nothing is in the contract that does not work: every call has a servicer, and every enum value a use."""

import re
from pathlib import Path

import pytest
from google.protobuf.descriptor import EnumDescriptor, FileDescriptor

import groundwire
from groundwire.answer.servicer import AnswerServicer
from groundwire.ingest.servicer.servicers import CollectionServicer, IngestServicer, MaintenanceServicer, RecordServicer
from groundwire.retrieve.library import LibraryServicer
from groundwire.retrieve.servicers import RetrieveServicer
from groundwire.standalone.server_info import ServerServicer
from tests.stubs import SERVICES

SERVICERS = {
    "IngestService": IngestServicer,
    "CollectionService": CollectionServicer,
    "MaintenanceService": MaintenanceServicer,
    "RecordService": RecordServicer,
    "RetrieveService": RetrieveServicer,
    "LibraryService": LibraryServicer,
    "AnswerService": AnswerServicer,
    "ServerService": ServerServicer,
}


STORED = ("MemoryKind", "RecordOrigin", "RecordType")
"""Enums whose values `rpc/messages.py` turns into the words of `groundwire.schemas` by their names, and back."""


def enums() -> list[EnumDescriptor]:
    """Return the enums of every file that a service reaches."""
    files: set[FileDescriptor] = set()
    waiting = [service.file for service in SERVICES.values()]
    while waiting:
        file = waiting.pop()
        if file not in files:
            files.add(file)
            waiting += file.dependencies
    ours = [file for file in files if file.package.startswith("groundwire.")]
    return [enum for file in ours for enum in file.enum_types_by_name.values()]


ENUMS = {enum.name: enum for enum in enums()}


@pytest.fixture(scope="module")
def code() -> str:
    """Return all code of ours as one text, from where it is imported: the sources, or the wheel."""
    slices = [path for root in groundwire.__path__ for path in Path(root).iterdir() if path.name != "api"]
    files = [path for each in slices for path in each.rglob("*.py")]
    assert len(files) > 100
    return "\n".join(path.read_text("utf-8") for path in files)


@pytest.mark.parametrize("name", SERVICERS)
def test_every_call_has_a_method_of_ours(name: str) -> None:
    assert set(SERVICERS) == set(SERVICES)
    inherited = [method.name for method in SERVICES[name].methods if method.name not in vars(SERVICERS[name])]
    assert inherited == []


@pytest.mark.parametrize("name", sorted(set(ENUMS) - {"ErrorReason"}))
def test_every_enum_value_is_sent_or_understood(name: str, code: str) -> None:
    """A value is named as it is or as it is stored, or is made of the member of a domain enum that the code uses."""
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper() + "_"
    unused = []
    for value in ENUMS[name].values:
        member = value.name.removeprefix(prefix)
        # The text is long: plain searches come first, and most values end with them.
        if member == "UNSPECIFIED" or value.name in code or (name in STORED and f'"{member.lower()}"' in code):
            continue
        is_made = f'"{member}"' in code or re.search(rf"^ +{member} = ", code, re.MULTILINE)
        is_used = f'"{member}": ' in code or re.search(rf"\.{member}\b", code)
        if not (is_made and is_used):
            unused.append(value.name)
    assert unused == []
