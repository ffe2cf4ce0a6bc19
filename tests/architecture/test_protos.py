"""The contract keeps its own rules, agrees with the kernel, and its stubs are fresh."""

import importlib.resources
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from google.api import field_behavior_pb2
from google.longrunning import operations_proto_pb2 as operations_pb2
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor, MethodDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.rpc import error_details_pb2, status_pb2

from groundwire.api.common.v1 import error_reason_pb2, metadata_value_pb2, retrieval_options_pb2
from groundwire.rpc.calls import MAX_RESPONSE_BYTES
from groundwire.rpc.pagination import MAX_PAGE_BYTES
from tests.packages import in_checkout
from tests.stubs import SERVICES

ROOT = Path(__file__).resolve().parents[2]
PROTOS = ROOT / "protos"

CALLS = {
    "IngestService": """
        IngestDocument BatchIngestDocuments UploadDocument PlanIngest UpdateDocument DeleteDocument RestoreDocument
        UpdateChunk PutChunks PurgeDocuments""",
    "CollectionService": "CreateCollection GetCollection ListCollections UpdateCollection DeleteCollection",
    "MaintenanceService": "Reindex Reembed CheckStore GetHousekeeping",
    "RetrieveService": "Retrieve BatchRetrieve RetrieveContext Expand ParseQuery EmbedTexts",
    "LibraryService": """
        GetDocument ListDocuments GetDocumentText ReadSpans LocateSources DescribeCollection GetChunk BatchGetChunks
        ListChunks GetSchema ValidateMetadata ListStats ListQueryLogs ListAuditEntries GetPipelineStats""",
    "ServerService": "GetServerInfo",
    "AnswerService": """
        CreateSession GetSession ListSessions ListMessages EndSession DeleteSession DeleteSessions Ask AskStream
        Converse GetAnswer ListAnswers ConsolidateConversation GroundText VerifyCitations FormatCitations""",
}
STREAMED_REQUESTS = {"Converse", "PutChunks", "UploadDocument"}
STREAMED_RESPONSES = {"UploadDocument", "GetDocumentText", "AskStream", "Converse"}
LONG = {"PurgeDocuments", "Reindex", "Reembed", "CheckStore"}
READS = re.compile(
    r"Get|BatchGet|Read|List|Plan|Validate|Retrieve|BatchRetrieve|Expand|Parse|VerifyCitations|FormatCitations|Ask"
    r"|Converse|ConsolidateConversation|GroundText|Locate|Describe|Embed"
)
UNUSUAL_NAMES = re.compile(r"(?:^|_)(?:avg|num)_|(?:[st]ed|ified)_time$|_at$|_date$")
OF_RECORDS = ("timestamp", "last_accessed_time")
"""Fields of records keep the names that filters and stored metadata have."""
CHANGES_IN_A_HEADER = {"PutChunks": "header", "UploadDocument": "header"}


def methods() -> Iterator[MethodDescriptor]:
    for service in SERVICES.values():
        yield from service.methods


def files() -> set[FileDescriptor]:
    """Return every file of the contract that the services reach."""
    found: set[FileDescriptor] = {error_reason_pb2.DESCRIPTOR}
    waiting = [service.file for service in SERVICES.values()]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += file.dependencies
    return {file for file in found if file.package.startswith("groundwire.")}


def messages() -> Iterator[Descriptor]:
    waiting = [message for file in files() for message in file.message_types_by_name.values()]
    while waiting:
        message = waiting.pop()
        waiting += message.nested_types
        if not message.GetOptions().map_entry:
            yield message


def fields() -> Iterator[FieldDescriptor]:
    for message in messages():
        yield from message.fields


def message_of(message: Descriptor, field: str) -> Descriptor:
    kind = message.fields_by_name[field].message_type
    assert kind is not None
    return kind


def generator() -> ModuleType:
    path = ROOT / "scripts" / "generate_protos.py"
    spec = importlib.util.spec_from_file_location("generate_protos", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def buf(*arguments: str) -> subprocess.CompletedProcess[str]:
    executable = Path(sys.executable).parent / "buf"
    return subprocess.run([executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


@in_checkout
def test_the_committed_stubs_are_those_of_the_protos(capsys: pytest.CaptureFixture[str]) -> None:
    assert generator().main(["--check"]) == 0, capsys.readouterr().err


@in_checkout
def test_stale_missing_and_superfluous_stubs_are_named(tmp_path: Path) -> None:
    fresh, committed = tmp_path / "fresh", tmp_path / "committed"
    for folder, names in ((fresh, "abc"), (committed, "bcd")):
        folder.mkdir()
        for name in names:
            (folder / name).write_text("same" if name == "b" else folder.name, encoding="utf-8")
    assert generator().stale_files(fresh, committed) == ["a", "c", "d"]


def described() -> descriptor_pb2.FileDescriptorSet:
    packed = importlib.resources.files("groundwire.api").joinpath("groundwire.binpb").read_bytes()
    return descriptor_pb2.FileDescriptorSet.FromString(packed)


def test_the_descriptor_set_holds_every_service_and_stands_for_itself() -> None:
    pool = DescriptorPool()
    for file in described().file:
        pool.Add(file)  # refuses a file whose imports are not there
    for service in SERVICES.values():
        again = pool.FindServiceByName(service.full_name)
        assert [method.name for method in again.methods] == [method.name for method in service.methods]
    assert "field_violations" in pool.FindMessageTypeByName("google.rpc.BadRequest").fields_by_name


def test_the_descriptor_set_holds_the_comments() -> None:
    ours = [file for file in described().file if file.package.startswith("groundwire.")]
    assert {file.name for file in ours} == {file.name for file in files()}
    for file in ours:
        assert any(location.leading_comments for location in file.source_code_info.location), file.name


def response_bounds() -> dict[str, int]:
    """Return the bound of each response in bytes, by the name of its call, as the comments say."""
    found = {}
    for file in described().file:
        comments = {tuple(each.path): each.leading_comments for each in file.source_code_info.location}
        for number in range(len(file.message_type)):
            said = re.search(r"Response of `\w+\.(\w+)`, at most (\d+) ([KM])iB", comments.get((4, number), ""))
            if said is not None:
                found[said[1]] = int(said[2]) << {"K": 10, "M": 20}[said[3]]
    return found


def test_every_response_says_its_bound_and_none_is_above_what_clients_take() -> None:
    bounds = response_bounds()
    assert sorted(bounds) == sorted(method.name for method in methods() if method.name not in LONG)
    assert max(bounds.values()) == MAX_RESPONSE_BYTES
    lists = {bound for name, bound in bounds.items() if name.startswith("List")}
    assert lists == {MAX_PAGE_BYTES}


def test_what_is_copied_from_googleapis_is_what_python_has() -> None:
    copied = [file for file in described().file if file.package in {"google.longrunning", "google.rpc"}]
    modules = (operations_pb2, error_details_pb2, status_pb2)
    for file, module in zip(sorted(copied, key=lambda file: file.name), modules, strict=True):
        installed = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(installed)
        file.ClearField("source_code_info")
        fields_of_it = [field for message in file.message_type for field in every_field(message)]
        for field in (*fields_of_it, *file.extension):
            field.ClearField("json_name")  # which the compiler fills in
        assert file == installed


def every_field(message: descriptor_pb2.DescriptorProto) -> Iterator[descriptor_pb2.FieldDescriptorProto]:
    yield from message.field
    for nested in message.nested_type:
        yield from every_field(nested)


@in_checkout
def test_the_namespace_has_no_init_file() -> None:
    assert not (PROTOS / "gen" / "groundwire" / "__init__.py").exists()
    assert (PROTOS / "gen" / "groundwire" / "api" / "py.typed").exists()


@in_checkout
def test_every_file_lies_where_its_package_says() -> None:
    for path in (PROTOS / "groundwire").rglob("*.proto"):
        package = ".".join(path.parent.relative_to(PROTOS).parts)
        assert f"\npackage {package};\n" in path.read_text(encoding="utf-8"), path


@in_checkout
def test_buf_finds_nothing_to_say() -> None:
    linted = buf("lint", "protos")
    assert linted.returncode == 0, linted.stdout
    formatted = buf("format", "--diff", "--exit-code", "protos")
    assert formatted.returncode == 0, formatted.stdout


@in_checkout
def test_buf_is_asked_for_the_standard_rules_and_comments() -> None:
    text = (PROTOS / "buf.yaml").read_text(encoding="utf-8")
    assert "- STANDARD" in text
    assert "- COMMENTS" in text
    assert "except" not in text
    assert re.findall(r"ignore\w*:\n((?: +- .*\n)+)", text) == ["    - google\n"] * 2


def inputs() -> set[Descriptor]:
    """Return every message that a caller can send; what a server fills in of it alone is not sent."""
    found: set[Descriptor] = set()
    waiting = [method.input_type for method in methods()]
    while waiting:
        message = waiting.pop()
        if message not in found and message.file.package.startswith("groundwire."):
            found.add(message)
            waiting += [field.message_type for field in message.fields if field.message_type and is_sent(field)]
    return {message for message in found if not message.GetOptions().map_entry}


def is_sent(field: FieldDescriptor) -> bool:
    behaviors = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    return field_behavior_pb2.OUTPUT_ONLY not in behaviors


def test_every_field_that_callers_send_says_whether_it_is_required() -> None:
    sent = [field for message in inputs() for field in message.fields]
    assert len(sent) > 100
    for field in sent:
        in_oneof = field.containing_oneof is not None and not field.containing_oneof.name.startswith("_")
        roles = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
        assert in_oneof or len(roles) == 1, field.full_name


@in_checkout
def test_comments_of_sent_fields_begin_with_their_role() -> None:
    built = json.loads(buf("build", "protos", "-o", "-#format=json").stdout)
    ours = [file for file in built["file"] if file["package"].startswith("groundwire.")]
    assert ours
    names = {message.full_name for message in inputs()}
    assert [name for file in ours for name in fields_without_a_role(file, names)] == []


def fields_without_a_role(file: dict[str, Any], sent: set[str]) -> Iterator[str]:
    """Yield the fields of messages that are sent whose comment does not begin with their role, and others whose does.

    Members of a oneof share the role of the oneof.
    """
    comments = {
        tuple(entry.get("path", ())): entry.get("leadingComments", "") for entry in file["sourceCodeInfo"]["location"]
    }
    for number, message in enumerate(file.get("messageType", [])):
        is_in_sent = f"{file['package']}.{message['name']}" in sent
        elements = [(2, position, field) for position, field in enumerate(message.get("field", []))]
        elements += [(8, position, oneof) for position, oneof in enumerate(message.get("oneofDecl", []))]
        for kind, position, element in elements:
            synthetic = element["name"].startswith("_")
            member = "oneofIndex" in element and not element.get("proto3Optional")
            comment = comments.get((4, number, kind, position), "").strip()
            has_role = comment.startswith(("Required. ", "Optional. ", "Output only. "))
            behaviors = element.get("options", {}).get("[google.api.field_behavior]", [])
            if not synthetic and not member and "OUTPUT_ONLY" not in behaviors and has_role is not is_in_sent:
                yield f"{message['name']}.{element['name']}"


def test_names_and_types_are_those_of_public_apis() -> None:
    """Times and counts as in the API improvement proposals 140 to 148."""
    for field in fields():
        assert field.type not in {FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64}, field.full_name
        assert field.name in OF_RECORDS or not UNUSUAL_NAMES.search(field.name), field.full_name


@pytest.mark.parametrize("name", CALLS)
def test_a_service_has_exactly_the_calls_of_the_design(name: str) -> None:
    assert [method.name for method in SERVICES[name].methods] == CALLS[name].split()


def test_calls_stream_where_the_design_says() -> None:
    assert {method.name for method in methods() if method.client_streaming} == STREAMED_REQUESTS
    assert {method.name for method in methods() if method.server_streaming} == STREAMED_RESPONSES


def test_every_call_has_its_own_request_and_response() -> None:
    for method in methods():
        assert method.input_type.full_name == f"{method.containing_service.file.package}.{method.name}Request"
        own = f"{method.containing_service.file.package}.{method.name}Response"
        assert method.output_type.full_name == ("google.longrunning.Operation" if method.name in LONG else own)


def test_every_call_that_changes_something_takes_a_request_id() -> None:
    for method in methods():
        if READS.match(method.name):
            assert "request_id" not in method.input_type.fields_by_name, method.name
        else:
            holder = method.input_type
            if method.name in CHANGES_IN_A_HEADER:
                holder = message_of(holder, CHANGES_IN_A_HEADER[method.name])
            assert holder.fields_by_name["request_id"].type == FieldDescriptor.TYPE_STRING, method.name


def test_every_list_is_paged() -> None:
    for method in methods():
        if method.name.startswith("List"):
            request, response = method.input_type.fields_by_name, method.output_type.fields_by_name
            assert request["page_size"].type == FieldDescriptor.TYPE_INT32
            assert request["page_token"].type == FieldDescriptor.TYPE_STRING
            assert response["next_page_token"].type == FieldDescriptor.TYPE_STRING


def test_every_update_takes_a_field_mask() -> None:
    updates = [method for method in methods() if method.name.startswith("Update")]
    assert updates
    for method in updates:
        mask = message_of(method.input_type, "update_mask")
        assert mask.full_name == "google.protobuf.FieldMask", method.name


def test_no_message_names_a_tenant() -> None:
    assert [field.full_name for field in fields() if "tenant" in field.name] == []


def test_no_message_holds_free_structures() -> None:
    maps = [field for field in fields() if field.message_type and field.message_type.GetOptions().map_entry]
    assert maps
    for field in maps:
        assert field.message_type is not None
        if field.name == "labels":
            assert field.message_type.fields_by_name["value"].type == FieldDescriptor.TYPE_STRING, field.full_name
        else:
            value = message_of(field.message_type, "value")
            assert value.full_name == "groundwire.api.common.v1.MetadataValue", field.full_name
    assert not [f.full_name for f in fields() if f.message_type and f.message_type.name in {"Struct", "Any", "Value"}]


def test_times_and_spans_of_time_are_named_as_such() -> None:
    for field in fields():
        kind = field.message_type.full_name if field.message_type else ""
        if kind == "google.protobuf.Timestamp":
            assert field.name.endswith("_time") or field.name in {"timestamp_value", "date_created", *OF_RECORDS}, (
                field.full_name
            )


def test_nothing_is_imported_from_outside_but_standard_types() -> None:
    for file in files():
        for dependency in file.dependencies:
            standard = ("google/protobuf/", "google/rpc/", "google/longrunning/", "google/api/field_behavior")
            assert dependency.name.startswith((*standard, "groundwire/api/")), file.name


def test_only_nouns_of_common_cross_services() -> None:
    for file in files():
        areas = {
            dependency.package.split(".")[2] for dependency in file.dependencies if "groundwire" in dependency.package
        }
        assert areas <= {"common", file.package.split(".")[2]}, file.name


@pytest.mark.requirement("S3-15")
def test_a_zero_can_be_told_from_nothing() -> None:
    options = retrieval_options_pb2.RetrievalOptions()
    assert not options.HasField("top_k")
    assert not options.HasField("min_relevance")
    options.top_k = 0
    options.min_relevance = 0.0
    assert options.HasField("top_k")
    assert options.HasField("min_relevance")


def test_whole_numbers_keep_their_type_and_digits() -> None:
    value = metadata_value_pb2.MetadataValue(int64_value=2**53 + 1)
    again = metadata_value_pb2.MetadataValue.FromString(value.SerializeToString())
    assert again.WhichOneof("value") == "int64_value"
    assert again.int64_value == 2**53 + 1
