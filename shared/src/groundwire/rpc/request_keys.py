"""Keys of requests that carry a `request_id`."""

import hashlib

from google.protobuf.message import Message

from groundwire.kernel.identifiers import RequestKey, parse_uuid


def request_key(method: str, request: Message, content_hash: str = "") -> RequestKey | None:
    """Return what a mutating request is known by, None without `request_id`.

    `content_hash` stands for content that is not in the message.

    Raises:
        InvalidRequestError: the id is no UUID.
    """
    request_id: str = getattr(request, "request_id", "")
    if not request_id:
        return None
    body = type(request)()
    body.CopyFrom(request)
    body.ClearField("request_id")
    digest = hashlib.sha256(body.SerializeToString(deterministic=True) + content_hash.encode()).hexdigest()
    return RequestKey(parse_uuid(request_id, "request_id"), method, digest)
