"""Which sources a collection takes."""

from urllib.parse import urlsplit

from groundwire.kernel.collection import CollectionSettings
from groundwire.kernel.errors import InvalidRequestError

_SCHEMES = frozenset({"http", "https"})


def check_source(source_uri: str, settings: CollectionSettings) -> None:
    """Return if the source is allowed; it is kept as it was sent (requirement T18).

    Raises:
        InvalidRequestError: naming `source_uri`.
    """
    if settings.limits.require_url and not is_url(source_uri):
        raise InvalidRequestError.of("source_uri", "must be an absolute http or https URL in this collection")
    prefixes = settings.approved_source_prefixes
    if prefixes and not source_uri.startswith(prefixes):
        raise InvalidRequestError.of("source_uri", "begins with none of the approved prefixes of the collection")


def is_url(value: str) -> bool:
    """Tell whether a text is an absolute http or https URL with a host; nothing is opened."""
    if any(char.isspace() for char in value):
        return False
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port  # a bad port raises
    except ValueError:
        return False
    return parts.scheme in _SCHEMES and host is not None and _is_host(host)


def _is_host(host: str) -> bool:
    """Tell whether a host is an IPv6 address, which `urlsplit` has checked, or labels of letters and digits."""
    if ":" in host:
        return True
    labels = host.removesuffix(".").split(".")
    return all(label and label.replace("-", "a").replace("_", "a").isalnum() for label in labels)
