"""What identifies an upload: its header, which a stream that goes on with it repeats."""

import hashlib

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.kernel.request_key import RequestKey
from groundwire.rpc.request_keys import request_key

_METHOD = "UploadDocument"


def header_bytes(header: pb.UploadHeader) -> bytes:
    """Return the header without the id of the upload, the same bytes for the same header."""
    return _without_id(header).SerializeToString(deterministic=True)


def header_differences(header: pb.UploadHeader, first: bytes) -> list[str]:
    """Return the names of the fields, the id left out, in which a header differs from the first one."""
    one, other = _without_id(header), pb.UploadHeader.FromString(first)
    names = [field.name for field in pb.UploadHeader.DESCRIPTOR.fields]
    return [name for name in names if _only(one, name) != _only(other, name)]


def upload_key(header: pb.UploadHeader, upload_id: str, source_hash: str) -> RequestKey:
    """Return what an upload is known by: its request id, else its own id, so that its answer can be given again.

    Raises:
        InvalidRequestError: the request id is no UUID.
    """
    digest = hashlib.sha256(header_bytes(header) + source_hash.encode()).hexdigest()
    own = RequestKey(f"upload:{upload_id}", _METHOD, digest)
    return request_key(_METHOD, _without_id(header), source_hash) or own


def _without_id(header: pb.UploadHeader) -> pb.UploadHeader:
    body = pb.UploadHeader()
    body.CopyFrom(header)
    body.ClearField("upload_id")
    return body


def _only(header: pb.UploadHeader, name: str) -> pb.UploadHeader:
    """Return a header with this field alone, so that presence counts as well."""
    body = pb.UploadHeader()
    body.CopyFrom(header)
    for field in pb.UploadHeader.DESCRIPTOR.fields:
        if field.name != name:
            body.ClearField(field.name)  # type: ignore[arg-type]  # the stubs want a literal
    return body
