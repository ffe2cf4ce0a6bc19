"""Which sources may be ingested and returned (requirements S3-34, C30)."""

from collections.abc import Sequence

_AFTER_AN_AUTHORITY = "/?#"


def is_approved(source_uri: str, prefixes: Sequence[str]) -> bool:
    """Tell whether a source begins with one of the prefixes; without prefixes every source is approved.

    A prefix that ends with the host of a URL means that host: `https://docs.example` approves `https://docs.example/a`
    and not `https://docs.example.org`.
    """
    return not prefixes or any(_begins_with(source_uri, prefix) for prefix in prefixes)


def _begins_with(source_uri: str, prefix: str) -> bool:
    if not source_uri.startswith(prefix):
        return False
    authority = prefix.partition("://")[2]
    rest = source_uri[len(prefix) :]
    return not authority or not rest or "/" in authority or rest[0] in _AFTER_AN_AUTHORITY
