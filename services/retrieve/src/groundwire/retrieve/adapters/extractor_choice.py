"""Make the extractor that the settings name."""

import re

from groundwire.kernel.errors import InvalidRequestError
from groundwire.retrieve.adapters.endpoint_extractor import EndpointExtractor
from groundwire.retrieve.adapters.rule_extractor import RuleExtractor

_ENDPOINT = re.compile(r"openai\+(?P<url>https?://[^#\s]+)(?:#(?P<model>.+))?")


def open_extractor(url: str, api_key: str | None, timeout_s: float) -> RuleExtractor | EndpointExtractor:
    """Return the extractor of `rules:` or `openai+http(s)://HOST/v1#MODEL`.

    Raises:
        InvalidRequestError: the URL is of another form.
    """
    if url == "rules:":
        return RuleExtractor()
    found = _ENDPOINT.fullmatch(url)
    if found is None:
        raise InvalidRequestError.of("self_query", "must be 'rules:' or 'openai+http(s)://HOST/v1#MODEL'")
    return EndpointExtractor(found["url"], found["model"] or "", api_key, timeout_s)
