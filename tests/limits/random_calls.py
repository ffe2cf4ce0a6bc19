"""Calls built at random from the descriptors of the contract, with extreme values in every field.

Half of what is built is plausible, with names and ids that exist, so that calls get deep; the rest is not.
"""

import asyncio
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import grpc
from google.api.field_behavior_pb2 import FieldBehavior, field_behavior
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from groundwire.api.answer.v1 import answer_service_pb2
from groundwire.api.ingest.v1 import (
    collection_service_pb2,
    ingest_service_pb2,
    maintenance_service_pb2,
    record_service_pb2,
)
from groundwire.api.retrieve.v1 import library_service_pb2, retrieve_service_pb2
from groundwire.api.server.v1 import server_service_pb2
from tests.credentials import Metadata

DEADLINE_S: Final = 60.0
METHODS: Final[Sequence[MethodDescriptor]] = [
    method
    for module in (
        ingest_service_pb2,
        collection_service_pb2,
        maintenance_service_pb2,
        record_service_pb2,
        retrieve_service_pb2,
        library_service_pb2,
        answer_service_pb2,
        server_service_pb2,
    )
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]

_REQUIRED: Final = FieldBehavior.REQUIRED
_INTEGERS: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), -1, 0, 1, 2, 10, 1000, 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), -1, 0, 1, 2, 10, 1000, 2**53 + 1, 2**62, 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 1, 2, 10, 1000, 2**31, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 2, 10, 1000, 2**53 + 1, 2**63, 2**64 - 1),
}
_FLOATS: Final = (0.0, -0.0, 0.5, 1.0, -1.0, 5e-324, 3e38, -3e38, float("inf"), float("-inf"), float("nan"))
_ENUM_NUMBERS: Final = (-(2**31), -1, 99, 2**31 - 1)
_SECONDS: Final = (
    -(2**63),
    -62_135_596_801,
    -62_135_596_800,
    -1,
    0,
    1,
    1_700_000_000,
    253_402_300_799,
    2**62,
    2**63 - 1,
)
_NANOS: Final = (-(2**31), -1, 0, 1, 999_999_999, 1_000_000_000, 2**31 - 1)
_TEXTS: Final = (
    "",
    " ",
    "a",
    "\x00",
    "a\x00b",
    "\x1b]52;c;aGk=\x07\x1b[2J\r",
    "\ufeff\ufffe\uffff",
    "\u202egnp.exe\u202c مرحبا",
    "e" + "\u0301" * 200,
    "👩‍👩‍👧‍👦" * 20,
    "\u2028\u2029\x85",
    "../../../../etc/passwd",
    "%s%n%d{}{0}${x}",
    "'; DROP TABLE documents; --",
    '"\\*()^:NEAR AND OR NOT',
    "9" * 24,
    "-" + "9" * 400,
    "1e999",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "2024-13-45",
    "NaN",
    "[" * 3000,
    "`" * 3000,
    "(" * 500 + ")" * 500,
    "a " * 5000,
    "ä" * 8193,
    "x" * 70_000,
    "chapter 999999999999999999999999 page 999999999999999999999999",
    "What is in chapter 12 since 2020-01-01 by author:Ada?",
)
_FRONT: Final = "---\ntitle: {0}\nlanguage: xx\ndate: 0001-01-01T00:00:00+14:00\ntags: [{0}, 1, ~]\n---\n"
_CONTENTS: Final = (
    b"# Title\n\nA sentence. Another one.\n\n## Part\n\nMore words here.\n",
    _FRONT.format("Title").encode() + b"# Title\n\nText.",
    b"\xff\xfe\x00\x01",
    b"%PDF-1.7\n%%EOF",
    b"PK\x03\x04 broken",
    b"<html><body>" + b"<div>" * 2000 + b"deep",
    b"# T\n\nA sentence.\n" + b".<!--" * 150 + b" " * 20_000,
    b"a,b\n1,2\n3\n",
    b'{"a": 1e999}\n{"b": ',
    b"",
)


@dataclass
class Known:
    """What exists: values by the name of the field that takes them."""

    values: dict[str, list[Any]] = field(default_factory=dict)

    def learn(self, name: str, value: Any) -> None:
        """Keep a value, and not too many of them."""
        kept = self.values.setdefault(name, [])
        if value and value not in kept:
            kept.append(value)
            del kept[:-40]


_PLAUSIBLE: Final[Mapping[str, Sequence[Any]]] = {
    "query": ["words", "What is in chapter 1?", "another sentence"],
    "question": ["What does the sentence say?", "Which words?"],
    "field": ["title", "tags", "language", "chapter", "page_numbers", "created_at", "custom.x", "level"],
    "pattern": ["%a%", "_", "\\", "%" * 50],
    "doc_type": ["document", "chunk"],
    "embedder": ["hashing:64"],
    "language": ["en", "de"],
    "paths": ["settings.title", "title", "tags", "fields.title", "*", ""],
}


class Builder:
    """Builds requests of the contract; equal seeds build equal requests as long as the same things are known.

    `wildness` has shares of values that are not plausible, of which each request has one.
    """

    def __init__(self, seed: int, known: Known, wildness: Sequence[float] = (0.02, 0.1, 0.5, 1.0)) -> None:
        self._random = random.Random(seed)
        self._known = known
        self._choices = wildness
        self._wildness = 1.0

    def method(self) -> MethodDescriptor:
        """Choose a method."""
        return self._random.choice(METHODS)

    def requests(self, method: MethodDescriptor) -> list[bytes]:
        """Return the serialized messages of one call; one unless the method streams them."""
        self._wildness = self._random.choice(self._choices)
        count = self._random.choice((0, 1, 2, 2, 3)) if _streams_requests(method) else 1
        return [self._serialized(method.input_type) for _ in range(count)]

    def _serialized(self, kind: Descriptor) -> bytes:
        if self._random.random() < 0.03 * self._wildness:
            return self._random.randbytes(self._random.choice((1, 2, 10, 200)))
        raw = self._message(kind, 0).SerializeToString()
        if raw and self._random.random() < 0.1 * self._wildness:
            place = self._random.randrange(len(raw))
            raw = raw[:place] + self._random.randbytes(1) + raw[place + 1 :]
        return raw

    def _message(self, kind: Descriptor, depth: int) -> Message:
        made: Any = message_factory.GetMessageClass(kind)()
        if kind.full_name in {"google.protobuf.Timestamp", "google.protobuf.Duration"}:
            if self._random.random() < self._wildness:
                made.seconds, made.nanos = self._random.choice(_SECONDS), self._random.choice(_NANOS)
            else:
                made.seconds = self._random.choice((1, 60, 1_700_000_000))
            return made  # type: ignore[no-any-return]
        share = self._random.choice((0.15, 0.4, 0.8)) / (1 + depth / 2)
        # What a call cannot do without is almost always there, and of alternatives mostly one.
        chosen = {self._random.choice(one.fields).name for one in kind.oneofs if len(one.fields) > 1}
        for each in kind.fields:
            is_needed = each.name in chosen or _REQUIRED in each.GetOptions().Extensions[field_behavior]
            is_other = each.containing_oneof is not None and len(each.containing_oneof.fields) > 1 and not is_needed
            if self._random.random() < (0.97 if is_needed else share * self._wildness if is_other else share):
                self._fill(made, each, depth)
        return made  # type: ignore[no-any-return]

    def _fill(self, made: Any, each: FieldDescriptor, depth: int) -> None:
        kind = each.message_type
        if kind is not None and kind.GetOptions().map_entry:
            for _ in range(self._random.choice((0, 1, 3))):
                self._entry(getattr(made, each.name), kind, depth)
        elif each.is_repeated:
            many = 1 if depth > 3 else self._random.choice((1, 1, 2, 3, 30 if kind is None or depth < 2 else 3))
            target = getattr(made, each.name)
            for _ in range(many):
                if kind is None:
                    target.append(self._scalar(each))
                elif depth < _DEEPEST:
                    target.add().CopyFrom(self._message(kind, depth + 1))
        elif kind is None:
            setattr(made, each.name, self._scalar(each))
        elif depth < _DEEPEST:
            target = getattr(made, each.name)
            target.SetInParent()
            target.CopyFrom(self._message(kind, depth + 1))

    def _entry(self, target: Any, kind: Descriptor, depth: int) -> None:
        key = self._scalar(kind.fields_by_name["key"])
        value = kind.fields_by_name["value"]
        if value.message_type is None:
            target[key] = self._scalar(value)
        else:
            target[key].CopyFrom(self._message(value.message_type, depth + 1))

    def _scalar(self, each: FieldDescriptor) -> Any:
        known = [*self._known.values.get(each.name, ()), *_PLAUSIBLE.get(each.name, ())]
        is_wild = self._random.random() < self._wildness
        if each.name == "request_id" and not is_wild:
            return str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        if known and (not is_wild or self._random.random() < 0.5):
            return self._random.choice(known)
        if not is_wild:
            return self._gentle(each)
        match each.cpp_type:
            case FieldDescriptor.CPPTYPE_BOOL:
                return self._random.random() < 0.5
            case FieldDescriptor.CPPTYPE_ENUM:
                numbers = [value.number for value in _enum(each).values]
                return self._random.choice([*numbers, *numbers, *_ENUM_NUMBERS])
            case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
                return self._random.choice(_FLOATS)
            case FieldDescriptor.CPPTYPE_STRING if each.type == FieldDescriptor.TYPE_BYTES:
                return self._random.choice(_CONTENTS)
            case FieldDescriptor.CPPTYPE_STRING:
                return self._random.choice(_TEXTS)
            case _:
                return self._random.choice(_INTEGERS[each.cpp_type])

    def _gentle(self, each: FieldDescriptor) -> Any:
        match each.cpp_type:
            case FieldDescriptor.CPPTYPE_BOOL:
                return self._random.random() < 0.5
            case FieldDescriptor.CPPTYPE_ENUM:
                return self._random.choice(_enum(each).values).number
            case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
                return self._random.choice((0.0, 0.25, 0.5, 1.0))
            case FieldDescriptor.CPPTYPE_STRING if each.type == FieldDescriptor.TYPE_BYTES:
                return _CONTENTS[0]
            case FieldDescriptor.CPPTYPE_STRING:
                return self._random.choice(("words", "a sentence", "en", "x-1"))
            case _:
                return self._random.choice((0, 1, 2, 3, 10))


def _enum(each: FieldDescriptor) -> EnumDescriptor:
    assert each.enum_type is not None
    return each.enum_type


_DEEPEST: Final = 40
"""Messages in messages: more than any rule of the contract allows."""


def _streams_requests(method: MethodDescriptor) -> bool:
    return bool(method.client_streaming)


def facts(message: Message) -> Iterator[tuple[str, Any]]:
    """Yield names and ids that a response tells, by the name of the field that takes them in a request."""
    for each, value in message.ListFields():
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            continue
        values = list(value)[:5] if each.is_repeated else [value]
        for one in values:
            if isinstance(one, Message):
                yield from facts(one)
            elif each.name in _TOLD:
                yield _TOLD[each.name], one


_TOLD: Final = {
    "chunk_id": "chunk_id",
    "chunk_ids": "chunk_id",
    "chunk_number": "chunk_number",
    "consistency_token": "consistency_token",
    "document_id": "document_id",
    "message_id": "message_id",
    "next_page_token": "page_token",
    "session_id": "session_id",
    "source_uri": "source_uri",
    "upload_id": "upload_id",
}


def wrong_details(method: MethodDescriptor, code: str, details: bytes) -> str:
    """Return what is wrong with the details of a refusal: its reason, or the fields that it names; empty if nothing."""
    reasons, fields = list[str](), list[str]()
    for each in status_pb2.Status.FromString(details).details:
        info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
        if each.Unpack(info):
            reasons.append(info.reason)
        elif each.Unpack(bad_request):
            fields += [violation.field for violation in bad_request.field_violations]
    if len(reasons) != 1:
        return f"has the reasons {reasons}"
    if code == "INVALID_ARGUMENT" and not fields:
        return "names no field"
    return ", ".join(f"names {each!r}" for each in fields if not _has_field(method.input_type, each))


def _has_field(kind: Descriptor, path: str) -> bool:
    # A message that cannot be read is a `request`, violations that do not fit have no name, and long names are cut. The
    # chunks and the text of a document count over all messages of their stream.
    if path in {"", "request", "text", *kind.oneofs_by_name} or path.startswith("chunks") or path.endswith("…"):
        return True
    name, _, rest = path.partition(".")
    found = kind.fields_by_name.get(name.partition("[")[0])
    if found is None or ("[" in name) > found.is_repeated:
        return False
    inner = found.message_type
    # Conditions of a filter in JSON and keys of metadata have paths of their own.
    is_leaf = not rest or found.name == "json" or (inner is not None and inner.GetOptions().map_entry)
    return is_leaf or (inner is not None and _has_field(inner, rest))


async def send(
    address: str, channel: Any, method: MethodDescriptor, sent: list[bytes], metadata: Metadata = ()
) -> tuple[str, list[bytes], bytes, bytes]:
    """Make a call of any kind; return the name of its code, its messages, and what its details and trailers say.

    Last the details alone, as they are.
    """
    path = f"/{method.containing_service.full_name}/{method.name}"
    shape = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
    try:
        if method.client_streaming:
            # The asynchronous client loses the status of a call that ends while it sends.
            with grpc.insecure_channel(address) as blocking:
                begin = getattr(blocking, shape)(path)
                answered = await asyncio.to_thread(begin, iter(sent), metadata=metadata, timeout=DEADLINE_S)
                responses = await asyncio.to_thread(list, answered) if method.server_streaming else [answered]
        else:
            running = getattr(channel, shape)(path)(sent[0], metadata=metadata, timeout=DEADLINE_S)
            responses = [response async for response in running] if method.server_streaming else [await running]
    except grpc.RpcError as error:
        failed = cast("Any", error)
        values = [failed.details() or "", *(value for _, value in failed.trailing_metadata() or ())]
        told = b" ".join(value if isinstance(value, bytes) else value.encode() for value in values)
        return failed.code().name, [], told, dict(failed.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    return "OK", responses, b"", b""
