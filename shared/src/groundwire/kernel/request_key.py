"""What a repeated call is recognised by (design D3)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestKey:
    """What a call is known by: its request id, its method, and a SHA-256 of its body without the id."""

    request_id: str
    method: str
    body_digest: str
